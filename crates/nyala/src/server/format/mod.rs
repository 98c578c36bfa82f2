//! Formats of answers, written directly from columns.

mod accept;
mod column_names;
mod csv;
mod indent;
mod json;
mod json_string;
mod message_pack;
mod number;
mod series;
mod tags;
mod time;

pub use accept::Format;
pub use indent::Indenter;
pub use json::JsonOptions;
pub use json_string::push_string;
pub use time::{Epoch, push_rfc3339};

use csv::CsvAnswer;
use json::JsonAnswer;
use message_pack::MessagePackAnswer;
use nyala_exec::{Chunks, Frame, Zone};
use std::ops::Range;

/// Writes the result of a query as text. How an answer begins and ends is up to the query language.
pub trait ResultWriter: Send + Sync {
    /// Writes some rows of a frame.
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks);

    /// Ends the series of a frame although it has more rows, and marks it as partial.
    fn cut(&mut self, _frame: &Frame) {}

    /// What was written and can be taken.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// How many bytes cannot be taken before the answer is finished.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Takes what was written so far, and continues in an empty buffer.
    fn take(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        std::mem::replace(self.buffer(), buffer)
    }

    /// Why the answer cannot be finished, although its beginning was already taken.
    fn broken(&self) -> Option<&str> {
        None
    }
}

/// Writes an answer to InfluxQL. The calls per statement are `begin_statement`, then `frame`s, then `end_statement` or
/// `fail_statement`; at the end `finish`.
pub trait AnswerWriter: ResultWriter {
    /// Whether every chunk is a document of its own.
    fn is_chunked(&self) -> bool {
        false
    }

    /// Begins the results of statement `number`; times that are text are shown in `zone`.
    fn begin_statement(&mut self, number: usize, zone: Option<Zone>);

    /// Ends the results of a statement; a warning is a message for people.
    fn end_statement(&mut self, _warning: Option<&str>) {}

    /// Replaces the results of a statement with an error. If some of them were already taken, the answer is broken.
    fn fail_statement(&mut self, message: &str);

    /// Ends the answer.
    fn finish(&mut self) {}
}

/// An empty answer.
pub fn writer_of(format: Format, options: JsonOptions) -> Box<dyn AnswerWriter> {
    match format {
        Format::Json => Box::new(JsonAnswer::new(options)),
        Format::ApplicationCsv | Format::TextCsv => Box::new(CsvAnswer::new(options.epoch)),
        Format::MessagePack => Box::new(MessagePackAnswer::new(options.epoch, options.chunk_rows)),
    }
}
