//! A piece of a result: rows of one result series.

use super::column::{Column, Scalar};
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
    /// Times, ns; none where there is no time column.
    pub times_ns: Vec<i64>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The number that is shown in place of missing text and booleans.
    pub instead: Option<Scalar>,
}

impl Frame {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match &self.time_column {
            Some(_) => self.times_ns.len(),
            None => self.columns.first().map_or(0, Column::len),
        }
    }
}
