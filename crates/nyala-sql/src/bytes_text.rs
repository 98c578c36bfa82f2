//! Texts of bytes (`bytea`), as PostgreSQL reads and writes them.

use crate::error::{SqlError, SqlResult, SqlState};
use std::fmt::Write;

/// The bytes that a text of `bytea` stands for.
///
/// # Errors
/// PostgreSQL's: it is neither hexadecimal behind `\x` nor text whose backslashes escape something.
pub fn read_bytes(text: &str) -> SqlResult<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => read_hexadecimal(digits),
        None => read_escaped(text),
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn read_hexadecimal(text: &str) -> SqlResult<Vec<u8>> {
    let invalid = |words: String| SqlError::new(SqlState::INVALID_PARAMETER, words);
    let value = |letter: char| match letter.to_digit(16) {
        Some(value) => Ok(value as u8),
        None => Err(invalid(format!("invalid hexadecimal digit: \"{letter}\""))),
    };
    let (mut bytes, mut letters) = (Vec::with_capacity(text.len() / 2), text.chars());
    while let Some(letter) = letters.next() {
        // Blanks stand between bytes, not within one.
        if matches!(letter, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = value(letter)?;
        let odd = || invalid("invalid hexadecimal data: odd number of digits".to_owned());
        bytes.push(high << 4 | value(letters.next().ok_or_else(odd)?)?);
    }
    Ok(bytes)
}

/// Bytes as text with escapes.
pub(crate) fn read_escaped(text: &str) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        (rest, _) = match (byte, behind) {
            (b'\\', [b'\\', behind @ ..]) => (behind, bytes.push(b'\\')),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                (behind, bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0')))
            }
            (b'\\', _) => {
                return Err(SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type bytea"));
            }
            _ => (behind, bytes.push(*byte)),
        };
    }
    Ok(bytes)
}

/// Bytes in letters of base64. As in PostgreSQL blanks may stand anywhere, and the bits that the last letter has too many mean
/// nothing.
pub(crate) fn read_base64(text: &str) -> SqlResult<Vec<u8>> {
    let invalid = |words: String| SqlError::new(SqlState::INVALID_PARAMETER, words);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    // How many bytes four letters are; fewer once they are padded.
    let mut taken = 3;
    for letter in text.chars() {
        let value = match letter {
            ' ' | '\t' | '\n' | '\r' => continue,
            'A'..='Z' => u32::from(letter) - u32::from('A'),
            'a'..='z' => u32::from(letter) - u32::from('a') + 26,
            '0'..='9' => u32::from(letter) - u32::from('0') + 52,
            '+' => 62,
            '/' => 63,
            '=' => {
                taken = match (taken, count) {
                    (3, 2) => 1,
                    (3, 3) => 2,
                    (3, _) => {
                        let words = "unexpected \"=\" while decoding base64 sequence";
                        return Err(invalid(words.to_owned()));
                    }
                    _ => taken,
                };
                0
            }
            other => {
                let words = format!("invalid symbol \"{other}\" found while decoding base64 sequence");
                return Err(invalid(words));
            }
        };
        (bits, count) = (bits << 6 | value, count + 1);
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..=taken]);
            (bits, count) = (0, 0);
        }
    }
    if count > 0 {
        let hint = "Input data is missing padding, is truncated, or is otherwise corrupted.";
        return Err(invalid("invalid base64 end sequence".to_owned()).with_hint(hint));
    }
    Ok(bytes)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to memory does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_postgresql_reads_them() {
        let read = |text: &str| read_bytes(text).map_err(|error| error.message);
        assert_eq!(read("\\x de\tAD\r\n"), Ok(vec![0xde, 0xad]));
        assert_eq!(read("a\\\\\\377"), Ok(vec![b'a', b'\\', 0xff]));
        for (text, words) in [
            ("\\xd e", "invalid hexadecimal digit: \" \""),
            ("\\xé0", "invalid hexadecimal digit: \"é\""),
            ("\\x000", "invalid hexadecimal data: odd number of digits"),
            ("a\\400", "invalid input syntax for type bytea"),
        ] {
            assert_eq!(read(text), Err(words.to_owned()), "{text}");
        }
        assert_eq!(hexadecimal(&[0, 0x1f, 0xff]), "001fff");
    }

    #[test]
    fn base64_is_read_as_postgresql_reads_it() {
        let read = |text: &str| read_base64(text).map_err(|error| error.message);
        for (text, bytes) in [
            ("", &b""[..]),
            ("YWJj\r\n ZGVm", &b"abcdef"[..]),
            ("YW I=", &b"ab"[..]),
            ("YQ==", &b"a"[..]),
            ("YR==", &b"a"[..]),
            ("+/+/", &[0xfb, 0xff, 0xbf][..]),
        ] {
            assert_eq!(read(text), Ok(bytes.to_vec()), "{text:?}");
        }
        let symbol = |own: &str| format!("invalid symbol \"{own}\" found while decoding base64 sequence");
        for (text, words) in [
            ("YW\u{c}Jj", symbol("\u{c}")),
            ("YW\u{b}Jj", symbol("\u{b}")),
            ("YWä", symbol("ä")),
            ("YW-_", symbol("-")),
            ("Y===", "unexpected \"=\" while decoding base64 sequence".to_owned()),
            ("YWI", "invalid base64 end sequence".to_owned()),
        ] {
            assert_eq!(read(text), Err(words), "{text:?}");
        }
    }
}
