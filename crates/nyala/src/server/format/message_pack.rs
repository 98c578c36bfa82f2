//! Answers as MessagePack, in InfluxDB's form: the members of its JSON, and times as extension 5.
//!
//! In MessagePack, the length of a list comes before its elements. So a document is written with holes for lengths,
//! which are filled when it is complete. An answer that is not chunked is therefore held in memory.

use super::series::{SeriesName, SeriesWriter};
use super::time::Epoch;
use super::{AnswerWriter, ResultWriter};
use arrow_array::Array;
use nyala_exec::column::list;
use nyala_exec::{Chunks, Column, Frame, Scalar, Zone};
use std::ops::Range;

/// The extension that holds a time: seconds (i64) and nanoseconds (i32), big-endian.
const TIME_EXTENSION: u8 = 5;

/// Writes an answer; for its calls see [`AnswerWriter`].
pub struct MessagePackAnswer {
    epoch: Option<Epoch>,
    /// Rows of each chunk of a chunked answer.
    chunk_rows: Option<usize>,
    /// Complete documents.
    done: Vec<u8>,
    /// The results of the current document, without the lengths in `holes`.
    out: Vec<u8>,
    holes: Vec<Hole>,
    results: u32,
    /// The lengths of `out` and `holes` when the current statement began.
    statement_start: (usize, usize),
    statement: usize,
    /// The current result, if it has begun.
    result: Option<OpenResult>,
    series: Option<OpenSeries>,
}

/// A length to be inserted into `out`.
struct Hole {
    at: usize,
    kind: Kind,
    length: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Map,
    List,
}

/// The holes of a result.
struct OpenResult {
    members: usize,
    /// Where the list of series begins.
    before_series: usize,
    series: usize,
}

/// The series whose rows are being written, and its holes.
struct OpenSeries {
    name: SeriesName,
    members: usize,
    rows: usize,
}

impl MessagePackAnswer {
    /// An empty answer.
    pub fn new(epoch: Option<Epoch>, chunk_rows: Option<usize>) -> Self {
        Self {
            epoch,
            chunk_rows,
            done: Vec::new(),
            out: Vec::with_capacity(4096),
            holes: Vec::new(),
            results: 0,
            statement_start: (0, 0),
            statement: 0,
            result: None,
            series: None,
        }
    }

    fn hole(&mut self, kind: Kind, length: u32) -> usize {
        self.holes.push(Hole { at: self.out.len(), kind, length });
        self.holes.len() - 1
    }

    fn open_result(&mut self) {
        self.results += 1;
        let members = self.hole(Kind::Map, 2);
        push_text(&mut self.out, "statement_id");
        push_unsigned(&mut self.out, self.statement as u64);
        let before_series = self.out.len();
        push_text(&mut self.out, "series");
        let series = self.hole(Kind::List, 0);
        self.result = Some(OpenResult { members, before_series, series });
    }

    fn row(&mut self, frame: &Frame, row: usize) {
        let out = &mut self.out;
        push_length(out, Kind::List, frame.columns.len() as u32 + u32::from(frame.time_column.is_some()));
        if frame.time_column.is_some() {
            match self.epoch {
                Some(epoch) => push_integer(out, epoch.of(frame.times_ns[row])),
                None => push_time(out, frame.times_ns[row]),
            }
        }
        for column in &*frame.columns {
            push_cell(out, column, row, frame.instead.as_ref());
        }
    }

    fn end_result(&mut self) {
        self.result = None;
        if self.is_chunked() {
            self.end_document();
        }
    }

    /// Completes the document by filling its holes.
    fn end_document(&mut self) {
        let done = &mut self.done;
        push_length(done, Kind::Map, 1);
        push_text(done, "results");
        push_length(done, Kind::List, self.results);
        let mut from = 0;
        for hole in self.holes.drain(..) {
            done.extend_from_slice(&self.out[from..hole.at]);
            push_length(done, hole.kind, hole.length);
            from = hole.at;
        }
        done.extend_from_slice(&self.out[from..]);
        self.out.clear();
        self.results = 0;
        self.statement_start = (0, 0);
    }

    /// Removes the current result, so that another can replace it.
    fn restart_result(&mut self) {
        self.out.truncate(self.statement_start.0);
        self.holes.truncate(self.statement_start.1);
        if self.result.take().is_none() {
            self.results += 1;
        }
        self.series = None;
    }
}

impl ResultWriter for MessagePackAnswer {
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks) {
        self.write(frame, rows, chunks);
    }

    fn cut(&mut self, frame: &Frame) {
        self.cut_series(frame);
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.done
    }

    /// Bytes of the document that is not complete yet.
    fn held_bytes(&self) -> usize {
        self.out.len() + self.holes.len() * size_of::<Hole>()
    }
}

