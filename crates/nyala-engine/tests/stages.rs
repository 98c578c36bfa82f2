//! Stages of the engine: transactions of many threads, crashes in the middle of a commit, and what is larger than memory.
//! What a stage must answer is tested by the battery.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{
    CellColumn, DeleteMode, Freshness, Operation, RowSelection, ScanRequest, SnapshotRef, Stage, Store,
    Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, SyncPolicy, block_on};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);

fn options(fs: &SimulatedFs, memory_bytes: u64) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        memory: MemoryBudget::new(memory_bytes),
        ..EngineOptions::new("/data")
    }
}

fn table(engine: &Engine, name: &str) -> Result<TableId> {
    let key = ColumnSchema::new(KEY, "k", ColumnType::Int64).required();
    let value = ColumnSchema::new(VALUE, "v", ColumnType::Int64);
    block_on(engine.create_table(TableSchema::keyed(name, vec![key, value], vec![KEY])))
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn upsert(table: TableId, rows: &[(i64, i64)]) -> Operation {
    let (keys, values): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let cells = |column, values: &[i64]| CellColumn { column, values: integers(values), null_cells: None };
    let columns = vec![cells(KEY, &keys), cells(VALUE, &values)];
    Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
}

fn deletion(table: TableId, keys: &[i64]) -> Operation {
    Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys: vec![integers(keys)] }
}

fn batch(operations: Vec<Operation>) -> WriteBatch {
    WriteBatch { operations }
}

async fn rows(snapshot: &SnapshotRef, table: TableId) -> Result<BTreeMap<i64, i64>> {
    let mut stream = snapshot.scan(ScanRequest::by_key(table, RowSelection::All, vec![KEY, VALUE])).await?;
    let mut rows = BTreeMap::new();
    while let Some(batch) = stream.next().await? {
        let columns = batch.columns.iter().map(|column| column.as_primitive::<Int64Type>());
        let [keys, values] = columns.collect::<Vec<_>>()[..] else { panic!("two columns were asked for") };
        rows.extend(keys.values().iter().copied().zip(values.values().iter().copied()));
    }
    Ok(rows)
}

/// Moves an amount between two accounts. False if somebody else was first.
async fn transfer(engine: &Engine, table: TableId, (from, to): (i64, i64), amount: i64) -> Result<bool> {
    let mut stage = engine.stage().await?;
    let known = rows(&stage.snapshot().await?, table).await?;
    let moved = [(from, known[&from] - amount), (to, known[&to] + amount)];
    stage.write(batch(vec![upsert(table, &moved[..1])])).await?;
    stage.write(batch(vec![upsert(table, &moved[1..])])).await?;
    match stage.commit().await {
        Ok(sequence) => {
            let seen = rows(&engine.snapshot(Freshness::AtLeast(sequence)).await?, table).await?;
            assert_eq!(seen.values().sum::<i64>(), 0, "after a commit");
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error),
    }
}

