//! JSON strings as Go's encoder writes them: `<`, `>`, `&`, U+2028 and U+2029 escaped.

/// Whether a byte may need escaping: those that [`push_escaped`] checks.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = matches!(byte as u8, b'"' | b'\\' | b'<' | b'>' | b'&' | 0x00..=0x1f | 0xe2 | 0xef);
        byte += 1;
    }
    special
};

/// Appends a quoted string.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    // Most texts are plain, so this loop has no branch per byte.
    if text.bytes().fold(false, |special, byte| special | SPECIAL[usize::from(byte)]) {
        return push_escaped(out, text);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            b'<' => b"\\u003c",
            b'>' => b"\\u003e",
            b'&' => b"\\u0026",
            0x00..=0x1f => {
                out.extend_from_slice(&bytes[plain_from..at]);
                plain_from = at + 1;
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            // U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
            0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => {
                out.extend_from_slice(&bytes[plain_from..at]);
                plain_from = at + 3;
                out.extend_from_slice(if bytes[at + 2] == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                continue;
            }
            // U+FFFD replaces invalid bytes; Go's encoder escapes those.
            0xef if matches!(bytes.get(at + 1..at + 3), Some([0xbf, 0xbd])) => {
                out.extend_from_slice(&bytes[plain_from..at]);
                plain_from = at + 3;
                out.extend_from_slice(b"\\ufffd");
                continue;
            }
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain_from..at]);
        plain_from = at + 1;
        out.extend_from_slice(escaped);
    }
    out.extend_from_slice(&bytes[plain_from..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_go_does() {
        let mut out = Vec::new();
        push_string(&mut out, "a\"b\\c\n<\u{1}é\u{2028}");
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\n\\u003c\\u0001é\\u2028\"");
    }
}
