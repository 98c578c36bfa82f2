//! For unit tests: a measurement of one series with one field.

use crate::{Engine, block_on};
use arrow_array::{Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::{Alteration, CellColumn, Operation, Store, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnType, Result, TableId, TableSchema};
use std::ops::Range;
use std::sync::Arc;

/// Creates the measurement, whose partitions are so wide (ns).
pub(crate) fn create(engine: &Engine, width_ns: i64) -> Result<TableId> {
    let table = block_on(engine.create_table(TableSchema::measurement("cpu", width_ns)))?;
    block_on(engine.alter_table(table, vec![Alteration::add_column("v", ColumnType::Int64)]))?;
    Ok(table)
}

/// Writes points at these times (ns), in one batch.
pub(crate) fn write(engine: &Engine, table: TableId, times_ns: Range<i64>) -> Result<()> {
    let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from_iter_values(times_ns.clone().map(|_| 1))) as _),
        cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(times_ns.clone())) as _),
        cells(2, Arc::new(Int64Array::from_iter_values(times_ns)) as _),
    ];
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
}
