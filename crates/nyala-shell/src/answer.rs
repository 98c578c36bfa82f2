//! Reads answers while they come, and hands their rows to a layout.
//!
//! Both languages answer with a line per part: InfluxQL with documents of some rows ([`InfluxqlAnswer`]), SQL with a
//! heading and then a line per row ([`SqlAnswer`]). Numbers are never read as numbers, so that each is shown as it was sent.

use crate::error::{Refusal, Result, ShellError};
use crate::output::{Cell, Heading, Layout};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

/// A longer line is refused: a document has few rows, and a row is no file.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Cuts pieces of an answer into lines.
#[derive(Default)]
pub(crate) struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Hands on the lines that are complete now, without their ends.
    pub(crate) fn push(&mut self, piece: &[u8], mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut rest = piece;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(at);
            rest = &after[1..];
            match self.pending.is_empty() {
                true => take(line)?,
                false => {
                    self.pending.extend_from_slice(line);
                    let whole = std::mem::take(&mut self.pending);
                    take(&whole)?;
                }
            }
        }
        if self.pending.len() + rest.len() > LINE_BYTES_MAX {
            let words = format!("a part of the answer is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Err(ShellError::Command(words));
        }
        self.pending.extend_from_slice(rest);
        Ok(())
    }

    /// The last line, if it had no end.
    pub(crate) fn finish(self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self.pending.trim_ascii().is_empty() {
            true => Ok(()),
            false => take(&self.pending),
        }
    }
}

/// A document of InfluxQL.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    results: Vec<StatementResult<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct StatementResult<'a> {
    #[serde(borrow, default)]
    series: Vec<Series<'a>>,
    #[serde(default)]
    messages: Vec<Message>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Series<'a> {
    name: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    columns: Vec<String>,
    #[serde(borrow, default)]
    values: Vec<Vec<&'a RawValue>>,
    /// The next document goes on with it.
    #[serde(default)]
    partial: bool,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    text: String,
}

/// An answer to statements of InfluxQL.
#[derive(Default)]
pub(crate) struct InfluxqlAnswer {
    /// The series whose rows come, if the next document may go on with it.
    open: Option<Heading>,
    pub(crate) rows: u64,
    /// The first statement that failed; the others are shown all the same.
    failure: Option<String>,
}

impl InfluxqlAnswer {
    /// Shows a document. Without a layout only its errors are looked at.
    pub(crate) fn document(
        &mut self,
        line: &[u8],
        layout: Option<&mut Layout>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let document: Document<'_> = serde_json::from_slice(line).map_err(|error| unreadable(&error))?;
        let mut failures =
            document.error.iter().chain(document.results.iter().filter_map(|result| result.error.as_ref()));
        if self.failure.is_none() {
            self.failure = failures.next().cloned();
        }
        let Some(layout) = layout else { return Ok(()) };
        for result in &document.results {
            for message in &result.messages {
                let (level, text) =
                    (crate::style::escaped(&message.level), crate::style::escaped(&message.text));
                writeln!(out, "{}: {text}", level.to_uppercase()).map_err(ShellError::io("printing"))?;
            }
            for series in &result.series {
                self.series(series, layout, out)?;
            }
        }
        Ok(())
    }

    /// Ends the answer.
    pub(crate) fn finish(&mut self, layout: Option<&mut Layout>, out: &mut dyn Write) -> Result<()> {
        if let (Some(layout), Some(_)) = (layout, self.open.take()) {
            layout.end(out).map_err(ShellError::io("printing"))?;
        }
        match self.failure.take() {
            Some(message) => Err(ShellError::Refused(Refusal { message, ..Refusal::default() })),
            None => Ok(()),
        }
    }

    fn series(&mut self, series: &Series<'_>, layout: &mut Layout, out: &mut dyn Write) -> Result<()> {
        let printing = || ShellError::io("printing");
        let heading = Heading {
            name: series.name.clone(),
            tags: series.tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            columns: series.columns.clone(),
            numeric: None,
        };
        if self.open.as_ref() != Some(&heading) {
            if self.open.is_some() {
                layout.end(out).map_err(printing())?;
            }
            layout.begin(heading.clone(), out).map_err(printing())?;
        }
        let mut cells = Vec::with_capacity(series.columns.len());
        for row in &series.values {
            cells.clear();
            for value in row {
                cells.push(cell(value)?);
            }
            layout.row(&cells, out).map_err(printing())?;
        }
        self.rows += series.values.len() as u64;
        self.open = Some(heading);
        if !series.partial {
            self.open = None;
            layout.end(out).map_err(printing())?;
        }
        Ok(())
    }
}

/// Hands on the first value of each row of a document of InfluxQL, if it is a text.
pub(crate) fn first_values(line: &[u8], mut take: impl FnMut(String) -> Result<()>) -> Result<()> {
    let document: Document<'_> = serde_json::from_slice(line).map_err(|error| unreadable(&error))?;
    let series = document.results.iter().flat_map(|result| &result.series);
    for value in series.flat_map(|series| &series.values).filter_map(|row| row.first()) {
        if let Cell::Text(text) = cell(value)? {
            take(text.into_owned())?;
        }
    }
    Ok(())
}

/// The texts of a row of SQL; of the heading there are none.
pub(crate) fn values_of_row(line: &[u8]) -> Vec<String> {
    serde_json::from_slice(line).unwrap_or_default()
}

/// An answer to a statement of SQL, as a table.
#[derive(Default)]
pub(crate) struct SqlAnswer {
    state: SqlState,
    pub(crate) rows: u64,
}

