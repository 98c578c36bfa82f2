//! Where points are restored to: a data directory whose server is stopped, or a server.
//!
//! A data directory takes columns, in the same way as an import. A server takes lines, as from any client.

use super::line_requests::LineRequests;
use super::written::Written;
use crate::cli::import::destination::Destination;
use nyala_db::ingest::{
    ColumnBatch, FieldSlice, LineValue, TAG_SPECIALS, ValueSlice, push_escaped, push_value,
};
use std::fmt::Write;

/// Where to.
pub(super) enum Target {
    Directory(Destination),
    Server(LineRequests),
}

/// Rows of a series. Each of them has a field.
pub(super) struct Points<'a> {
    /// The series as in a line.
    pub(super) key: &'a str,
    pub(super) times_ns: &'a [i64],
    pub(super) fields: &'a [FieldColumn<'a>],
}

/// A field of rows.
pub(super) struct FieldColumn<'a> {
    pub(super) name: &'a str,
    /// Those of the rows that have one.
    pub(super) values: Values,
    /// Which rows have one.
    pub(super) present: Vec<bool>,
}

/// Values of one type.
pub(super) enum Values {
    Float(Vec<f64>),
    Integer(Vec<i64>),
    Unsigned(Vec<u64>),
    Boolean(Vec<bool>),
    /// Where each ends, and their bytes.
    String(Vec<u32>, Vec<u8>),
}

/// Takes the points of a policy.
pub(super) struct Writing<'a> {
    target: &'a Target,
    database: &'a str,
    policy: &'a str,
    batch: ColumnBatch,
    lines: String,
    /// Where each of them ends.
    line_ends: Vec<usize>,
    pub(super) written: Written,
}

impl Target {
    /// Executes a statement that shows nothing. The inner error is that of the statement.
    pub(super) fn execute(&self, database: &str, text: &str) -> Result<Result<(), String>, String> {
        match self {
            Target::Directory(directory) => Ok(directory.execute(database, text)),
            Target::Server(requests) => requests.server.execute(database, text),
        }
    }

    pub(super) fn write_to<'a>(&'a self, database: &'a str, policy: &'a str) -> Writing<'a> {
        let (batch, lines, line_ends, written) = Default::default();
        Writing { target: self, database, policy, batch, lines, line_ends, written }
    }

    /// Makes everything durable.
    pub(super) fn close(self) -> Result<(), String> {
        match self {
            Target::Directory(directory) => directory.close(),
            Target::Server(_) => Ok(()),
        }
    }
}

impl Writing<'_> {
    pub(super) fn add(&mut self, points: Points<'_>) -> Result<(), String> {
        if let Target::Server(requests) = self.target {
            let mut next = vec![0; points.fields.len()];
            for row in 0..points.times_ns.len() {
                points.push_line(row, &mut next, &mut self.lines);
                self.line_ends.push(self.lines.len());
                if self.lines.len() >= requests.bytes() {
                    self.flush()?;
                }
            }
            return Ok(());
        }
        let slices: Vec<FieldSlice<'_>> = points.fields.iter().map(FieldColumn::slice).collect();
        if let Err(words) = self.batch.append(points.key.as_bytes(), points.times_ns, &slices) {
            self.written.refuse(words);
        }
        if self.batch.is_full() { self.flush() } else { Ok(()) }
    }

    /// Writes what was added.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        match self.target {
            Target::Directory(directory) if !self.batch.is_empty() => {
                let points = directory.write(self.database, self.policy, &mut self.batch)?.points;
                self.written.points += points.written;
                self.written.expired += points.expired;
                if let Some(dropped) = points.dropped {
                    self.written.refuse(format!("{} points: {}", dropped.count, dropped.reason));
                }
                if points.conflict {
                    self.written.refuse("field type conflict".to_owned());
                }
            }
            Target::Server(requests) => {
                let place = (self.database, self.policy);
                requests.write(place, &self.lines, &self.line_ends, &mut self.written)?;
                self.lines.clear();
                self.line_ends.clear();
            }
            Target::Directory(_) => {}
        }
        Ok(())
    }
}

impl Points<'_> {
    /// Appends a row as a line. `next` says which values of each field are next.
    fn push_line(&self, row: usize, next: &mut [usize], lines: &mut String) {
        lines.push_str(self.key);
        let mut separator = ' ';
        for (field, next) in self.fields.iter().zip(next) {
            if field.present[row] {
                lines.push(separator);
                push_escaped(lines, field.name, TAG_SPECIALS);
                lines.push('=');
                field.values.push_text(*next, lines);
                (separator, *next) = (',', *next + 1);
            }
        }
        writeln!(lines, " {}", self.times_ns[row]).expect("writing to memory does not fail");
    }
}

impl FieldColumn<'_> {
    fn slice(&self) -> FieldSlice<'_> {
        let values = match &self.values {
            Values::Float(values) => ValueSlice::Float(values),
            Values::Integer(values) => ValueSlice::Integer(values),
            Values::Unsigned(values) => ValueSlice::Unsigned(values),
            Values::Boolean(values) => ValueSlice::Boolean(values),
            Values::String(ends, bytes) => ValueSlice::String(ends, bytes, 0),
        };
        FieldSlice { name: self.name.as_bytes(), values, present: Some(&self.present) }
    }
}

impl Values {
    /// Appends a value as a line has it.
    fn push_text(&self, index: usize, line: &mut String) {
        let text;
        let value = match self {
            Values::Float(values) => LineValue::Float(values[index]),
            Values::Integer(values) => LineValue::Integer(values[index]),
            Values::Unsigned(values) => LineValue::Unsigned(values[index]),
            Values::Boolean(values) => LineValue::Boolean(values[index]),
            Values::String(ends, bytes) => {
                let start = if index == 0 { 0 } else { ends[index - 1] as usize };
                // They were texts.
                text = String::from_utf8_lossy(&bytes[start..ends[index] as usize]);
                LineValue::String(&text)
            }
        };
        push_value(line, value);
    }
}
