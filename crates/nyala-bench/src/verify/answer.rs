//! Reads InfluxDB's JSON answer to one statement, row by row.
//!
//! An answer may have millions of rows, so no tree is built; a row's cells borrow from the text.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::borrow::Cow;
use std::fmt;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number without fraction or exponent.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
}

/// Keys and values, sorted by key.
pub type Tags = Vec<(String, String)>;

/// What precedes the rows of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesHead {
    /// Position of the series in the answer, from 0.
    pub position: usize,
    /// The measurement.
    pub name: String,
    /// The tags that it is grouped by.
    pub tags: Tags,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// Called with each row; an error ends reading.
pub type EachRow<'r> = dyn FnMut(&SeriesHead, &[Cell<'_>]) -> Result<(), String> + 'r;

/// Calls `each_row` for every row of the answer, in order. Fails if the answer is malformed or has an `error` member.
pub fn read_rows(json: &[u8], each_row: &mut EachRow<'_>) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let mut reader = Reader { each_row, failure: None, head: SeriesHead::default(), cells: 0 };
    let read =
        Level(&mut reader, Part::Answer).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match (reader.failure, read) {
        (Some(failure), _) => Err(failure),
        (None, read) => read.map_err(|error| format!("not an answer of InfluxDB's form: {error}")),
    }
}

struct Reader<'r> {
    each_row: &'r mut EachRow<'r>,
    /// The error of `each_row` or of the server. An error of serde could only carry it as text with a position.
    failure: Option<String>,
    head: SeriesHead,
    cells: usize,
}

/// The levels of an answer, from the outside in.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Answer,
    Results,
    Result,
    SeriesList,
    Series,
    Rows,
    Row,
}

/// Reads one level.
struct Level<'a, 'r>(&'a mut Reader<'r>, Part);

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.1 {
            Part::Answer | Part::Result | Part::Series => deserializer.deserialize_map(self),
            Part::Results | Part::SeriesList | Part::Rows | Part::Row => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.1 {
            Part::Answer => "an answer",
            Part::Results => "an array of results",
            Part::Result => "a result",
            Part::SeriesList => "an array of series",
            Part::Series => "a series",
            Part::Rows => "an array of rows",
            Part::Row => "a row",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Level(reader, part) = self;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match (part, key.as_ref()) {
                (Part::Answer, "results") => map.next_value_seed(Level(reader, Part::Results))?,
                (Part::Result, "series") => map.next_value_seed(Level(reader, Part::SeriesList))?,
                (Part::Answer | Part::Result, "error") => {
                    let message: String = map.next_value()?;
                    reader.failure = Some(format!("the server says: {message}"));
                    return Err(A::Error::custom("an error"));
                }
                (Part::Series, "name") => reader.head.name = map.next_value()?,
                (Part::Series, "tags") => {
                    let tags: std::collections::BTreeMap<String, String> = map.next_value()?;
                    reader.head.tags = tags.into_iter().collect();
                }
                (Part::Series, "columns") => reader.head.columns = map.next_value()?,
                (Part::Series, "values") => map.next_value_seed(Level(reader, Part::Rows))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let Level(reader, part) = self;
        match part {
            Part::Results => while sequence.next_element_seed(Level(reader, Part::Result))?.is_some() {},
            Part::SeriesList => {
                let mut position = 0;
                loop {
                    reader.head = SeriesHead { position, ..SeriesHead::default() };
                    if sequence.next_element_seed(Level(reader, Part::Series))?.is_none() {
                        break;
                    }
                    position += 1;
                }
            }
            Part::Rows => while sequence.next_element_seed(Level(reader, Part::Row))?.is_some() {},
            Part::Row => {
                let mut cells: Vec<Cell<'de>> = Vec::with_capacity(reader.cells);
                while let Some(cell) = sequence.next_element()? {
                    cells.push(cell);
                }
                reader.cells = cells.len();
                if let Err(failure) = (reader.each_row)(&reader.head, &cells) {
                    reader.failure = Some(failure);
                    return Err(A::Error::custom("refused"));
                }
            }
            Part::Answer | Part::Result | Part::Series => unreachable!("these are read as maps"),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Cell<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cell<'de>, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Cell<'de>, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Cell<'de>, E> {
        Ok(Cell::Boolean(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Cell<'de>, E> {
        Ok(Cell::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Cell<'de>, E> {
        Ok(i64::try_from(value).map_or(Cell::Float(value as f64), Cell::Integer))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Cell<'de>, E> {
        Ok(Cell::Float(value))
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Cell<'de>, E> {
        Ok(Cell::Text(Cow::Owned(value.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(json: &str) -> Result<Vec<String>, String> {
        let mut rows = Vec::new();
        read_rows(json.as_bytes(), &mut |head, cells| {
            rows.push(format!(
                "{} {} {:?} {:?} {cells:?}",
                head.position, head.name, head.tags, head.columns
            ));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn rows_are_read_with_their_series() {
        let json = r#"{"results":[{"statement_id":0,"series":[
            {"name":"cpu","tags":{"h":"a"},"columns":["time","v"],"values":[["t",1],["\u00e9",null]]},
            {"name":"cpu","columns":["time"],"values":[[-2.5e0],[true]]}],"partial":true}]}"#;
        assert_eq!(
            rows(json).unwrap(),
            [
                r#"0 cpu [("h", "a")] ["time", "v"] [Text("t"), Integer(1)]"#,
                r#"0 cpu [("h", "a")] ["time", "v"] [Text("é"), Null]"#,
                r#"1 cpu [] ["time"] [Float(-2.5)]"#,
                r#"1 cpu [] ["time"] [Boolean(true)]"#,
            ]
        );
        assert_eq!(rows(r#"{"results":[{"statement_id":0}]}"#).unwrap(), [""; 0]);
    }

    #[test]
    fn errors_and_other_bytes_are_reported() {
        assert_eq!(rows(r#"{"error":"no"}"#).unwrap_err(), "the server says: no");
        assert_eq!(rows(r#"{"results":[{"error":"timeout"}]}"#).unwrap_err(), "the server says: timeout");
        for json in
            ["", "{", "[]", r#"{"results":{}}"#, r#"{"results":[{"series":[{"values":[1]}]}]}"#, "{} {}"]
        {
            assert!(rows(json).unwrap_err().starts_with("not an answer"), "{json}");
        }
        let stop =
            read_rows(br#"{"results":[{"series":[{"values":[[1]]}]}]}"#, &mut |_, _| Err("stop".into()));
        assert_eq!(stop.unwrap_err(), "stop");
    }
}
