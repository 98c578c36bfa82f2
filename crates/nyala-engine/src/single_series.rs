//! For unit tests: a measurement of one series with one field, and waiting for what other threads do with it.

use crate::{Engine, block_on};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::{
    Alteration, CellColumn, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, TableId, TableSchema};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// The times of all points (ns).
pub(crate) fn times(engine: &Engine, table: TableId) -> Result<Vec<i64>> {
    block_on(async {
        let request = ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(1)]);
        let (mut stream, mut times_ns) = (engine.latest().scan(request).await?, Vec::new());
        while let Some(batch) = stream.next().await? {
            times_ns.extend_from_slice(batch.columns[0].as_primitive::<TimestampNanosecondType>().values());
        }
        Ok(times_ns)
    })
}

/// Waits for something that other threads do.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
