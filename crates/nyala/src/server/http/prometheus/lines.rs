//! Samples of remote write as line protocol, in the form that InfluxDB gives them.
//!
//! The measurement is the metric's name, which is also a tag. Every label is a tag, and the value is the field `value`.
//! Samples that are not finite are left out, as InfluxDB does.

use super::super::body::BodyCharge;
use nyala_core::{Error, Result};
use nyala_db::ingest::{MAX_BODY_BYTES, TAG_SPECIALS, measurement_of, push_measurement, push_text};
use nyala_inputs::protobuf::{FieldValue, Fields, text, wrong_type};
use std::fmt::Write;

/// The measurement of a metric without a name.
const NAMELESS: &str = "prom_metric_not_specified";
/// The label with the name of a metric.
pub(super) const NAME_LABEL: &str = "__name__";
/// How many times longer than the request its lines may be: labels are sent once per series, but written into every
/// line.
const GROWTH_MAX: usize = 4;
/// The most that follows the tags in a line: the name of the field, a float, a time, spaces.
const VALUE_MAX_BYTES: usize = 64;

/// The lines of a request.
#[derive(Default)]
pub(in super::super) struct Lines {
    /// Lines of metrics that share a table.
    pub(in super::super) of_group: String,
    /// Lines of metrics that have a table of their own.
    pub(in super::super) of_tables: String,
}

