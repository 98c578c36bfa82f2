//! Stages of the engine: transactions of many threads, crashes in the middle of a commit, and what is larger than memory.
//! What a stage must answer is tested by the battery.

#[path = "support/keyed_table.rs"]
mod keyed_table;

use keyed_table::*;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Alteration, Delete, Freshness, Operation, RowSelection, Stage, Store, WriteMode};
use nyala_core::{ErrorKind, Result, TableId};
use nyala_engine::fs::{Fault, FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, WriteHook, WriteStep, block_on, check};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

fn options(fs: &SimulatedFs, memory_bytes: u64) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        memory: MemoryBudget::new(memory_bytes),
        ..EngineOptions::new("/data")
    }
}

/// The same; rows of stages are moved to the disk with every batch.
fn spilling(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions { stage_bytes_max: Some(1), ..options(fs, 256 << 20) }
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
    let fs = SimulatedFs::new();
    transfers(&fs, options(&fs, 256 << 20), 60)?;
    let fs = SimulatedFs::new();
    // Others flush and compact, too.
    transfers(&fs, EngineOptions { maintenance_threads: 2, ..spilling(&fs) }, 25)
}

fn transfers(fs: &SimulatedFs, options: EngineOptions, steps: i64) -> Result<()> {
    const ACCOUNTS: i64 = 6;
    let engine = Engine::open(options.clone())?;
    let table = table(&engine, "accounts")?;
    let accounts: Vec<_> = (0..ACCOUNTS).map(|account| (account, 0)).collect();
    block_on(engine.write(batch(vec![upsert(table, &accounts)])))?;
    let (done, refused, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers = (1..=4).map(|worker| {
            let (engine, done, refused) = (&engine, &done, &refused);
            scope.spawn(move || {
                for step in 0..steps {
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
                engine.compact().expect("nothing fails");
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
    });
    let done = done.into_inner();
    assert!(done >= steps as u64, "{done} were done and {refused:?} refused");
    drop(engine);
    undamaged(fs)?;
    let engine = Engine::open(options)?;
    assert_eq!(block_on(rows(&engine.latest(), table))?.values().sum::<i64>(), 0);
    Ok(())
}

fn undamaged(fs: &SimulatedFs) -> Result<()> {
    let disk: FsRef = Arc::new(fs.clone());
    let report = check(&disk, Path::new("/data"), &mut |_| {})?;
    assert_eq!(report.damage_count, 0, "{:?}", report.damage);
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

fn survives_whole_or_not_at_all(
    stage_bytes_max: Option<u64>,
    rounds: i64,
    wal_sync: SyncPolicy,
) -> Result<()> {
    let fs = SimulatedFs::new();
    let open = |fs| Engine::open(EngineOptions { wal_sync, stage_bytes_max, ..options(fs, 256 << 20) });
    let engine = open(&fs)?;
    let tables = [table(&engine, "a")?, table(&engine, "b")?];
    let old: Vec<_> = (0..1000).map(|row| (row, -1)).collect();
    block_on(engine.write(batch(tables.map(|table| upsert(table, &old[..500])).to_vec())))?;
    engine.flush()?;
    // A part of what the stage changes is in memory.
    block_on(engine.write(batch(tables.map(|table| upsert(table, &old[500..])).to_vec())))?;
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
        // What was done before is on the disk. Other threads go on while it is taken.
        let was_done = done.load(Ordering::SeqCst);
        let is_kill = operation.index.is_multiple_of(2);
        let disk = if is_kill { fs.snapshot() } else { fs.crash(operation.index) };
        let mut taken = taken.lock().expect("not poisoned");
        if taken.len() < 400 {
            taken.push((disk, was_done, is_kill));
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
        assert_eq!((engine.recovery.damage_count, staged_files(disk)?), (0, 0));
        let state = state(&engine)?;
        let is_there = state == after;
        // Without syncs what was written before may be lost, but not if the stage is there.
        let is_lost = |now: &BTreeMap<_, _>, then: &BTreeMap<_, _>| {
            now.iter().all(|row| then.get(row.0) == Some(row.1))
        };
        let is_before = match wal_sync {
            SyncPolicy::Always => state == before,
            _ => state.iter().zip(&before).all(|(now, then)| is_lost(now, then) && now.len() >= 500),
        };
        assert!(is_there || is_before, "a part of the stage was there after crash {number}");
        let is_promised = *was_done && (*is_kill || wal_sync == SyncPolicy::Always);
        assert!(is_there || !is_promised, "the stage was lost in crash {number}");
        found[usize::from(is_there)] += 1;
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
    Ok(())
}

#[test]
fn a_stage_survives_a_crash_whole_or_not_at_all() -> Result<()> {
    for policy in [SyncPolicy::Always, SyncPolicy::Never] {
        survives_whole_or_not_at_all(None, 8, policy)?;
        survives_whole_or_not_at_all(Some(1), 20, policy)?;
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
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        assert!(stage.check().is_err(), "nobody need try again");
        assert_eq!(stage.commit().await.expect_err("it was given up").kind(), ErrorKind::Retry);
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

#[test]
fn a_stage_may_be_larger_than_memory() -> Result<()> {
    const MEMORY_BYTES: u64 = 16 << 20;
    const BATCHES: i64 = 400;
    const ROWS: i64 = 2000;
    let fs = SimulatedFs::new();
    let options = options(&fs, MEMORY_BYTES);
    let memory = options.memory.clone();
    let engine = Engine::open(options.clone())?;
    let table = table(&engine, "t")?;
    let mut most_bytes = 0;
    block_on(async {
        engine.write(batch(vec![upsert(table, &[(-1, 0), (-2, 0)])])).await?;
        let mut stage = engine.stage().await?;
        for number in 0..BATCHES {
            // Each batch has keys everywhere, and overwrites some of the one before.
            let new: Vec<_> = (0..ROWS).map(|row| (row * BATCHES + number, number)).collect();
            let old: Vec<_> = (0..10).map(|row| (row * BATCHES + number - 1, -number)).collect();
            stage.write(batch(vec![upsert(table, &new), upsert(table, &old[1..])])).await?;
            most_bytes = most_bytes.max(memory.total_bytes());
        }
        stage.write(batch(vec![deletion(table, &[-1])])).await?;
        assert!(staged_files(&fs)? > 0, "they are on the disk");
        // Somebody else writes another row meanwhile.
        engine.write(batch(vec![upsert(table, &[(-2, 7)])])).await?;
        let sequence = stage.commit().await?;
        most_bytes = most_bytes.max(memory.total_bytes());
        assert_eq!(staged_files(&fs)?, 0, "nothing of the stage is left over");
        engine.snapshot(Freshness::AtLeast(sequence)).await.map(drop)
    })?;
    assert!(most_bytes < MEMORY_BYTES, "{most_bytes} bytes");
    let check = |engine: &Engine| -> Result<()> {
        let rows = block_on(rows(&engine.latest(), table))?;
        assert_eq!(rows.len() as i64, BATCHES * ROWS + 1);
        assert_eq!((rows.get(&-1), rows.get(&-2)), (None, Some(&7)));
        assert_eq!((rows[&(3 * BATCHES + 4)], rows[&(300 * BATCHES + 4)]), (-5, 4));
        Ok(())
    };
    check(&engine)?;
    engine.flush()?;
    engine.compact()?;
    check(&engine)?;
    drop(engine);
    undamaged(&fs)?;
    check(&Engine::open(options)?)
}

/// Whoever asks whether a commit is seen compares sequences.
#[test]
fn the_sequence_of_a_commit_is_seen_together_with_its_rows() -> Result<()> {
    for rows_per_batch in [10, 20_000] {
        let fs = SimulatedFs::new();
        let base = EngineOptions { loaded_rows_min: 1000, ..spilling(&fs) };
        let engine = Arc::new(Engine::open(base)?);
        let table = table(&engine, "t")?;
        block_on(engine.write(batch(vec![upsert(table, &[(-1, 0)])])))?;
        let mut stage = block_on(engine.stage())?;
        for number in 0..3 {
            let new: Vec<_> = (0..rows_per_batch).map(|row| (number * rows_per_batch + row, row)).collect();
            block_on(stage.write(batch(vec![upsert(table, &new)])))?;
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (reader, noted) = (Arc::downgrade(&engine), seen.clone());
        fs.on_operation(move |_, _| {
            let Some(engine) = reader.upgrade() else { return };
            let snapshot = block_on(engine.snapshot(Freshness::Latest)).expect("it can be read");
            let found = block_on(rows(&snapshot, table)).expect("it can be read");
            noted.lock().expect("not poisoned").push((snapshot.sequence(), found.len()));
        });
        let sequence = block_on(stage.commit())?;
        // One more change of the disk, behind the commit.
        block_on(engine.write(batch(vec![upsert(table, &[(-1, 1)])])))?;
        fs.on_operation(|_, _| {});
        // The thread of the log may still read, and must not be the last that has the engine: it would wait for itself.
        engine.close()?;
        let seen = seen.lock().expect("not poisoned");
        assert!(seen.iter().all(|(now, rows)| (*rows > 1) == (*now >= sequence)), "{sequence:?}: {seen:?}");
        assert!(
            seen.iter().any(|(_, rows)| *rows > 1) && seen.iter().any(|(_, rows)| *rows == 1),
            "{seen:?}"
        );
    }
    Ok(())
}

/// What others do while a stage is on the disk, and whether its commit is a conflict then.
async fn is_refused(others: impl AsyncFnOnce(&Engine, TableId) -> Result<()>) -> Result<bool> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(spilling(&fs))?;
    let table = table(&engine, "t")?;
    engine.write(batch(vec![upsert(table, &[(1, 10), (2, 20), (3, 30)])])).await?;
    let mut stage = engine.stage().await?;
    stage.write(batch(vec![upsert(table, &[(1, 11), (5, 51)])])).await?;
    stage.write(batch(vec![deletion(table, &[2])])).await?;
    others(&engine, table).await?;
    let (before, outcome) = (rows(&engine.latest(), table).await?, stage.commit().await);
    let after = rows(&engine.latest(), table).await?;
    assert_eq!(staged_files(&fs)?, 0);
    match outcome {
        Ok(_) => {
            assert_eq!((after.get(&1), after.get(&2), after.get(&5)), (Some(&11), None, Some(&51)));
            Ok(false)
        }
        Err(error) => {
            assert_eq!((error.kind(), after), (ErrorKind::Conflict, before));
            Ok(true)
        }
    }
}

#[test]
fn the_first_to_change_a_row_wins_on_the_disk_too() -> Result<()> {
    let write = async |engine: &Engine, operations| engine.write(batch(operations)).await.map(drop);
    block_on(async {
        assert!(!is_refused(async |_, _| Ok(())).await?);
        assert!(
            !is_refused(async |engine, table| write(engine, vec![upsert(table, &[(3, 31)])]).await).await?
        );
        assert!(
            is_refused(async |engine, table| write(engine, vec![upsert(table, &[(1, 10)])]).await).await?
        );
        assert!(
            is_refused(async |engine, table| write(engine, vec![upsert(table, &[(5, 50)])]).await).await?
        );
        assert!(is_refused(async |engine, table| write(engine, vec![deletion(table, &[2])]).await).await?);
        let again = async |engine: &Engine, table| {
            write(engine, vec![upsert(table, &[(5, 50)])]).await?;
            write(engine, vec![deletion(table, &[5])]).await
        };
        assert!(!is_refused(again).await?, "it was not there, and is not");
        let flushed = async |engine: &Engine, table| {
            write(engine, vec![upsert(table, &[(1, 10)])]).await?;
            engine.flush()?;
            engine.compact().map(drop)
        };
        assert!(is_refused(flushed).await?);
        let everything = |table| Delete { table, rows: RowSelection::All, predicates: Vec::new() };
        assert!(is_refused(async |engine, table| engine.delete(everything(table)).await.map(drop)).await?);
        let staged = async |engine: &Engine, table| {
            let mut stage = engine.stage().await?;
            stage.write(batch(vec![upsert(table, &[(3, 31)])])).await?;
            stage.write(batch(vec![upsert(table, &[(5, 50)])])).await?;
            stage.commit().await.map(drop)
        };
        assert!(is_refused(staged).await?);
        let other = async |engine: &Engine, table| {
            let mut stage = engine.stage().await?;
            stage.write(batch(vec![upsert(table, &[(3, 31)])])).await?;
            stage.write(batch(vec![upsert(table, &[(6, 60)])])).await?;
            stage.commit().await.map(drop)
        };
        assert!(!is_refused(other).await?);
        assert!(is_refused(async |engine, table| engine.drop_table(table).await).await.is_err());
        Ok(())
    })
}

/// A disk that fails anywhere in a commit: the stage is there as a whole or not at all, as the answer says.
#[test]
fn a_commit_on_a_failing_disk_says_what_became_of_it() -> Result<()> {
    for skip in 0..14 {
        for fault in [
            Fault::Sync { skip },
            Fault::SyncDir { skip: skip / 4 },
            Fault::Write { skip: skip * 3, written: 7 },
        ] {
            let fs = SimulatedFs::new();
            let engine = Engine::open(spilling(&fs))?;
            let tables = [table(&engine, "a")?, table(&engine, "b")?];
            let old: Vec<_> = (0..600).map(|row| (row, -1)).collect();
            block_on(engine.write(batch(tables.map(|table| upsert(table, &old)).to_vec())))?;
            let count = |engine: &Engine| block_on(rows(&engine.latest(), tables[0])).map(|rows| rows.len());
            let outcome = block_on(async {
                let mut stage = engine.stage().await?;
                fs.inject(fault.clone());
                fill(&mut stage, tables, 2).await?;
                stage.commit().await
            });
            fs.clear_faults();
            let expected = if outcome.is_ok() { 1600 } else { 600 };
            assert_eq!(count(&engine)?, expected, "{fault:?}: {outcome:?}");
            if let Err(error) = outcome {
                let is_told = matches!(error.kind(), ErrorKind::Retry | ErrorKind::Io | ErrorKind::Limit);
                assert!(is_told, "{fault:?}: {error}");
            }
            engine.retry_failed();
            block_on(engine.write(batch(vec![upsert(tables[0], &[(0, 5)])])))?;
            drop(engine);
            undamaged(&fs)?;
            let engine = Engine::open(spilling(&fs))?;
            assert_eq!(count(&engine)?, expected, "{fault:?}, after the next start");
        }
    }
    Ok(())
}

/// Rows that are being replaced: none of others may come in between, of whatever key.
#[test]
fn rows_of_others_do_not_come_into_a_claimed_table() -> Result<()> {
    for is_spilled in [false, true] {
        let fs = SimulatedFs::new();
        let base = if is_spilled { spilling(&fs) } else { options(&fs, 256 << 20) };
        let engine = Engine::open(base)?;
        let (old, new) = (table(&engine, "old")?, table(&engine, "new")?);
        block_on(engine.write(batch(vec![upsert(old, &[(1, 1), (2, 2)])])))?;
        let attempt = |others: &[Operation]| -> Result<()> {
            let mut stage = block_on(engine.stage())?;
            block_on(stage.write(batch(vec![upsert(new, &[(1, 1)])])))?;
            // What it has written itself goes with the table.
            block_on(stage.write(batch(vec![upsert(old, &[(1, 5)])])))?;
            for operation in others {
                block_on(engine.write(batch(vec![operation.clone()])))?;
            }
            let value = engine.schema(old)?.columns[1].clone();
            block_on(engine.alter_table(old, vec![Alteration::RenameColumn(value.id, value.name + "x")]))?;
            stage.claim_table(old);
            block_on(stage.commit()).map(drop)
        };
        let refused = |outcome: Result<()>| outcome.is_err_and(|error| error.kind() == ErrorKind::Conflict);
        assert!(refused(attempt(&[upsert(old, &[(9, 9)])])), "a new row");
        assert!(refused(attempt(&[upsert(old, &[(2, 2)])])), "a row as it was");
        assert!(refused(attempt(&[upsert(old, &[(9, 9)]), upsert(new, &[(8, 8)])])), "and another table");
        attempt(&[])?;
    }
    Ok(())
}

/// A commit looks at what others have noted that they change, and once more when nobody is under way.
#[test]
fn a_row_that_comes_while_a_commit_looks_is_found() -> Result<()> {
    for (is_spilled, mode) in [false, true].into_iter().flat_map(|spilled| MODES.map(|mode| (spilled, mode)))
    {
        let (fs, gate) = (SimulatedFs::new(), Arc::<Gate>::default());
        let base = if is_spilled { spilling(&fs) } else { options(&fs, 256 << 20) };
        let engine = Arc::new(Engine::open(EngineOptions { write_hook: gate.hook(), ..base })?);
        let (first, second) = (table(&engine, "first")?, table(&engine, "second")?);
        block_on(engine.write(batch(vec![upsert(first, &[(0, 0)]), upsert(second, &[(0, 0)])])))?;
        let mut stage = block_on(engine.stage())?;
        block_on(stage.write(batch(vec![upsert(second, &[(7, 2)])])))?;
        gate.close();
        let writer = engine.clone();
        let mut operations = vec![upsert(first, &[(1, 1)]), upsert(second, &[(7, 1)])];
        for operation in &mut operations {
            let Operation::Upsert(upsert) = operation else { unreachable!("they are upserts") };
            upsert.mode = mode;
        }
        let other = std::thread::spawn(move || block_on(writer.write(batch(operations))));
        // The row of the first table is in memory, that of the second one is not.
        gate.wait_for_one();
        let mut commit = stage.commit();
        let polled = commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "{mode:?}");
        if is_spilled {
            // It is committed in a thread of its own.
            std::thread::sleep(Duration::from_millis(100));
        }
        gate.open();
        other.join().expect("it does not panic")?;
        let outcome = block_on(commit);
        assert!(
            matches!(&outcome, Err(error) if error.kind() == ErrorKind::Conflict),
            "{mode:?}: {outcome:?}"
        );
        let found = block_on(rows(&block_on(engine.snapshot(Freshness::Latest))?, second))?;
        assert_eq!(found[&7], 1, "{mode:?}");
    }
    Ok(())
}

const MODES: [WriteMode; 2] = [WriteMode::Upsert, WriteMode::Insert];

/// Where a write waits after its first rows are in memory.
#[derive(Default)]
struct Gate {
    /// Whether it is closed, and whether somebody waits.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn hook(self: &Arc<Self>) -> WriteHook {
        let gate = self.clone();
        WriteHook::new(move |step| {
            let mut state = gate.state.lock().expect("not poisoned");
            while step == WriteStep::Applying && state.0 {
                state.1 = true;
                gate.changed.notify_all();
                state = gate.changed.wait(state).expect("not poisoned");
            }
        })
    }

    fn close(&self) {
        *self.state.lock().expect("not poisoned") = (true, false);
    }

    fn wait_for_one(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        while !state.1 {
            state = self.changed.wait(state).expect("not poisoned");
        }
    }

    fn open(&self) {
        *self.state.lock().expect("not poisoned") = (false, false);
        self.changed.notify_all();
    }
}
