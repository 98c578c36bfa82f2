//! Caches give memory back when it is needed, and readers do not keep writers waiting.

mod support;

use nyala_core::Result;
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::Store;
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
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
