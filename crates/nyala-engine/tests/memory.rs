//! Caches give memory back when it is needed, and readers do not keep writers waiting.

mod support;

use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
use nyala_core::{Result, SeriesId, TimeRange};
use nyala_engine::fs::{OperationKind, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use support::{create, options, points, rows};

const LIMIT_BYTES: u64 = 32 << 20;

#[test]
fn cached_blocks_keep_neither_queries_nor_writers_waiting() -> Result<()> {
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = create(&engine)?;
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state as i64)
    };
    for series in 0..1600 {
        let batch: Vec<_> = (0..1000).map(|time_ns| (series, time_ns, random())).collect();
        block_on(engine.write(points(table, &batch)))?;
        if series % 100 == 99 {
            assert!(engine.flush()?);
        }
    }
    assert_eq!(rows(&engine, table)?.len(), 1_600_000);
    let cached = memory.used_bytes(Component::BlockCache);
    assert!(cached > LIMIT_BYTES / 4, "{cached} bytes are cached");
    let query = memory.try_charge(Component::Query, LIMIT_BYTES / 100 * 80)?;
    assert!(memory.used_bytes(Component::BlockCache) < cached);
    drop(query);
    assert_eq!(rows(&engine, table)?.len(), 1_600_000, "they are read again");
    let _others = memory.charge(Component::SeriesIndex, LIMIT_BYTES / 100 * 80);
    assert!(memory.total_bytes() >= LIMIT_BYTES, "nothing is left but what is cached");
    block_on(engine.write(points(table, &[(1, 1, Some(1))])))?;
    assert_eq!(engine.stats().write_stalls, 0);
    Ok(())
}

#[test]
fn rows_that_are_in_files_and_still_read_in_memory_slow_no_writer() -> Result<()> {
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = create(&engine)?;
    let part = memory.memtable_bytes_soft() * 6 / 10;
    let unflushed = || memory.used_bytes(Component::Memtable);
    let mut time_ns = 0;
    let mut fill = || -> Result<()> {
        while unflushed() < part {
            let batch: Vec<_> = (0..1000).map(|series| (series, time_ns, Some(i64::from(series)))).collect();
            time_ns += 1;
            block_on(engine.write(points(table, &batch)))?;
        }
        Ok(())
    };
    fill()?;
    let reader = engine.latest();
    assert!(engine.flush()?);
    assert_eq!(unflushed(), 0);
    assert!(memory.used_bytes(Component::Query) >= part, "the reader has them");
    fill()?;
    assert_eq!(engine.stats().write_stalls, 0);
    drop(reader);
    assert_eq!(memory.used_bytes(Component::Query), 0);
    Ok(())
}

/// Deleted series are remembered for as long as a file has rows of the table from before.
#[test]
fn deleted_series_are_compressed_and_charged() -> Result<()> {
    const DELETED: u32 = 200_000;
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let charged = |memory: &MemoryBudget| memory.used_bytes(Component::RowsetIndex);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(0, 10, Some(1)), (1, 10, Some(1))])))?;
    assert!(engine.flush()?);
    let before = charged(&memory);
    let delete = |ids: &mut dyn Iterator<Item = u32>| {
        let rows = RowSelection::Series {
            series: SeriesSet::Ids(ids.map(SeriesId).collect()),
            time: TimeRange::ALL,
        };
        block_on(engine.delete(Delete { table, rows, predicates: Vec::new() }))
    };
    // A bit for each id.
    delete(&mut (1..DELETED).step_by(2))?;
    let every_second = charged(&memory) - before;
    let bits = u64::from(DELETED / 8);
    assert!((bits..3 * bits).contains(&every_second), "{every_second} bytes");
    // All that lie side by side.
    delete(&mut (1..DELETED))?;
    let side_by_side = charged(&memory) - before - every_second;
    assert!((1..1000).contains(&side_by_side), "{side_by_side} bytes");
    assert_eq!(rows(&engine, table)?, [(0, 10, Some(1))]);
    assert!(engine.flush()?);
    drop(engine);
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    assert_eq!(charged(&memory), every_second + side_by_side, "after a start, too");
    assert_eq!(rows(&engine, table)?, [(0, 10, Some(1))]);
    block_on(engine.drop_table(table))?;
    assert!(charged(&memory) < bits, "they are forgotten with the table");
    Ok(())
}

/// Its client is gone, and with it what charged its rows.
#[test]
fn a_write_that_was_given_up_is_charged_until_it_is_written() -> Result<()> {
    const ROWS: i64 = 1000;
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(LIMIT_BYTES);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 0, Some(0))])))?;
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.clone();
    fs.on_operation(move |_, operation| {
        if operation.path.starts_with("/data/wal") && operation.kind == OperationKind::Sync {
            drop(closed.lock());
        }
    });
    let in_flight = || memory.used_bytes(Component::InFlight);
    let before = in_flight();
    let waits = gate.lock().expect("not poisoned");
    let batch: Vec<_> = (0..ROWS).map(|time_ns| (1, time_ns, Some(time_ns))).collect();
    let mut write = engine.write(points(table, &batch));
    assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let of_record = in_flight();
    drop(write);
    // A series, a time and a value for each row.
    let of_rows = in_flight() - of_record;
    assert!(of_rows >= 20 * ROWS as u64, "{of_rows} bytes");
    drop(waits);
    let begun = Instant::now();
    while in_flight() > before {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never written");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(rows(&engine, table)?.len(), ROWS as usize);
    Ok(())
}
