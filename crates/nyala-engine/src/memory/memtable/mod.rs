//! Rows that are not in a rowset yet.
//!
//! A memtable belongs to one partition and to the sequences after a cut; a flush turns it into a rowset
//! with the same sequences. It only ever grows. Rows carry their sequence, so the order in which threads
//! apply batches does not show, and readers leave out what is newer than their snapshot.

pub(crate) mod arena;
pub(crate) mod iterator;
pub(crate) mod keyed;
mod packed;
pub(crate) mod row_collector;
pub(crate) mod series;
mod series_index;
mod shape;
pub(crate) mod shard;
pub(crate) mod unresolved_rows;
pub(crate) mod versions;

use crate::rows::column_buffer::{CellSource, written_state};
use crate::rows::tombstone::Tombstone;
use arrow_array::{Array, ArrayRef};
use keyed::KeyedMemtable;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::{CellColumn, Upsert};
use nyala_core::{ColumnId, ColumnType, Error, Result, TableSchema, TimeRange};
use parking_lot::Mutex;
use series::SeriesMemtable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows in memory, by the kind of the table.
pub(crate) struct Memtable {
    pub(crate) rows: MemtableRows,
    charge: Mutex<Charge>,
    /// A panic happened while rows were added: its contents cannot be relied on.
    is_torn: AtomicBool,
    /// Rows of later batches are not seen, whatever the reader's sequence.
    pub(crate) visible_to: u64,
    /// The memtable that has these rows. It is charged for them.
    whole: Option<Arc<Memtable>>,
}

/// Marks a memtable as torn unless it is forgotten.
struct TornGuard<'a>(&'a AtomicBool);

impl Drop for TornGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(crate) enum MemtableRows {
    Series(Arc<SeriesMemtable>),
    Keyed(Arc<KeyedMemtable>),
}

/// What readers of series leave out.
#[derive(Clone, Copy)]
pub(crate) struct Visibility<'a> {
    /// Rows of batches after this are not seen.
    pub(crate) sequence: u64,
    /// Deleted ranges; rows up to their sequence are not seen.
    pub(crate) tombstones: &'a [Arc<Tombstone>],
}

impl Memtable {
    /// An empty one for sequences from `base_sequence` on.
    pub(crate) fn new(schema: &TableSchema, base_sequence: u64, budget: &Arc<MemoryBudget>) -> Self {
        Self::charged_to(Component::Memtable, schema, base_sequence, budget)
    }

    /// The same, for a use of its own.
    pub(crate) fn charged_to(
        component: Component,
        schema: &TableSchema,
        base_sequence: u64,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let rows = if schema.is_series_keyed() {
            MemtableRows::Series(Arc::new(SeriesMemtable::new(base_sequence)))
        } else {
            MemtableRows::Keyed(Arc::default())
        };
        let charge = Mutex::new(budget.charge(component, 0));
        Self { rows, charge, is_torn: AtomicBool::new(false), visible_to: u64::MAX, whole: None }
    }

    /// The rows of a memtable up to a sequence: beside them a reader may see rows of its own with higher sequences.
    pub(crate) fn up_to(whole: &Arc<Self>, sequence: u64, budget: &Arc<MemoryBudget>) -> Self {
        let rows = match &whole.rows {
            MemtableRows::Series(series) => MemtableRows::Series(series.clone()),
            MemtableRows::Keyed(keyed) => MemtableRows::Keyed(keyed.clone()),
        };
        Self {
            rows,
            charge: Mutex::new(budget.charge(Component::Query, 0)),
            is_torn: AtomicBool::new(false),
            visible_to: sequence.min(whole.visible_to),
            whole: Some(whole.clone()),
        }
    }

