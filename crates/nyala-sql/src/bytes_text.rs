//! Texts of bytes (`bytea`), as PostgreSQL reads them.

use crate::error::{SqlError, SqlResult, SqlState};

/// The bytes that a text of `bytea` stands for.
pub(crate) fn bytes_of(text: &str) -> SqlResult<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => read_hexadecimal(digits),
        None => read_escaped(text).ok_or_else(|| {
            let words = format!("invalid input syntax for type bytea: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT, words)
        }),
    }
}

/// Bytes in hexadecimal digits.
fn read_hexadecimal(text: &str) -> SqlResult<Vec<u8>> {
    let invalid = |words: String| SqlError::new(SqlState::INVALID_PARAMETER, words);
    let mut digits = Vec::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !letter.is_ascii_whitespace()) {
        let digit = letter.to_digit(16);
        digits.push(digit.ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{letter}\"")))? as u8);
    }
    match digits.len().is_multiple_of(2) {
        true => Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()),
        false => Err(invalid("invalid hexadecimal data: odd number of digits".to_owned())),
    }
}

/// Bytes as text with escapes.
fn read_escaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        (rest, _) = match (byte, behind) {
            (b'\\', [b'\\', behind @ ..]) => (behind, bytes.push(b'\\')),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                (behind, bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0')))
            }
            (b'\\', _) => return None,
            _ => (behind, bytes.push(*byte)),
        };
    }
    Some(bytes)
}
