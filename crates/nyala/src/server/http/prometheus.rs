//! Prometheus' remote write: its samples as points, in the form that InfluxDB gives them. Remote read is in `read`.
//!
//! The measurement is the metric's name, which is a tag too; every label is a tag, the value the field `value`. Samples
//! that are not finite are left out, as InfluxDB does.

mod members;
pub(super) mod read;

use super::body::Hold;
use super::response::{Failure, failure, status_of};
use hyper::StatusCode;
use members::{Member, Members, text};
use nyala_core::{Error, ErrorKind, Result};
use nyala_db::ingest::{MAX_BODY_BYTES, MEASUREMENT_SPECIALS, TAG_SPECIALS, measurement_of, push_escaped};
use std::fmt::Write;

/// What stands for the name of a metric without one.
const NAMELESS: &str = "prom_metric_not_specified";
const NAME_LABEL: &str = "__name__";
/// How much longer than what was sent lines may be: labels are sent once per series, and stand in every line.
const GROWTH_MAX: usize = 4;
/// What a line has behind its tags at most: the name of the field, a float, a time, blanks.
const VALUE_MAX_BYTES: usize = 64;

/// The lines of a request.
#[derive(Default)]
pub(super) struct Lines {
    /// Of metrics that share a table.
    pub(super) of_group: String,
    /// Of those that have a table of their own.
    pub(super) of_tables: String,
}

