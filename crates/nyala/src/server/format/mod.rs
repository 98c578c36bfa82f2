//! Formats of answers, written directly from columns.

mod accept;
mod column_names;
mod csv;
mod indent;
pub mod json;
mod json_string;
mod message_pack;
mod number;
mod series;
mod tags;
mod time;

pub use accept::Format;
pub use indent::Indenter;
pub use json::{JsonAnswer, JsonOptions};
pub use json_string::push_string;
pub use time::{Epoch, push_rfc3339};

use csv::CsvAnswer;
use message_pack::MessagePackAnswer;
use nyala_exec::{Chunks, Frame, Zone};
use series::SeriesWriter;
use std::ops::Range;

/// Writes the result of a query as text. How an answer begins and ends is up to the query language.
pub trait ResultWriter {
    /// Writes some rows of a frame.
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks);

    /// Ends the series of a frame although it has more rows, and marks it as partial.
    fn cut(&mut self, frame: &Frame);

    /// How many bytes can be taken.
    fn len(&self) -> usize;

    /// How many bytes cannot be taken before the answer is finished.
    fn held_bytes(&self) -> usize;

    /// Takes what was written so far, and continues in an empty buffer.
    fn take(&mut self, buffer: Vec<u8>) -> Vec<u8>;

    /// The capacity of the buffer that is being written.
    fn capacity_bytes(&self) -> usize;

    /// Moves what was written to a larger buffer, and continues there.
    fn continue_in(&mut self, buffer: Vec<u8>);

    /// Why the answer cannot be finished, although its beginning was already taken.
    fn broken(&self) -> Option<&str>;
}

/// Writes an answer to InfluxQL. The calls per statement are `begin_statement`, then `frame`s, then one of
/// `end_statement…` or `fail_statement`; at the end `finish`.
pub enum Writer {
    /// As JSON.
    Json(JsonAnswer),
    /// As CSV.
    Csv(CsvAnswer),
    /// As MessagePack.
    MessagePack(MessagePackAnswer),
}

impl Writer {
    /// An empty answer.
    pub fn new(format: Format, options: JsonOptions) -> Self {
        match format {
            Format::Json => Writer::Json(JsonAnswer::new(options)),
            Format::ApplicationCsv | Format::TextCsv => Writer::Csv(CsvAnswer::new(options.epoch)),
            Format::MessagePack => {
                Writer::MessagePack(MessagePackAnswer::new(options.epoch, options.chunk_rows))
            }
        }
    }

    /// Whether every chunk is a document of its own.
    pub fn is_chunked(&self) -> bool {
        match self {
            Writer::Json(answer) => answer.is_chunked(),
            Writer::Csv(_) => false,
            Writer::MessagePack(answer) => answer.is_chunked(),
        }
    }

    /// Begins the results of statement `number`; times that are text are shown in `zone`.
    pub fn begin_statement(&mut self, number: usize, zone: Option<Zone>) {
        match self {
            Writer::Json(answer) => answer.begin_statement(number, zone),
            Writer::Csv(answer) => answer.begin_statement(),
            Writer::MessagePack(answer) => answer.begin_statement(number),
        }
    }

    /// Ends the results of a statement.
    pub fn end_statement(&mut self) {
        match self {
            Writer::Json(answer) => answer.end_statement(),
            Writer::Csv(_) => {}
            Writer::MessagePack(answer) => answer.end_statement(),
        }
    }

    /// Ends the results of a statement with a message for people.
    pub fn end_statement_with_warning(&mut self, text: &str) {
        match self {
            Writer::Json(answer) => answer.end_statement_with_warning(text),
            Writer::Csv(_) => {}
            Writer::MessagePack(answer) => answer.end_statement_with_warning(text),
        }
    }

    /// Replaces the results of a statement with an error. If some of them were already taken, the answer is broken.
    pub fn fail_statement(&mut self, message: &str) {
        match self {
            Writer::Json(answer) => answer.fail_statement(message),
            Writer::Csv(answer) => answer.fail_statement(message),
            Writer::MessagePack(answer) => answer.fail_statement(message),
        }
    }

    /// Ends the answer.
    pub fn finish(&mut self) {
        match self {
            Writer::Json(answer) => answer.finish(),
            Writer::Csv(_) => {}
            Writer::MessagePack(answer) => answer.finish(),
        }
    }
}

impl ResultWriter for Writer {
    fn len(&self) -> usize {
        match self {
            Writer::Json(answer) => answer.len(),
            Writer::Csv(answer) => answer.len(),
            Writer::MessagePack(answer) => answer.len(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Writer::Json(_) | Writer::Csv(_) => 0,
            Writer::MessagePack(answer) => answer.held_bytes(),
        }
    }

    fn take(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        match self {
            Writer::Json(answer) => answer.take(buffer),
            Writer::Csv(answer) => answer.take(buffer),
            Writer::MessagePack(answer) => answer.take(buffer),
        }
    }

    fn capacity_bytes(&self) -> usize {
        match self {
            Writer::Json(answer) => answer.out.capacity(),
            Writer::Csv(answer) => answer.out.capacity(),
            Writer::MessagePack(answer) => answer.done.capacity(),
        }
    }

    fn continue_in(&mut self, mut buffer: Vec<u8>) {
        let out = match self {
            Writer::Json(answer) => &mut answer.out,
            Writer::Csv(answer) => &mut answer.out,
            Writer::MessagePack(answer) => &mut answer.done,
        };
        buffer.extend_from_slice(out);
        *out = buffer;
    }

    fn broken(&self) -> Option<&str> {
        match self {
            Writer::Json(answer) => answer.broken(),
            Writer::Csv(answer) => answer.broken(),
            Writer::MessagePack(_) => None,
        }
    }

    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks) {
        match self {
            Writer::Json(answer) => answer.frame(frame, rows, chunks),
            Writer::Csv(answer) => answer.frame(frame, rows),
            Writer::MessagePack(answer) => answer.frame(frame, rows, chunks),
        }
    }

    fn cut(&mut self, frame: &Frame) {
        match self {
            Writer::Json(answer) => answer.cut(frame),
            Writer::Csv(_) => {}
            Writer::MessagePack(answer) => answer.cut(frame),
        }
    }
}
