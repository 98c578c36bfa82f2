//! Groups rows of frames into series and chunks, for every format.

use nyala_exec::{Chunks, Frame, GroupTags};
use std::ops::Range;
use std::sync::Arc;

/// The name and tags of a series.
pub(super) struct SeriesName {
    name: Arc<str>,
    tags: GroupTags,
}

impl SeriesName {
    /// The series that a frame belongs to.
    pub(super) fn of(frame: &Frame) -> Self {
        Self { name: frame.name.clone(), tags: frame.tags.clone() }
    }

    fn is_of(&self, frame: &Frame) -> bool {
        self.name == frame.name && self.tags == frame.tags
    }
}

/// An answer that consists of series, in chunks if the client asks for them.
pub(super) trait SeriesWriter {
    /// The current series.
    fn open(&self) -> Option<&SeriesName>;
    /// How many rows of the current series were written.
    fn open_rows(&self) -> usize;
    /// Rows of each chunk of a chunked answer.
    fn chunk_rows(&self) -> Option<usize>;
    /// Begins the series of a frame.
    fn open_series(&mut self, frame: &Frame);
    /// Adds rows of a frame to the current series.
    fn rows(&mut self, frame: &Frame, rows: Range<usize>);
    /// Ends the current series, if any; `partial` when more of its rows follow in another chunk.
    fn close_series(&mut self, partial: bool);
    /// Ends a chunk that has at least one series; `partial` when the statement has more rows.
    fn end_chunk(&mut self, partial: bool);

    /// Writes some rows of a frame.
    fn write(&mut self, frame: &Frame, mut rows: Range<usize>, chunks: Chunks) {
        let same = self.open().is_some_and(|open| open.is_of(frame));
        // Several frames of a SELECT may belong to one series. A frame of another statement is a whole series, of which
        // parts may be written one after the other.
        if !same || (frame.time_column.is_none() && rows.start == frame.span.start) {
            self.close_series(false);
            match chunks {
                Chunks::Whole => {}
                Chunks::PerSeries => self.end_chunk(false),
                Chunks::BySize => self.end_chunk(true),
            }
            self.open_series(frame);
        }
        let rows_max = match chunks {
            Chunks::BySize => self.chunk_rows().unwrap_or(usize::MAX),
            Chunks::Whole | Chunks::PerSeries => usize::MAX,
        };
        while !rows.is_empty() {
            if self.open_rows() >= rows_max {
                self.close_series(true);
                self.end_chunk(true);
                self.open_series(frame);
            }
            let end = rows.end.min(rows.start.saturating_add(rows_max - self.open_rows()));
            self.rows(frame, rows.start..end);
            rows.start = end;
        }
    }

    /// Ends the series of a frame although it has more rows, and marks it as partial, if it is the current one.
    fn cut_series(&mut self, frame: &Frame) {
        if self.open().is_some_and(|open| open.is_of(frame)) {
            self.close_series(true);
        }
    }
}
