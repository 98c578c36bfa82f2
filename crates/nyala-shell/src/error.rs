//! Why a statement or a command failed, as a person reads it.

use crate::style::escaped;
use nyala_client::ClientError;
use serde::Deserialize;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthChar;

/// The result of what can fail.
pub(crate) type Result<T> = std::result::Result<T, ShellError>;

/// Why something failed.
#[derive(Debug)]
pub(crate) enum ShellError {
    /// The server refused the statement.
    Refused(Refusal),
    /// The server refused points, perhaps not all.
    RefusedPoints(Box<RefusedPoints>),
    /// There is no server, or it left, or it is another kind of server.
    Unreachable { what: String, hint: &'static str },
    /// The server does not know who asks.
    Unauthorized(String),
    /// Ctrl-C.
    Cancelled,
    /// Nobody reads the output any more, as when a pager was left.
    Closed,
    /// A command of the shell cannot be carried out.
    Command(String),
    /// What was printed already, where it happened.
    Reported {
        /// The server cannot be reached, or does not let us in.
        is_of_server: bool,
    },
}

/// What the server says of a statement that it refuses.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Refusal {
    #[serde(rename = "error")]
    pub(crate) message: String,
    /// SQLSTATE.
    pub(crate) code: Option<String>,
    pub(crate) detail: Option<Box<str>>,
    pub(crate) hint: Option<Box<str>>,
    /// The character of the statement, from 1.
    pub(crate) position: Option<usize>,
    /// Where in the rows of a COPY.
    pub(crate) context: Option<Box<str>>,
}

/// Points that the server refused, and what became of those that were sent with them.
#[derive(Debug, Default, Deserialize)]
pub struct RefusedPoints {
    /// How many points were stored.
    #[serde(skip)]
    pub written: u64,
    /// What the server says, as InfluxDB would.
    #[serde(rename = "error")]
    pub message: String,
    /// How many lines cannot be read, …
    #[serde(default, rename = "refused")]
    pub unreadable: u64,
    /// … and the first ones.
    #[serde(default)]
    pub lines: Vec<UnreadableLine>,
}

/// A line of points that cannot be read.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct UnreadableLine {
    /// Its number within what was sent, from 1.
    pub line: u64,
    /// The byte, from 1.
    pub column: u64,
    /// What should stand there.
    pub expected: String,
}

const HINT_SERVER: &str = "Is the server running? `nyala serve` starts one; `nyala shell --data-dir DIR` opens the data of one \
                           that is stopped.";
const HINT_TRUST: &str = "--ca FILE trusts the certificates in a file, --insecure any; one without TLS has an address with http://.";
const HINT_SCHEME: &str = "Is it a server of HTTP? --tls asks one of HTTPS.";

impl From<ClientError> for ShellError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Invalid(words) => ShellError::Command(words),
            // TLS refuses what the other end sends.
            ClientError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::InvalidData => {
                ShellError::Unreachable { what: error.to_string(), hint: HINT_TRUST }
            }
            ClientError::Io { .. } => ShellError::Unreachable { what: error.to_string(), hint: HINT_SERVER },
            other => ShellError::Unreachable { what: other.to_string(), hint: HINT_SCHEME },
        }
    }
}

impl ShellError {
    /// An error of a file or of the output.
    pub(crate) fn io(context: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> ShellError {
        move |error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => ShellError::Closed,
            _ => ShellError::Command(format!("{context}: {error}")),
        }
    }

    /// The lines that a person reads. The statement is that which was sent.
    pub(crate) fn text(&self, statement: &str) -> String {
        match self {
            ShellError::Refused(refusal) => refusal.text(statement),
            ShellError::RefusedPoints(refused) => format!("ERROR: {}\n", escaped(&refused.message)),
            ShellError::Unreachable { what, hint } => format!("ERROR: {}\nHINT: {hint}\n", escaped(what)),
            ShellError::Unauthorized(words) => format!(
                "ERROR: {}\nHINT: Say who you are: --username NAME, with the password in NYALA_PASSWORD or at the prompt, \
                 or --token.\n",
                escaped(words)
            ),
            // The terminal shows ^C before it.
            ShellError::Cancelled => "\ncancelled\n".to_owned(),
            ShellError::Closed | ShellError::Reported { .. } => String::new(),
            ShellError::Command(words) => format!("ERROR: {}\n", escaped(words)),
        }
    }
}

