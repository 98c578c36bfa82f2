//! Query answers in InfluxDB's JSON, streamed: frames of one result series become one `series` object, or
//! several partial ones when the answer is chunked.

use super::number::{push_float, push_integer, push_unsigned};
use super::text::push_string;
use super::time::{Epoch, push_rfc3339};
use arrow_array::Array;
use nyala_query::exec::Frame;
use nyala_query::exec::column::Column;
use nyala_query::influxql::Zone;
use std::sync::Arc;

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub struct JsonOptions {
    /// Times as numbers in this unit; else in RFC 3339.
    pub epoch: Option<Epoch>,
    /// Rows of each chunk of a chunked answer.
    pub chunk_rows: Option<usize>,
}

/// An answer in the making. Calls per statement: `begin_statement`, then `frame`s or `message`s or an
/// `error`, then `end_statement`; at last `finish`.
pub struct JsonAnswer {
    options: JsonOptions,
    out: Vec<u8>,
    statement: usize,
    statements: usize,
    zone: Option<Zone>,
    open: Option<OpenSeries>,
    /// Whether the statement at hand has a series already.
    has_series: bool,
}

/// The series whose rows are being written.
struct OpenSeries {
    name: Arc<str>,
    tags: Arc<[(String, String)]>,
    rows: usize,
    /// Rows in the chunk at hand, if chunked.
    chunk_rows: usize,
}

impl JsonAnswer {
    /// An empty answer.
    pub fn new(options: JsonOptions) -> Self {
        let mut answer = Self {
            options,
            out: Vec::with_capacity(4096),
            statement: 0,
            statements: 0,
            zone: None,
            open: None,
            has_series: false,
        };
        if !answer.is_chunked() {
            answer.out.extend_from_slice(b"{\"results\":[");
        }
        answer
    }

    fn is_chunked(&self) -> bool {
        self.options.chunk_rows.is_some()
    }

    /// Bytes written and not yet taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes what was written so far.
    pub fn take(&mut self) -> Vec<u8> {
        let capacity = self.out.capacity();
        std::mem::replace(&mut self.out, Vec::with_capacity(capacity.min(1 << 20)))
    }

    /// Begins the results of statement `number`; its times are shown in `zone`.
    pub fn begin_statement(&mut self, number: usize, zone: Option<Zone>) {
        self.statement = number;
        self.zone = zone;
        self.has_series = false;
        if !self.is_chunked() {
            if self.statements > 0 {
                self.out.push(b',');
            }
            self.push_statement_head();
        }
        self.statements += 1;
    }

    fn push_statement_head(&mut self) {
        if self.is_chunked() {
            self.out.extend_from_slice(b"{\"results\":[");
        }
        self.out.extend_from_slice(b"{\"statement_id\":");
        push_unsigned(&mut self.out, self.statement as u64);
    }

    /// Writes the rows of a frame.
    pub fn frame(&mut self, frame: &Frame) {
        let rows = frame.rows();
        let same = self.open.as_ref().is_some_and(|open| {
            frame.time_column.is_some() && open.name == frame.name && open.tags == frame.tags
        });
        if !same {
            self.close_series(false);
            self.open_series(frame);
        }
        for row in 0..rows {
            let full = self
                .options
                .chunk_rows
                .zip(self.open.as_ref())
                .is_some_and(|(chunk, open)| chunk > 0 && open.chunk_rows >= chunk);
            if full {
                self.close_series(true);
                self.open_series(frame);
            }
            let open = self.open.as_mut().expect("a series was opened");
            self.out.extend_from_slice(if open.rows == 0 { b",\"values\":[[" } else { b",[" });
            open.rows += 1;
            open.chunk_rows += 1;
            self.row(frame, row);
        }
    }

    fn row(&mut self, frame: &Frame, row: usize) {
        let out = &mut self.out;
        let mut first = true;
        if frame.time_column.is_some() {
            let time_ns = frame.times_ns[row];
            match self.options.epoch {
                Some(epoch) => epoch.push(out, time_ns),
                None => {
                    out.push(b'"');
                    push_rfc3339(out, time_ns, self.zone);
                    out.push(b'"');
                }
            }
            first = false;
        }
        for column in &frame.columns {
            if !first {
                out.push(b',');
            }
            first = false;
            push_cell(out, column, row);
        }
        out.push(b']');
    }

