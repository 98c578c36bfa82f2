//! Flushes and compactions with concurrent writers, on disks that fail: nothing is lost, no files are left behind, and
//! a rowset that cannot be read does not stop the others.

mod support;

use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
use nyala_core::{ErrorKind, Result, SeriesId, TableId, TimeRange};
use nyala_engine::fs::{Fault, FileSystem, OperationKind, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, block_on};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{create, options, points, rows};

fn files(fs: &SimulatedFs) -> usize {
    fs.list(Path::new("/data/rowsets")).expect("listed").len()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a row at the moment the manifest is synced, once.
fn write_while_the_manifest_is_synced(fs: &SimulatedFs, engine: &Arc<Engine>, table: TableId, row: i64) {
    let engine = Arc::downgrade(engine);
    let written = AtomicBool::new(false);
    fs.on_operation(move |_, operation| {
        let manifest = operation.path.to_string_lossy().contains("manifest");
        if manifest && operation.kind == OperationKind::Sync && !written.swap(true, Ordering::SeqCst) {
            let engine = engine.upgrade().expect("the engine is open");
            block_on(engine.write(points(table, &[(1, row, Some(row))]))).expect("written");
        }
    });
}

#[test]
fn a_row_written_while_a_flush_or_compaction_is_published_stays() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(10))])))?;
    write_while_the_manifest_is_synced(&fs, &engine, table, 20);
    assert!(engine.flush()?);
    assert_eq!(rows(&engine, table)?, [(1, 10, Some(10)), (1, 20, Some(20))]);
    assert!(engine.flush()?);
    write_while_the_manifest_is_synced(&fs, &engine, table, 30);
    assert!(engine.compact()?);
    let expected = [(1, 10, Some(10)), (1, 20, Some(20)), (1, 30, Some(30))];
    assert_eq!(rows(&engine, table)?, expected);
    assert!(engine.flush()?);
    assert_eq!(rows(&engine, table)?, expected);
    Ok(())
}

#[test]
fn a_flush_that_fails_leaves_no_files_and_loses_nothing() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    // Three partitions, so three files of one flush.
    block_on(engine.write(points(table, &[(1, 10, Some(1)), (1, 1010, Some(2)), (1, 2010, Some(3))])))?;
    let expected = rows(&engine, table)?;
    let faults = [
        Fault::Sync { skip: 1 },
        Fault::Sync { skip: 3 },
        Fault::SyncDir { skip: 0 },
        Fault::Write { skip: 2, written: 3 },
        Fault::Write { skip: 3, written: 3 },
    ];
    for fault in faults {
        fs.inject(fault.clone());
        assert!(engine.flush().is_err(), "{fault:?}");
        fs.clear_faults();
        assert_eq!(files(&fs), 0, "{fault:?}");
        assert_eq!(rows(&engine, table)?, expected);
        assert_eq!(rows(&Engine::open(options(&fs.crash(7)))?, table)?, expected);
    }
    // No space for a byte more: neither the rowsets nor the next manifest can be written.
    fs.set_space(Some(fs.used_bytes()));
    for _ in 0..3 {
        assert_eq!(engine.flush().expect_err("the disk is full").kind(), ErrorKind::Retry);
    }
    fs.set_space(None);
    assert!(engine.flush()?);
    assert_eq!(files(&fs), 3);
    assert_eq!(rows(&engine, table)?, expected);
    Ok(())
}

