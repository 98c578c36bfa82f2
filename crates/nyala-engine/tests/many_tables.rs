//! Many tables with many partitions: the cost of flushes and reads must not grow with their number.

#[expect(dead_code, reason = "shared with tests that need more")]
mod support;

use nyala_core::Result;
use nyala_core::store::Store;
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::time::Instant;
use support::{create_named, options, points, rows};

/// Log, manifest and lock have some, the rest is for rowsets.
const OPEN_FILES_MAX: usize = 100;

#[test]
fn few_descriptors_do_for_many_tables_and_partitions() -> Result<()> {
    let fs = SimulatedFs::new();
    fs.set_open_files_max(Some(OPEN_FILES_MAX));
    let engine = Engine::open(options(&fs))?;
    let tables =
        (0..20).map(|table| create_named(&engine, &format!("m{table}"))).collect::<Result<Vec<_>>>()?;
    let times = |round: i64| (0..15).map(move |shard| (1, shard * 1000 + round, Some(shard)));
    let expected = |rounds: i64| {
        let mut all: Vec<_> = (0..rounds).flat_map(times).collect();
        all.sort_unstable();
        all
    };
    for round in 0..3 {
        for table in &tables {
            block_on(engine.write(points(*table, &times(round).collect::<Vec<_>>())))?;
        }
        assert!(engine.flush()?, "300 rowsets");
        for table in &tables {
            assert_eq!(rows(&engine, *table)?, expected(round + 1));
        }
    }
    // Readers of before still read what a compaction replaces.
    let before = engine.latest();
    assert!(engine.compact()?);
    assert_eq!(engine.stats().rowsets, 300);
    for table in &tables {
        assert_eq!(support::rows_of(&before, *table)?, expected(3));
        assert_eq!(rows(&engine, *table)?, expected(3));
    }
    drop((before, engine));
    let engine = Engine::open(options(&fs))?;
    for table in &tables {
        assert_eq!(rows(&engine, *table)?, expected(3));
    }
    Ok(())
}

/// `cargo test --release -p nyala-engine --test many_tables -- --ignored --nocapture`: the cost of a table does not
/// grow with the number of tables.
#[test]
#[ignore = "measures time"]
#[expect(clippy::print_stdout, reason = "what it is for")]
fn a_flush_of_many_tables_takes_time_in_proportion() -> Result<()> {
    let mut per_table = Vec::new();
    for count in [5_000, 50_000] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = EngineOptions { maintenance_threads: 0, ..EngineOptions::new(dir.path()) };
        let engine = Engine::open(options)?;
        let begun = Instant::now();
        let tables = (0..count)
            .map(|table| create_named(&engine, &format!("m{table}")))
            .collect::<Result<Vec<_>>>()?;
        let created = begun.elapsed();
        for table in &tables {
            block_on(engine.write(points(*table, &[(1, 10, Some(1))])))?;
        }
        let begun = Instant::now();
        assert!(engine.flush()?);
        let flushed = begun.elapsed();
        per_table.push(flushed.as_secs_f64() / f64::from(count));
        println!("{count} tables: created in {created:.1?}, flushed in {flushed:.2?}");
    }
    let growth = per_table[1] / per_table[0];
    println!("a table costs {growth:.2} times as much");
    assert!(growth <= 1.3, "a table of ten times as many costs {growth:.2} times as much");
    Ok(())
}
