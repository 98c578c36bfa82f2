//! Patterns of `SIMILAR TO`, as regular expressions.

use crate::error::{SqlError, SqlResult, SqlState};

/// The regular expression that matches whole texts as a pattern does. Without an escape letter a backslash is one.
///
/// # Errors
/// If the pattern ends with an escape letter.
pub(crate) fn regular_expression(pattern: &str, escape: Option<char>) -> SqlResult<String> {
    // As in PostgreSQL a point means line breaks, too.
    let mut written = String::from("^(?s:");
    let mut letters = pattern.chars();
    let mut is_in_brackets = false;
    while let Some(letter) = letters.next() {
        match letter {
            letter if Some(letter) == escape => {
                let meant = letters.next().ok_or_else(|| {
                    let words = "SIMILAR TO pattern must not end with escape character";
                    SqlError::new(SqlState::INVALID_ESCAPE, words)
                })?;
                push_literal(meant, &mut written);
            }
            '\\' => written.push_str("\\\\"),
            ']' if is_in_brackets => {
                is_in_brackets = false;
                written.push(']');
            }
            letter if is_in_brackets => written.push(letter),
            '[' => {
                is_in_brackets = true;
                written.push('[');
            }
            '%' => written.push_str(".*"),
            '_' => written.push('.'),
            '(' => written.push_str("(?:"),
            '.' | '^' | '$' => push_literal(letter, &mut written),
            other => written.push(other),
        }
    }
    written.push_str(")$");
    Ok(written)
}

fn push_literal(letter: char, written: &mut String) {
    if letter.is_ascii_punctuation() {
        written.push('\\');
    }
    written.push(letter);
}