#[test]
fn damage_in_one_rowset_does_not_keep_others_from_being_compacted() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    // Five rowsets in each of two partitions: enough to be merged.
    for time in 0..5 {
        block_on(engine.write(points(table, &[(1, time, Some(time)), (1, 1000 + time, Some(time))])))?;
        assert!(engine.flush()?);
    }
    drop(engine);
    let damaged = fs.snapshot();
    damaged.flip_bit(Path::new("/data/rowsets/0000000000000002.rowset"), 20 * 8)?;
    let engine = Engine::open(EngineOptions { maintenance_threads: 1, ..options(&damaged) })?;
    wait_until("the other partition is compacted, and what is beside the damage", || {
        engine.stats().rowsets == 4
    });
    assert_eq!(engine.stats().compaction_failures, 1);
    // Later rowsets of the damaged partition are merged beside it.
    for time in 5..9 {
        block_on(engine.write(points(table, &[(1, time, Some(time))])))?;
        assert!(engine.flush()?);
    }
    wait_until("what came later is compacted", || engine.stats().rowsets <= 5);
    assert_eq!(engine.stats().compaction_failures, 1, "it is not tried again and again");
    let [("compaction", words)] = &engine.failures()[..] else { panic!("{:?}", engine.failures()) };
    assert!(words.contains("0002.rowset") && words.contains("cannot be read"), "{words}");
    Ok(())
}

#[test]
fn acknowledged_records_whose_sync_failed_are_flushed_at_once() -> Result<()> {
    let fs = SimulatedFs::new();
    let relaxed = EngineOptions {
        maintenance_threads: 1,
        wal_sync: SyncPolicy::Interval(Duration::from_millis(20)),
        ..options(&fs)
    };
    let engine = Engine::open(relaxed)?;
    let table = create(&engine)?;
    // The manifest is written for the first partition, and then because the log has begun a segment.
    let (syncs, is_told) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    fs.on_operation({
        let is_told = is_told.clone();
        move |_, operation| match operation.kind {
            _ if !operation.path.to_string_lossy().contains("manifest-") => {}
            OperationKind::Sync => drop(syncs.fetch_add(1, Ordering::SeqCst)),
            // The end mark, after the second sync.
            OperationKind::Write if syncs.load(Ordering::SeqCst) == 2 => {
                is_told.store(true, Ordering::SeqCst)
            }
            _ => {}
        }
    });
    block_on(engine.write(points(table, &[(1, 10, Some(0))])))?;
    wait_until("the manifest knows the segment", || is_told.load(Ordering::SeqCst));
    wait_until("the record is synced", || engine.stats().wal.is_some_and(|log| log.syncs > 0));
    // Only the log syncs from now on, at the end of the interval of the next record.
    fs.inject(Fault::Sync { skip: 0 });
    block_on(engine.write(points(table, &[(1, 10, Some(1))])))?;
    wait_until("the rows are flushed", || engine.stats().flushes > 0);
    fs.clear_faults();
    assert!(engine.stats().wal.is_some_and(|log| log.doubtful_records > 0));
    assert_eq!(rows(&Engine::open(options(&fs.crash(3)))?, table)?, [(1, 10, Some(1))]);
    Ok(())
}

/// Memory and the log hardly grow with them, but each of them is looked at by every reader.
#[test]
fn deleted_series_are_flushed_before_they_are_many() -> Result<()> {
    const SERIES: u32 = 5000;
    let fs = SimulatedFs::new();
    let engine = Engine::open(EngineOptions { maintenance_threads: 1, ..options(&fs) })?;
    let table = create(&engine)?;
    // Those of the others are gone already.
    let written: Vec<_> = (0..100).map(|series| (series, 10, Some(1))).collect();
    block_on(engine.write(points(table, &written)))?;
    assert!(engine.flush()?);
    for series in 0..SERIES {
        let series = SeriesSet::Ids([SeriesId(series)].into());
        let all = RowSelection::Series { series, time: TimeRange::ALL };
        block_on(engine.delete(Delete { table, rows: all, predicates: Vec::new() }))?;
    }
    // Up to a thousand wait for the next flush.
    wait_until("what they hide is gone", || engine.stats().tombstones < 1200);
    assert_eq!(rows(&engine, table)?, []);
    drop(engine);
    assert_eq!(rows(&Engine::open(options(&fs))?, table)?, []);
    Ok(())
}
