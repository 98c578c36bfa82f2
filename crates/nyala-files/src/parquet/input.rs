//! Reads a Parquet file, a batch of rows at a time.
//!
//! No file is trusted. What it declares is checked first (`layout`), and if the `parquet` crate panics over what it finds
//! then, that is an error of the file, too.

use super::int96::Int96Columns;
use super::layout::{Checked, HELD_BYTES_MAX};
use crate::error::{FileError, FileErrorKind, FileResult};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetStatisticsPolicy};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Parquet file that is being read.
pub struct ParquetInput {
    path: String,
    file: File,
    bytes: u64,
    held_bytes_max: u64,
    metadata: ArrowReaderMetadata,
    /// The row group that is read next.
    next_group: usize,
    reader: Option<ParquetRecordBatchReader>,
    int96: Option<Int96Columns>,
    /// Reads the columns of INT96 once more, in step with the reader.
    int96_reader: Option<ParquetRecordBatchReader>,
    /// The row of its row group that is read next.
    row: u64,
}

impl ParquetInput {
    /// Opens a file. `path` is for messages.
    ///
    /// # Errors
    /// Corrupt, too large or unsupported; the message says what and where.
    pub fn open(file: File, path: &str) -> FileResult<Self> {
        Self::open_within(file, path, HELD_BYTES_MAX)
    }

    /// The same; a row group takes no more than that while it is read.
    pub(super) fn open_within(file: File, path: &str, held_bytes_max: u64) -> FileResult<Self> {
        let bytes = file.metadata().map_err(FileError::io(path))?.len();
        Checked { file: &file, path, bytes, held_bytes_max }.footer()?;
        // The types of Parquet are enough: what a file says about Arrow's need not fit them.
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let metadata = contained(path, "footer", || ArrowReaderMetadata::load(&file, options))?;
        let int96 = contained(path, "footer", || Int96Columns::of(&metadata))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            held_bytes_max,
            metadata,
            next_group: 0,
            reader: None,
            int96,
            int96_reader: None,
            row: 0,
        })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// How many rows the file says it has.
    pub fn rows(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// Corrupt or too large, with the row group. Nothing can be read after that.
    pub fn next_rows(&mut self) -> FileResult<Option<RecordBatch>> {
        loop {
            if let Some(reader) = &mut self.reader {
                let (group, row) = (self.next_group - 1, self.row);
                let place = format!("row group {group}, row {row} of it");
                let read = contained(&self.path, &place, || reader.next().transpose());
                match read.inspect_err(|_| self.give_up())? {
                    Some(rows) => {
                        self.check_int96(&rows, &place).inspect_err(|_| self.give_up())?;
                        self.row += rows.num_rows() as u64;
                        return Ok(Some(rows));
                    }
                    None => self.end_group(group).inspect_err(|_| self.next_group = usize::MAX)?,
                }
            }
            let all = self.metadata.metadata();
            if self.next_group >= all.num_row_groups() {
                return Ok(None);
            }
            let group = self.next_group;
            self.next_group += 1;
            let checked = Checked {
                file: &self.file,
                path: &self.path,
                bytes: self.bytes,
                held_bytes_max: self.held_bytes_max,
            };
            let batch_rows = checked.row_group(all, group)?;
            let file = self.file.try_clone().map_err(FileError::io(&self.path))?;
            let metadata = self.metadata.clone();
            let place = format!("row group {group}");
            let reader = contained(&self.path, &place, || {
                ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                    .with_row_groups(vec![group])
                    .with_batch_size(batch_rows)
                    .build()
            });
            (self.reader, self.row) = (Some(reader?), 0);
            if let Some(int96) = &self.int96 {
                let file = self.file.try_clone().map_err(FileError::io(&self.path))?;
                let reader = contained(&self.path, &place, || int96.reader(file, group, batch_rows));
                self.int96_reader = Some(reader.inspect_err(|_| self.give_up())?);
            }
        }
    }

    /// Refuses rows with times that 64 bits of nanoseconds do not have.
    fn check_int96(&mut self, rows: &RecordBatch, place: &str) -> FileResult<()> {
        let (Some(int96), Some(reader)) = (&self.int96, &mut self.int96_reader) else { return Ok(()) };
        let missing = || ParquetError::General("it has fewer times than rows".to_owned());
        let seconds = contained(&self.path, place, || reader.next().transpose()?.ok_or_else(missing))?;
        int96.check(rows, &seconds, &self.path)
    }

    fn end_group(&mut self, group: usize) -> FileResult<()> {
        self.reader = None;
        let declared = self.metadata.metadata().row_group(group).num_rows();
        match u64::try_from(declared) == Ok(self.row) {
            true => Ok(()),
            false => {
                let message = format!(
                    "\"{}\", row group {group}: it has {} rows, and declares {declared}",
                    self.path, self.row
                );
                Err(FileError::new(FileErrorKind::Corrupt, message))
            }
        }
    }

    fn give_up(&mut self) {
        self.reader = None;
        self.next_group = usize::MAX;
    }
}

/// What a step of the `parquet` crate gives; an error or a panic of it is about the file.
fn contained<T, E: std::fmt::Display>(
    path: &str,
    place: &str,
    step: impl FnOnce() -> Result<T, E>,
) -> FileResult<T> {
    let corrupt = |words: &dyn std::fmt::Display| {
        FileError::new(FileErrorKind::Corrupt, format!("\"{path}\", {place}: {words}"))
    };
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(corrupt(&error)),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words =
                words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be read");
            Err(corrupt(&words))
        }
    }
}
