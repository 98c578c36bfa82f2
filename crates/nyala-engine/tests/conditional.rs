//! Concurrent conditional batches: each sees what earlier ones made of its keys, though it does not wait for their
//! syncs.

use arrow_array::{ArrayRef, Int64Array};
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::{
    CellColumn, DeleteMode, Operation, RowPosition, Store, Update, Upsert, WriteBatch, WriteMode,
};
use nyala_core::store::{Predicate, RowSelection};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema, Value};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);

fn options(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions { fs: Arc::new(fs.clone()), maintenance_threads: 0, ..EngineOptions::new("/data") }
}

fn table(engine: &Engine) -> Result<TableId> {
    let key = ColumnSchema::new(KEY, "k", ColumnType::Int64).required();
    let value =
        ColumnSchema { default: Some(Value::Int(-7)), ..ColumnSchema::new(VALUE, "v", ColumnType::Int64) };
    block_on(engine.create_table(TableSchema::keyed("t", vec![key, value], vec![KEY])))
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn upsert(table: TableId, mode: WriteMode, rows: &[(i64, i64)]) -> WriteBatch {
    let (keys, values): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let cells = |column, values: &[i64]| CellColumn { column, values: integers(values), null_cells: None };
    let columns = vec![cells(KEY, &keys), cells(VALUE, &values)];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode, columns })] }
}

fn delete(table: TableId, mode: DeleteMode, keys: &[i64]) -> WriteBatch {
    WriteBatch { operations: vec![Operation::DeleteKeys { table, mode, keys: vec![integers(keys)] }] }
}

/// A writer that inserted a row owns it until it deletes it.
#[test]
fn a_row_that_is_inserted_has_one_holder() -> Result<()> {
    const WORKERS: i64 = 6;
    const KEYS: usize = 3;
    /// How often each worker gets a row.
    const HELD: usize = 50;
    /// A worker that holds a row may stand still for seconds, and others go on trying.
    const ATTEMPTS_MAX: i64 = 10_000_000;
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine)?;
    let holders: [AtomicI64; KEYS] = Default::default();
    std::thread::scope(|scope| {
        for worker in 1..=WORKERS {
            let (engine, holders) = (&engine, &holders);
            scope.spawn(move || {
                let mut held = 0;
                for attempt in 0..ATTEMPTS_MAX {
                    let key = (attempt * worker) % KEYS as i64;
                    let modes = [WriteMode::InsertIgnore, WriteMode::Insert];
                    let mode = modes[(attempt % 2) as usize];
                    let inserted = match block_on(engine.write(upsert(table, mode, &[(key, worker)]))) {
                        Ok(outcome) => outcome.affected == 1,
                        Err(error) => {
                            assert_eq!(
                                (error.kind(), mode),
                                (ErrorKind::Conflict, WriteMode::Insert),
                                "{error}"
                            );
                            false
                        }
                    };
                    if inserted {
                        let before = holders[key as usize].swap(worker, Ordering::SeqCst);
                        assert_eq!(before, 0, "the row {key} has another holder");
                        // Nobody else can change it by a condition that it is not there.
                        let changed =
                            block_on(engine.write(upsert(table, WriteMode::Update, &[(key, -worker)])));
                        assert_eq!(changed.map(|outcome| outcome.affected).ok(), Some(1));
                        holders[key as usize].store(0, Ordering::SeqCst);
                        let deleted = block_on(engine.write(delete(table, DeleteMode::Delete, &[key])));
                        assert_eq!(deleted.map(|outcome| outcome.affected).ok(), Some(1));
                        held += 1;
                        if held % 8 == 0 {
                            engine.flush().expect("flushed");
                        }
                        if held == HELD {
                            return;
                        }
                    }
                }
                panic!("a row was held {held} times");
            });
        }
    });
    let left = block_on(engine.write(upsert(table, WriteMode::UpdateIgnore, &[(0, 1), (1, 1), (2, 1)])))?;
    assert_eq!((left.affected, left.conflicts.len()), (0, 3), "all are deleted");
    Ok(())
}

