//! Answers in InfluxDB's JSON, as a stream: frames of one result series become one `series` object, or several partial
//! objects when the answer is chunked.
//!
//! The answer is one document, or one per chunk. When the current document cannot be finished, the part that was not
//! sent yet can be replaced; the part that was sent cannot.

use super::column_names::CachedNames;
use super::json_string::push_string;
use super::number::{push_float, push_integer, push_next_integer, push_unsigned};
use super::series::{SeriesName, SeriesWriter};
use super::tags::CachedTags;
use super::time::{CachedTimes, Epoch};
use super::{AnswerWriter, ResultWriter};
use arrow_array::{Array, Float64Array, Int64Array};
use nyala_exec::column::list;
use nyala_exec::tag::TagColumn;
use nyala_exec::{Chunks, Column, Frame, ResultBatch, Scalar, Zone};
use std::ops::Range;
use std::sync::Arc;

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub struct JsonOptions {
    /// The unit of times as numbers; otherwise times are in RFC 3339.
    pub epoch: Option<Epoch>,
    /// Rows of each chunk of a chunked answer.
    pub chunk_rows: Option<usize>,
}

/// Writes an answer; for its calls see [`AnswerWriter`].
pub struct JsonAnswer {
    options: JsonOptions,
    out: Vec<u8>,
    /// Where in `out` the current document begins; `None` when its beginning was taken.
    document_start: Option<usize>,
    /// Where in `out` the current statement begins, likewise.
    statement_start: Option<usize>,
    statement: usize,
    statements: usize,
    zone: Option<Zone>,
    open: Option<OpenSeries>,
    /// Whether the current statement has a series already; in a chunked answer, whether the current document has one.
    has_series: bool,
    /// A value of the current document that JSON cannot express.
    unsupported: Option<f64>,
    /// The same of what was there before the current statement.
    unsupported_before: Option<f64>,
    broken: Option<String>,
    /// How the cells of a sheet are written; frames of the same sheet share it.
    cells: Option<(Arc<ResultBatch>, Vec<Cells>)>,
    /// Adjacent tag columns of that sheet.
    tags: Vec<CachedTags>,
    times: CachedTimes,
    names: CachedNames,
}

/// How some cells of each row are written.
enum Cells {
    /// Tags, by the row's series: the index into [`JsonAnswer::tags`].
    Tags(TagColumn, usize),
    /// Integers without null.
    Integers(Int64Array),
    /// Floats without null.
    Floats(Float64Array),
    /// Any column.
    Of(Column),
}

/// The series whose rows are being written.
struct OpenSeries {
    name: SeriesName,
    rows: usize,
}

impl JsonAnswer {
    /// An empty answer.
    pub fn new(options: JsonOptions) -> Self {
        Self {
            options,
            out: Vec::with_capacity(4096),
            document_start: Some(0),
            statement_start: Some(0),
            statement: 0,
            statements: 0,
            zone: None,
            open: None,
            has_series: false,
            unsupported: None,
            unsupported_before: None,
            broken: None,
            cells: None,
            tags: Vec::new(),
            times: CachedTimes::default(),
            names: CachedNames::default(),
        }
    }

    fn push_statement_head(&mut self) {
        let first = self.is_chunked() || self.statements == 0;
        self.out.extend_from_slice(if first { b"{\"results\":[" } else { b"," });
        self.statements += 1;
        self.out.extend_from_slice(b"{\"statement_id\":");
        push_unsigned(&mut self.out, self.statement as u64);
    }

    /// How the cells of a sheet's rows are written: adjacent tags are written together.
    fn cells_of(&mut self, sheet: &ResultBatch) -> Vec<Cells> {
        let mut cells: Vec<Cells> = Vec::with_capacity(sheet.columns.len());
        let mut columns = &*sheet.columns;
        let mut tag_groups = 0;
        while let Some((first, rest)) = columns.split_first() {
            columns = rest;
            cells.push(match first {
                Column::Tag(tags) if sheet.instead.is_none() => {
                    let same_rows =
                        |column: &&Column| matches!(column, Column::Tag(other) if other.has_rows_of(tags));
                    let others = columns.iter().take_while(same_rows).count();
                    let (group, rest) =
                        sheet.columns[sheet.columns.len() - columns.len() - 1..].split_at(others + 1);
                    columns = rest;
                    if self.tags.len() == tag_groups {
                        self.tags.push(CachedTags::default());
                    }
                    self.tags[tag_groups].be_of(group);
                    tag_groups += 1;
                    Cells::Tags(tags.clone(), tag_groups - 1)
                }
                Column::Integer(array) if array.null_count() == 0 => Cells::Integers(array.clone()),
                Column::Float(array) if array.null_count() == 0 => Cells::Floats(array.clone()),
                column => Cells::Of(column.clone()),
            });
        }
        cells
    }

