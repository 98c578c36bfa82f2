//! Prometheus remote read as text, for scripts: converts the lines of a request to bytes, and the bytes of an answer to
//! lines.
//!
//! A line `read 1000 2000` begins a query over these milliseconds; a line `name = value` (`!=`, `=~`, `!~`) after it is
//! a matcher. An answer has a line per series and an indented line per sample. The messages are defined again here, so
//! that an error in nyala's definitions is noticed.

use super::client::Response;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    queries: Vec<Query>,
}

#[derive(Clone, PartialEq, Message)]
struct Query {
    #[prost(int64, tag = "1")]
    start: i64,
    #[prost(int64, tag = "2")]
    end: i64,
    #[prost(message, repeated, tag = "3")]
    matchers: Vec<Matcher>,
}

#[derive(Clone, PartialEq, Message)]
struct Matcher {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, repeated, tag = "1")]
    results: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    series: Vec<OneSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct OneSeries {
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
    time: i64,
}

/// The body of a request.
pub(crate) fn packed(text: &str) -> Result<Vec<u8>, String> {
    const KINDS: [&str; 4] = ["=", "!=", "=~", "!~"];
    let mut request = Request::default();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let number = |word: &str| word.parse().map_err(|_| format!("not a time: {word:?}"));
        match (words[..].as_ref(), request.queries.last_mut()) {
            (["read", start, end], _) => {
                let query = Query { start: number(start)?, end: number(end)?, matchers: Vec::new() };
                request.queries.push(query);
            }
            ([name, operator, value], Some(query)) => {
                let kind = KINDS.iter().position(|kind| kind == operator);
                // Other numbers are unknown to every server.
                let kind = kind.unwrap_or(KINDS.len()) as i32;
                query.matchers.push(Matcher { kind, name: (*name).into(), value: (*value).into() });
            }
            _ => return Err(format!("neither a range nor a matcher: {line:?}")),
        }
    }
    let bytes = request.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&bytes).map_err(|error| error.to_string())
}

/// The body of a request that writes samples of a series: values at milliseconds.
pub(crate) fn packed_samples(labels: &[(&str, &str)], samples: impl Iterator<Item = (f64, i64)>) -> Vec<u8> {
    let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    let labels = labels.iter().map(label).collect();
    let samples = samples.map(|(value, time)| Sample { value, time }).collect();
    let request = Series { series: vec![OneSeries { labels, samples }] };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).expect("it packs")
}

/// Replaces the bytes of a compressed answer with its text.
pub(crate) fn unpack(response: &mut Response) -> Result<(), String> {
    if response.header("Content-Encoding") != Some("snappy") {
        return Ok(());
    }
    let bytes =
        snap::raw::Decoder::new().decompress_vec(&response.body).map_err(|error| error.to_string())?;
    let answer = Answer::decode(&*bytes).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for (number, result) in answer.results.iter().enumerate() {
        text.push_str(&format!("result {number}\n"));
        for series in &result.series {
            let label = |label: &Label| format!("{}={}", label.name, label.value);
            let labels: Vec<String> = series.labels.iter().map(label).collect();
            text.push_str(&format!("  {}\n", labels.join(" ")));
            for sample in &series.samples {
                text.push_str(&format!("    {} {:?}\n", sample.time, sample.value));
            }
        }
    }
    response.body = text.into_bytes();
    Ok(())
}