impl Lines {
    /// The samples of a packed request, when it unpacks to at most `limit_bytes`; `own_tables`: which measurements have a
    /// table of their own.
    pub(super) fn of(
        packed: &[u8],
        limit_bytes: usize,
        own_tables: impl Fn(&str) -> bool,
        hold: &mut Hold,
    ) -> Result<Self> {
        let request = unpacked(packed, limit_bytes, hold)?;
        let max_bytes = most_line_bytes(limit_bytes);
        let (head, tags) = Default::default();
        let mut writer = LinesWriter { lines: Self::default(), is_own: false, head, tags, hold, max_bytes };
        for member in Members(&request) {
            match member? {
                (1, Member::Bytes(series)) => writer.series(series, &own_tables)?,
                (1, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        Ok(writer.lines)
    }

    /// The bytes of all of them.
    pub(super) fn len(&self) -> usize {
        self.of_group.len() + self.of_tables.len()
    }
}

/// Writes lines.
struct LinesWriter<'a> {
    lines: Lines,
    /// Whether the series at hand is of a metric that has a table of its own.
    is_own: bool,
    /// Measurement and tags of it.
    head: String,
    tags: String,
    /// Charged with what the lines take, before they do.
    hold: &'a mut Hold,
    max_bytes: usize,
}

impl LinesWriter<'_> {
    fn series(&mut self, series: &[u8], own_tables: impl Fn(&str) -> bool) -> Result<()> {
        self.begin(series)?;
        self.is_own = own_tables(&String::from_utf8_lossy(&measurement_of(self.head.as_bytes())));
        for member in Members(series) {
            match member? {
                (2, Member::Bytes(sample)) => self.sample(sample)?,
                (2, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the labels of a series, which may stand behind its samples.
    fn begin(&mut self, series: &[u8]) -> Result<()> {
        self.tags.clear();
        let mut name = "";
        for member in Members(series) {
            let label = match member? {
                (1, Member::Bytes(label)) => label,
                (1, _) => return Err(wrong_type()),
                _ => continue,
            };
            let (key, value) = pair(label)?;
            if key == NAME_LABEL {
                name = value;
            }
            if !value.is_empty() {
                self.tags.push(',');
                push_text(&mut self.tags, key, TAG_SPECIALS);
                self.tags.push('=');
                push_text(&mut self.tags, value, TAG_SPECIALS);
            }
        }
        self.head.clear();
        // A line that begins so would be a comment, or begin later.
        if name.starts_with(['#', '\t', '\0']) {
            self.head.push('\\');
        }
        push_text(&mut self.head, if name.is_empty() { NAMELESS } else { name }, MEASUREMENT_SPECIALS);
        self.head.push_str(&self.tags);
        Ok(())
    }

    fn sample(&mut self, sample: &[u8]) -> Result<()> {
        let (mut value, mut time_ms) = (0.0, 0_i64);
        for member in Members(sample) {
            match member? {
                (1, Member::EightBytes(bytes)) => value = f64::from_le_bytes(bytes),
                (2, Member::Number(number)) => time_ms = number as i64,
                (1 | 2, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        let Some(time_ns) = time_ms.checked_mul(1_000_000).filter(|_| value.is_finite()) else {
            return Ok(());
        };
        self.reserve(self.head.len() + VALUE_MAX_BYTES)?;
        let text = if self.is_own { &mut self.lines.of_tables } else { &mut self.lines.of_group };
        writeln!(text, "{} value={value:e} {time_ns}", self.head).expect("writing to memory does not fail");
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let all_bytes = self.lines.len();
        let text = if self.is_own { &mut self.lines.of_tables } else { &mut self.lines.of_group };
        if text.capacity() - text.len() >= bytes {
            return Ok(());
        }
        if all_bytes + bytes > self.max_bytes {
            return Err(too_large());
        }
        let more = text.capacity().max(bytes);
        self.hold.grow(more)?;
        text.reserve_exact(more);
        Ok(())
    }
}

/// How long the lines of a request may be: no longer than a body of lines can be read.
fn most_line_bytes(limit_bytes: usize) -> usize {
    limit_bytes.saturating_mul(GROWTH_MAX).min(MAX_BODY_BYTES)
}

/// Name and value of a label.
fn pair(label: &[u8]) -> Result<(&str, &str)> {
    let (mut name, mut value) = ("", "");
    for member in Members(label) {
        match member? {
            (1, Member::Bytes(bytes)) => name = text(bytes)?,
            (2, Member::Bytes(bytes)) => value = text(bytes)?,
            (1 | 2, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok((name, value))
}

/// What a request says, when it is at most `limit_bytes`: it tells how much that is before anything is unpacked.
fn unpacked(packed: &[u8], limit_bytes: usize, hold: &mut Hold) -> Result<Vec<u8>> {
    let told_bytes = snap::raw::decompress_len(packed).map_err(|_| not_packed())?;
    if told_bytes > limit_bytes {
        return Err(too_large());
    }
    hold.grow(told_bytes)?;
    snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| not_packed())
}

/// What is told of a request that cannot be taken.
pub(super) fn refused(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Limit => failure(StatusCode::PAYLOAD_TOO_LARGE, error.message()),
        _ => failure(status_of(&error), error.message()),
    }
}

fn not_packed() -> Error {
    Error::invalid("snappy: corrupt input")
}

fn wrong_type() -> Error {
    Error::invalid("protocol buffers: a member is of another type than it should be")
}

fn too_large() -> Error {
    Error::limit("Request Entity Too Large")
}

/// Text with a backslash before what would end it. Line protocol has no way to write a line break, nor a backslash at
/// an end: those become spaces, and get one behind them.
fn push_text(line: &mut String, text: &str, specials: &[char]) {
    let mut parts = text.split('\n');
    push_escaped(line, parts.next().unwrap_or(""), specials);
    for part in parts {
        line.push_str("\\ ");
        push_escaped(line, part, specials);
    }
    if text.ends_with('\\') {
        line.push_str("\\ ");
    }
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::invalid(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    use nyala_core::memory::MemoryBudget;
    use prost::Message;
    use read::{Label, Sample};

    #[derive(Clone, PartialEq, Message)]
    struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        series: Vec<TimeSeries>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct TimeSeries {
        #[prost(message, repeated, tag = "1")]
        labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        samples: Vec<Sample>,
    }

    fn lines(packed: &[u8], limit_bytes: usize) -> Result<String> {
        let mut hold = Hold::of(&MemoryBudget::new(64 << 20));
        Lines::of(packed, limit_bytes, |_| false, &mut hold).map(|lines| lines.of_group)
    }

    fn packed(request: &WriteRequest) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
    }

    fn request(labels: &[(&str, &str)], samples: &[(f64, i64)]) -> WriteRequest {
        let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
        let sample = |(value, time_ms): &(f64, i64)| Sample { value: *value, time_ms: *time_ms };
        let series = TimeSeries {
            labels: labels.iter().map(label).collect(),
            samples: samples.iter().map(sample).collect(),
        };
        WriteRequest { series: vec![series] }
    }

    #[test]
    fn samples_are_lines_and_no_label_makes_another() {
        let labels = [("__name__", "up"), ("empty", ""), ("path", "a b,c=d\nevil v=1\\")];
        let samples = [(1.5, 1), (f64::NAN, 2), (f64::INFINITY, 3), (0.0, i64::MAX), (-2e300, -4)];
        let lines = lines(&packed(&request(&labels, &samples)), 10_000).unwrap();
        let head = "up,__name__=up,path=a\\ b\\,c\\=d\\ evil\\ v\\=1\\\\ ";
        assert_eq!(lines, format!("{head} value=1.5e0 1000000\n{head} value=-2e300 -4000000\n"));
    }

    #[test]
    fn no_name_makes_a_line_that_is_none() {
        for (name, line) in [
            ("#up", "\\#up,__name__=#up value=1e0 0\n"),
            ("\tup", "\\\tup,__name__=\tup value=1e0 0\n"),
            ("", "prom_metric_not_specified value=1e0 0\n"),
        ] {
            let request = packed(&request(&[(NAME_LABEL, name)], &[(1.0, 0)]));
            assert_eq!(lines(&request, 10_000).unwrap(), line);
        }
    }

    #[test]
    fn messages_that_break_off_or_are_of_other_types_are_refused() {
        let whole = request(&[("a", "b")], &[(1.0, 1)]).encode_to_vec();
        let snappy = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
        for length in 1..whole.len() {
            assert!(lines(&snappy(&whole[..length]), 1_000).is_err(), "{length}");
        }
        // A number and a group as the first member; a label whose value is a number.
        for wrong in [&b"\x08\x01"[..], b"\x0b\x0c", b"\x0a\x04\x0a\x02\x10\x01"] {
            assert!(lines(&snappy(wrong), 1_000).is_err(), "{wrong:?}");
        }
        // Members nobody knows, of every type.
        let unknown = b"\x18\x05\x25\x01\x02\x03\x04\x29\x01\x02\x03\x04\x05\x06\x07\x08\x32\x01a";
        let long = [&unknown[..], &whole].concat();
        assert_eq!(lines(&snappy(&long), 1_000).unwrap(), lines(&snappy(&whole), 1_000).unwrap());
    }

    #[test]
    fn a_request_is_charged_with_what_it_takes() {
        let samples: Vec<(f64, i64)> = (0..28_000).map(|time_ms| (1.0, time_ms)).collect();
        let labels = [("a", "x".repeat(20)), ("b", "y".repeat(20))];
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        let memory = MemoryBudget::new(64 << 20);
        let mut hold = Hold::of(&memory);
        let request = packed(&request(&labels, &samples));
        let text = Lines::of(&request, 25_000_000, |_| false, &mut hold).unwrap().of_group;
        let charged_bytes = memory.total_bytes() as usize;
        assert!((text.len()..4 * text.len()).contains(&charged_bytes), "{charged_bytes} of {}", text.len());
    }

    #[test]
    fn lines_of_the_largest_request_can_be_read() {
        assert_eq!(most_line_bytes(25_000_000), 100_000_000);
        let largest = most_line_bytes((1 << 31) - 1);
        assert!(largest <= MAX_BODY_BYTES, "{largest} bytes would end the reader");
    }

    #[test]
    fn what_would_grow_too_large_is_refused_before_it_does() {
        let long = "x".repeat(1_000);
        let samples: Vec<(f64, i64)> = (0..1_000).map(|time_ms| (1.0, time_ms)).collect();
        let request = packed(&request(&[("a", &long)], &samples));
        assert!(lines(&request, 1_000_000).is_ok());
        assert!(lines(&request, 100_000).is_err(), "labels stand in every line");
        // A length of 4 GiB, and nothing behind it.
        assert!(lines(&[0xff, 0xff, 0xff, 0xff, 0x0f], 1_000_000).is_err());
        for length in 0..request.len() {
            assert!(lines(&request[..length], 1_000_000).is_err(), "{length}");
        }
    }
}
