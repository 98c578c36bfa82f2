//! Names of databases and retention policies, and names in messages.

use nyala_core::{Error, Result};
use regex::Regex;
use std::sync::OnceLock;

/// The longest name of a database or retention policy in InfluxDB, bytes.
const NAME_MAX_BYTES: usize = 255;

/// Whether a database or retention policy may have this name, by InfluxDB's rule.
pub fn is_valid_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\']) && name.chars().all(is_printable)
}

/// Refuses a name that is too long for a new database or retention policy, in InfluxDB's words.
pub(crate) fn check_length(name: &str) -> Result<()> {
    match name.len() {
        ..=NAME_MAX_BYTES => Ok(()),
        _ => Err(Error::invalid("name too long")),
    }
}

/// A text in quotes as Go writes it. Clients match on it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if is_printable(letter) => quoted.push(letter),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\r' => quoted.push_str("\\r"),
            letter => quoted.push_str(&match letter as u32 {
                code @ (0..0x20 | 0x7f) => format!("\\x{code:02x}"),
                code @ 0..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    quoted.push('"');
    quoted
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return letter == ' ' || letter.is_ascii_graphic();
    }
    static CLASSES: OnceLock<Regex> = OnceLock::new();
    let classes =
        CLASSES.get_or_init(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").expect("the pattern is fixed"));
    classes.is_match(letter.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_and_quoted_as_in_go() {
        for name in ["a", "with space", "Üñí", "a\"b", "..."] {
            assert!(is_valid_name(name), "{name:?}");
        }
        for name in ["", ".", "..", "a/b", "a\\b", "new\nline", "a\0", "a\u{200b}", "a\u{a0}b", "\u{7f}"] {
            assert!(!is_valid_name(name), "{name:?}");
        }
        for (letters, fits) in [("a".repeat(255), true), ("a".repeat(256), false), ("é".repeat(128), false)]
        {
            assert_eq!(check_length(&letters).is_ok(), fits);
        }
        assert_eq!(quoted("a\"\\é\n\0\u{200b}\u{1f600}"), "\"a\\\"\\\\é\\n\\x00\\u200b\u{1f600}\"");
    }
}
