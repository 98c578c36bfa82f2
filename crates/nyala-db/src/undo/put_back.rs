//! What is put back: cells of points as they were before a change, in operations of the store.

use super::rows::Row;
use crate::catalog::Field;
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use nyala_core::TableId;
use nyala_core::arrays::take_rows_or_null;
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::store::{Batch, CellColumn, DeleteMode, Operation, Upsert, WriteMode};
use std::sync::Arc;

/// The most points of an operation.
const ROWS_MAX: usize = 8192;

/// Collects points until there are enough for an operation.
pub(super) struct PutBack {
    table: TableId,
    fields: Vec<Field>,
    /// What all collected points had before is in this batch, …
    source: Option<Arc<Batch>>,
    /// … at these rows; `None`: they had nothing.
    rows: Vec<Option<u32>>,
    series: Vec<u32>,
    times_ns: Vec<i64>,
    /// By field, which of these points get back what they had of it.
    cells: Vec<Vec<bool>>,
    deleted: (Vec<u32>, Vec<i64>),
    /// Operations that are complete.
    ready: Vec<Operation>,
}

impl PutBack {
    pub(super) fn new(table: TableId, fields: Vec<Field>) -> Self {
        let cells = fields.iter().map(|_| Vec::new()).collect();
        let (source, rows, series, times_ns, deleted, ready) = Default::default();
        Self { table, fields, source, rows, series, times_ns, cells, deleted, ready }
    }

    /// Cells of a point get the values of `before`, or none. The fields are named by their positions.
    pub(super) fn set(&mut self, series: u32, time_ns: i64, before: Option<Row<'_>>, fields: &[usize]) {
        if let Some(Row { batch, .. }) = before {
            if self.source.as_ref().is_some_and(|source| !Arc::ptr_eq(source, batch)) {
                self.complete_upsert();
            }
            self.source = Some(batch.clone());
        }
        self.series.push(series);
        self.times_ns.push(time_ns);
        self.rows.push(before.map(|before| before.row as u32));
        self.cells.iter_mut().for_each(|cells| cells.push(false));
        let last = self.rows.len() - 1;
        fields.iter().for_each(|field| self.cells[*field][last] = true);
        if self.rows.len() == ROWS_MAX {
            self.complete_upsert();
        }
    }

    pub(super) fn delete(&mut self, series: u32, time_ns: i64) {
        self.deleted.0.push(series);
        self.deleted.1.push(time_ns);
        if self.deleted.0.len() == ROWS_MAX {
            self.complete_deletion();
        }
    }

    /// The operations that are complete.
    pub(super) fn take_ready(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.ready)
    }

    /// The last operations.
    pub(super) fn finish(mut self) -> Vec<Operation> {
        self.complete_upsert();
        self.complete_deletion();
        self.ready
    }

    fn complete_deletion(&mut self) {
        let (series, times_ns) = std::mem::take(&mut self.deleted);
        if !series.is_empty() {
            let keys: Vec<ArrayRef> =
                vec![Arc::new(UInt32Array::from(series)), Arc::new(TimestampNanosecondArray::from(times_ns))];
            self.ready.push(Operation::DeleteKeys { table: self.table, mode: DeleteMode::Blind, keys });
        }
    }

    fn complete_upsert(&mut self) {
        let (source, rows) = (self.source.take(), std::mem::take(&mut self.rows));
        if rows.is_empty() {
            return;
        }
        let key = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
        let series = UInt32Array::from(std::mem::take(&mut self.series));
        let times = TimestampNanosecondArray::from(std::mem::take(&mut self.times_ns));
        let mut columns = vec![key(SERIES_COLUMN, Arc::new(series)), key(TIME_COLUMN, Arc::new(times))];
        for (position, (field, cells)) in self.fields.iter().zip(&mut self.cells).enumerate() {
            let cells = std::mem::take(cells);
            if !cells.contains(&true) {
                continue;
            }
            let values = match &source {
                Some(source) => {
                    let rows = rows.iter().zip(&cells).map(|(row, is_set)| row.filter(|_| *is_set));
                    take_rows_or_null(&source.columns[1 + position], &rows.collect::<Vec<_>>())
                }
                None => new_null_array(&field.field_type.column_type().data_type(), rows.len()),
            };
            let nulls = BooleanBuffer::collect_bool(rows.len(), |row| cells[row] && values.is_null(row));
            let null_cells = (nulls.count_set_bits() > 0).then_some(nulls);
            columns.push(CellColumn { column: field.column, values, null_cells });
        }
        columns.sort_by_key(|cells| cells.column);
        self.ready.push(Operation::Upsert(Upsert { table: self.table, mode: WriteMode::Upsert, columns }));
    }
}
