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
}
