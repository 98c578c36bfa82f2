//! A table of series with one integer field, for tests of the engine through its public face.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::{
    Alteration, CellColumn, Operation, RowSelection, ScanRequest, SnapshotRef, Store, Upsert, WriteBatch,
    WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, TableId, TableSchema};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::sync::Arc;

/// An engine in `/data` whose maintenance is done by hand.
pub fn options(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        ..EngineOptions::new("/data")
    }
}

/// A batch of (series, time, value).
pub fn points(table: TableId, rows: &[(u32, i64, Option<i64>)]) -> WriteBatch {
    let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))) as _),
        cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1))) as _),
        cells(2, Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2))) as _),
    ];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })] }
}

/// All rows by key.
pub fn rows(engine: &Engine, table: TableId) -> Result<Vec<(u32, i64, Option<i64>)>> {
    rows_of(&engine.latest(), table)
}

/// The same of a snapshot.
pub fn rows_of(snapshot: &SnapshotRef, table: TableId) -> Result<Vec<(u32, i64, Option<i64>)>> {
    block_on(async {
        let mut stream = snapshot
            .scan(ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(1), ColumnId(2)]))
            .await?;
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await? {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
            let values = batch.columns[1].as_primitive::<Int64Type>();
            let series =
                batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            rows.extend(series.zip(times.values()).zip(values).map(|((s, t), v)| (s, *t, v)));
        }
        Ok(rows)
    })
}

/// Makes the table.
pub fn create(engine: &Engine) -> Result<TableId> {
    create_named(engine, "cpu")
}

/// The same with another name.
pub fn create_named(engine: &Engine, name: &str) -> Result<TableId> {
    block_on(async {
        let table = engine.create_table(TableSchema::measurement(name, 1000)).await?;
        let field = Alteration::add_column("v", ColumnType::Int64);
        engine.alter_table(table, vec![field]).await?;
        Ok(table)
    })
}
