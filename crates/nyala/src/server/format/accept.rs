//! The format that a client asks for in the `Accept` header, read as InfluxDB reads it.

use super::csv::push_field;
use super::json_string::push_string;
use super::message_pack::push_error;

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// JSON, the default.
    #[default]
    Json,
    /// CSV as `application/csv`.
    ApplicationCsv,
    /// CSV as `text/csv`.
    TextCsv,
    /// MessagePack.
    MessagePack,
}

const FORMATS: [(Format, &str, &str); 4] = [
    (Format::Json, "application", "json"),
    (Format::ApplicationCsv, "application", "csv"),
    (Format::TextCsv, "text", "csv"),
    (Format::MessagePack, "application", "x-msgpack"),
];

impl Format {
    /// The preferred format of some `Accept` headers: the first known one with the highest `q`.
    pub fn accepted<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut best = (Format::Json, f64::NEG_INFINITY);
        for clause in values.flat_map(|value| value.split(',')) {
            let mut parts = clause.split(';').map(str::trim);
            let Some(format) = parts.next().and_then(Self::of_media_type) else { continue };
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    fn of_media_type(text: &str) -> Option<Self> {
        let (kind, subkind) = if text == "*" { ("*", "*") } else { text.split_once('/')? };
        let matches = |accepted: &str, own: &str| accepted == "*" || accepted.eq_ignore_ascii_case(own);
        FORMATS
            .into_iter()
            .find(|(_, own_kind, own_subkind)| matches(kind, own_kind) && matches(subkind, own_subkind))
            .map(|(format, ..)| format)
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::ApplicationCsv => "application/csv",
            Format::TextCsv => "text/csv",
            Format::MessagePack => "application/x-msgpack",
        }
    }

    /// A document that holds only an error. In JSON, `members` follow it, written as `,"name":value…`.
    pub fn error(self, message: &str, members: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Format::Json => {
                body.extend_from_slice(b"{\"error\":");
                push_string(&mut body, message);
                body.extend_from_slice(members);
                body.extend_from_slice(b"}\n");
            }
            Format::ApplicationCsv | Format::TextCsv => {
                body.extend_from_slice(b"error\n");
                push_field(&mut body, message);
                body.push(b'\n');
            }
            Format::MessagePack => push_error(&mut body, message),
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_known_format_is_chosen() {
        let cases = [
            ("", Format::Json),
            ("*/*", Format::Json),
            ("text/html", Format::Json),
            ("text/*", Format::TextCsv),
            ("text/html, application/csv;q=0.1", Format::ApplicationCsv),
            ("application/json;q=0.5, text/csv", Format::TextCsv),
            ("application/X-MsgPack", Format::MessagePack),
            ("text/csv; q=x, application/x-msgpack;q=0.2", Format::MessagePack),
        ];
        for (header, format) in cases {
            assert_eq!(Format::accepted([header].into_iter()), format, "{header}");
        }
    }
}
