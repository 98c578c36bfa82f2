//! Text that is safe to show: control characters are escaped, since a terminal would obey them.

use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// The text with its control characters escaped, and so are characters that change the direction of the text around them.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            letter if !is_escaped(letter) => safe.push(letter),
            letter if letter.is_ascii() => {
                write!(safe, "\\x{:02x}", u32::from(letter)).expect("memory takes any text");
            }
            letter => write!(safe, "\\u{:04x}", u32::from(letter)).expect("memory takes any text"),
        }
    }
    Cow::Owned(safe)
}

/// Whether a terminal could take the character for a command, or show others elsewhere because of it.
pub(crate) fn is_escaped(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The columns of a terminal that a text without control characters takes.
pub(crate) fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.width(),
    }
}

/// Whether the terminal's user wants no colours.
pub(crate) fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escaped("plain ä 日本"), "plain ä 日本");
        assert_eq!(escaped("a\u{1b}]0;x\u{7}\n\t\r\u{7f}\u{85}"), "a\\x1b]0;x\\x07\\n\\t\\r\\x7f\\u0085");
        assert_eq!(escaped("\u{202e}gpj.exe"), "\\u202egpj.exe");
    }
}
