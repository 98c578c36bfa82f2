//! The log on standard error: plain where that is no terminal, one line an event.
//!
//! A log that cannot be written keeps nothing from being done: what does not get through is lost. An event is one line
//! whatever is in it, so that no name a client thought up looks like another event.

use std::fmt::Write as _;
use std::io::{IsTerminal, Result, Write, stderr};
use tracing_subscriber::EnvFilter;

/// Logs what `NYALA_LOG` names, else `level` and above.
pub(super) fn to_standard_error(level: &str) {
    let filter = EnvFilter::try_from_env("NYALA_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = !plain && stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        // Otherwise it would complain to standard error, and panic where it cannot.
        .log_internal_errors(false)
        .with_writer(move || Events { colours })
        .init();
}

/// Tells a person what went wrong, if standard error takes it.
pub(super) fn print_error(message: &str) {
    let _ = writeln!(stderr(), "nyala: {message}");
}

/// Standard error. Each write is an event.
struct Events {
    colours: bool,
}

impl Write for Events {
    fn write(&mut self, event: &[u8]) -> Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        // There is nobody to tell.
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

/// The line with its control characters written out, and its end; nothing if it has none. Colours begin with one that
/// stays: those of values were written out before.
fn one_line(line: &[u8], colours: bool) -> Option<String> {
    let is_written_out = |letter: char| letter.is_control() && !(colours && letter == '\x1b');
    let line = String::from_utf8_lossy(line);
    if !line.contains(is_written_out) {
        return None;
    }
    let mut written = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match is_written_out(letter) {
            true => write!(written, "{}", letter.escape_default()).expect("writing to memory does not fail"),
            false => written.push(letter),
        }
    }
    written.push('\n');
    Some(written)
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
