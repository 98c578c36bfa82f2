//! A piece of a result: rows of one result series.

use super::column::{Column, Scalar};
use arrow_buffer::ScalarBuffer;
use std::ops::Range;
use std::sync::Arc;

/// Rows of one result series. A series with many rows comes in several frames, one after the other.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The measurement's name.
    pub name: Arc<str>,
    /// The tags it is grouped by, sorted by key; empty values included.
    pub tags: Arc<[(String, String)]>,
    /// What the time column is called; `None`: rows have no times.
    pub time_column: Option<Arc<str>>,
    /// The names of the columns, time not among them.
    pub column_names: Arc<[String]>,
    /// The names that outer queries know the columns by.
    pub reference_names: Arc<[String]>,
    /// Times, ns; none where there is no time column. Frames of many series share them and the columns.
    pub times_ns: ScalarBuffer<i64>,
    /// The columns.
    pub columns: Arc<[Column]>,
    /// Which rows of the times and columns are this frame's.
    pub span: Range<usize>,
    /// The number that is shown in place of missing text and booleans.
    pub instead: Option<Scalar>,
}

impl Frame {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.span.len()
    }

    /// The frame with no rows but its own, texts of its own too.
    #[must_use]
    pub fn alone(mut self) -> Self {
        let (start, rows) = (self.span.start, self.span.len());
        if self.time_column.is_some() {
            self.times_ns = self.times_ns.slice(start, rows);
        }
        self.columns = self.columns.iter().map(|column| column.slice(start, rows).plain()).collect();
        self.span = 0..rows;
        self
    }
}
