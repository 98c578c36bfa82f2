//! The rows that a scan has collected for its next batch: counted in rows and in bytes, and charged while they are
//! held.

use super::scan_spec::ScanSpec;
use crate::rows::column_buffer::{Column, Kind, Values};
use crate::rows::merge::RowBatch;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::{Batch, SeriesRun};
use nyala_core::{Error, Result};
use std::sync::Arc;

/// Bytes of a batch, about: where strings are long, it has few rows.
pub(crate) const BATCH_BYTES: u64 = 8 << 20;
/// Strings of one column that are held at once, at most: arrays count their bytes in 31 bits.
const STRINGS_MAX: usize = 1 << 30;
/// So few bytes are not charged: a light scan does not ask the memory budget.
const LIGHT_BYTES: u64 = 64 << 10;
/// The step by which the charge grows.
const STEP_BYTES: u64 = 256 << 10;

/// Rows collected.
pub(crate) struct ScanBuffer {
    pub(crate) runs: Vec<SeriesRun>,
    pub(crate) batch: RowBatch<Vec<i64>>,
    row_bytes: u64,
    has_strings: bool,
    /// Bytes that are charged or need not be.
    covered_bytes: u64,
    charge: Charge,
}

impl ScanBuffer {
    /// No rows yet.
    pub(crate) fn new(kinds: &[Kind], budget: &Arc<MemoryBudget>) -> Self {
        Self::of(Vec::new(), RowBatch::empty(kinds), budget)
    }

    /// Rows that are not charged yet.
    pub(crate) fn of(runs: Vec<SeriesRun>, batch: RowBatch<Vec<i64>>, budget: &Arc<MemoryBudget>) -> Self {
        let cell_bytes = |column: &Column| match &column.values {
            Values::Word(_) => 8,
            Values::Wide(_) => 16,
            Values::Bytes(_) => 4,
        };
        Self {
            row_bytes: 8 + batch.columns.iter().map(cell_bytes).sum::<u64>(),
            has_strings: batch.columns.iter().any(|column| matches!(column.values, Values::Bytes(_))),
            runs,
            batch,
            covered_bytes: LIGHT_BYTES,
            charge: budget.charge(Component::Query, 0),
        }
    }

    /// Drops the rows and keeps their memory, which stays charged.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.batch.clear();
    }

    /// Charges the bytes that the rows take, and returns them: an error if there is no memory for them.
    #[inline]
    pub(crate) fn hold(&mut self) -> Result<u64> {
        let mut bytes = self.batch.keys.len() as u64 * self.row_bytes;
        if self.has_strings {
            bytes += self.string_bytes()?;
        }
        if bytes > self.covered_bytes {
            let wanted = bytes.next_multiple_of(STEP_BYTES);
            self.charge.try_grow(wanted - self.charge.bytes())?;
            self.covered_bytes = wanted;
        }
        Ok(bytes)
    }

    fn string_bytes(&self) -> Result<u64> {
        let mut all = 0;
        for column in &self.batch.columns {
            let Values::Bytes(strings) = &column.values else { continue };
            if strings.data.len() > STRINGS_MAX {
                return Err(Error::limit(format!(
                    "strings of more than {} MiB at one time: ask for fewer series at once",
                    STRINGS_MAX >> 20
                )));
            }
            all += strings.data.len() as u64;
        }
        Ok(all)
    }

    /// The rows as a batch, unless there are none; and their charge, which the caller keeps while the batch is likely
    /// to exist.
    pub(crate) fn into_batch(self, spec: &ScanSpec) -> Result<(Option<Batch>, Charge)> {
        Ok((batch_of(spec, self.runs, self.batch)?, self.charge))
    }
}

/// Makes a batch of rows.
pub(crate) fn batch_of(
    spec: &ScanSpec,
    runs: Vec<SeriesRun>,
    batch: RowBatch<Vec<i64>>,
) -> Result<Option<Batch>> {
    let rows = batch.rows();
    if rows == 0 {
        return Ok(None);
    }
    let RowBatch { keys, columns, .. } = batch;
    let columns = spec.arrays(columns, |_| Column::words(keys.iter().map(|time| *time as u64).collect()))?;
    Ok(Some(Batch { rows, series: runs, columns }))
}