impl AnswerWriter for MessagePackAnswer {
    fn is_chunked(&self) -> bool {
        self.chunk_rows.is_some()
    }

    fn begin_statement(&mut self, number: usize, _zone: Option<Zone>) {
        self.statement = number;
        self.statement_start = (self.out.len(), self.holes.len());
        if !self.is_chunked() {
            self.open_result();
        }
    }

    /// A warning comes before the series.
    fn end_statement(&mut self, warning: Option<&str>) {
        self.close_series(false);
        if self.result.is_none() {
            self.open_result();
        }
        if let (Some(text), Some(result)) = (warning, &self.result) {
            let mut message = Vec::with_capacity(text.len() + 32);
            push_text(&mut message, "messages");
            push_length(&mut message, Kind::List, 1);
            push_length(&mut message, Kind::Map, 2);
            for word in ["level", "warning", "text", text] {
                push_text(&mut message, word);
            }
            self.holes[result.members].length += 1;
            self.holes[result.series..].iter_mut().for_each(|hole| hole.at += message.len());
            self.out.splice(result.before_series..result.before_series, message);
        }
        self.end_result();
    }

    fn fail_statement(&mut self, message: &str) {
        self.restart_result();
        push_error(&mut self.out, message);
        self.end_result();
    }

    fn finish(&mut self) {
        if !self.is_chunked() {
            self.end_document();
        }
    }
}

impl SeriesWriter for MessagePackAnswer {
    fn open(&self) -> Option<&SeriesName> {
        self.series.as_ref().map(|open| &open.name)
    }

    fn open_rows(&self) -> usize {
        self.series.as_ref().map_or(0, |open| self.holes[open.rows].length as usize)
    }

    fn chunk_rows(&self) -> Option<usize> {
        self.chunk_rows
    }

    fn open_series(&mut self, frame: &Frame) {
        if self.result.is_none() {
            self.open_result();
        }
        if let Some(result) = &self.result {
            self.holes[result.series].length += 1;
        }
        let members = self.hole(Kind::Map, 2);
        if !frame.name.is_empty() {
            self.holes[members].length += 1;
            push_text(&mut self.out, "name");
            push_text(&mut self.out, &frame.name);
        }
        if !frame.tags.is_empty() {
            self.holes[members].length += 1;
            push_text(&mut self.out, "tags");
            push_length(&mut self.out, Kind::Map, frame.tags.len() as u32);
            for (key, value) in frame.tags.iter() {
                push_text(&mut self.out, key);
                push_text(&mut self.out, value);
            }
        }
        push_text(&mut self.out, "columns");
        let time_column = frame.time_column.as_deref();
        push_length(
            &mut self.out,
            Kind::List,
            frame.column_names.len() as u32 + u32::from(time_column.is_some()),
        );
        for name in time_column.into_iter().chain(frame.column_names.iter().map(|name| &**name)) {
            push_text(&mut self.out, name);
        }
        push_text(&mut self.out, "values");
        let rows = self.hole(Kind::List, 0);
        self.series = Some(OpenSeries { name: SeriesName::of(frame), members, rows });
    }

    fn rows(&mut self, frame: &Frame, rows: Range<usize>) {
        let open = self.series.as_ref().expect("a series was opened");
        self.holes[open.rows].length += rows.len() as u32;
        for row in rows {
            self.row(frame, row);
        }
    }

    fn close_series(&mut self, partial: bool) {
        let Some(open) = self.series.take() else { return };
        if partial {
            self.holes[open.members].length += 1;
            push_text(&mut self.out, "partial");
            self.out.push(TRUE);
        }
    }

    fn end_chunk(&mut self, partial: bool) {
        if !self.is_chunked() {
            return;
        }
        let Some(result) = &self.result else { return };
        if partial {
            self.holes[result.members].length += 1;
            push_text(&mut self.out, "partial");
            self.out.push(TRUE);
        }
        self.end_result();
    }
}

const NULL: u8 = 0xc0;
const FALSE: u8 = 0xc2;
const TRUE: u8 = 0xc3;
/// Before an extension whose length takes one byte.
const EXTENSION: u8 = 0xc7;
const FLOAT64: u8 = 0xcb;