    fn row(&mut self, frame: &Frame, row: usize, cells: &[Cells]) {
        let out = &mut self.out;
        let mut first = true;
        if frame.time_column.is_some() {
            let time_ns = frame.times_ns[row];
            match self.options.epoch {
                Some(epoch) => epoch.push(out, time_ns),
                None => self.times.push(out, time_ns, self.zone),
            }
            first = false;
        }
        for cell in cells {
            let comma_at = out.len();
            match cell {
                Cells::Tags(tags, group) => self.tags[*group].push(out, tags.series()[row]),
                Cells::Integers(array) => {
                    push_next_integer(out, array.value(row));
                }
                Cells::Floats(array) => {
                    out.push(b',');
                    push_finite(out, array.value(row), &mut self.unsupported);
                }
                Cells::Of(column) => {
                    out.push(b',');
                    match column {
                        Column::Float(array) if array.is_valid(row) => {
                            push_finite(out, array.value(row), &mut self.unsupported);
                        }
                        _ => push_cell(out, column, row, frame.instead.as_ref()),
                    }
                }
            }
            if std::mem::take(&mut first) {
                out.remove(comma_at);
            }
        }
        out.push(b']');
    }

    fn end_result(&mut self) {
        self.out.push(b'}');
        if self.is_chunked() {
            self.end_document();
        }
    }

    fn end_document(&mut self) {
        self.out.extend_from_slice(b"]}\n");
        if let Some(value) = self.unsupported.take() {
            let name = if value.is_nan() {
                "NaN"
            } else if value > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            };
            let words = format!("json: unsupported value: {name}");
            match self.document_start {
                None => self.broken = Some(words),
                Some(start) => {
                    self.out.truncate(start);
                    self.out.extend_from_slice(format!("{{\"error\":\"{words}\"}}\n").as_bytes());
                }
            }
        }
        self.document_start = Some(self.out.len());
    }
}

