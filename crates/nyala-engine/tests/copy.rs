//! Copies of a store: with writers beside, before a power cut, on a disk that fails.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
use nyala_core::{ErrorKind, Result, TableId, TimeRange};
use nyala_engine::fs::{Fault, FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on, check, copy_closed};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use support::{create, create_named, options, points, rows};

fn copy_dir(number: usize) -> PathBuf {
    format!("/copy-{number}").into()
}

fn open_copy(fs: &SimulatedFs, dir: &Path) -> Result<Engine> {
    Engine::open(EngineOptions { data_dir: dir.into(), ..options(fs) })
}

fn check_sound(fs: &SimulatedFs, dir: &Path) -> Result<()> {
    let fs: FsRef = Arc::new(fs.clone());
    let report = check(&fs, dir, &mut |_| {})?;
    assert_eq!((report.damage, report.notes), (vec![], vec![]), "{}", dir.display());
    Ok(())
}

#[test]
fn a_copy_is_the_store_of_a_moment() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let (table, acknowledged, is_over) = (create(&engine)?, AtomicI64::new(0), AtomicBool::new(false));
    let (mut moments, mut log_bytes) = (Vec::new(), 0);
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| {
            let mut next = 0;
            while !is_over.load(Ordering::SeqCst) {
                let batch: Vec<_> = (next..next + 50).map(|time| (1, time, Some(time * 3))).collect();
                block_on(engine.write(points(table, &batch))).expect("is written");
                next += 50;
                acknowledged.store(next, Ordering::SeqCst);
            }
        });
        let flushing = engine.clone();
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                flushing.flush().expect("is flushed");
                flushing.compact().expect("is compacted");
            }
            drop(flushing);
        });
        while acknowledged.load(Ordering::SeqCst) == 0 && !writer.is_finished() {
            std::thread::yield_now();
        }
        // What is written during a flush comes from the log: until that has happened, too.
        while moments.len() < 25 || (log_bytes == 0 && moments.len() < 1000) {
            let before = acknowledged.load(Ordering::SeqCst);
            let copy = engine.copy_to(&copy_dir(moments.len()))?;
            moments.push((before, acknowledged.load(Ordering::SeqCst)));
            log_bytes += copy.log_bytes;
        }
        is_over.store(true, Ordering::SeqCst);
        Ok(())
    })?;
    // The power is cut: copies are on disk.
    let disk = fs.crash(7);
    for (number, (before, after)) in moments.into_iter().enumerate() {
        let dir = copy_dir(number);
        check_sound(&disk, &dir)?;
        let opened = open_copy(&disk, &dir)?;
        assert_eq!(opened.losses(), [""; 0]);
        let found = rows(&opened, table)?;
        let count = found.len() as i64;
        assert!((before..=after + 50).contains(&count) && count % 50 == 0, "{before} <= {count} <= {after}");
        assert!(found.iter().zip(0..).all(|(row, time)| *row == (1, time, Some(time * 3))));
        // It is a store as any other.
        block_on(opened.write(points(table, &[(2, 1, Some(1))])))?;
        opened.flush()?;
        assert_eq!(rows(&opened, table)?.len() as i64, count + 1);
    }
    assert!(log_bytes > 0, "what was written during a flush comes from the log");
    Ok(())
}

#[test]
fn a_copy_does_not_change_with_its_store() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let (table, other) = (create(&engine)?, create_named(&engine, "other")?);
    let batch = |from: i64| -> Vec<_> { (from..from + 300).map(|time| (1, time, Some(time))).collect() };
    for from in [0, 100, 2000] {
        block_on(engine.write(points(table, &batch(from))))?;
        engine.flush()?;
    }
    block_on(engine.write(points(other, &batch(0))))?;
    let times = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(50, 70) };
    block_on(engine.delete(Delete { table, rows: times, predicates: Vec::new() }))?;
    let (expected, of_other) = (rows(&engine, table)?, rows(&engine, other)?);
    engine.copy_to(Path::new("/copy"))?;
    let refused = engine.copy_to(Path::new("/copy")).expect_err("is not empty");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    engine.compact()?;
    block_on(engine.drop_tables(vec![other]))?;
    block_on(engine.write(points(table, &batch(0))))?;
    engine.flush()?;
    drop(engine);
    let opened = open_copy(&fs, Path::new("/copy"))?;
    assert_eq!((rows(&opened, table)?, rows(&opened, other)?), (expected, of_other));
    Ok(())
}

#[test]
fn a_closed_store_is_copied_as_it_is() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 1, Some(1))])))?;
    engine.flush()?;
    block_on(engine.write(points(table, &[(1, 2, Some(2))])))?;
    let expected = rows(&engine, table)?;
    let shared: FsRef = Arc::new(fs.clone());
    let refused = copy_closed(&shared, Path::new("/data"), Path::new("/copy"), 1).expect_err("is open");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    // Not closed, as by `kill -9`.
    let killed = fs.snapshot();
    let shared: FsRef = Arc::new(killed.clone());
    copy_closed(&shared, Path::new("/data"), Path::new("/copy"), 1)?;
    assert_eq!(rows(&open_copy(&killed, Path::new("/copy"))?, table)?, expected);
    assert_eq!(rows(&Engine::open(options(&killed))?, table)?, expected);
    Ok(())
}

/// Rows that are acknowledged in spite of everything.
fn write_until_taken(engine: &Engine, table: TableId, time: i64) -> Result<()> {
    for _ in 0..3 {
        match block_on(engine.write(points(table, &[(1, time, Some(time))]))) {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unknown) => {
                engine.retry_failed();
            }
            Err(error) => return Err(error),
        }
    }
    panic!("the store takes no writes any more");
}

#[test]
fn a_copy_that_fails_leaves_the_store_well() -> Result<()> {
    let mut failures = 0;
    for number in 0..60 {
        let fs = SimulatedFs::new();
        let engine = Engine::open(options(&fs))?;
        let table = create(&engine)?;
        for time in 0..3 {
            block_on(engine.write(points(table, &[(1, time, Some(time))])))?;
            engine.flush()?;
        }
        block_on(engine.write(points(table, &[(1, 3, Some(3))])))?;
        fs.inject(match number % 3 {
            0 => Fault::Sync { skip: number / 3 },
            1 => Fault::SyncDir { skip: number / 3 },
            _ => Fault::Write { skip: number / 3, written: 10 },
        });
        let copied = engine.copy_to(Path::new("/copy"));
        fs.clear_faults();
        failures += u32::from(copied.is_err());
        if copied.is_err() {
            // Nobody takes what is left for a store, or it is one.
            if let Ok(opened) = open_copy(&fs.snapshot(), Path::new("/copy")) {
                assert!(opened.losses().is_empty());
            }
        }
        write_until_taken(&engine, table, 4)?;
        engine.copy_to(Path::new("/again"))?;
        assert_eq!(rows(&open_copy(&fs, Path::new("/again"))?, table)?.len(), 5, "fault {number}");
        assert_eq!(rows(&engine, table)?.len(), 5);
    }
    assert!(failures > 10, "only {failures} copies failed");
    Ok(())
}
