//! On a full disk, operations that free space work, others are refused, and nothing is lost.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "support/keyed_table.rs"]
mod keyed_table;
mod support;

use nyala_core::store::{Alteration, Delete, RowSelection, SeriesSet, Store};
use nyala_core::{ErrorKind, Result, SeriesId, TableId, TableSchema, TimeRange};
use nyala_engine::fs::{FileSystem, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::path::Path;
use support::{create, create_named, options, points, rows};

const MIB: u64 = 1 << 20;

fn options_of(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions { wal_segment_bytes: 64 * MIB, ..options(fs) }
}

/// Writes until the disk is full; returns how many rows were acknowledged.
fn fill(engine: &Engine, table: TableId) -> Result<i64> {
    let mut written = 0;
    loop {
        let batch: Vec<_> =
            (written..written + 500).map(|time_ns| (1, time_ns, Some(time_ns * 77))).collect();
        match block_on(engine.write(points(table, &batch))) {
            Ok(_) => written += 500,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                assert!(error.message().contains("nothing was stored"), "{error}");
                return Ok(written);
            }
        }
        assert!(written < 10_000_000, "the disk fills");
    }
}

#[test]
fn writes_are_taken_until_the_disk_is_full() -> Result<()> {
    let fs = SimulatedFs::new();
    fs.set_space(Some(12 * MIB));
    let engine = Engine::open(options_of(&fs))?;
    let table = create(&engine)?;
    let written = fill(&engine, table)?;
    let free = fs.free_bytes(Path::new("/data"))?;
    assert!(free < MIB, "refused with {free} bytes free");
    assert_eq!(rows(&engine, table)?.len() as i64, written);
    assert_eq!(rows(&Engine::open(options_of(&fs.snapshot()))?, table)?.len() as i64, written);
    Ok(())
}

#[test]
fn what_frees_space_works_on_a_full_disk() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options_of(&fs))?;
    let (kept, dropped) = (create(&engine)?, create_named(&engine, "dropped")?);
    let batch: Vec<_> = (0..5000).map(|time_ns| (1, time_ns, Some(time_ns << 40))).collect();
    block_on(engine.write(points(dropped, &batch)))?;
    block_on(engine.write(points(kept, &batch)))?;
    assert!(engine.flush()?);
    fs.set_space(Some(fs.used_bytes() + 100_000));
    let written = fill(&engine, kept)?;
    fs.set_space(Some(fs.used_bytes()));
    let one =
        RowSelection::Series { series: SeriesSet::Ids([SeriesId(1)].into()), time: TimeRange::new(0, 1000) };
    block_on(engine.delete(Delete { table: kept, rows: one, predicates: Vec::new() }))?;
    assert_eq!(block_on(engine.drop_partitions(dropped, TimeRange::new(0, 1000)))?.len(), 1);
    block_on(engine.drop_table(dropped))?;
    let left: Vec<_> = rows(&engine, kept)?;
    assert_eq!(left.len() as i64, 5000.max(written) - 1000);
    // Rows may not use the space that is kept for deletes.
    assert_eq!(block_on(engine.write(points(kept, &batch))).expect_err("is full").kind(), ErrorKind::Retry);
    let again = Engine::open(options_of(&fs.crash(3)))?;
    assert_eq!(rows(&again, kept)?, left);
    assert!(again.schema(dropped).is_err());
    drop(again);
    // There is space again: the reserve is taken again, and rows are accepted.
    fs.set_space(None);
    engine.flush()?;
    block_on(engine.write(points(kept, &batch)))?;
    Ok(())
}

