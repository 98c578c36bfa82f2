//! Panics at every step of a write: no caller waits for ever, no reader sees a part of a batch, the engine goes on or
//! says that it does not, and a restart has everything that was acknowledged.

mod support;

use nyala_core::store::Store;
use nyala_core::{ErrorKind, Result, TableId};
use nyala_engine::fs::{FileSystem, FsRef, OperationKind, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, WriteHook, WriteStep, block_on, check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{create, create_named, options, points, rows};

const STEPS: [WriteStep; 6] = [
    WriteStep::Admitted,
    WriteStep::Encoded,
    WriteStep::Submitted,
    WriteStep::Logged,
    WriteStep::Applying,
    WriteStep::Applied,
];
const POLICIES: [SyncPolicy; 3] =
    [SyncPolicy::Always, SyncPolicy::Interval(Duration::from_millis(5)), SyncPolicy::Never];
/// Far longer than any step takes: a call that has not ended by then hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// Panics at a step, once, where it is armed.
#[derive(Clone, Default)]
struct Trap(Arc<Mutex<Option<WriteStep>>>);

impl Trap {
    fn arm(&self, step: WriteStep) {
        *self.0.lock().expect("not poisoned") = Some(step);
    }

    fn hook(&self) -> WriteHook {
        let trap = self.clone();
        WriteHook::new(move |step| {
            let mut armed = trap.0.lock().expect("not poisoned");
            if *armed == Some(step) {
                *armed = None;
                drop(armed);
                panic!("a panic that a test wants, at {step:?}");
            }
        })
    }
}

/// The outcome of a call that may panic or hang.
fn outcome<T: Send + 'static>(
    what: &str,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Option<Result<T>> {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(catch_unwind(AssertUnwindSafe(act)).ok()));
    result.recv_timeout(HANGS_AFTER).unwrap_or_else(|_| panic!("{what}: hangs"))
}

#[test]
fn a_panic_at_any_step_of_a_write_hangs_nobody_and_loses_nothing() -> Result<()> {
    for (step, policy) in STEPS.iter().flat_map(|step| POLICIES.map(|policy| (*step, policy))) {
        let what = format!("{step:?}, {policy:?}");
        let (fs, trap) = (SimulatedFs::new(), Trap::default());
        let settings = EngineOptions { wal_sync: policy, write_hook: trap.hook(), ..options(&fs) };
        let engine = Arc::new(Engine::open(settings)?);
        let table = create(&engine)?;
        block_on(engine.write(points(table, &[(1, 10, Some(1)), (1, 1010, Some(1))])))?;
        trap.arm(step);
        // Two partitions, and a row that is there: a part of it would show.
        let broken = [(1, 10, Some(2)), (1, 1010, Some(2)), (2, 1020, Some(2))];
        let writer = engine.clone();
        let first = outcome(&what, move || block_on(writer.write(points(table, &broken))));
        assert!(!matches!(first, Some(Ok(_))), "{what}: acknowledged");
        let writer = engine.clone();
        let second = outcome(&what, move || block_on(writer.write(points(table, &[(3, 30, Some(3))]))));
        let second = second.unwrap_or_else(|| panic!("{what}: the next write panics, too"));
        let goes_on = second.is_ok();
        assert_eq!(goes_on, engine.check_writable().is_ok(), "{what}: what is said of the store");
        let fails = engine.failures();
        assert_eq!(goes_on, !fails.iter().any(|(name, _)| *name == "writes"), "{what}: {fails:?}");
        if let Err(error) = second {
            assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {error}");
            assert!(
                matches!(&first, Some(Err(error)) if error.kind() == ErrorKind::Unknown),
                "{what}: {first:?}"
            );
            // A torn memtable never replaces the log.
            assert!(!engine.flush()?, "{what}");
            assert!(fs.list(Path::new("/data/rowsets"))?.is_empty(), "{what}");
            assert!(block_on(engine.drop_table(table)).is_err());
        }
        let old = vec![(1, 10, Some(1)), (1, 1010, Some(1))];
        let new = vec![(1, 10, Some(2)), (1, 1010, Some(2)), (2, 1020, Some(2))];
        let with_third = |rows: &[(u32, i64, Option<i64>)], third: bool| {
            let third = third.then_some((3, 30, Some(3)));
            rows.iter().copied().chain(third).collect::<Vec<_>>()
        };
        let found = rows(&engine, table)?;
        let expected = [with_third(&old, goes_on), with_third(&new, goes_on)];
        assert!(expected.contains(&found), "{what}: {found:?}");
        let killed = fs.snapshot();
        drop(engine);
        let restarted = Engine::open(EngineOptions { wal_sync: policy, ..options(&killed) })?;
        let found = rows(&restarted, table)?;
        assert!(expected.contains(&found), "{what}, restarted: {found:?}");
        let logged = !matches!(step, WriteStep::Admitted | WriteStep::Encoded);
        assert_eq!(found == with_third(&new, goes_on), logged, "{what}, restarted: {found:?}");
        restarted.check_writable()?;
        block_on(restarted.write(points(table, &[(4, 40, Some(4))])))?;
        assert!(restarted.flush()?);
        assert_eq!(rows(&restarted, table)?.len(), found.len() + 1);
    }
    Ok(())
}

