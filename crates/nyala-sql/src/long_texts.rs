//! Long texts that scans meet: operators gather as many rows as a batch may have, whatever these take, and a join repeats a
//! row as often as others match it. So a scan that meets a text which is too long for that ends the execution, which begins
//! anew with fewer rows in a batch.

use crate::long_values::{BATCH_BYTES, BATCH_ROWS};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, OffsetSizeTrait, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use datafusion::error::{DataFusionError, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A text is long if a batch of such would take so many times what it should.
const EXCESS_MAX: usize = 8;

/// Texts up to this length are never long.
const SHORT_BYTES: usize = EXCESS_MAX * BATCH_BYTES / BATCH_ROWS;

/// The longest text that is too long, of one execution.
#[derive(Debug, Default)]
pub(crate) struct LongTexts {
    /// How many rows a batch may have; 0: nobody minds.
    batch_rows: AtomicUsize,
    longest_bytes: AtomicUsize,
}

impl LongTexts {
    /// Begins to look for texts that are too long for batches of so many rows.
    pub(crate) fn watch(&self, batch_rows: usize) {
        self.longest_bytes.store(0, Ordering::Relaxed);
        self.batch_rows.store(batch_rows, Ordering::Relaxed);
    }

    /// Lets all pass: rows were answered, so that the execution cannot begin anew.
    pub(crate) fn ignore(&self) {
        self.batch_rows.store(0, Ordering::Relaxed);
    }

    /// Rows that were read, if there are more.
    ///
    /// # Errors
    /// If one of them has a text that is too long.
    pub(crate) fn checked(&self, batch: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        if let Some(batch) = &batch {
            self.check(batch)?;
        }
        Ok(batch)
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let batch_rows = self.batch_rows.load(Ordering::Relaxed);
        // One row is the least.
        if batch_rows <= 1 {
            return Ok(());
        }
        let longest_bytes = longest_bytes(batch);
        if longest_bytes.saturating_mul(batch_rows) <= EXCESS_MAX * BATCH_BYTES {
            return Ok(());
        }
        self.longest_bytes.fetch_max(longest_bytes, Ordering::Relaxed);
        let words = format!("a text of {longest_bytes} bytes is too long for a batch of rows");
        Err(DataFusionError::ResourcesExhausted(words))
    }

    /// How many rows a batch may have beside the text that ended the execution; `None` if none did.
    pub(crate) fn fitting_rows(&self) -> Option<usize> {
        match self.longest_bytes.load(Ordering::Relaxed) {
            0 => None,
            bytes => Some((BATCH_BYTES / bytes).max(1)),
        }
    }
}

/// The longest text, in bytes.
fn longest_bytes(batch: &RecordBatch) -> usize {
    let of_column = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => longest(column.as_string::<i32>().offsets()),
        DataType::Binary => longest(column.as_binary::<i32>().offsets()),
        _ => 0,
    };
    batch.columns().iter().map(of_column).max().unwrap_or(0)
}

fn longest<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> usize {
    let of_row = |ends: &[O]| ends[1].as_usize() - ends[0].as_usize();
    let whole = [offsets[0], offsets[offsets.len() - 1]];
    match of_row(&whole) {
        // Most batches need no look at each row.
        bytes if bytes <= SHORT_BYTES => bytes,
        _ => offsets.windows(2).map(of_row).max().unwrap_or(0),
    }
}