#[test]
fn transfers_of_many_threads_lose_nothing() -> Result<()> {
    const ACCOUNTS: i64 = 6;
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, 256 << 20))?;
    let table = table(&engine, "accounts")?;
    let accounts: Vec<_> = (0..ACCOUNTS).map(|account| (account, 0)).collect();
    block_on(engine.write(batch(vec![upsert(table, &accounts)])))?;
    let (done, refused, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers = (1..=4).map(|worker| {
            let (engine, done, refused) = (&engine, &done, &refused);
            scope.spawn(move || {
                for step in 0..60 {
                    let from = (step * worker) % ACCOUNTS;
                    let to = (from + 1 + step % (ACCOUNTS - 1)) % ACCOUNTS;
                    match block_on(transfer(engine, table, (from, to), worker)) {
                        Ok(true) => done.fetch_add(1, Ordering::Relaxed),
                        Ok(false) => refused.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    };
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        let (engine, is_over) = (&engine, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let seen = block_on(rows(&engine.latest(), table)).expect("readable");
                let sum: i64 = seen.iter().filter(|(key, _)| **key < ACCOUNTS).map(|(_, value)| value).sum();
                assert_eq!(sum, 0, "no reader sees half a transfer");
                engine.flush().expect("nothing fails");
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(done.into_inner() > 60, "{refused:?} were refused");
    drop(engine);
    let engine = Engine::open(options(&fs, 256 << 20))?;
    assert_eq!(block_on(rows(&engine.latest(), table))?.values().sum::<i64>(), 0);
    Ok(())
}

/// What a stage changes, in two tables: it overwrites, deletes and adds rows.
async fn fill(stage: &mut Box<dyn Stage>, tables: [TableId; 2], rounds: i64) -> Result<()> {
    for round in 0..rounds {
        let new: Vec<_> = (0..500).map(|row| (1000 + row * rounds + round, round)).collect();
        let overwritten: Vec<_> = (0..10).map(|row| (row, round)).collect();
        let operations = vec![
            upsert(tables[0], &new),
            upsert(tables[1], &overwritten),
            deletion(tables[1], &[500 + round]),
        ];
        stage.write(batch(operations)).await?;
    }
    Ok(())
}

fn survives_whole_or_not_at_all(memory_bytes: u64, rounds: i64, policy: SyncPolicy) -> Result<()> {
    let fs = SimulatedFs::new();
    let open = |fs| Engine::open(EngineOptions { wal_sync: policy, ..options(fs, memory_bytes) });
    let engine = open(&fs)?;
    let tables = [table(&engine, "a")?, table(&engine, "b")?];
    let old: Vec<_> = (0..1000).map(|row| (row, -1)).collect();
    block_on(engine.write(batch(tables.map(|table| upsert(table, &old)).to_vec())))?;
    engine.flush()?;
    let state = |engine: &Engine| {
        block_on(async {
            let snapshot = engine.latest();
            Ok::<_, nyala_core::Error>([rows(&snapshot, tables[0]).await?, rows(&snapshot, tables[1]).await?])
        })
    };
    let before = state(&engine)?;
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let (taken, is_done) = (crashes.clone(), Arc::new(AtomicBool::new(false)));
    let done = is_done.clone();
    fs.on_operation(move |fs, operation| {
        let is_kill = operation.index.is_multiple_of(2);
        let disk = if is_kill { fs.snapshot() } else { fs.crash(operation.index) };
        let mut taken = taken.lock().expect("not poisoned");
        if taken.len() < 400 {
            taken.push((disk, done.load(Ordering::SeqCst), is_kill));
        }
    });
    block_on(async {
        let mut stage = engine.stage().await?;
        fill(&mut stage, tables, rounds).await?;
        stage.commit().await
    })?;
    is_done.store(true, Ordering::SeqCst);
    let after = state(&engine)?;
    assert_eq!(after[0].len() as i64, 1000 + 500 * rounds);
    assert_eq!(after[1].len() as i64, 1000 - rounds.min(500));
    // One more change of the disk, behind the commit.
    engine.flush()?;
    drop(engine);
    let crashes = std::mem::take(&mut *crashes.lock().expect("not poisoned"));
    let mut found = [0; 2];
    for (number, (disk, was_done, is_kill)) in crashes.iter().enumerate() {
        let engine = open(disk)?;
        assert_eq!(engine.recovery.damage_count, 0);
        let state = state(&engine)?;
        let is_there = state == after;
        assert!(is_there || state == before, "a part of the stage was there after crash {number}");
        let is_promised = *was_done && (*is_kill || policy == SyncPolicy::Always);
        assert!(is_there || !is_promised, "the stage was lost in crash {number}");
        found[usize::from(is_there)] += 1;
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
    Ok(())
}

#[test]
fn a_stage_survives_a_crash_whole_or_not_at_all() -> Result<()> {
    for policy in [SyncPolicy::Always, SyncPolicy::Never] {
        survives_whole_or_not_at_all(256 << 20, 8, policy)?;
    }
    Ok(())
}

#[test]
fn a_stage_that_is_open_for_too_long_is_given_up() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, 8 << 20))?;
    let (table, other) = (table(&engine, "t")?, table(&engine, "u")?);
    block_on(async {
        let mut stage = engine.stage().await?;
        stage.write(batch(vec![upsert(table, &[(1, 1)])])).await?;
        let keys: Vec<_> = (0..20_000).map(|key| (key, 0)).collect();
        for _ in 0..10 {
            engine.write(batch(vec![upsert(other, &keys)])).await?;
            engine.flush()?;
        }
        let error = stage.write(batch(vec![upsert(table, &[(2, 2)])])).await.expect_err("it was given up");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert_eq!(stage.commit().await.expect_err("it was given up").kind(), ErrorKind::Limit);
        let mut young = engine.stage().await?;
        young.write(batch(vec![upsert(table, &[(3, 3)])])).await?;
        young.commit().await?;
        assert_eq!(rows(&engine.latest(), table).await?, BTreeMap::from([(3, 3)]));
        Ok(())
    })
}

#[test]
fn a_stage_does_not_hold_a_closed_store() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, 64 << 20))?;
    let table = table(&engine, "t")?;
    let mut stage = block_on(engine.stage())?;
    block_on(stage.write(batch(vec![upsert(table, &[(1, 1)])])))?;
    drop(engine);
    let engine = Engine::open(options(&fs, 64 << 20))?;
    assert_eq!(block_on(stage.commit()).expect_err("its store is gone").kind(), ErrorKind::Retry);
    assert!(block_on(rows(&engine.latest(), table))?.is_empty());
    Ok(())
}