#[test]
fn writers_beside_a_batch_that_breaks_off_get_their_answers() -> Result<()> {
    for step in [WriteStep::Logged, WriteStep::Applying, WriteStep::Applied] {
        let (fs, trap) = (SimulatedFs::new(), Trap::default());
        let engine = Arc::new(Engine::open(EngineOptions { write_hook: trap.hook(), ..options(&fs) })?);
        let table = create(&engine)?;
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let (done, results) = channel();
        let begun = Arc::new(AtomicUsize::new(0));
        for writer in 0..4_u32 {
            let (engine, acknowledged, done, trap) =
                (engine.clone(), acknowledged.clone(), done.clone(), trap.clone());
            let begun = begun.clone();
            std::thread::spawn(move || {
                for time in 0..200 {
                    if begun.fetch_add(1, Ordering::SeqCst) == 300 {
                        trap.arm(step);
                    }
                    let row = (writer, time, Some(time));
                    match block_on(engine.write(points(table, &[row]))) {
                        Ok(_) => acknowledged.lock().expect("not poisoned").push(row),
                        Err(_) => break,
                    }
                }
                done.send(()).expect("is awaited");
            });
        }
        for _ in 0..4 {
            results.recv_timeout(HANGS_AFTER).unwrap_or_else(|_| panic!("{step:?}: a writer hangs"));
        }
        let mut acknowledged = std::mem::take(&mut *acknowledged.lock().expect("not poisoned"));
        acknowledged.sort_unstable();
        let shown = rows(&engine, table);
        let restarted = Engine::open(options(&fs.snapshot()))?;
        let found = rows(&restarted, table)?;
        assert!(acknowledged.iter().all(|row| found.contains(row)), "{step:?}: acknowledged and lost");
        // Rows among which a batch broke off may be refused; they are never shown without what was acknowledged.
        if let Ok(shown) = shown {
            assert!(
                acknowledged.iter().all(|row| shown.contains(row)),
                "{step:?}: acknowledged and not shown"
            );
        }
    }
    Ok(())
}

#[test]
fn a_panic_at_any_change_of_the_disk_hangs_nobody_and_loses_nothing() -> Result<()> {
    for skipped in 0..40 {
        let fs = SimulatedFs::new();
        let engine = Arc::new(Engine::open(options(&fs))?);
        let table = create(&engine)?;
        block_on(engine.write(points(table, &[(1, 10, Some(1))])))?;
        let left = Arc::new(AtomicUsize::new(skipped));
        let counted = left.clone();
        fs.on_operation(move |_, operation| {
            // Closing a directory is not a step of anything.
            if operation.kind != OperationKind::RemoveDir
                && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    == Ok(1)
            {
                panic!("a panic that a test wants, before {operation:?}");
            }
        });
        let mut acknowledged = vec![(1, 10, Some(1))];
        for time in [20, 1020, 2020, 3020] {
            let writer = engine.clone();
            let row = (2, time, Some(time));
            if let Some(Ok(_)) = outcome("a write", move || block_on(writer.write(points(table, &[row])))) {
                acknowledged.push(row);
            }
            let flushed = engine.clone();
            outcome("a flush", move || flushed.flush());
            let compacted = engine.clone();
            outcome("a compaction", move || compacted.compact());
        }
        // Whatever broke, only whole batches are shown, before and after a restart.
        let has_all = |found: &[(u32, i64, Option<i64>)]| acknowledged.iter().all(|row| found.contains(row));
        assert!(has_all(&rows(&engine, table)?), "panic after {skipped} changes");
        let killed = fs.snapshot();
        let restarted = Engine::open(options(&killed))?;
        assert!(has_all(&rows(&restarted, table)?), "panic after {skipped} changes, restarted");
        let cut = Engine::open(options(&fs.crash(skipped as u64)))?;
        assert!(has_all(&rows(&cut, table)?), "panic after {skipped} changes, power cut");
    }
    Ok(())
}

