//! Answers as clients read them, written straight from columns.

mod csv;
mod indent;
pub mod json;
mod kind;
mod message_pack;
mod names;
mod number;
mod series;
mod tags;
mod text;
mod time;

pub use indent::Indenter;
pub use json::{JsonAnswer, JsonOptions};
pub use kind::Format;
pub use text::push_string;
pub use time::{Epoch, push_rfc3339};

use csv::CsvAnswer;
use message_pack::MessagePackAnswer;
use nyala_exec::{Chunks, Frame, Zone};
use series::SeriesWriter;
use std::ops::Range;

/// An answer in the making, as it is sent: to begin and end it is up to the language that answers.
pub trait Draft {
    /// Writes some rows of a frame.
    fn frame(&mut self, frame: &Frame, rows: Range<usize>, chunks: Chunks);

    /// Ends the series of a frame for good, although it has more rows: it is marked as partial.
    fn cut(&mut self, frame: &Frame);

    /// Bytes that can be taken.
    fn len(&self) -> usize;

    /// Bytes that cannot be taken before the answer is finished.
    fn held_bytes(&self) -> usize;

    /// Takes what was written so far; what follows is written in some room.
    fn take(&mut self, room: Vec<u8>) -> Vec<u8>;

    /// How much can be written, with what was, without growing.
    fn room_bytes(&self) -> usize;

    /// Writes what follows in a larger room.
    fn go_on_in(&mut self, room: Vec<u8>);

    /// Why the answer cannot be finished, although its beginning was taken.
    fn broken(&self) -> Option<&str>;
}

/// An answer in the making. Calls per statement: `begin_statement`, then `frame`s, then one of
/// `end_statement…` or `fail_statement`; at last `finish`.
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

    /// Begins the results of statement `number`; its times are shown in `zone` where they are text.
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

    /// Ends the results of a statement with an error, instead of what it has shown. Where that was taken already,
    /// the answer is broken.
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

impl Draft for Writer {
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

    fn take(&mut self, room: Vec<u8>) -> Vec<u8> {
        match self {
            Writer::Json(answer) => answer.take(room),
            Writer::Csv(answer) => answer.take(room),
            Writer::MessagePack(answer) => answer.take(room),
        }
    }

    fn room_bytes(&self) -> usize {
        match self {
            Writer::Json(answer) => answer.out.capacity(),
            Writer::Csv(answer) => answer.out.capacity(),
            Writer::MessagePack(answer) => answer.done.capacity(),
        }
    }

    fn go_on_in(&mut self, mut room: Vec<u8>) {
        let out = match self {
            Writer::Json(answer) => &mut answer.out,
            Writer::Csv(answer) => &mut answer.out,
            Writer::MessagePack(answer) => &mut answer.done,
        };
        room.extend_from_slice(out);
        *out = room;
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