/// Rows wait for a flush, and there is no space for one. What frees space waits for none, or it would never be freed.
#[test]
fn what_frees_space_does_not_wait_for_flushes_that_fail() -> Result<()> {
    let fs = SimulatedFs::new();
    let describes_others = |schema: &TableSchema| schema.name == "records";
    let engine = Engine::open(EngineOptions { describes_others, wal_bytes_max: MIB, ..options_of(&fs) })?;
    let (table, records) = (create(&engine)?, keyed_table::table(&engine, "records")?);
    let mut written = 0;
    // The log is full then.
    while engine.stats().wal.expect("a log").written_bytes < 2 * MIB {
        let batch: Vec<_> =
            (written..written + 500).map(|time_ns| (1, time_ns, Some(time_ns * 77))).collect();
        block_on(engine.write(points(table, &batch)))?;
        written += 500;
    }
    fs.set_space(Some(fs.used_bytes()));
    engine.flush().expect_err("there is no space");
    let some =
        RowSelection::Series { series: SeriesSet::Ids([SeriesId(1)].into()), time: TimeRange::new(0, 1000) };
    block_on(engine.delete(Delete { table, rows: some, predicates: Vec::new() }))?;
    block_on(engine.write(keyed_table::batch(vec![keyed_table::upsert(records, &[(1, 2)])])))?;
    create_named(&engine, "made")?;
    assert_eq!(rows(&engine, table)?.len() as i64, written - 1000);
    let again = Engine::open(options_of(&fs.crash(7)))?;
    assert_eq!(rows(&again, table)?.len() as i64, written - 1000);
    Ok(())
}

/// Their edits make the manifest be written anew, for which the reserve is.
#[test]
fn tables_are_made_and_altered_on_a_full_disk() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options_of(&fs))?;
    let table = create(&engine)?;
    fs.set_space(Some(fs.used_bytes()));
    for turn in 0..2000 {
        let width = Alteration::SetPartitionWidth(1000 + turn);
        block_on(engine.alter_table(table, vec![width]))?;
    }
    let made = (0..50).map(|number| create_named(&engine, &format!("made {number}")));
    let made = made.collect::<Result<Vec<_>>>()?;
    let again = Engine::open(options_of(&fs.crash(5)))?;
    assert_eq!(again.schema(table)?.partitioning.time_width_ns(), Some(2999));
    assert!(made.iter().all(|table| again.schema(*table).is_ok()));
    Ok(())
}

/// Tables with any key hold records that describe others, or rows of users.
#[test]
fn rows_with_any_key_leave_room_for_deletes_too() -> Result<()> {
    let fs = SimulatedFs::new();
    let describes_others = |schema: &TableSchema| schema.name == "records";
    let engine = Engine::open(EngineOptions { describes_others, ..options_of(&fs) })?;
    let [records, rows] = ["records", "rows"].map(|name| keyed_table::table(&engine, name));
    let (records, rows) = (records?, rows?);
    fs.set_space(Some(fs.used_bytes() + 2 * MIB));
    let put = |table, from: i64| {
        let new: Vec<_> = (from..from + 500).map(|key| (key, key * 77)).collect();
        block_on(engine.write(keyed_table::batch(vec![keyed_table::upsert(table, &new)])))
    };
    let mut written = 0;
    let error = loop {
        match put(rows, written) {
            Ok(_) => written += 500,
            Err(error) => break error,
        }
        assert!(written < 10_000_000, "the disk fills");
    };
    assert!(error.message().contains("nothing was stored"), "{error}");
    put(records, 0)?;
    block_on(engine.write(keyed_table::batch(vec![keyed_table::deletion(rows, &[0, 1])])))?;
    let left = block_on(keyed_table::rows(&engine.latest(), rows))?;
    assert_eq!(left.len() as i64, written - 2);
    Ok(())
}

/// A partition takes space in the manifest, which is kept for what deletes.
#[test]
fn rows_that_are_refused_make_no_partition() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options_of(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(1))])))?;
    fs.set_space(Some(fs.used_bytes()));
    // It is given the reserve.
    let none = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(0, 5) };
    block_on(engine.delete(Delete { table, rows: none, predicates: Vec::new() }))?;
    for time_ns in [1_000_000, 2_000_000] {
        let error = block_on(engine.write(points(table, &[(1, time_ns, Some(1))]))).expect_err("is full");
        assert!(error.message().contains("nothing was stored"), "{error}");
    }
    assert_eq!(block_on(engine.partitions(table))?.len(), 1);
    Ok(())
}
