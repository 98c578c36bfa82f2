//! Texts of UUIDs, as PostgreSQL reads them.

use crate::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;

/// A UUID as it is stored and shown: small letters, with hyphens behind the digits 8, 12, 16 and 20. Their order is that of the
/// bytes.
///
/// # Errors
/// The text is none.
pub(crate) fn read(text: &str) -> SqlResult<Cow<'_, str>> {
    if is_normal(text) {
        return Ok(text.into());
    }
    let malformed =
        || SqlError::new(SqlState::INVALID_TEXT, format!("invalid input syntax for type uuid: \"{text}\""));
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(malformed)?,
        None => text,
    };
    let mut normal = String::with_capacity(36);
    let mut digits = 0;
    let mut may_separate = false;
    for letter in inner.chars() {
        match letter {
            // A hyphen may stand behind each group of four digits.
            '-' if may_separate => may_separate = false,
            digit if digit.is_ascii_hexdigit() && digits < 32 => {
                if matches!(digits, 8 | 12 | 16 | 20) {
                    normal.push('-');
                }
                normal.push(digit.to_ascii_lowercase());
                digits += 1;
                may_separate = digits % 4 == 0 && digits < 32;
            }
            _ => return Err(malformed()),
        }
    }
    if digits == 32 { Ok(normal.into()) } else { Err(malformed()) }
}

fn is_normal(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn uuids_are_read_as_postgresql_reads_them() {
        let normal = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            normal,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(read(text).unwrap(), normal, "{text}");
        }
        for text in ["", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "é"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in [
            "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99--9c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
