//! Deleted rows give their space back, also when nothing else is written.

mod support;

use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
use nyala_core::{Result, SeriesId, TableId, TimeRange};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::time::{Duration, Instant};
use support::{create, options, points, rows};

const SERIES: u32 = 200;
const ROWS: i64 = 500;

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn value(series: u32, time_ns: i64) -> Option<i64> {
    Some(i64::from(series).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) ^ (time_ns * 0x5851_f42d_4c95))
}

/// A store with one settled partition.
fn settled(fs: &SimulatedFs, options: EngineOptions) -> Result<(Engine, TableId)> {
    let engine = Engine::open(EngineOptions { maintenance_threads: 0, ..options.clone() })?;
    let table = create(&engine)?;
    for series in 0..SERIES {
        let rows: Vec<_> = (0..ROWS).map(|time_ns| (series, time_ns, value(series, time_ns))).collect();
        block_on(engine.write(points(table, &rows)))?;
    }
    assert!(engine.flush()?);
    drop(engine);
    let _ = fs;
    Ok((Engine::open(options)?, table))
}

fn delete(engine: &Engine, table: TableId, series: SeriesSet, time: TimeRange) -> Result<()> {
    let rows = RowSelection::Series { series, time };
    block_on(engine.delete(Delete { table, rows, predicates: Vec::new() })).map(drop)
}

fn ids(series: impl Iterator<Item = u32>) -> SeriesSet {
    SeriesSet::Ids(series.map(SeriesId).collect())
}

#[test]
fn nine_tenths_deleted_of_a_settled_partition_give_back_their_bytes() -> Result<()> {
    let deletes =
        [(ids(0..SERIES / 10 * 9), TimeRange::ALL), (SeriesSet::All, TimeRange::new(0, ROWS / 10 * 9))];
    for (series, time) in deletes {
        let fs = SimulatedFs::new();
        let (engine, table) = settled(&fs, EngineOptions { maintenance_threads: 1, ..options(&fs) })?;
        let before = engine.stats().rowset_bytes;
        delete(&engine, table, series, time)?;
        let left = rows(&engine, table)?;
        assert_eq!(left.len(), (SERIES as usize) * (ROWS as usize) / 10);
        wait_until("the bytes come back", || engine.stats().rowset_bytes < before / 5);
        assert_eq!(rows(&engine, table)?, left);
        // The tombstone hides nothing any more; the log forgets it with the next flush.
        assert!(engine.flush()?);
        assert_eq!(engine.stats().tombstones, 0);
        assert_eq!(rows(&Engine::open(options(&fs.crash(5)))?, table)?, left);
    }
    Ok(())
}

#[test]
fn all_rows_deleted_leave_no_rowset() -> Result<()> {
    let fs = SimulatedFs::new();
    let (engine, table) = settled(&fs, EngineOptions { maintenance_threads: 1, ..options(&fs) })?;
    delete(&engine, table, SeriesSet::All, TimeRange::ALL)?;
    wait_until("the rowset goes", || engine.stats().rowsets == 0);
    assert_eq!(rows(&engine, table)?, []);
    Ok(())
}

#[test]
fn small_deletes_are_gathered_before_a_rowset_is_written_anew() -> Result<()> {
    let fs = SimulatedFs::new();
    let (engine, table) = settled(&fs, EngineOptions { maintenance_threads: 1, ..options(&fs) })?;
    let expected = |deleted: u32| -> Vec<_> {
        (deleted..SERIES).flat_map(|s| (0..ROWS).map(move |t| (s, t, value(s, t)))).collect()
    };
    delete(&engine, table, ids(0..1), TimeRange::ALL)?;
    // A delete of rows that do not exist: it is known to hide nothing, and nothing is rewritten for it.
    delete(&engine, table, ids(SERIES..SERIES + 100), TimeRange::ALL)?;
    // Longer than a thread waits before it looks for work, and than the log is quiet.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(engine.stats().compactions, 0, "one in two hundred");
    assert_eq!(rows(&engine, table)?, expected(1));
    for series in 1..SERIES / 4 {
        delete(&engine, table, ids(series..series + 1), TimeRange::ALL)?;
    }
    wait_until("a quarter is worth it", || engine.stats().compactions > 0);
    assert_eq!(rows(&engine, table)?, expected(SERIES / 4));
    Ok(())
}

#[test]
fn rows_written_after_a_delete_stay_and_snapshots_keep_theirs() -> Result<()> {
    let fs = SimulatedFs::new();
    let (engine, table) = settled(&fs, EngineOptions { maintenance_threads: 1, ..options(&fs) })?;
    let (before, all) = (engine.latest(), rows(&engine, table)?);
    let compactions = engine.stats().compactions;
    delete(&engine, table, ids(0..SERIES / 2), TimeRange::ALL)?;
    block_on(engine.write(points(table, &[(3, 7, Some(7))])))?;
    wait_until("half is worth it", || engine.stats().compactions > compactions);
    let left: Vec<_> = all.iter().filter(|row| row.0 >= SERIES / 2).copied().collect();
    let expected: Vec<_> = [(3, 7, Some(7))].into_iter().chain(left).collect();
    assert_eq!(rows(&engine, table)?, expected);
    assert_eq!(support::rows_of(&before, table)?, all);
    drop(before);
    assert!(engine.flush()?);
    assert_eq!(rows(&engine, table)?, expected);
    assert_eq!(rows(&Engine::open(options(&fs.crash(9)))?, table)?, expected);
    Ok(())
}

#[test]
fn what_hides_nothing_any_more_is_forgotten_though_nothing_is_written() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(1)), (1, 1010, Some(1))])))?;
    assert!(engine.flush()?);
    assert!(!engine.flush()?, "there is nothing to do");
    delete(&engine, table, ids(1..2), TimeRange::new(0, 1000))?;
    assert!(engine.flush()?);
    assert_eq!(engine.stats().tombstones, 1, "the file has the row");
    assert!(!engine.flush()?, "it is needed");
    block_on(engine.drop_partitions(table, TimeRange::new(0, 1000)))?;
    // That of the series, and one for what the log may have of the partition.
    assert_eq!(engine.stats().tombstones, 2);
    assert!(engine.flush()?);
    assert_eq!(engine.stats().tombstones, 0);
    assert!(!engine.flush()?);
    let restarted = Engine::open(options(&fs.crash(3)))?;
    assert_eq!(restarted.stats().tombstones, 0);
    assert_eq!(rows(&restarted, table)?, [(1, 1010, Some(1))]);
    Ok(())
}
