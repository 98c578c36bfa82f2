//! The smallest and largest keys and times: an acknowledged row is found again by every kind of request.

mod support;

use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::schema::Partitioning;
use nyala_core::store::battery::compare_stores;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{CellColumn, DeleteMode, Operation, Store, Upsert, WriteBatch, WriteMode};
use nyala_core::time::{MAX_TIME_NS, MIN_TIME_NS};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema, TimeRange};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, block_on};
use std::sync::Arc;
use support::{create, options, points, rows};

#[test]
fn a_series_has_rows_at_every_time_but_the_one_no_range_holds() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    let refused = block_on(engine.write(points(table, &[(1, 5, Some(5)), (1, i64::MAX, Some(6))])));
    let refused = refused.expect_err("no range of times holds it");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.message().contains("9223372036854775807"), "{refused}");
    assert!(rows(&engine, table)?.is_empty(), "nothing of it is stored");
    let times = [i64::MIN, MIN_TIME_NS, -1, 0, MAX_TIME_NS - 1, MAX_TIME_NS];
    let expected: Vec<_> = times.iter().map(|time| (1, *time, Some(*time))).collect();
    block_on(engine.write(points(table, &expected)))?;
    assert_eq!(rows(&engine, table)?, expected);
    assert!(engine.flush()?);
    assert_eq!(rows(&engine, table)?, expected);
    let rowsets = engine.stats().rowsets;
    // Of the one time nothing can be deleted: it is as if nobody had asked, on disk too.
    let keys: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(vec![1, 2])),
        Arc::new(TimestampNanosecondArray::from(vec![i64::MAX, i64::MAX])),
    ];
    block_on(engine.write(WriteBatch {
        operations: vec![Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys }],
    }))?;
    engine.flush()?;
    assert_eq!(engine.stats().rowsets, rowsets);
    drop(engine);
    let engine = Engine::open(options(&fs.snapshot()))?;
    assert_eq!(rows(&engine, table)?, expected);
    let ranges: Vec<_> =
        block_on(engine.partitions(table))?.into_iter().map(|partition| partition.range).collect();
    assert_eq!((ranges[0].start_ns, ranges[ranges.len() - 1].end_ns), (i64::MIN, i64::MAX));
    assert!(ranges.is_sorted_by(|a, b| a.end_ns <= b.start_ns), "{ranges:?}");
    Ok(())
}

/// A table with one key column and one other.
fn keyed(name: &str, column_type: ColumnType, time_width_ns: Option<i64>) -> TableSchema {
    let key = ColumnSchema::new(ColumnId(0), "k", column_type).required();
    let columns = vec![key, ColumnSchema::new(ColumnId(1), "v", ColumnType::Int64)];
    let partitioning = time_width_ns.map_or_else(Partitioning::default, Partitioning::by_time);
    TableSchema { partitioning, ..TableSchema::keyed(name, columns, vec![ColumnId(0)]) }
}

fn keys(column_type: ColumnType, values: &[i64]) -> ArrayRef {
    match column_type {
        ColumnType::Timestamp => Arc::new(TimestampNanosecondArray::from(values.to_vec())),
        _ => Arc::new(Int64Array::from(values.to_vec())),
    }
}

fn upsert(table: TableId, column_type: ColumnType, values: &[i64], mode: WriteMode) -> WriteBatch {
    let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
    let columns = vec![
        cells(0, keys(column_type, values)),
        cells(1, Arc::new(Int64Array::from(values.to_vec())) as ArrayRef),
    ];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode, columns })] }
}

#[test]
fn tables_with_other_keys_hold_every_value() -> Result<()> {
    let ends = [i64::MIN, MIN_TIME_NS, -1, 0, 1, MAX_TIME_NS, i64::MAX];
    for (column_type, width_ns) in
        [(ColumnType::Int64, None), (ColumnType::Timestamp, None), (ColumnType::Timestamp, Some(700))]
    {
        let fs = SimulatedFs::new();
        let mut engine = Engine::open(options(&fs))?;
        let model = MemoryStore::model_of(engine.capabilities());
        let schema = keyed("t", column_type, width_ns);
        let table = block_on(engine.create_table(schema.clone()))?;
        let of_model = block_on(model.create_table(schema))?;
        let tables = [(table, of_model)];
        let agree = |engine: &Engine, when: &str| {
            let agreed = block_on(compare_stores(engine, &model, &tables));
            agreed.unwrap_or_else(|error| panic!("{column_type:?} {width_ns:?}, {when}: {error}"));
        };
        let write = |engine: &Engine, batch: &dyn Fn(TableId) -> WriteBatch| {
            let found = block_on(engine.write(batch(table))).map(drop).map_err(|error| error.kind());
            assert_eq!(found, block_on(model.write(batch(of_model))).map(drop).map_err(|error| error.kind()));
        };
        write(&engine, &|table| upsert(table, column_type, &ends, WriteMode::Upsert));
        agree(&engine, "written");
        engine.flush()?;
        agree(&engine, "flushed");
        for (number, end) in ends.into_iter().enumerate() {
            write(&engine, &|table| upsert(table, column_type, &[end], WriteMode::Insert));
            write(&engine, &|table| upsert(table, column_type, &[end], WriteMode::Update));
            if number % 2 == 0 {
                let deleted = |table| Operation::DeleteKeys {
                    table,
                    mode: DeleteMode::Blind,
                    keys: vec![keys(column_type, &[end])],
                };
                write(&engine, &|table| WriteBatch { operations: vec![deleted(table)] });
            }
            agree(&engine, &format!("changed at {end}"));
        }
        drop(engine);
        engine = Engine::open(options(&fs))?;
        agree(&engine, "from the log");
        engine.flush()?;
        engine.compact()?;
        agree(&engine, "compacted");
        write(&engine, &|table| upsert(table, column_type, &ends, WriteMode::Upsert));
        let dropped = TimeRange::new(0, i64::MAX);
        block_on(engine.drop_partitions(table, dropped))?;
        block_on(model.drop_partitions(of_model, dropped))?;
        agree(&engine, "dropped up to the end");
        drop(engine);
        agree(&Engine::open(options(&fs))?, "dropped, from the log");
    }
    Ok(())
}