impl Lines {
    /// The samples of a compressed request, which may decompress to at most `limit_bytes`. `own_tables` says which
    /// measurements have a table of their own.
    pub(in super::super) fn of(
        compressed: &[u8],
        limit_bytes: usize,
        own_tables: impl Fn(&str) -> bool,
        charge: &mut BodyCharge,
    ) -> Result<Self> {
        let request = decompressed(compressed, limit_bytes, charge)?;
        let max_bytes = line_bytes_max(limit_bytes);
        let (series_key, tags) = Default::default();
        let lines = Self::default();
        let mut writer =
            LinesWriter { lines, is_own: false, series_key, tags, key_bytes: 0, charge, max_bytes };
        for field in Fields(&request) {
            match field? {
                (1, FieldValue::Bytes(series)) => writer.series(series, &own_tables)?,
                (1, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        Ok(writer.lines)
    }

    /// The bytes of all lines.
    pub(in super::super) fn len(&self) -> usize {
        self.of_group.len() + self.of_tables.len()
    }
}

/// Writes lines.
struct LinesWriter<'a> {
    lines: Lines,
    /// Whether the current series belongs to a metric with a table of its own.
    is_own: bool,
    /// Its measurement and tags.
    series_key: String,
    tags: String,
    /// What is charged for these.
    key_bytes: usize,
    /// Lines are charged here before they are written.
    charge: &'a mut BodyCharge,
    max_bytes: usize,
}

impl LinesWriter<'_> {
    fn series(&mut self, series: &[u8], own_tables: impl Fn(&str) -> bool) -> Result<()> {
        self.begin(series)?;
        self.is_own = own_tables(&String::from_utf8_lossy(&measurement_of(self.series_key.as_bytes())));
        for field in Fields(series) {
            match field? {
                (2, FieldValue::Bytes(sample)) => self.sample(sample)?,
                (2, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the labels of a series, which may come after its samples.
    fn begin(&mut self, series: &[u8]) -> Result<()> {
        self.tags.clear();
        let mut name = "";
        for field in Fields(series) {
            let label = match field? {
                (1, FieldValue::Bytes(label)) => label,
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
                self.charge_key()?;
            }
        }
        self.series_key.clear();
        push_measurement(&mut self.series_key, if name.is_empty() { NAMELESS } else { name });
        self.series_key.push_str(&self.tags);
        self.charge_key()
    }

    /// Charges the key, which may be several times longer than the request: every letter may need an escape.
    fn charge_key(&mut self) -> Result<()> {
        let held_bytes = self.series_key.capacity() + self.tags.capacity();
        if held_bytes > self.key_bytes {
            self.charge.grow(held_bytes - self.key_bytes)?;
            self.key_bytes = held_bytes;
        }
        Ok(())
    }

    fn sample(&mut self, sample: &[u8]) -> Result<()> {
        let (mut value, mut time_ms) = (0.0, 0_i64);
        for field in Fields(sample) {
            match field? {
                (1, FieldValue::EightBytes(bytes)) => value = f64::from_le_bytes(bytes),
                (2, FieldValue::Number(number)) => time_ms = number as i64,
                (1 | 2, _) => return Err(wrong_type()),
                _ => {}
            }
        }
        let Some(time_ns) = time_ms.checked_mul(1_000_000).filter(|_| value.is_finite()) else {
            return Ok(());
        };
        self.reserve(self.series_key.len() + VALUE_MAX_BYTES)?;
        let text = if self.is_own { &mut self.lines.of_tables } else { &mut self.lines.of_group };
        writeln!(text, "{} value={value:e} {time_ns}", self.series_key)
            .expect("writing to memory does not fail");
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
        self.charge.grow(more)?;
        text.reserve_exact(more);
        Ok(())
    }
}

/// The longest lines of a request: no longer than the longest body of lines.
fn line_bytes_max(limit_bytes: usize) -> usize {
    limit_bytes.saturating_mul(GROWTH_MAX).min(MAX_BODY_BYTES)
}

/// Name and value of a label.
fn pair(label: &[u8]) -> Result<(&str, &str)> {
    let (mut name, mut value) = ("", "");
    for field in Fields(label) {
        match field? {
            (1, FieldValue::Bytes(bytes)) => name = text(bytes)?,
            (2, FieldValue::Bytes(bytes)) => value = text(bytes)?,
            (1 | 2, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok((name, value))
}

/// Decompresses a request. Its declared length is checked against `limit_bytes` first.
pub(super) fn decompressed(
    compressed: &[u8],
    limit_bytes: usize,
    charge: &mut BodyCharge,
) -> Result<Vec<u8>> {
    let declared_bytes = snap::raw::decompress_len(compressed).map_err(|_| corrupt_snappy())?;
    if declared_bytes > limit_bytes {
        return Err(too_large());
    }
    charge.grow(declared_bytes)?;
    snap::raw::Decoder::new().decompress_vec(compressed).map_err(|_| corrupt_snappy())
}

fn corrupt_snappy() -> Error {
    Error::invalid("snappy: corrupt input")
}

fn too_large() -> Error {
    Error::limit("Request Entity Too Large")
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::read::{Label, Sample};
    use nyala_core::memory::{Component, MemoryBudget};
    use prost::Message;
    use std::sync::Arc;

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
        let mut charge = BodyCharge::of(&MemoryBudget::new(64 << 20));
        Lines::of(packed, limit_bytes, |_| false, &mut charge).map(|lines| lines.of_group)
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
    fn samples_are_lines_and_no_label_adds_a_line() {
        let labels = [("__name__", "up"), ("empty", ""), ("path", "a b,c=d\nevil v=1\\")];
        let samples = [(1.5, 1), (f64::NAN, 2), (f64::INFINITY, 3), (0.0, i64::MAX), (-2e300, -4)];
        let lines = lines(&packed(&request(&labels, &samples)), 10_000).unwrap();
        let head = "up,__name__=up,path=a\\ b\\,c\\=d\\ evil\\ v\\=1\\\\ ";
        assert_eq!(lines, format!("{head} value=1.5e0 1000000\n{head} value=-2e300 -4000000\n"));
    }

    #[test]
    fn every_name_gives_a_valid_line() {
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
    fn incomplete_or_wrong_messages_are_refused() {
        let whole = request(&[("a", "b")], &[(1.0, 1)]).encode_to_vec();
        let snappy = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
        for length in 1..whole.len() {
            assert!(lines(&snappy(&whole[..length]), 1_000).is_err(), "{length}");
        }
        // A number and a group as the first field; a label whose value is a number.
        for wrong in [&b"\x08\x01"[..], b"\x0b\x0c", b"\x0a\x04\x0a\x02\x10\x01"] {
            assert!(lines(&snappy(wrong), 1_000).is_err(), "{wrong:?}");
        }
        // Unknown fields, of every type.
        let unknown = b"\x18\x05\x25\x01\x02\x03\x04\x29\x01\x02\x03\x04\x05\x06\x07\x08\x32\x01a";
        let long = [&unknown[..], &whole].concat();
        assert_eq!(lines(&snappy(&long), 1_000).unwrap(), lines(&snappy(&whole), 1_000).unwrap());
    }

    #[test]
    fn lines_are_charged() {
        let samples: Vec<(f64, i64)> = (0..28_000).map(|time_ms| (1.0, time_ms)).collect();
        let labels = [("a", "x".repeat(20)), ("b", "y".repeat(20))];
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        let memory = MemoryBudget::new(64 << 20);
        let mut charge = BodyCharge::of(&memory);
        let request = packed(&request(&labels, &samples));
        let text = Lines::of(&request, 25_000_000, |_| false, &mut charge).unwrap().of_group;
        let charged_bytes = memory.total_bytes() as usize;
        assert!((text.len()..4 * text.len()).contains(&charged_bytes), "{charged_bytes} of {}", text.len());
    }

    #[test]
    fn labels_that_grow_by_escapes_are_charged() {
        let request = packed(&request(&[("a", &",".repeat(1 << 20))], &[]));
        let charged_bytes = |memory: &Arc<MemoryBudget>| {
            let mut charge = BodyCharge::of(memory);
            let read = Lines::of(&request, 25_000_000, |_| false, &mut charge);
            read.map(|_| memory.total_bytes() as usize)
        };
        let charged = charged_bytes(&MemoryBudget::new(64 << 20)).unwrap();
        assert!(charged >= 5 << 20, "{charged} bytes of the request, its tags and the key of the series");
        // There is room for the request, and none for what it becomes.
        let nearly_full = MemoryBudget::new(64 << 20);
        let _others = nearly_full.charge(Component::Query, 61 << 20);
        assert!(charged_bytes(&nearly_full).is_err());
    }

    #[test]
    fn lines_of_the_largest_request_are_not_too_long() {
        assert_eq!(line_bytes_max(25_000_000), 100_000_000);
        let largest = line_bytes_max((1 << 31) - 1);
        assert!(largest <= MAX_BODY_BYTES, "{largest} bytes would end the reader");
    }

    #[test]
    fn too_long_lines_are_refused_before_they_are_written() {
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