    fn open_series(&mut self, frame: &Frame) {
        if self.is_chunked() {
            self.push_statement_head();
        }
        let first = self.is_chunked() || !self.has_series;
        self.out.extend_from_slice(if first { b",\"series\":[" } else { b"," });
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
        self.out.extend_from_slice(b"\"columns\":[");
        let names =
            frame.time_column.as_deref().into_iter().chain(frame.column_names.iter().map(String::as_str));
        for (position, name) in names.enumerate() {
            if position > 0 {
                self.out.push(b',');
            }
            push_string(&mut self.out, name);
        }
        self.out.push(b']');
        self.open =
            Some(OpenSeries { name: frame.name.clone(), tags: frame.tags.clone(), rows: 0, chunk_rows: 0 });
    }

    /// Ends the series at hand; `partial` when more of its rows follow in another chunk.
    fn close_series(&mut self, partial: bool) {
        let Some(open) = self.open.take() else { return };
        if open.rows > 0 {
            self.out.push(b']');
        }
        if partial {
            self.out.extend_from_slice(b",\"partial\":true");
        }
        self.out.push(b'}');
        if self.is_chunked() {
            // Whether this was the statement's last chunk shows only with the next one, so the end of the
            // chunk is written by `end_chunk`.
            self.out.push(b']');
            self.end_chunk(partial);
        }
    }

    fn end_chunk(&mut self, partial: bool) {
        if partial {
            self.out.extend_from_slice(b",\"partial\":true");
        }
        self.out.extend_from_slice(b"}]}\n");
    }

    /// Ends the results of a statement.
    pub fn end_statement(&mut self) {
        let was_open = self.open.is_some();
        self.close_series(false);
        if self.is_chunked() {
            if !was_open && !self.has_series {
                self.push_statement_head();
                self.end_chunk(false);
            }
            return;
        }
        if self.has_series {
            self.out.push(b']');
        }
        self.out.push(b'}');
    }

    /// Ends the results of a statement with a message for people.
    pub fn end_statement_with_warning(&mut self, text: &str) {
        if self.is_chunked() {
            self.push_statement_head();
        }
        self.out.extend_from_slice(b",\"messages\":[{\"level\":\"warning\",\"text\":");
        push_string(&mut self.out, text);
        self.out.extend_from_slice(b"}]");
        if self.is_chunked() { self.end_chunk(false) } else { self.out.push(b'}') }
    }

    /// Ends the results of a statement that failed before it showed anything.
    pub fn end_statement_with_error(&mut self, message: &str) {
        if self.is_chunked() {
            self.push_statement_head();
        }
        self.out.extend_from_slice(b",\"error\":");
        push_string(&mut self.out, message);
        if self.is_chunked() { self.end_chunk(false) } else { self.out.push(b'}') }
    }

    /// Whether the statement at hand has shown anything.
    pub fn has_shown(&self) -> bool {
        self.has_series
    }

    /// Ends the answer.
    pub fn finish(&mut self) {
        if !self.is_chunked() {
            self.out.extend_from_slice(b"]}\n");
        }
    }
}

fn push_cell(out: &mut Vec<u8>, column: &Column, row: usize) {
    match column {
        Column::Float(array) if array.is_valid(row) => push_float(out, array.value(row)),
        Column::Integer(array) if array.is_valid(row) => push_integer(out, array.value(row)),
        Column::Unsigned(array) if array.is_valid(row) => push_unsigned(out, array.value(row)),
        Column::String(array) if array.is_valid(row) => push_string(out, array.value(row)),
        Column::Boolean(array) if array.is_valid(row) => {
            out.extend_from_slice(if array.value(row) { b"true" } else { b"false" });
        }
        _ => out.extend_from_slice(b"null"),
    }
}

/// The same JSON, indented by four spaces as Go's encoder does.
pub fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + depth * 4, b' ');
    };
    for (at, byte) in json.iter().enumerate() {
        if in_string {
            out.push(*byte);
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(*byte);
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                if !matches!(json.get(at.wrapping_sub(1)), Some(b'{' | b'[')) {
                    depth = depth.saturating_sub(1);
                    new_line(&mut out, depth);
                }
                out.push(*byte);
            }
            b',' => {
                out.push(b',');
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(b'"');
            }
            _ => out.push(*byte),
        }
    }
    out
}