fn push_cell(out: &mut Vec<u8>, column: &Column, row: usize, instead: Option<&Scalar>) {
    match column {
        Column::Float(array) if array.is_valid(row) => push_float(out, array.value(row)),
        Column::Integer(array) if array.is_valid(row) => push_integer(out, array.value(row)),
        Column::Unsigned(array) if array.is_valid(row) => push_unsigned(out, array.value(row)),
        Column::String(array) if array.is_valid(row) => push_text(out, array.value(row)),
        Column::Tag(tags) if tags.is_valid(row) => push_text(out, tags.text(row).unwrap_or_default()),
        Column::Boolean(array) if array.is_valid(row) => {
            out.push(if array.value(row) { TRUE } else { FALSE })
        }
        Column::Texts(lists) if lists.is_valid(row) => {
            let texts = list(row, lists).unwrap_or_default();
            push_length(out, Kind::List, texts.len() as u32);
            texts.iter().for_each(|text| push_text(out, text));
        }
        Column::String(_) | Column::Boolean(_) | Column::Tag(_) => match instead {
            Some(Scalar::Integer(value)) => push_integer(out, *value),
            Some(Scalar::Float(value)) => push_float(out, *value),
            _ => out.push(NULL),
        },
        _ => out.push(NULL),
    }
}

fn push_time(out: &mut Vec<u8>, time_ns: i64) {
    const BYTES: u8 = 12;
    out.extend_from_slice(&[EXTENSION, BYTES, TIME_EXTENSION]);
    out.extend_from_slice(&time_ns.div_euclid(1_000_000_000).to_be_bytes());
    out.extend_from_slice(&(time_ns.rem_euclid(1_000_000_000) as i32).to_be_bytes());
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    out.push(FLOAT64);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an integer in the shortest signed form that InfluxDB's encoder uses.
fn push_integer(out: &mut Vec<u8>, value: i64) {
    if let Ok(small @ -32..) = i8::try_from(value) {
        out.push(small as u8);
    } else if let Ok(value) = i8::try_from(value) {
        out.extend_from_slice(&[0xd0, value as u8]);
    } else if let Ok(value) = i16::try_from(value) {
        out.push(0xd1);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(0xd2);
        out.extend_from_slice(&value.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends an integer in the shortest unsigned form.
fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    if let Ok(small @ ..=0x7f) = u8::try_from(value) {
        out.push(small);
    } else if let Ok(value) = u8::try_from(value) {
        out.extend_from_slice(&[0xcc, value]);
    } else if let Ok(value) = u16::try_from(value) {
        out.push(0xcd);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Ok(value) = u32::try_from(value) {
        out.push(0xce);
        out.extend_from_slice(&value.to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..=0x1f => out.push(0xa0 | length as u8),
        length @ 0x20..=0xff => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xda);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0xdb);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn push_length(out: &mut Vec<u8>, kind: Kind, length: u32) {
    let (short, middle, long) = match kind {
        Kind::Map => (0x80, 0xde, 0xdf),
        Kind::List => (0x90, 0xdc, 0xdd),
    };
    match length {
        0..=0xf => out.push(short | length as u8),
        0x10..=0xffff => {
            out.push(middle);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(long);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends a map that holds only an error.
pub(super) fn push_error(out: &mut Vec<u8>, message: &str) {
    push_length(out, Kind::Map, 1);
    push_text(out, "error");
    push_text(out, message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_their_shortest_form() {
        let integer = |value| {
            let mut out = Vec::new();
            push_integer(&mut out, value);
            out
        };
        assert_eq!(integer(127), [0x7f]);
        assert_eq!(integer(128), [0xd1, 0, 128]);
        assert_eq!(integer(-32), [0xe0]);
        assert_eq!(integer(-33), [0xd0, 0xdf]);
        assert_eq!(integer(-129), [0xd1, 0xff, 0x7f]);
        assert_eq!(integer(1 << 20), [0xd2, 0, 0x10, 0, 0]);
        assert_eq!(integer(i64::MIN), [0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        let mut out = Vec::new();
        push_unsigned(&mut out, 200);
        push_unsigned(&mut out, u64::MAX);
        assert_eq!(out, [0xcc, 200, 0xcf, 255, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds_positive() {
        let mut out = Vec::new();
        push_time(&mut out, -1);
        assert_eq!(out[3..], [255, 255, 255, 255, 255, 255, 255, 255, 0x3b, 0x9a, 0xc9, 0xff]);
    }

    #[test]
    fn a_failed_statement_takes_back_only_its_own_part() {
        let mut answer = MessagePackAnswer::new(None, None);
        answer.begin_statement(0, None);
        answer.end_statement(None);
        answer.begin_statement(1, None);
        answer.fail_statement("x");
        answer.finish();
        assert_eq!(
            answer.take(Vec::new()),
            b"\x81\xa7results\x92\x82\xacstatement_id\x00\xa6series\x90\x81\xa5error\xa1x"
        );
    }
}
