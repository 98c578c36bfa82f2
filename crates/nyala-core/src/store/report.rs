//! Reports of a store that keeps files itself: what columns take there, and what its maintenance does and will do.

use crate::error::{Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::time::TimeRange;

/// What a table takes. Of a large table a sample is read, and the rest is taken to be like it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableStorage {
    /// Rows in files. Versions that are not merged yet are counted separately.
    pub rows: u64,
    /// Bytes of these files.
    pub disk_bytes: u64,
    /// Rows in memory that are in no file yet.
    pub memory_rows: u64,
    /// Bytes that they take in memory.
    pub memory_bytes: u64,
    /// What the files are made of; together about `disk_bytes`.
    pub parts: Vec<PartStorage>,
}

/// What a part of a table takes in its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartStorage {
    /// Which one.
    pub part: TablePart,
    /// Cells with a value.
    pub values: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// How values are encoded, the most frequent encoding first, each with so many of the values that were looked at.
    pub encodings: Vec<(&'static str, u64)>,
}

/// A part of a table's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TablePart {
    /// The values of a column.
    Column(ColumnId),
    /// What says which rows belong to which series, or have which keys.
    Keys,
    /// Everything else: indexes, filters, copies of last rows, columns that were dropped.
    Other,
}

/// Work of maintenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceTask {
    /// What is done.
    pub work: MaintenanceWork,
    /// The table; `None`: a flush, which writes the rows of all tables.
    pub table: Option<TableId>,
    /// The times of the partition.
    pub range: Option<TimeRange>,
    /// Files that are merged.
    pub files: u64,
    /// Rows that are read.
    pub rows: u64,
    /// Bytes that they take, on disk or in memory.
    pub bytes: u64,
    /// Rows that are written so far; `None`: it waits.
    pub rows_done: Option<u64>,
}

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaintenanceWork {
    /// Rows in memory become files.
    Flush,
    /// Files become fewer.
    Merge,
}

/// The answer of a store that keeps no files itself.
pub(super) fn unreported<T>() -> Result<T> {
    Err(Error::unsupported(
        "this store does not report what columns take on disk, nor what its maintenance does",
    ))
}