#[derive(Default)]
enum SqlState {
    #[default]
    Nothing,
    Rows,
    /// What a statement did that gives no rows: the names of what is known of it.
    Command(Vec<String>),
}

#[derive(Deserialize)]
struct SqlHeading {
    columns: Vec<String>,
    types: Vec<String>,
    #[serde(default)]
    command: bool,
}

impl SqlAnswer {
    /// Shows a line.
    pub(crate) fn line(&mut self, line: &[u8], layout: &mut Layout, out: &mut dyn Write) -> Result<()> {
        let printing = || ShellError::io("printing");
        if let SqlState::Nothing = self.state {
            let heading: SqlHeading = serde_json::from_slice(line).map_err(|error| unreadable(&error))?;
            if heading.command {
                self.state = SqlState::Command(heading.columns);
                return Ok(());
            }
            self.state = SqlState::Rows;
            let numeric = Some(heading.types.iter().map(|name| is_numeric(name)).collect());
            let heading = Heading { columns: heading.columns, numeric, ..Heading::default() };
            return layout.begin(heading, out).map_err(printing());
        }
        let row: Vec<&RawValue> = serde_json::from_slice(line).map_err(|error| unreadable(&error))?;
        let cells = row.into_iter().map(cell).collect::<Result<Vec<_>>>()?;
        if let SqlState::Command(columns) = &self.state {
            return write_command(columns, &cells, out).map_err(printing());
        }
        self.rows += 1;
        layout.row(&cells, out).map_err(printing())
    }

    /// Ends the answer.
    pub(crate) fn finish(&mut self, layout: &mut Layout, out: &mut dyn Write) -> Result<()> {
        match self.state {
            SqlState::Rows => layout.end(out).map_err(ShellError::io("printing")),
            SqlState::Command(_) => Ok(()),
            SqlState::Nothing => Err(ShellError::Command(
                "the answer has no heading: is the server a nyala with SQL?".to_owned(),
            )),
        }
    }
}

/// `UPDATE 2`, and the number of the change that can be undone.
fn write_command(columns: &[String], cells: &[Cell<'_>], out: &mut dyn Write) -> std::io::Result<()> {
    let mut words = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        match (column.as_str(), cell) {
            (_, Cell::Null) => {}
            ("change", cell) => {
                let number = cell.shown();
                words.push_str(&format!("\nchange {number}; UNDO {number} takes it back"));
            }
            (_, cell) => {
                words.push_str(if words.is_empty() { "" } else { " " });
                words.push_str(&cell.shown());
            }
        }
    }
    writeln!(out, "{words}")
}

fn is_numeric(type_name: &str) -> bool {
    const NAMES: [&str; 6] = ["smallint", "integer", "bigint", "real", "double precision", "oid"];
    NAMES.contains(&type_name) || type_name.starts_with("numeric") && !type_name.ends_with("[]")
}

/// A value as it was sent.
fn cell(value: &RawValue) -> Result<Cell<'_>> {
    let text = value.get();
    Ok(match text.as_bytes().first() {
        Some(b'n') => Cell::Null,
        Some(b'"') => {
            let text: Cow<'_, str> = match text.contains('\\') {
                false => Cow::Borrowed(&text[1..text.len() - 1]),
                true => Cow::Owned(serde_json::from_str(text).map_err(|error| unreadable(&error))?),
            };
            Cell::Text(text)
        }
        Some(b'-' | b'0'..=b'9') => Cell::Number(text),
        _ => Cell::Text(Cow::Borrowed(text)),
    })
}

fn unreadable(error: &serde_json::Error) -> ShellError {
    ShellError::Command(format!("the answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn a_series_goes_on_in_the_next_document() {
        let (mut answer, mut layout, mut out) =
            (InfluxqlAnswer::default(), Layout::new(Format::Table, false), Vec::new());
        for document in [
            r#"{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[1,1.0]],"partial":true}],"partial":true}]}"#,
            r#"{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[2,null]]}]}]}"#,
            r#"{"results":[{"statement_id":1,"error":"no"}]}"#,
        ] {
            answer.document(document.as_bytes(), Some(&mut layout), &mut out).unwrap();
        }
        let failed = answer.finish(Some(&mut layout), &mut out).unwrap_err();
        assert_eq!(failed.text(""), "ERROR: no\n");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "name: m\n time |    v\n------+------\n    1 |  1.0\n    2 | NULL\n(2 rows)\n\n"
        );
    }

    #[test]
    fn lines_are_cut_at_any_place() {
        for step in 1..8 {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            let mut take = |line: &[u8]| {
                seen.push(line.to_vec());
                Ok(())
            };
            for piece in b"ab\n\ncde\nf".chunks(step) {
                lines.push(piece, &mut take).unwrap();
            }
            lines.finish(&mut take).unwrap();
            assert_eq!(seen, [&b"ab"[..], b"", b"cde", b"f"]);
        }
    }

    #[test]
    fn broken_answers_are_errors() {
        let mut layout = Layout::new(Format::Table, false);
        for line in ["", "{", "[]", "{\"columns\":1}", "null"] {
            assert!(
                SqlAnswer::default().line(line.as_bytes(), &mut layout, &mut Vec::new()).is_err(),
                "{line}"
            );
        }
        for line in ["", "[1", "{\"results\":[{\"series\":[{}]}]}"] {
            let mut answer = InfluxqlAnswer::default();
            assert!(answer.document(line.as_bytes(), Some(&mut layout), &mut Vec::new()).is_err(), "{line}");
        }
    }
}