impl Refusal {
    fn text(&self, statement: &str) -> String {
        let mut text = match &self.code {
            Some(code) => format!("ERROR {}: {}\n", escaped(code), escaped(&self.message)),
            None => format!("ERROR: {}\n", escaped(&self.message)),
        };
        if let Some(position) = self.position.or_else(|| position_in_words(&self.message, statement)) {
            text.push_str(&marked(statement, position));
        }
        for (name, words) in [("DETAIL", &self.detail), ("CONTEXT", &self.context), ("HINT", &self.hint)] {
            if let Some(words) = words {
                writeln!(text, "{name}: {}", escaped(words)).expect("memory takes any text");
            }
        }
        text
    }
}

/// The position that InfluxQL names at the end of its message: `… at line 1, char 10`.
fn position_in_words(message: &str, statement: &str) -> Option<usize> {
    let (_, place) = message.rsplit_once(" at line ")?;
    let (line, character) = place.split_once(", char ")?;
    let (line, character): (usize, usize) = (line.parse().ok()?, character.parse().ok()?);
    let before: usize =
        statement.split_inclusive('\n').take(line.checked_sub(1)?).map(|line| line.chars().count()).sum();
    Some(before + character)
}

/// How much of a line is shown around its marked character.
const SHOWN_CHARACTERS: usize = 60;

/// The line of a statement with that character, from 1, and a mark below it. Nothing, if the person did not write the statement.
fn marked(statement: &str, position: usize) -> String {
    if statement.is_empty() {
        return String::new();
    }
    let mut rest = position.saturating_sub(1);
    let mut number = 1;
    let mut lines = statement.split('\n').peekable();
    let line = loop {
        let Some(line) = lines.next() else { return String::new() };
        let length = line.chars().count();
        if rest <= length || lines.peek().is_none() {
            rest = rest.min(length);
            break line;
        }
        rest -= length + 1;
        number += 1;
    };
    let from = rest.saturating_sub(SHOWN_CHARACTERS);
    let cut = line.chars().count() > rest + SHOWN_CHARACTERS;
    let (before, after) = (if from > 0 { "..." } else { "" }, if cut { "..." } else { "" });
    let prefix = format!("LINE {number}: {before}");
    let characters = line.chars().skip(from).take(rest - from + SHOWN_CHARACTERS);
    let mut shown = String::new();
    let mut column = prefix.len();
    for (at, letter) in characters.enumerate() {
        // One character each, so that the mark is at its place.
        let letter = if letter.is_control() { ' ' } else { letter };
        if at < rest - from {
            column += letter.width().unwrap_or(0);
        }
        shown.push(letter);
    }
    format!("{prefix}{}{after}\n{}^\n", escaped(&shown), " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_marked() {
        assert_eq!(marked("SELECT x\nFROM y", 15), "LINE 2: FROM y\n             ^\n");
        assert_eq!(marked("SELECT '日本' x", 13), "LINE 1: SELECT '日本' x\n                      ^\n");
        assert_eq!(marked("SELECT", 99), "LINE 1: SELECT\n              ^\n");
        assert_eq!(marked("", 99), "");
        assert_eq!(marked("a\tb\u{1b}[31m", 3), "LINE 1: a b [31m\n          ^\n");
        let long = format!("{}x{}", "a".repeat(100), "b".repeat(100));
        let text = marked(&long, 101);
        let (line, mark) = text.split_once('\n').unwrap();
        assert_eq!(line.chars().nth(mark.find('^').unwrap()), Some('x'), "{text}");
        assert!(line.starts_with("LINE 1: ...a") && line.ends_with("b..."), "{line}");
    }

    #[test]
    fn positions_of_influxql_are_read_from_its_words() {
        let message = "error parsing query: found frm, expected FROM at line 2, char 3";
        assert_eq!(position_in_words(message, "select *\n  frm"), Some(12));
        assert_eq!(position_in_words("no place at line x, char 3", "a"), None);
        assert_eq!(position_in_words("at line 0, char 3", "a"), None);
    }

    #[test]
    fn words_of_a_server_send_no_control_characters() {
        let refusal = Refusal { message: "no \u{1b}[31mred\u{9b}".to_owned(), ..Refusal::default() };
        assert_eq!(refusal.text("x"), "ERROR: no \\x1b[31mred\\u009b\n");
    }
}
