//! An answer to a query of InfluxQL, as series of rows. Values stay as they were sent.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Answer<'a> {
    pub(super) series: Vec<Series<'a>>,
    /// Why there are no rows, or no more.
    pub(super) error: Option<String>,
}

/// Rows with the same tags.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) key: SeriesKey,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row<'a>>,
    /// The next document goes on with it.
    is_open: bool,
}

/// Values in the order of the columns.
pub(super) type Row<'a> = Vec<&'a RawValue>;

/// Measurement and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) name: String,
    pub(super) tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    results: Vec<StatementResult<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct StatementResult<'a> {
    #[serde(borrow, default)]
    series: Vec<SeriesPart<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct SeriesPart<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    columns: Vec<String>,
    #[serde(borrow, default)]
    values: Vec<Row<'a>>,
    #[serde(default)]
    partial: bool,
}

impl<'a> Answer<'a> {
    /// Reads documents of one statement.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        let mut answer = Answer::default();
        for document in serde_json::Deserializer::from_slice(body).into_iter() {
            let document: Document<'a> = document.map_err(|error| format!("no JSON of a query: {error}"))?;
            answer.error = answer.error.or(document.error);
            for result in document.results {
                answer.error = answer.error.or(result.error);
                result.series.into_iter().try_for_each(|part| answer.add(part))?;
            }
        }
        Ok(answer)
    }

    fn add(&mut self, part: SeriesPart<'a>) -> Result<(), String> {
        let key = SeriesKey { name: part.name, tags: part.tags };
        if part.values.iter().any(|row| row.len() != part.columns.len()) {
            return Err(format!("a row of {key} has more or fewer values than there are columns"));
        }
        match self.series.last_mut().filter(|last| last.is_open && last.key == key) {
            Some(last) if last.columns == part.columns => {
                last.rows.extend(part.values);
                last.is_open = part.partial;
            }
            Some(_) => return Err(format!("the columns of {key} change")),
            None => {
                let (columns, rows, is_open) = (part.columns, part.values, part.partial);
                self.series.push(Series { key, columns, rows, is_open });
            }
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> u64 {
        self.series.iter().map(|series| series.rows.len() as u64).sum()
    }
}

impl Series<'_> {
    /// The column of times, which is the first one if there is one.
    pub(super) fn has_times(&self) -> bool {
        self.columns.first().is_some_and(|name| name == "time")
    }
}

/// As in line protocol, without its escapes: `cpu,host=a`.
impl fmt::Display for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&nyala_shell::escaped(&self.name))?;
        let mut is_first = self.name.is_empty();
        for (tag, value) in &self.tags {
            f.write_str(if is_first { "" } else { "," })?;
            write!(f, "{}={}", nyala_shell::escaped(tag), nyala_shell::escaped(value))?;
            is_first = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_goes_on_in_the_next_document() {
        let body = br#"{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":"a"},"columns":["time","v"],"values":[[1,1.5]],"partial":true}],"partial":true}]}
{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":"a"},"columns":["time","v"],"values":[[2,null]]},{"name":"m","tags":{"h":"b"},"columns":["time","v"],"values":[[2,0]]}]}]}
"#;
        let answer = Answer::read(body).unwrap();
        assert_eq!((answer.series.len(), answer.rows()), (2, 3));
        assert_eq!(answer.series[0].key.to_string(), "m,h=a");
        assert_eq!(answer.series[0].rows[0][1].get(), "1.5");
    }

    #[test]
    fn errors_are_answers_and_other_bytes_are_not() {
        let read = |body: &'static str| Answer::read(body.as_bytes());
        assert_eq!(read(r#"{"error":"no"}"#).unwrap().error.as_deref(), Some("no"));
        assert_eq!(
            read(r#"{"results":[{"statement_id":0,"error":"no"}]}"#).unwrap().error.as_deref(),
            Some("no")
        );
        assert_eq!(read("").unwrap().rows(), 0);
        for body in [
            "{",
            "[1]",
            r#"{"results":[{"series":[{}]}]}"#,
            r#"{"results":[{"series":[{"columns":["a"],"values":[[1,2]]}]}]}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }
}
