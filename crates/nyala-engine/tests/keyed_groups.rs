//! Tables with any key whose rowsets have many groups, on several index pages, with rows of all lengths: every look-up and
//! every range is what the naive store has.

use arrow_array::{ArrayRef, Int64Array, StringArray};
use nyala_core::arrays::value_at;
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

fn open(fs: &FsRef) -> Result<Engine> {
    Engine::open(EngineOptions { fs: fs.clone(), maintenance_threads: 0, ..EngineOptions::new(DIR) })
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
    (row % 13 > 0).then(|| format!("{row} {salt} ").repeat(length / 8))
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

fn agree(engine: &Engine, model: &MemoryStore, table: TableId, when: &str) -> Result<()> {
    let compare = |request: ScanRequest, what: &str| {
        let (found, expected) = (rows_of(engine, request.clone())?, rows_of(model, request)?);
        assert!(found == expected, "{when}, {what}: {} rows, not {}", found.len(), expected.len());
        Result::Ok(())
    };
    let key = |row: i64| {
        let [names, numbers] = keys(&[row]);
        vec![value_at(&names, 0).expect("a name"), value_at(&numbers, 0).expect("a number")]
    };
    let column_sets = [vec![0, 1, 2, 3], vec![3], vec![1, 2], vec![]];
    for columns in column_sets.iter().map(|ids| ids.iter().map(|id| ColumnId(*id)).collect::<Vec<_>>()) {
        // Beyond the first and the last row, too.
        for row in (-3..ROWS + 3).step_by(17) {
            let rows =
                RowSelection::Keys { start: Bound::Included(key(row)), end: Bound::Included(key(row)) };
            compare(ScanRequest::by_key(table, rows, columns.clone()), &format!("row {row}"))?;
        }
        for (first, last) in [(0, ROWS), (5, 6), (100, 900), (1400, 1500), (2990, 4000), (-10, 3)] {
            for direction in [Direction::Forward, Direction::Backward] {
                for limit in [None, Some(3), Some(70)] {
                    let rows = RowSelection::Keys {
                        start: Bound::Excluded(key(first)),
                        end: Bound::Included(key(last)),
                    };
                    let request = ScanRequest::by_key(table, rows, columns.clone());
                    let request = ScanRequest { order: Order::Key(direction), limit, ..request };
                    compare(request, &format!("{first} to {last} {direction:?} {limit:?}"))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn look_ups_and_ranges_over_many_groups_are_what_was_written() -> Result<()> {
    let fs: FsRef = Arc::new(SimulatedFs::new());
    let engine = open(&fs)?;
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
    write(&engine, upsert(table, &every(14, 2), 3, false))?;
    engine.flush()?;
    agree(&engine, &model, table, "in three rowsets")?;
    drop(engine);
    let engine = open(&fs)?;
    agree(&engine, &model, table, "opened again")?;
    engine.compact()?;
    agree(&engine, &model, table, "merged")?;
    drop(engine);
    assert_eq!(check(&fs, Path::new(DIR), &mut |_| {})?.damage, []);
    Ok(())
}
