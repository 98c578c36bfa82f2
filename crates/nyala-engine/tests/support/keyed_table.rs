//! A table of an integer under an integer key, and batches for it.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use nyala_core::store::{
    CellColumn, DeleteMode, Operation, RowSelection, ScanRequest, SnapshotRef, Store, Upsert, WriteBatch,
    WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableId, TableSchema};
use nyala_engine::fs::{FileSystem, SimulatedFs};
use nyala_engine::{Engine, block_on};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub const KEY: ColumnId = ColumnId(0);
pub const VALUE: ColumnId = ColumnId(1);

pub fn table(engine: &Engine, name: &str) -> Result<TableId> {
    let key = ColumnSchema::new(KEY, "k", ColumnType::Int64).required();
    let value = ColumnSchema::new(VALUE, "v", ColumnType::Int64);
    block_on(engine.create_table(TableSchema::keyed(name, vec![key, value], vec![KEY])))
}

pub fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub fn upsert(table: TableId, rows: &[(i64, i64)]) -> Operation {
    let (keys, values): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let cells = |column, values: &[i64]| CellColumn { column, values: integers(values), null_cells: None };
    let columns = vec![cells(KEY, &keys), cells(VALUE, &values)];
    Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
}

pub fn deletion(table: TableId, keys: &[i64]) -> Operation {
    Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys: vec![integers(keys)] }
}

pub fn batch(operations: Vec<Operation>) -> WriteBatch {
    WriteBatch { operations }
}

pub async fn rows(snapshot: &SnapshotRef, table: TableId) -> Result<BTreeMap<i64, i64>> {
    let mut stream = snapshot.scan(ScanRequest::by_key(table, RowSelection::All, vec![KEY, VALUE])).await?;
    let mut rows = BTreeMap::new();
    while let Some(batch) = stream.next().await? {
        let columns = batch.columns.iter().map(|column| column.as_primitive::<Int64Type>());
        let [keys, values] = columns.collect::<Vec<_>>()[..] else { panic!("two columns were asked for") };
        rows.extend(keys.values().iter().copied().zip(values.values().iter().copied()));
    }
    Ok(rows)
}

/// The files that have rows of stages.
pub fn staged_files(fs: &SimulatedFs) -> Result<usize> {
    let names = fs.list(Path::new("/data/rowsets"))?.into_iter().map(|entry| entry.name);
    Ok(names.filter(|name| name.ends_with(".staged")).count())
}
