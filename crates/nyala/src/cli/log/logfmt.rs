//! Events as `ts=… lvl=… msg=… target=… name=value …`, with the names that InfluxDB's log has for the first three.

use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes them.
pub(super) struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("ts=")?;
        SystemTime.format_time(&mut writer)?;
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, " lvl={level}")?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        writer.write_str(" msg=")?;
        write_value(&mut writer, &fields.message)?;
        writeln!(writer, " target={}{}", event.metadata().target(), fields.others)
    }
}

/// The message of an event, and its fields as they are written.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) others: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
            return;
        }
        write!(self.others, " {}=", field.name())
            .and_then(|()| write_value(&mut self.others, value))
            .expect("writing to memory does not fail");
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

/// Writes a value so that it ends at the next space, or in quotes.
fn write_value(writer: &mut dyn Write, value: &str) -> fmt::Result {
    let needs_quotes =
        |letter: char| letter.is_whitespace() || letter.is_control() || "\"=\\".contains(letter);
    match value.is_empty() || value.contains(needs_quotes) {
        true => write!(writer, "{value:?}"),
        false => writer.write_str(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_look_like_another_field() {
        let written = |value: &str| {
            let mut text = String::new();
            write_value(&mut text, value).unwrap();
            text
        };
        assert_eq!(written("plain-ä"), "plain-ä");
        assert_eq!(written(""), "\"\"");
        assert_eq!(written("a lvl=error"), "\"a lvl=error\"");
        assert_eq!(written("a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(written("a\nts=1"), "\"a\\nts=1\"");
    }
}
