//! OpenTSDB's two forms: lines `put metric time value tag=value …`, and JSON.
//!
//! A time with ten digits is seconds, one with thirteen is milliseconds. (InfluxDB 1.8 reads the last three of those as
//! microseconds.)

use crate::{Point, Refused, Value};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// From here on a time is in milliseconds.
const MILLISECONDS_MIN: i64 = 10_000_000_000;
const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
/// The most tags of a point in JSON. OpenTSDB itself takes eight.
const TAGS_MAX: usize = 256;

/// What a line asks for.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    /// To store a point.
    Put {
        /// The point, without the tags that are wrong, as in InfluxDB.
        point: Point<'a>,
        /// How many tags are wrong.
        wrong_tags: u64,
    },
    /// What listens there.
    Version,
}

/// Reads a line, without its line break.
///
/// # Errors
/// Why it is no point.
pub fn parse_line(line: &str) -> Result<Line<'_>, Refused> {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("put") => {}
        Some("version") if words.next().is_none() => return Ok(Line::Version),
        _ => return Err(Refused::Invalid("a line is: put metric time value tag=value …")),
    }
    let (Some(metric), Some(time), Some(value)) = (words.next(), words.next(), words.next()) else {
        return Err(Refused::Invalid("a line is: put metric time value tag=value …"));
    };
    if !matches!(time.len(), 10 | 13) {
        return Err(Refused::Invalid("the time has neither ten digits nor thirteen"));
    }
    let time = time.parse().map_err(|_| Refused::Invalid("the time is no number"))?;
    let value: f64 = value.parse().map_err(|_| Refused::Invalid("the value is no number"))?;
    let (mut tags, mut wrong_tags) = (Vec::<(&str, &str)>::new(), 0);
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                match tags.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => tags.push((key, value)),
                }
            }
            _ => wrong_tags += 1,
        }
    }
    let tags = tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    Ok(Line::Put { point: point(metric.into(), time, value, tags)?, wrong_tags })
}

fn point<'a>(
    metric: Cow<'a, str>,
    time: i64,
    value: f64,
    tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
) -> Result<Point<'a>, Refused> {
    let unit_ns = if time < MILLISECONDS_MIN { NS_PER_S } else { NS_PER_MS };
    let time_ns = time.checked_mul(unit_ns).ok_or(Refused::Invalid("the time is out of range"))?;
    let fields = vec![("value".into(), Value::finite(value)?)];
    Ok(Point { measurement: metric, tags, fields, time_ns: Some(time_ns) })
}

/// Hands each point of a JSON document, an object or an array of them, to `each`. One after the other, so that a document does not
/// become large in memory.
///
/// # Errors
/// What is wrong with the document. The points before it were handed over.
pub fn read_json(text: &[u8], each: impl FnMut(Result<Point<'_>, Refused>)) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = deserializer.deserialize_any(Points { each });
    read.and_then(|()| deserializer.end()).map_err(|error| error.to_string())
}

/// A point as JSON has it.
#[derive(serde::Deserialize)]
struct JsonPoint<'a> {
    #[serde(borrow)]
    metric: Cow<'a, str>,
    timestamp: i64,
    value: f64,
    #[serde(borrow, default)]
    tags: JsonTags<'a>,
}

impl<'a> JsonPoint<'a> {
    fn point(self) -> Result<Point<'a>, Refused> {
        point(self.metric, self.timestamp, self.value, self.tags.0)
    }
}

struct Points<F> {
    each: F,
}

impl<'de, F: FnMut(Result<Point<'_>, Refused>)> Visitor<'de> for Points<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a point or an array of points")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, map: M) -> Result<(), M::Error> {
        let point = JsonPoint::deserialize(MapAccessDeserializer::new(map))?;
        (self.each)(point.point());
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut points: S) -> Result<(), S::Error> {
        while let Some(point) = points.next_element::<JsonPoint<'de>>()? {
            (self.each)(point.point());
        }
        Ok(())
    }
}

#[derive(Default)]
struct JsonTags<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonTags<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tags;
        impl<'de> Visitor<'de> for Tags {
            type Value = JsonTags<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {TAGS_MAX} tags")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut tags = Vec::<(Cow<'de, str>, Cow<'de, str>)>::new();
                while let Some((Text(key), Text(value))) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    if let Some((_, known)) = tags.iter_mut().find(|(known, _)| *known == key) {
                        *known = value;
                        continue;
                    }
                    if tags.len() == TAGS_MAX {
                        return Err(serde::de::Error::invalid_length(TAGS_MAX + 1, &self));
                    }
                    tags.push((key, value));
                }
                Ok(JsonTags(tags))
            }
        }
        deserializer.deserialize_map(Tags)
    }
}

/// A text that is borrowed if nothing is escaped in it.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
