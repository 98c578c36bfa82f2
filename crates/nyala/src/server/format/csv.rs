//! Answers as CSV, in InfluxDB's form: a line of names before the rows of each statement and before rows with other
//! columns. The first two columns of every row name the result series.
//!
//! A statement without rows writes nothing, and neither does one that failed.

use super::number::{push_integer, push_unsigned};
use super::time::Epoch;
use super::{AnswerWriter, ResultWriter};
use arrow_array::Array;
use nyala_db::ingest::push_tag;
use nyala_exec::column::list;
use nyala_exec::{Chunks, Column, Frame, Scalar, Zone};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Writes an answer; for its calls see [`AnswerWriter`].
pub struct CsvAnswer {
    epoch: Epoch,
    out: Vec<u8>,
    /// Where in `out` the current statement begins; `None` when its beginning was taken.
    statement_start: Option<usize>,
    /// The columns of the last line of names.
    names: Option<Names>,
    /// Whether there are lines already, so that an empty line comes before the next names.
    has_lines: bool,
    /// Whether there were lines before the current statement.
    had_lines: bool,
    broken: Option<String>,
}

/// The name of the time column, if there is one, and of the other columns.
type Names = (Option<Arc<str>>, Arc<[String]>);

impl CsvAnswer {
    /// An empty answer; times are in nanoseconds unless another unit is asked for.
    pub fn new(epoch: Option<Epoch>) -> Self {
        Self {
            epoch: epoch.unwrap_or(Epoch::NANOSECONDS),
            out: Vec::with_capacity(4096),
            statement_start: Some(0),
            names: None,
            has_lines: false,
            had_lines: false,
            broken: None,
        }
    }

    fn names_line(&mut self, frame: &Frame) {
        if self.has_lines {
            self.out.push(b'\n');
        }
        self.has_lines = true;
        self.out.extend_from_slice(b"name,tags");
        for name in
            frame.time_column.as_deref().into_iter().chain(frame.column_names.iter().map(|name| &**name))
        {
            self.out.push(b',');
            push_field(&mut self.out, name);
        }
        self.out.push(b'\n');
    }
}

impl ResultWriter for CsvAnswer {
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, _chunks: Chunks) {
        let names = (frame.time_column.clone(), frame.column_names.clone());
        if self.names.as_ref() != Some(&names) {
            self.names_line(frame);
            self.names = Some(names);
        }
        let mut series = Vec::new();
        push_field(&mut series, &frame.name);
        series.push(b',');
        push_field(&mut series, &tags_text(frame.tags.iter()));
        for row in rows {
            self.out.extend_from_slice(&series);
            if frame.time_column.is_some() {
                self.out.push(b',');
                self.epoch.push(&mut self.out, frame.times_ns[row]);
            }
            for column in &frame.columns {
                self.out.push(b',');
                push_cell(&mut self.out, column, row, frame.instead.as_ref());
            }
            self.out.push(b'\n');
        }
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn take(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        self.statement_start = None;
        std::mem::replace(&mut self.out, buffer)
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

impl AnswerWriter for CsvAnswer {
    fn begin_statement(&mut self, _number: usize, _zone: Option<Zone>) {
        self.statement_start = Some(self.out.len());
        self.names = None;
        self.had_lines = self.has_lines;
    }

    fn fail_statement(&mut self, message: &str) {
        match self.statement_start {
            None => self.broken = Some(message.to_owned()),
            Some(start) => {
                self.out.truncate(start);
                self.has_lines = self.had_lines;
            }
        }
    }
}

/// The tags of a series as in line protocol, without empty values.
fn tags_text<'a>(tags: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in tags.filter(|(_, value)| !value.is_empty()) {
        if !text.is_empty() {
            text.push(',');
        }
        push_tag(&mut text, key, value);
    }
    text
}

fn push_cell(out: &mut Vec<u8>, column: &Column, row: usize, instead: Option<&Scalar>) {
    match column {
        Column::Float(array) if array.is_valid(row) => push_float(out, array.value(row)),
        Column::Integer(array) if array.is_valid(row) => push_integer(out, array.value(row)),
        Column::Unsigned(array) if array.is_valid(row) => push_unsigned(out, array.value(row)),
        Column::String(array) if array.is_valid(row) => push_field(out, array.value(row)),
        Column::Tag(tags) if tags.is_valid(row) => push_field(out, tags.text(row).unwrap_or_default()),
        Column::Boolean(array) if array.is_valid(row) => {
            out.extend_from_slice(if array.value(row) { b"true" } else { b"false" });
        }
        Column::Texts(lists) if lists.is_valid(row) => {
            push_field(out, &list(row, lists).unwrap_or_default().join(","));
        }
        Column::String(_) | Column::Boolean(_) | Column::Tag(_) => match instead {
            Some(Scalar::Integer(value)) => push_integer(out, *value),
            Some(Scalar::Float(value)) => push_float(out, *value),
            _ => {}
        },
        _ => {}
    }
}

/// Appends a float without an exponent, even if that is long.
fn push_float(out: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    }
    write!(out, "{value}").expect("writing to memory does not fail");
}

/// Appends a field, quoted as Go's CSV writer does.
pub(super) fn push_field(out: &mut Vec<u8>, text: &str) {
    let needs_quotes = text == "\\."
        || text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
        || text.chars().next().is_some_and(char::is_whitespace);
    if !needs_quotes {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_floats_are_written_as_go_does() {
        let field = |text: &str| {
            let mut out = Vec::new();
            push_field(&mut out, text);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(field("a b"), "a b");
        assert_eq!(field(" a"), "\" a\"");
        assert_eq!(field("a\"b,c\n"), "\"a\"\"b,c\n\"");
        assert_eq!(field("\\."), "\"\\.\"");
        let float = |value: f64| {
            let mut out = Vec::new();
            push_float(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(float(1e21), "1000000000000000000000");
        assert_eq!(float(-1.5e-7), "-0.00000015");
        assert_eq!((float(f64::NAN), float(f64::INFINITY)), ("NaN".into(), "+Inf".into()));
    }

    #[test]
    fn empty_tags_are_left_out_of_the_text_of_tags() {
        let tags = [("a", ""), ("b c", "d,e")];
        assert_eq!(tags_text(tags.into_iter()), "b\\ c=d\\,e");
    }
}
