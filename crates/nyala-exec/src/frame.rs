//! Frames: parts of a result, each with rows of one result series.

use super::column::{Column, Scalar};
use super::group_tags::GroupTags;
use arrow_buffer::ScalarBuffer;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Rows of one result series. A series with many rows comes in several frames, one after the other.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The tags the series is grouped by, sorted by key; empty values included.
    pub tags: GroupTags,
    /// The rows of this frame and perhaps of others: frames of many series share columns.
    pub sheet: Arc<ResultBatch>,
    /// Which rows of the sheet belong to this frame.
    pub span: Range<usize>,
}

/// How rows are cut when an answer is sent in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// Not at all: one document.
    Whole,
    /// A chunk per series.
    PerSeries,
    /// Each series in chunks of the size that the client chose.
    BySize,
}

/// Rows of one or more result series of a measurement.
#[derive(Debug, Clone)]
pub struct ResultBatch {
    /// The measurement's name.
    pub name: Arc<str>,
    /// The name of the time column; `None`: rows have no times.
    pub time_column: Option<Arc<str>>,
    /// The names of the columns, without time.
    pub column_names: Arc<[String]>,
    /// The names by which outer queries refer to the columns.
    pub reference_names: Arc<[String]>,
    /// Times, ns; none if there is no time column.
    pub times_ns: ScalarBuffer<i64>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The number that is shown in place of missing text and booleans.
    pub instead: Option<Scalar>,
}

impl Deref for Frame {
    type Target = ResultBatch;

    fn deref(&self) -> &ResultBatch {
        &self.sheet
    }
}

impl ResultBatch {
    /// The number of rows of all series.
    pub fn all_rows(&self) -> usize {
        match self.time_column {
            Some(_) => self.times_ns.len(),
            None => self.columns.first().map_or(0, Column::len),
        }
    }
}

impl Frame {
    /// A frame of all rows of a sheet.
    pub fn of(tags: GroupTags, sheet: ResultBatch) -> Self {
        let span = 0..sheet.all_rows();
        Self { tags, sheet: Arc::new(sheet), span }
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.span.len()
    }

    /// About how many bytes its rows take: eight per value, and the bytes of its texts.
    pub fn written_bytes(&self) -> usize {
        8 * self.rows() * self.columns.len() + self.text_bytes(self.span.clone())
    }

    /// The bytes of the string fields in some of its rows.
    pub fn text_bytes(&self, rows: Range<usize>) -> usize {
        let of_column = |column: &Column| match column {
            Column::String(array) => {
                let offsets = array.value_offsets();
                (offsets[rows.end] - offsets[rows.start]) as usize
            }
            _ => 0,
        };
        self.columns.iter().map(of_column).sum()
    }

    /// The frame with a sheet of its own rows only, and tags as plain text.
    #[must_use]
    pub fn alone(self) -> Self {
        let (start, rows) = (self.span.start, self.span.len());
        let mut sheet = Arc::unwrap_or_clone(self.sheet);
        if sheet.time_column.is_some() {
            sheet.times_ns = sheet.times_ns.slice(start, rows);
        }
        sheet.columns.iter_mut().for_each(|column| *column = column.slice(start, rows).plain());
        Self { tags: self.tags, sheet: Arc::new(sheet), span: 0..rows }
    }
}
