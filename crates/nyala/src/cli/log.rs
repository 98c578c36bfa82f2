//! The log on standard error: one line per event, in one of three forms (`logfmt`, or tracing's text and JSON), without
//! colours unless it is a terminal.
//!
//! When the log cannot be written, the event is lost and the server continues. An event is always one line, so that no
//! name that a client chose can look like another event.

mod logfmt;
mod recent;

use crate::config::LogFormat;
use crate::log_filter;
use crate::traces::{RecordedSpans, Recorder};
use logfmt::Logfmt;
use recent::Recent;
use std::fmt::Write as _;
use std::io::{IsTerminal, Result, Write, stderr};
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry, reload};

/// Logs as text what `NYALA_LOG` selects, or else `level` and above.
pub(super) fn to_standard_error(level: &str) {
    start(level, LogFormat::Text, None);
}

/// The same in any form. The level can be changed later by `log_filter`. Spans go to `traces`, and never to the log.
pub(super) fn start(level: &str, format: LogFormat, traces: Option<Recorder>) {
    let given = chosen().unwrap_or_else(|| level.to_owned());
    let (text, filter) = match log_filter::parse(&given) {
        Ok(filter) => (given, filter),
        // As before there were settings: a broken variable does not keep a server from starting.
        Err(message) => {
            print_error(&format!("NYALA_LOG: {message}"));
            (level.to_owned(), log_filter::parse(level).unwrap_or_default())
        }
    };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = format == LogFormat::Text && !plain && stderr().is_terminal();
    let events = Events { colours, format };
    let (filter, handle) = reload::Layer::new(filter);
    match traces {
        // One filter for everything: what is not logged costs a load and a comparison.
        None => registry().with(filter).with(written(events)).with(Recent).init(),
        Some(recorder) => {
            let log = written(events).and_then(Recent).with_filter(filter);
            registry().with(log).with(recorder.with_filter(RecordedSpans)).init();
        }
    }
    log_filter::install(
        &text,
        Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())),
    );
}

/// Writes events to standard error.
fn written<S>(events: Events) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Otherwise it would write errors of its own to standard error, and panic when that fails.
    let layer = fmt::layer().log_internal_errors(false).with_ansi(events.colours).with_writer(events);
    match events.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Logfmt => layer.event_format(Logfmt).boxed(),
    }
}

/// What `NYALA_LOG` selects.
pub(super) fn chosen() -> Option<String> {
    std::env::var("NYALA_LOG").ok().filter(|text| !text.is_empty())
}

/// Prints an error for a person, if standard error can be written. It may have several lines, and words of others in them.
pub(super) fn print_error(message: &str) {
    let _ = writeln!(stderr(), "nyala: {}", safe_lines(message));
}

/// A text without anything that a terminal would obey but its line ends.
fn safe_lines(text: &str) -> String {
    let lines = text.split('\n').map(nyala_shell::escaped);
    lines.collect::<Vec<_>>().join("\n")
}

/// Standard error; each write is one event.
#[derive(Clone, Copy)]
struct Events {
    colours: bool,
    format: LogFormat,
}

impl MakeWriter<'_> for Events {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

impl Write for Events {
    fn write(&mut self, event: &[u8]) -> Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        // There is nowhere to report an error.
        let _ = match one_line(line, self.colours, self.format) {
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
/// the escape character stays, because escape characters in values were escaped before. Those that are left in JSON are
/// within its strings.
fn one_line(line: &[u8], colours: bool, format: LogFormat) -> Option<String> {
    let is_escaped = |letter: char| letter.is_control() && !(colours && letter == '\x1b');
    let line = String::from_utf8_lossy(line);
    if !line.contains(is_escaped) {
        return None;
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match (is_escaped(letter), format) {
            (false, _) => {
                escaped.push(letter);
                Ok(())
            }
            (true, LogFormat::Json) => write!(escaped, "\\u{:04x}", u32::from(letter)),
            (true, LogFormat::Text | LogFormat::Logfmt) => write!(escaped, "{}", letter.escape_default()),
        }
        .expect("writing to memory does not fail");
    }
    escaped.push('\n');
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_error() {
        assert_eq!(safe_lines("two\nlines ä"), "two\nlines ä");
        assert_eq!(safe_lines("a\x1b]0;b\x07\r\n\u{9b}c"), "a\\x1b]0;b\\x07\\r\n\\u009bc");
    }

    #[test]
    fn an_event_is_one_line() {
        let one = |line: &str, colours| one_line(line.as_bytes(), colours, LogFormat::Text);
        assert_eq!(one("a plain line, in UTF-8: ä", false), None);
        assert_eq!(one("a\n2026 ERROR b\r\u{85}", false).unwrap(), "a\\n2026 ERROR b\\r\\u{85}\n");
        assert_eq!(one("\x1b[31ma", false).unwrap(), "\\u{1b}[31ma\n");
        assert_eq!(one("\x1b[31ma", true), None);
        let json = one_line("{\"a\":\"\u{85}\u{7f}\"}".as_bytes(), false, LogFormat::Json).unwrap();
        assert_eq!(json, "{\"a\":\"\\u0085\\u007f\"}\n");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["a"], "\u{85}\u{7f}");
    }
}
