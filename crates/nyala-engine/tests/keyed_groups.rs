//! Tables with any key whose rowsets have many groups, on several index pages, with rows of all lengths: every look-up and
//! every range is what the naive store has, also when the cache is full and keeps rows by themselves.

use arrow_array::{ArrayRef, Int64Array, StringArray};
use nyala_core::arrays::value_at;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    CellColumn, DeleteMode, Direction, Freshness, Operation, Order, RowSelection, ScanRequest, Store, Upsert,
    WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableId, TableSchema, Value};
use nyala_engine::fs::{FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/data";
/// So many that an index page, of 32 groups of 32 KiB, is not enough.
const ROWS: i64 = 3000;

const MEMORY_BYTES: u64 = 64 << 20;

fn open(fs: &FsRef, memory: &Arc<MemoryBudget>) -> Result<Engine> {
    let (fs, memory) = (fs.clone(), memory.clone());
    Engine::open(EngineOptions { fs, memory, maintenance_threads: 0, ..EngineOptions::new(DIR) })
}

/// Leaves the cache what it always has, which is less than the rows need.
fn squeeze(memory: &Arc<MemoryBudget>) -> Charge {
    memory.charge(Component::SeriesIndex, MEMORY_BYTES / 100 * 88)
}

fn schema() -> TableSchema {
    let columns = vec![
        ColumnSchema::new(ColumnId(0), "name", ColumnType::String).required(),
        ColumnSchema::new(ColumnId(1), "number", ColumnType::Int64).required(),
        ColumnSchema::new(ColumnId(2), "text", ColumnType::String),
        ColumnSchema::new(ColumnId(3), "count", ColumnType::Int64),
    ];
    TableSchema::keyed("rows", columns, vec![ColumnId(0), ColumnId(1)])
}

fn keys(rows: &[i64]) -> [ArrayRef; 2] {
    // Names that begin with each other, and hold the byte that ends them when they are encoded.
    let name = |row: &i64| format!("n\0{}", "x".repeat((row / 700) as usize));
    [
        Arc::new(StringArray::from_iter_values(rows.iter().map(name))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row - ROWS / 2))),
    ]
}

/// Texts of a kilobyte, now and then one that is longer than a group, and some missing.
fn text(row: i64, salt: i64) -> Option<String> {
    let length = match row % 500 {
        7 => 150_000,
        11 => 40_000,
        _ => 1000,
    };
    let mut state = row as u64 ^ (salt as u64) << 32 | 1;
    let mut hex = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    (row % 13 > 0).then(|| (0..length / 16).map(|_| hex()).collect())
}

fn upsert(table: TableId, rows: &[i64], salt: i64, with_text: bool) -> WriteBatch {
    let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
    let [names, numbers] = keys(rows);
    let mut columns = vec![cells(0, names), cells(1, numbers)];
    if with_text {
        let texts = rows.iter().map(|row| text(*row, salt)).collect::<StringArray>();
        columns.push(cells(2, Arc::new(texts)));
    }
    columns.push(cells(3, Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row * salt)))));
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
    WriteBatch { operations: vec![Operation::Upsert(upsert)] }
}

fn rows_of(store: &dyn Store, request: ScanRequest) -> Result<Vec<Vec<Option<Value>>>> {
    block_on(async {
        let mut stream = store.snapshot(Freshness::Latest).await?.scan(request).await?;
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await? {
            let cells = |row| batch.columns.iter().map(|column| value_at(column, row)).collect::<Vec<_>>();
            rows.extend((0..batch.rows).map(cells));
        }
        Ok(rows)
    })
}

fn key(row: i64) -> Vec<Value> {
    let [names, numbers] = keys(&[row]);
    vec![value_at(&names, 0).expect("a name"), value_at(&numbers, 0).expect("a number")]
}

fn compare(engine: &Engine, model: &MemoryStore, request: ScanRequest, when: &str) -> Result<()> {
    let (found, expected) = (rows_of(engine, request.clone())?, rows_of(model, request)?);
    assert!(found == expected, "{when}: {} rows, not {}", found.len(), expected.len());
    Ok(())
}

fn column_sets() -> impl Iterator<Item = Vec<ColumnId>> {
    [vec![0, 1, 2, 3], vec![3], vec![1, 2], vec![]]
        .into_iter()
        .map(|ids| ids.into_iter().map(ColumnId).collect())
}

fn look_ups_agree(engine: &Engine, model: &MemoryStore, table: TableId, when: &str) -> Result<()> {
    for columns in column_sets() {
        // Beyond the first and the last row, too.
        for row in (-3..ROWS + 3).step_by(17) {
            let rows =
                RowSelection::Keys { start: Bound::Included(key(row)), end: Bound::Included(key(row)) };
            let request = ScanRequest::by_key(table, rows, columns.clone());
            compare(engine, model, request, &format!("{when}, row {row}"))?;
        }
    }
    Ok(())
}