#[test]
fn counters_lose_no_increment_beside_blind_writes_and_statements() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine)?;
    let taken = std::thread::scope(|scope| {
        let workers = (0..4_i64).map(|worker| {
            let engine = &engine;
            scope.spawn(move || {
                let mut taken = 0;
                for number in 0..200 {
                    // Each number is taken once, whoever comes first.
                    let outcome =
                        block_on(engine.write(upsert(table, WriteMode::InsertIgnore, &[(number, worker)])));
                    taken += outcome.expect("written").affected;
                    // Statements hold the table alone, and blind writes are beside them.
                    if number % 40 == worker {
                        let rows = RowSelection::All;
                        let predicates: Vec<Predicate> = Vec::new();
                        let assignments = vec![(VALUE, Some(Value::Int(number)))];
                        block_on(engine.update(Update { table, rows, predicates, assignments }))
                            .expect("updated");
                        let blind = upsert(table, WriteMode::Upsert, &[(number, -1)]);
                        block_on(engine.write(blind)).expect("written");
                    }
                }
                taken
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<u64>()
    });
    // A blind write may have made a row before anybody took its number.
    assert!((180..=200).contains(&taken), "{taken} of 200 were taken");
    Ok(())
}

#[test]
fn rows_that_are_left_out_are_named_and_defaults_are_those_of_new_rows() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine)?;
    block_on(engine.write(upsert(table, WriteMode::Insert, &[(1, 10), (3, 30)])))?;
    let outcome = block_on(engine.write(upsert(
        table,
        WriteMode::InsertIgnore,
        &[(0, 0), (1, 1), (2, 2), (2, 9), (3, 3)],
    )))?;
    let conflicts = [1, 3, 4].map(|row| RowPosition { operation: 0, row });
    assert_eq!((outcome.affected, &outcome.conflicts[..]), (2, &conflicts[..]));
    // A key alone: the row that is there keeps its value, the other gets the default.
    let cells = vec![CellColumn { column: KEY, values: integers(&[3, 4]), null_cells: None }];
    let keys = Upsert { table, mode: WriteMode::Upsert, columns: cells };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(keys)] }))?;
    let error =
        block_on(engine.write(delete(table, DeleteMode::Delete, &[4, 5]))).expect_err("5 is not there");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let deleted = block_on(engine.write(delete(table, DeleteMode::DeleteIgnore, &[0, 5])))?;
    assert_eq!((deleted.affected, deleted.conflicts), (1, vec![RowPosition { operation: 0, row: 1 }]));
    drop(engine);
    let engine = Engine::open(options(&fs))?;
    let rows = block_on(async {
        let request = nyala_core::store::ScanRequest::by_key(table, RowSelection::All, vec![KEY, VALUE]);
        let (mut stream, mut rows) = (engine.latest().scan(request).await?, Vec::new());
        while let Some(batch) = stream.next().await? {
            let column =
                |at: usize| batch.columns[at].as_any().downcast_ref::<Int64Array>().expect("integers");
            rows.extend(column(0).values().iter().copied().zip(column(1).values().iter().copied()));
        }
        Ok::<_, nyala_core::Error>(rows)
    })?;
    assert_eq!(rows, [(1, 10), (2, 2), (3, 30), (4, -7)]);
    Ok(())
}

#[test]
fn keys_of_a_large_batch_are_looked_for_in_memory_that_is_charged() -> Result<()> {
    const LIMIT_BYTES: u64 = 64 << 20;
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = table(&engine)?;
    let rows: Vec<_> = (0..50_000).map(|key| (key, key)).collect();
    let insert = || block_on(engine.write(upsert(table, WriteMode::Insert, &rows)));
    // Queries may take nine tenths: some MiB are left.
    let query = memory.charge(Component::Query, LIMIT_BYTES / 100 * 88);
    let before = memory.total_bytes();
    assert_eq!(insert().expect_err("they take more").kind(), ErrorKind::Retry);
    assert_eq!(memory.total_bytes(), before, "everything is given back");
    drop(query);
    assert_eq!(insert()?.affected, 50_000);
    assert_eq!(insert().expect_err("they are there").kind(), ErrorKind::Conflict);
    Ok(())
}
