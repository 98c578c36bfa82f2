//! How often files are read: what lies side by side is read at once.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::{
    Alteration, CellColumn, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, TableId, TableSchema};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, block_on};
use std::sync::Arc;
use support::options;

const COLUMNS: u32 = 10;
const SERIES: u32 = 8;
const ROWS: i64 = 5000;
/// Of 1024 rows each.
const GROUPS: u64 = SERIES as u64 * ROWS as u64 / 1024 + SERIES as u64;
/// Footer, header and index pages.
const OTHERS: u64 = 40;

/// A file with the rows of some series in ten columns.
fn filled(fs: &SimulatedFs) -> Result<TableId> {
    let engine = Engine::open(options(fs))?;
    let table = block_on(engine.create_table(TableSchema::measurement("cpu", 1 << 40)))?;
    let column = |number: u32| Alteration::add_column(format!("v{number}"), ColumnType::Int64);
    block_on(engine.alter_table(table, (0..COLUMNS).map(column).collect()))?;
    let cells = |column, values| CellColumn { column: ColumnId(column), values, null_cells: None };
    for series in 0..SERIES {
        let rows = 0..ROWS;
        let mut columns: Vec<CellColumn> = vec![
            cells(0, Arc::new(UInt32Array::from(vec![series; ROWS as usize])) as ArrayRef),
            cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.clone())) as ArrayRef),
        ];
        columns.extend((0..COLUMNS).map(|number| {
            let value = |row: i64| (row * 7919 + i64::from(number) * 31) % 101;
            cells(2 + number, Arc::new(Int64Array::from_iter_values(rows.clone().map(value))) as ArrayRef)
        }));
        let operations = vec![Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })];
        block_on(engine.write(WriteBatch { operations }))?;
    }
    assert!(engine.flush()?);
    Ok(table)
}

/// Reads some columns of all rows with an empty cache. Returns how many rows there are, and how often files were read.
fn scanned(fs: &SimulatedFs, table: TableId, columns: &[u32]) -> Result<(usize, u64)> {
    let engine = Engine::open(options(fs))?;
    let before = fs.reads();
    let columns = std::iter::once(1).chain(columns.iter().map(|number| 2 + number)).map(ColumnId).collect();
    let rows = block_on(async {
        let request = ScanRequest::by_key(table, RowSelection::All, columns);
        let (mut stream, mut rows) = (engine.latest().scan(request).await?, 0);
        while let Some(batch) = stream.next().await? {
            rows += batch.rows;
        }
        Result::Ok(rows)
    })?;
    Ok((rows, fs.reads() - before))
}

#[test]
fn columns_of_a_group_are_read_at_once() -> Result<()> {
    let fs = SimulatedFs::new();
    let table = filled(&fs)?;
    let all: Vec<u32> = (0..COLUMNS).collect();
    // Times are read first. What lies between two columns that are far apart is not read.
    for (columns, each) in [(&all[..], 2), (&[4, 5], 2), (&[0, 9], 3), (&[3], 2)] {
        let (rows, reads) = scanned(&fs.snapshot(), table, columns)?;
        assert_eq!(rows, (i64::from(SERIES) * ROWS) as usize);
        assert!(reads <= each * GROUPS + OTHERS, "{reads} reads of columns {columns:?} in {GROUPS} groups");
    }
    Ok(())
}
