//! Errors of the front end, in the words InfluxDB 1.8 uses for them.

use std::fmt;

/// A position in the text of a query: line and character, both counted from one. Characters are Unicode scalar values, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub character: usize,
}

/// A syntax error. `Display` gives InfluxDB's message, without the prefix `error parsing query: ` of the HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    message: String,
    position: Option<Position>,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ParseError { message: message.into(), position: None }
    }

    pub(crate) fn at(message: impl Into<String>, position: Position) -> Self {
        ParseError { message: message.into(), position: Some(position) }
    }

    pub(crate) fn expected(found: &str, expected: &[&str], position: Position) -> Self {
        ParseError::at(format!("found {found}, expected {}", expected.join(", ")), position)
    }

    /// The position in the text, if the error has one.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The message without the position.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.position {
            Some(position) => write!(f, " at line {}, char {}", position.line, position.character),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}
