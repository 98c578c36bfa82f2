//! Prometheus' remote write: its samples as points, in the form that InfluxDB gives them. Remote read is in `read`.
//!
//! The measurement is the metric's name, which is a tag too; every label is a tag, the value the field `value`. Samples
//! that are not finite are left out, as InfluxDB does.

pub(super) mod read;

use nyala_core::{Error, Result};
use prost::Message;
use std::fmt::Write;

/// What stands for the name of a metric without one.
const NAMELESS: &str = "prom_metric_not_specified";
const NAME_LABEL: &str = "__name__";
/// How much longer than what was sent lines may be: labels are sent once per series, and stand in every line.
const GROWTH_MAX: usize = 4;

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

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    time_ms: i64,
}

/// What an unpacked byte takes at most once it is decoded: an empty label is two bytes, and 48 in a vector that grows.
const DECODED_FACTOR: u64 = 64;

/// The memory that a request takes when it is decoded, beside what is made of it; refused where it would unpack to more
/// than `limit_bytes`, which is told before anything is unpacked.
pub(super) fn memory_bytes(packed: &[u8], limit_bytes: usize) -> Result<u64> {
    let told_bytes = snap::raw::decompress_len(packed).map_err(|_| not_packed())?;
    match told_bytes > limit_bytes {
        true => Err(too_large()),
        false => Ok(told_bytes as u64 * DECODED_FACTOR),
    }
}

/// The samples of a request as lines, when it unpacks to at most `limit_bytes`.
pub(super) fn lines(packed: &[u8], limit_bytes: usize) -> Result<String> {
    let bytes = unpacked(packed, limit_bytes)?;
    let request = WriteRequest::decode(&*bytes).map_err(|error| broken(&error))?;
    let mut lines = String::new();
    let mut head = String::new();
    for series in &request.series {
        head.clear();
        let name = series.labels.iter().rev().find(|label| label.name == NAME_LABEL);
        push_escaped(&mut head, name.map_or(NAMELESS, |label| &label.value), ", ");
        for label in series.labels.iter().filter(|label| !label.value.is_empty()) {
            head.push(',');
            push_escaped(&mut head, &label.name, ",= ");
            head.push('=');
            push_escaped(&mut head, &label.value, ",= ");
        }
        for sample in series.samples.iter().filter(|sample| sample.value.is_finite()) {
            let Some(time_ns) = sample.time_ms.checked_mul(1_000_000) else { continue };
            writeln!(lines, "{head} value={:e} {time_ns}", sample.value)
                .expect("writing to memory does not fail");
            if lines.len() > limit_bytes.saturating_mul(GROWTH_MAX) {
                return Err(too_large());
            }
        }
    }
    Ok(lines)
}

/// What a request says, when it is at most `limit_bytes`.
fn unpacked(packed: &[u8], limit_bytes: usize) -> Result<Vec<u8>> {
    memory_bytes(packed, limit_bytes)?;
    snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| not_packed())
}

fn not_packed() -> Error {
    Error::invalid("snappy: corrupt input")
}

fn too_large() -> Error {
    Error::limit("Request Entity Too Large")
}

/// Text with a backslash before what would end it. Line protocol has no way to write a line break, nor a backslash at
/// an end: those become spaces, and get one behind them.
fn push_escaped(line: &mut String, text: &str, special: &str) {
    for letter in text.chars() {
        let letter = if letter == '\n' { ' ' } else { letter };
        if special.contains(letter) {
            line.push('\\');
        }
        line.push(letter);
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