fn agree(engine: &Engine, model: &MemoryStore, table: TableId, when: &str) -> Result<()> {
    look_ups_agree(engine, model, table, when)?;
    for columns in column_sets() {
        for (first, last) in [(0, ROWS), (5, 6), (100, 900), (1400, 1500), (2990, 4000), (-10, 3)] {
            for direction in [Direction::Forward, Direction::Backward] {
                for limit in [None, Some(3), Some(70)] {
                    let rows = RowSelection::Keys {
                        start: Bound::Excluded(key(first)),
                        end: Bound::Included(key(last)),
                    };
                    let request = ScanRequest::by_key(table, rows, columns.clone());
                    let request = ScanRequest { order: Order::Key(direction), limit, ..request };
                    compare(
                        engine,
                        model,
                        request,
                        &format!("{when}, {first} to {last} {direction:?} {limit:?}"),
                    )?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn look_ups_and_ranges_over_many_groups_are_what_was_written() -> Result<()> {
    let fs: FsRef = Arc::new(SimulatedFs::new());
    let memory = MemoryBudget::new(MEMORY_BYTES);
    let engine = open(&fs, &memory)?;
    let model = MemoryStore::model_of(engine.capabilities());
    let table = block_on(engine.create_table(schema()))?;
    assert_eq!(block_on(model.create_table(schema()))?, table);
    let write = |engine: &Engine, batch: WriteBatch| -> Result<()> {
        block_on(engine.write(batch.clone()))?;
        block_on(model.write(batch)).map(drop)
    };
    let every = |step: i64, offset: i64| (offset..ROWS).step_by(step as usize).collect::<Vec<i64>>();
    write(&engine, upsert(table, &every(1, 0), 1, true))?;
    agree(&engine, &model, table, "in memory")?;
    engine.flush()?;
    agree(&engine, &model, table, "in one rowset")?;
    write(&engine, upsert(table, &every(3, 1), 2, false))?;
    let keys = keys(&every(7, 2)).to_vec();
    let delete = Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys };
    write(&engine, WriteBatch { operations: vec![delete] })?;
    agree(&engine, &model, table, "with changes in memory")?;
    engine.flush()?;
    agree(&engine, &model, table, "in two rowsets")?;
    let squeezed = squeeze(&memory);
    look_ups_agree(&engine, &model, table, "in two rowsets, beside a full cache")?;
    drop(squeezed);
    write(&engine, upsert(table, &every(14, 2), 3, false))?;
    engine.flush()?;
    agree(&engine, &model, table, "in three rowsets")?;
    drop(engine);
    let engine = open(&fs, &memory)?;
    agree(&engine, &model, table, "opened again")?;
    engine.compact()?;
    agree(&engine, &model, table, "merged")?;
    let _squeezed = squeeze(&memory);
    look_ups_agree(&engine, &model, table, "merged, beside a full cache")?;
    drop(engine);
    assert_eq!(check(&fs, Path::new(DIR), &mut |_| {})?.damage, []);
    Ok(())
}

#[test]
fn a_full_cache_keeps_long_rows_without_their_groups() -> Result<()> {
    let fs: FsRef = Arc::new(SimulatedFs::new());
    let memory = MemoryBudget::new(MEMORY_BYTES);
    let engine = open(&fs, &memory)?;
    let table = block_on(engine.create_table(schema()))?;
    let all: Vec<i64> = (0..ROWS).collect();
    block_on(engine.write(upsert(table, &all, 1, true)))?;
    engine.flush()?;
    let _squeezed = squeeze(&memory);
    // Of those of a kilobyte, in an order in which no two of a group follow each other; returns the blocks that were read.
    let read = |rows: &mut dyn Iterator<Item = i64>| -> Result<u64> {
        let before = engine.stats().cache_misses;
        for row in rows {
            let one = RowSelection::Keys { start: Bound::Included(key(row)), end: Bound::Included(key(row)) };
            let found = rows_of(&engine, ScanRequest::by_key(table, one, vec![ColumnId(2), ColumnId(3)]))?;
            let text = text(row, 1).map(Value::String);
            assert_eq!(found, [vec![text, Some(Value::Int(row))]], "row {row}");
        }
        Ok(engine.stats().cache_misses - before)
    };
    let is_short = |row: &i64| ![7, 11].contains(&(row % 500));
    read(&mut (0..ROWS).map(|at| at * 1201 % ROWS).filter(is_short))?;
    // Spread over more groups than fit.
    let few = || (0..300).map(|at| at * 1210 % ROWS).filter(is_short);
    read(&mut few())?;
    assert_eq!(read(&mut few())?, 0, "they are all in the cache");
    Ok(())
}
