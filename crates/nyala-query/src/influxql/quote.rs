//! Quoting of names and strings, as canonical text needs it.

use std::fmt;

use super::lexer::{is_identifier_part, is_identifier_start};
use super::token::keyword;

/// Whether the parser reads `name` back only in double quotes.
pub(crate) fn needs_quotes(name: &str) -> bool {
    !name.is_empty()
        && (!name.starts_with(is_identifier_start)
            || !name.chars().all(is_identifier_part)
            || keyword(name).is_some())
}

/// A name, in double quotes if it needs them; an empty name does.
pub(crate) struct Identifier<'a>(pub(crate) &'a str);

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() || needs_quotes(self.0) {
            f.write_str(&escaped(self.0, '"'))
        } else {
            f.write_str(self.0)
        }
    }
}

/// A string in single quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(self.0, '\''))
    }
}

fn escaped(text: &str, quote: char) -> String {
    let mut escaped = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\\' => escaped.push_str("\\\\"),
            _ if character == quote => escaped.extend(['\\', quote]),
            _ => escaped.push(character),
        }
    }
    escaped.push(quote);
    escaped
}

/// A name in double quotes, whether it needs them or not.
pub fn identifier(name: &str) -> String {
    escaped(name, '"')
}

/// A string in single quotes.
pub fn literal(text: &str) -> String {
    escaped(text, '\'')
}

/// Segments of a dotted name as error messages print them: all but the last in quotes, left-out ones empty.
pub(crate) fn segments(parts: &[String]) -> String {
    let shown = |(index, part): (usize, &String)| {
        let last = index + 1 == parts.len();
        let quoted = if part.is_empty() { index == 0 || last } else { !last || needs_quotes(part) };
        if quoted { escaped(part, '"') } else { part.clone() }
    };
    parts.iter().enumerate().map(shown).collect::<Vec<_>>().join(".")
}