#[test]
fn what_a_panic_leaves_half_written_is_removed() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let table = create(&engine)?;
    for time in [10, 20] {
        block_on(engine.write(points(table, &[(1, time, Some(1))])))?;
        engine.flush()?;
    }
    block_on(engine.write(points(table, &[(1, 30, Some(1))])))?;
    let is_armed = Arc::new(AtomicUsize::new(0));
    let armed = is_armed.clone();
    fs.on_operation(move |_, operation| {
        let is_of_rowset =
            operation.path.starts_with("/data/rowsets") && operation.kind == OperationKind::Sync;
        if is_of_rowset && armed.swap(0, Ordering::SeqCst) == 1 {
            panic!("a panic that a test wants, before {operation:?}");
        }
    });
    let files = || Ok::<_, nyala_core::Error>(fs.list(Path::new("/data/rowsets"))?.len());
    type Work = fn(&Engine) -> Result<bool>;
    let works: [(Work, usize, usize); 2] =
        [(|engine| engine.flush(), 2, 3), (|engine| engine.compact(), 3, 1)];
    for (work, before, after) in works {
        assert_eq!(files()?, before);
        is_armed.store(1, Ordering::SeqCst);
        assert_eq!(work(&engine).expect_err("it panics").kind(), ErrorKind::Retry);
        assert_eq!(
            (is_armed.load(Ordering::SeqCst), files()?),
            (0, before),
            "the file is there that was not finished"
        );
        assert!(work(&engine)?);
        assert_eq!(files()?, after);
    }
    assert_eq!(rows(&engine, table)?.len(), 3);
    Ok(())
}

#[test]
fn a_panic_between_manifest_and_readers_ends_all_changes_until_the_next_start() -> Result<()> {
    type Work = fn(&Engine, TableId) -> Result<()>;
    let works: [(&'static str, Work); 5] = [
        ("a flush", |engine, _| engine.flush().map(drop)),
        ("a merge", |engine, _| engine.compact().map(drop)),
        ("a table", |engine, _| create_named(engine, "another").map(drop)),
        ("a partition", |engine, table| {
            block_on(engine.write(points(table, &[(1, 5010, Some(1))]))).map(drop)
        }),
        ("a stage", |engine, table| {
            block_on(async {
                let mut stage = engine.stage().await?;
                for time_ns in [40, 50] {
                    stage.write(points(table, &[(2, time_ns, Some(1))])).await?;
                }
                stage.commit().await.map(drop)
            })
        }),
    ];
    for (what, work) in works {
        let (fs, armed, is_stage) = (SimulatedFs::new(), Arc::new(AtomicBool::new(false)), what == "a stage");
        let trap = armed.clone();
        let write_hook = WriteHook::new(move |step| match step {
            // Its flush has changed the manifest before.
            WriteStep::Adopting => trap.store(true, Ordering::SeqCst),
            WriteStep::Committed if trap.swap(false, Ordering::SeqCst) => {
                panic!("a panic that a test wants, in {what}")
            }
            _ => {}
        });
        let settings = EngineOptions { write_hook, stage_bytes_max: Some(1), ..options(&fs) };
        let engine = Arc::new(Engine::open(settings)?);
        let table = create(&engine)?;
        let mut expected = Vec::new();
        for time_ns in [10, 20, 30] {
            block_on(engine.write(points(table, &[(1, time_ns, Some(1))])))?;
            expected.push((1, time_ns, Some(1)));
            // The last one stays in memory.
            assert!(time_ns == 30 || engine.flush()?);
        }
        armed.store(!is_stage, Ordering::SeqCst);
        let worker = engine.clone();
        let worked = outcome(what, move || work(&worker, table));
        assert!(!matches!(worked, Some(Ok(()))), "{what}: acknowledged");
        assert!(!armed.load(Ordering::SeqCst), "{what}: the manifest was not changed");
        // Readers see what they saw, and nothing is made of that.
        assert_eq!(rows(&engine, table)?, expected, "{what}");
        assert!(engine.failures().iter().any(|(name, _)| *name == "writes"), "{what}");
        let refused = block_on(engine.write(points(table, &[(1, 10, Some(2))]))).expect_err("is refused");
        assert_eq!(refused.kind(), ErrorKind::Retry, "{what}: {refused}");
        assert!(refused.to_string().contains("until the server is started again"), "{refused}");
        assert!(create_named(&engine, "one more").is_err(), "{what}");
        assert!(!engine.flush()?, "{what}");
        assert!(engine.compact().is_err(), "{what}");
        let killed = fs.snapshot();
        drop(engine);
        let restarted = Engine::open(options(&killed))?;
        if is_stage {
            expected.extend([(2, 40, Some(1)), (2, 50, Some(1))]);
        }
        assert_eq!(rows(&restarted, table)?, expected, "{what}, restarted");
        block_on(restarted.write(points(table, &[(3, 60, Some(1))])))?;
        expected.push((3, 60, Some(1)));
        assert!(restarted.flush()?, "{what}");
        restarted.compact()?;
        assert_eq!(rows(&restarted, table)?, expected, "{what}, merged");
        drop(restarted);
        let disk: FsRef = Arc::new(killed);
        let report = check(&disk, Path::new("/data"), &mut |_| {})?;
        assert_eq!(report.damage_count, 0, "{what}: {:?}", report.damage);
    }
    Ok(())
}
