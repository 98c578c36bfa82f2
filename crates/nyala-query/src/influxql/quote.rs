//! Quoting of names and strings, as canonical text needs it.

use std::fmt::{self, Write};

use super::lexer::{is_identifier_part, is_identifier_start};
use super::token::keyword;

/// Whether the parser reads `name` back only in double quotes.
pub(crate) fn needs_quotes(name: &str) -> bool {
    let mut characters = name.chars();
    match characters.next() {
        None => false,
        Some(first) => {
            !is_identifier_start(first) || !characters.all(is_identifier_part) || keyword(name).is_some()
        }
    }
}

/// A name, in double quotes if it needs them; an empty name does.
pub(crate) struct Identifier<'a>(pub(crate) &'a str);

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() || needs_quotes(self.0) {
            write_escaped(f, self.0, '"')
        } else {
            f.write_str(self.0)
        }
    }
}

/// A string in single quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, '\'')
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\n' => f.write_str("\\n")?,
            '\\' => f.write_str("\\\\")?,
            _ if character == quote => {
                f.write_char('\\')?;
                f.write_char(quote)?;
            }
            _ => f.write_char(character)?,
        }
    }
    f.write_char(quote)
}

/// Segments of a dotted name as error messages print them: all but the last in quotes, left-out ones empty.
pub(crate) fn segments(parts: &[String]) -> String {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let quoted = if part.is_empty() { index == 0 || last } else { !last || needs_quotes(part) };
        if quoted {
            let _ = write!(text, "{}", Escaped(part));
        } else {
            text.push_str(part);
        }
        if !last {
            text.push('.');
        }
    }
    text
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, '"')
    }
}
