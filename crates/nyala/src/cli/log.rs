//! The log on standard error: one line per event, without colours unless it is a terminal.
//!
//! When the log cannot be written, the event is lost and the server continues. An event is always one line, so that no
//! name that a client chose can look like another event.

use std::fmt::Write as _;
use std::io::{IsTerminal, Result, Write, stderr};
use tracing_subscriber::EnvFilter;

/// Logs what `NYALA_LOG` selects, or else `level` and above.
pub(super) fn to_standard_error(level: &str) {
    let filter = EnvFilter::try_from_env("NYALA_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = !plain && stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        // Otherwise it would write errors of its own to standard error, and panic when that fails.
        .log_internal_errors(false)
        .with_writer(move || Events { colours })
        .init();
}

/// Prints an error for a person, if standard error can be written.
pub(super) fn print_error(message: &str) {
    let _ = writeln!(stderr(), "nyala: {message}");
}

/// Standard error; each write is one event.
struct Events {
    colours: bool,
}

impl Write for Events {
    fn write(&mut self, event: &[u8]) -> Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        // There is nowhere to report an error.
        let _ = match one_line(line, self.colours) {
            None => stderr().write_all(event),
            Some(line) => stderr().write_all(line.as_bytes()),
        };
        Ok(event.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The line with its control characters escaped, and a line end; `None` if it has no control characters. With colours,
/// the escape character stays, because escape characters in values were escaped before.
fn one_line(line: &[u8], colours: bool) -> Option<String> {
    let is_escaped = |letter: char| letter.is_control() && !(colours && letter == '\x1b');
    let line = String::from_utf8_lossy(line);
    if !line.contains(is_escaped) {
        return None;
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match is_escaped(letter) {
            true => write!(escaped, "{}", letter.escape_default()).expect("writing to memory does not fail"),
            false => escaped.push(letter),
        }
    }
    escaped.push('\n');
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let one = |line: &str, colours| one_line(line.as_bytes(), colours);
        assert_eq!(one("a plain line, in UTF-8: ä", false), None);
        assert_eq!(one("a\n2026 ERROR b\r\u{85}", false).unwrap(), "a\\n2026 ERROR b\\r\\u{85}\n");
        assert_eq!(one("\x1b[31ma", false).unwrap(), "\\u{1b}[31ma\n");
        assert_eq!(one("\x1b[31ma", true), None);
    }
}