impl ResultWriter for JsonAnswer {
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks) {
        self.write(frame, rows, chunks);
    }

    fn cut(&mut self, frame: &Frame) {
        self.cut_series(frame);
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Takes what was written so far: finished documents, or else the beginning of one. Continues in an empty buffer.
    fn take(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        match self.document_start {
            Some(start) if start > 0 => {
                self.document_start = Some(0);
                self.statement_start = self.statement_start.and_then(|at| at.checked_sub(start));
                buffer.extend_from_slice(&self.out[start..]);
                self.out.truncate(start);
            }
            _ => (self.document_start, self.statement_start) = (None, None),
        }
        std::mem::replace(&mut self.out, buffer)
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

impl AnswerWriter for JsonAnswer {
    fn is_chunked(&self) -> bool {
        self.options.chunk_rows.is_some()
    }

    fn begin_statement(&mut self, number: usize, zone: Option<Zone>) {
        self.statement = number;
        self.zone = zone;
        if number > 0 {
            // Cached times may be of another zone.
            self.times = CachedTimes::default();
        }
        self.has_series = false;
        self.statement_start = Some(self.out.len());
        self.unsupported_before = self.unsupported;
        if !self.is_chunked() {
            self.push_statement_head();
        }
    }

    fn end_statement(&mut self, warning: Option<&str>) {
        self.cells = None;
        self.close_series(false);
        if self.has_series {
            self.out.push(b']');
        } else if self.is_chunked() {
            self.push_statement_head();
        }
        self.has_series = false;
        if let Some(text) = warning {
            self.out.extend_from_slice(b",\"messages\":[{\"level\":\"warning\",\"text\":");
            push_string(&mut self.out, text);
            self.out.extend_from_slice(b"}]");
        }
        self.end_result();
    }

    /// Replaces what the statement wrote since the last chunk with an error. If some of that was already taken, the
    /// answer is broken.
    fn fail_statement(&mut self, message: &str) {
        let start = if self.is_chunked() { self.document_start } else { self.statement_start };
        let Some(start) = start else {
            self.broken = Some(message.to_owned());
            return;
        };
        self.out.truncate(start);
        if !self.is_chunked() {
            self.statements -= 1;
        }
        (self.open, self.has_series, self.cells) = (None, false, None);
        self.unsupported = self.unsupported_before;
        self.push_statement_head();
        self.out.extend_from_slice(b",\"error\":");
        push_string(&mut self.out, message);
        self.end_result();
    }

    fn finish(&mut self) {
        if self.is_chunked() {
            return;
        }
        if self.statements == 0 {
            self.out.extend_from_slice(b"{}\n");
        } else {
            self.end_document();
        }
    }
}

impl SeriesWriter for JsonAnswer {
    fn open(&self) -> Option<&SeriesName> {
        self.open.as_ref().map(|open| &open.name)
    }

    fn open_rows(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.rows)
    }

    fn chunk_rows(&self) -> Option<usize> {
        self.options.chunk_rows
    }

    fn open_series(&mut self, frame: &Frame) {
        if self.is_chunked() && !self.has_series {
            self.push_statement_head();
        }
        self.out.extend_from_slice(if self.has_series { b"," } else { b",\"series\":[" });
        self.has_series = true;
        self.out.push(b'{');
        if !frame.name.is_empty() {
            self.out.extend_from_slice(b"\"name\":");
            push_string(&mut self.out, &frame.name);
            self.out.push(b',');
        }
        if !frame.tags.is_empty() {
            self.out.extend_from_slice(b"\"tags\":{");
            for (position, (key, value)) in frame.tags.iter().enumerate() {
                if position > 0 {
                    self.out.push(b',');
                }
                push_string(&mut self.out, key);
                self.out.push(b':');
                push_string(&mut self.out, value);
            }
            self.out.extend_from_slice(b"},");
        }
        self.names.push(&mut self.out, frame);
        self.open = Some(OpenSeries { name: SeriesName::of(frame), rows: 0 });
    }

    fn rows(&mut self, frame: &Frame, rows: Range<usize>) {
        let known = self.cells.take().filter(|(sheet, _)| Arc::ptr_eq(sheet, &frame.sheet));
        let (sheet, cells) = known.unwrap_or_else(|| (frame.sheet.clone(), self.cells_of(frame)));
        let open = self.open.as_mut().expect("a series was opened");
        let before = open.rows;
        open.rows += rows.len();
        for (number, row) in (before..).zip(rows) {
            self.out.extend_from_slice(if number == 0 { b",\"values\":[[" } else { b",[" });
            self.row(frame, row, &cells);
        }
        self.cells = Some((sheet, cells));
    }

    fn close_series(&mut self, partial: bool) {
        let Some(open) = self.open.take() else { return };
        if open.rows > 0 {
            self.out.push(b']');
        }
        if partial {
            self.out.extend_from_slice(b",\"partial\":true");
        }
        self.out.push(b'}');
    }

    fn end_chunk(&mut self, partial: bool) {
        if !self.is_chunked() || !self.has_series {
            return;
        }
        self.has_series = false;
        self.out.extend_from_slice(if partial { b"],\"partial\":true" } else { b"]" });
        self.end_result();
    }
}

/// Appends a float, or remembers one that JSON cannot express.
fn push_finite(out: &mut Vec<u8>, value: f64, unsupported: &mut Option<f64>) {
    if value.is_finite() {
        push_float(out, value);
    } else {
        unsupported.get_or_insert(value);
    }
}

fn push_cell(out: &mut Vec<u8>, column: &Column, row: usize, instead: Option<&Scalar>) {
    match column {
        Column::Float(array) if array.is_valid(row) => push_float(out, array.value(row)),
        Column::Integer(array) if array.is_valid(row) => push_integer(out, array.value(row)),
        Column::Unsigned(array) if array.is_valid(row) => push_unsigned(out, array.value(row)),
        Column::String(array) if array.is_valid(row) => push_string(out, array.value(row)),
        Column::Tag(tags) if tags.is_valid(row) => push_string(out, tags.text(row).unwrap_or_default()),
        Column::Boolean(array) if array.is_valid(row) => {
            out.extend_from_slice(if array.value(row) { b"true" } else { b"false" });
        }
        Column::Texts(lists) if lists.is_valid(row) => {
            out.push(b'[');
            for (number, text) in list(row, lists).into_iter().flatten().enumerate() {
                out.extend_from_slice(if number > 0 { b"," } else { b"" });
                push_string(out, &text);
            }
            out.push(b']');
        }
        Column::String(_) | Column::Boolean(_) | Column::Tag(_) => match instead {
            Some(Scalar::Integer(value)) => push_integer(out, *value),
            Some(Scalar::Float(value)) => push_float(out, *value),
            _ => out.extend_from_slice(b"null"),
        },
        _ => out.extend_from_slice(b"null"),
    }
}
