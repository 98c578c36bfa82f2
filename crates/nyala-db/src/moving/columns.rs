//! The columns of a table that is moved: those of its key first, whatever the key is.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::BooleanBuffer;
use nyala_core::store::{
    Batch, CellColumn, DeleteMode, Operation, RowSelection, ScanRequest, SeriesSet, Upsert, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, TableId, TableSchema, TimeRange};
use std::sync::Arc;

/// The columns of a table, those of its key first.
pub(super) struct Columns {
    ids: Vec<ColumnId>,
    /// The types of those of the key.
    pub(super) key_types: Vec<ColumnType>,
    /// Which of them is the time by which rows are told apart by days.
    time: Option<usize>,
    is_series: bool,
}

impl Columns {
    pub(super) fn of(schema: &TableSchema) -> Self {
        let others = schema.columns.iter().map(|column| column.id).filter(|id| !schema.is_key(*id));
        let type_of = |id: &ColumnId| schema.column(*id).expect("schemas are validated").column_type;
        Self {
            ids: schema.key.iter().copied().chain(others).collect(),
            key_types: schema.key.iter().map(type_of).collect(),
            time: schema.time_key(),
            is_series: schema.is_series_keyed(),
        }
    }

    /// How many belong to the key.
    pub(super) fn keys(&self) -> usize {
        self.key_types.len()
    }

    /// Reads the rows of a range of times; a table that has no series is read as a whole.
    pub(super) fn request(&self, table: TableId, time: TimeRange) -> ScanRequest {
        match self.is_series {
            true => {
                let rows = RowSelection::Series { series: SeriesSet::All, time };
                ScanRequest::by_key(table, rows, self.ids[1..].to_vec())
            }
            false => ScanRequest::by_key(table, RowSelection::All, self.ids.clone()),
        }
    }

    /// The columns of a batch of this request.
    pub(super) fn arrays(&self, batch: Batch) -> Vec<ArrayRef> {
        if !self.is_series {
            return batch.columns;
        }
        let runs = batch.series.iter();
        let series = runs.flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
        let series: ArrayRef = Arc::new(UInt32Array::from_iter_values(series));
        std::iter::once(series).chain(batch.columns).collect()
    }

    /// The times of rows, ns.
    pub(super) fn times_ns<'a>(&self, arrays: &'a [ArrayRef]) -> Option<&'a [i64]> {
        self.time.map(|place| &**arrays[place].as_primitive::<TimestampNanosecondType>().values())
    }

    /// Writes rows to a table. `replaces`: there are rows under these keys, which get NULL where these have none.
    pub(super) fn upsert(&self, table: TableId, arrays: Vec<ArrayRef>, replaces: bool) -> Operation {
        // A new point of a series does without cells of what it lacks. A column of another table may have a default.
        let needs_nulls = replaces || !self.is_series;
        let cells = |(place, values): (usize, ArrayRef)| {
            let nulls = values.nulls().filter(|_| needs_nulls && place >= self.keys());
            let null_cells: Option<BooleanBuffer> = nulls.map(|valid| !valid.inner());
            CellColumn { column: self.ids[place], values, null_cells }
        };
        let columns = arrays.into_iter().enumerate().map(cells).collect();
        Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
    }

    /// Deletes rows of a table by their keys.
    pub(super) fn delete(&self, table: TableId, arrays: &[ArrayRef]) -> Operation {
        Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys: arrays[..self.keys()].to_vec() }
    }
}