    /// What a reader of series sees of it at a sequence.
    pub(crate) fn visibility<'a>(&self, sequence: u64, tombstones: &'a [Arc<Tombstone>]) -> Visibility<'a> {
        Visibility { sequence: self.visible_at(sequence), tombstones }
    }

    /// The sequence up to which a reader sees its rows that reads at another one.
    pub(crate) fn visible_at(&self, sequence: u64) -> u64 {
        sequence.min(self.visible_to)
    }

    /// Adds rows of an upsert: all, or those listed.
    pub(crate) fn upsert(&self, upsert: &PreparedUpsert<'_>, rows: Option<&[u32]>, sequence: u64) {
        let guard = TornGuard(&self.is_torn);
        match &self.rows {
            MemtableRows::Series(series) => series.upsert(upsert, rows, sequence),
            MemtableRows::Keyed(keyed) => keyed.upsert(upsert, rows, sequence),
        }
        std::mem::forget(guard);
        self.account();
    }

    /// Adds deletes of keys: all, or those listed.
    pub(crate) fn delete(&self, keys: &PreparedKeys<'_>, rows: Option<&[u32]>, sequence: u64) {
        let guard = TornGuard(&self.is_torn);
        match &self.rows {
            MemtableRows::Series(series) => series.delete(keys, rows, sequence),
            MemtableRows::Keyed(keyed) => keyed.delete(keys, rows, sequence),
        }
        std::mem::forget(guard);
        self.account();
    }

    /// No row in it has a lower sequence.
    pub(crate) fn base_sequence(&self) -> u64 {
        match &self.rows {
            MemtableRows::Series(series) => series.base_sequence,
            MemtableRows::Keyed(_) => 0,
        }
    }

    /// An error if its rows cannot be relied on. Asked before they are read.
    pub(crate) fn check(&self) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |whole| whole.check())?;
        match self.is_torn.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::retry(
                "rows in memory cannot be read before the server is started again: a batch broke off among them",
            )),
        }
    }

    /// Whether it should be frozen, and a new one made, before a batch of about this sequence is added. It would take
    /// more rows, but at a higher cost.
    pub(crate) fn is_full(&self, sequence: u64) -> bool {
        match &self.rows {
            MemtableRows::Series(series) => series.is_full(sequence),
            MemtableRows::Keyed(_) => false,
        }
    }

    /// Its rows are in files. It is in memory for as long as somebody reads it, and no reason for writers to wait.
    pub(crate) fn set_flushed(&self) {
        self.charge.lock().move_to(Component::Query);
    }

    fn account(&self) {
        self.charge.lock().set(self.memory_bytes());
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.rows {
            MemtableRows::Series(series) => series.memory_bytes(),
            MemtableRows::Keyed(keyed) => keyed.memory_bytes(),
        }
    }

    /// Versions of rows.
    pub(crate) fn rows(&self) -> u64 {
        match &self.rows {
            MemtableRows::Series(series) => series.rows(),
            MemtableRows::Keyed(keyed) => keyed.rows(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Times between which all rows of a series-keyed table lie.
    pub(crate) fn time_bounds(&self) -> Option<TimeRange> {
        match &self.rows {
            MemtableRows::Series(series) => series.time_bounds(),
            MemtableRows::Keyed(_) => None,
        }
    }

    pub(crate) fn series(&self) -> Option<&SeriesMemtable> {
        match &self.rows {
            MemtableRows::Series(series) => Some(series),
            MemtableRows::Keyed(_) => None,
        }
    }

    pub(crate) fn keyed(&self) -> Option<&KeyedMemtable> {
        match &self.rows {
            MemtableRows::Keyed(keyed) => Some(keyed),
            MemtableRows::Series(_) => None,
        }
    }
}

/// Keys taken out of their arrays.
pub(crate) struct PreparedKeys<'a> {
    /// A source per key column, in key order, with its type.
    pub(crate) columns: Vec<(CellSource<'a>, ColumnType)>,
    pub(crate) rows: usize,
}

impl<'a> PreparedKeys<'a> {
    /// The keys of a delete that was validated against the schema.
    pub(crate) fn of_delete(keys: &'a [ArrayRef], schema: &TableSchema) -> Self {
        let columns = schema.key.iter().zip(keys).map(|(id, array)| {
            let column_type = schema.column(*id).expect("schemas are validated").column_type;
            (CellSource::of(array, column_type), column_type)
        });
        Self { columns: columns.collect(), rows: keys.first().map_or(0, |array| array.len()) }
    }

    /// The encoded key of a row.
    pub(crate) fn encoded(&self, row: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.encode(row, &mut key);
        key
    }

    /// The same, in place of what a buffer holds.
    pub(crate) fn encode(&self, row: usize, key: &mut Vec<u8>) {
        key.clear();
        for (source, column_type) in &self.columns {
            crate::rows::key::encode_cell(key, source, *column_type, row);
        }
    }
}

/// A validated upsert taken out of its arrays.
pub(crate) struct PreparedUpsert<'a> {
    pub(crate) keys: PreparedKeys<'a>,
    /// The columns outside the key.
    pub(crate) cells: Vec<PreparedCells<'a>>,
}

/// Cells of one column of an upsert.
pub(crate) struct PreparedCells<'a> {
    pub(crate) column: ColumnId,
    pub(crate) source: CellSource<'a>,
    /// The cells as words, where that takes no conversion.
    pub(crate) words: Option<&'a [u64]>,
    written: &'a CellColumn,
    /// No cell is NULL or absent.
    pub(crate) all_values: bool,
}

impl PreparedCells<'_> {
    /// The state of a row's cell.
    pub(crate) fn state(&self, row: usize) -> u8 {
        if self.all_values { crate::rows::column_buffer::VALUE } else { written_state(self.written, row) }
    }
}

impl<'a> PreparedUpsert<'a> {
    /// Takes an upsert apart that was validated against the schema.
    pub(crate) fn new(upsert: &'a Upsert, schema: &TableSchema) -> Self {
        let type_of = |id| schema.column(id).expect("upserts are validated").column_type;
        let columns = schema
            .key
            .iter()
            .map(|id| {
                let cells = upsert.column(*id).expect("upserts are validated");
                (CellSource::of(&cells.values, type_of(*id)), type_of(*id))
            })
            .collect();
        let cells = upsert
            .columns
            .iter()
            .filter(|cells| !schema.is_key(cells.column))
            .map(|cells| PreparedCells {
                column: cells.column,
                source: CellSource::of(&cells.values, type_of(cells.column)),
                words: CellSource::words_of(&cells.values, type_of(cells.column)),
                written: cells,
                all_values: cells.values.null_count() == 0,
            })
            .collect();
        Self { keys: PreparedKeys { columns, rows: upsert.rows() }, cells }
    }
}
