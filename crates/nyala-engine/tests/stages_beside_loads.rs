//! Stages that are open while very many points are written: what others wrote is remembered in little memory, and exactly.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::memory::MemoryBudget;
use nyala_core::store::Store;
use nyala_core::{ErrorKind, Result, TableId};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use support::{create, options, points, rows};

const SERIES: u32 = 4000;
/// Keys of so many batches take three times what an unencoded journal has room for.
const BATCHES: i64 = 64;

/// Points at one time, of all series.
fn load(engine: &Engine, table: TableId, time_ns: i64) -> Result<()> {
    let rows: Vec<_> = (0..SERIES).map(|series| (series, time_ns, Some(time_ns))).collect();
    block_on(engine.write(points(table, &rows)))?;
    engine.flush().map(drop)
}

/// Commits a stage that has changed some points, after many others were written.
fn committed(staged: &[(u32, i64, Option<i64>)]) -> Result<(Engine, TableId, Result<()>)> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(EngineOptions { memory: MemoryBudget::new(8 << 20), ..options(&fs) })?;
    let table = create(&engine)?;
    load(&engine, table, 0)?;
    let mut stage = block_on(engine.stage())?;
    block_on(stage.write(points(table, staged)))?;
    for time_ns in 1..=BATCHES {
        load(&engine, table, time_ns)?;
    }
    let outcome = block_on(stage.commit()).map(drop);
    Ok((engine, table, outcome))
}

#[test]
fn a_stage_is_not_given_up_beside_a_load() -> Result<()> {
    let (engine, table, outcome) = committed(&[(7, 0, Some(-1)), (8, BATCHES + 1, Some(-1))])?;
    outcome?;
    let found = rows(&engine, table)?;
    assert_eq!(found.len() as i64, i64::from(SERIES) * (BATCHES + 1) + 1);
    let changed: Vec<_> = found.into_iter().filter(|row| row.2 == Some(-1)).collect();
    assert_eq!(changed, [(7, 0, Some(-1)), (8, BATCHES + 1, Some(-1))]);
    Ok(())
}

#[test]
fn a_point_that_a_load_wrote_first_is_a_conflict() -> Result<()> {
    for time_ns in [1, BATCHES / 2, BATCHES] {
        let (engine, table, outcome) = committed(&[(SERIES - 1, time_ns, Some(-1))])?;
        let error = outcome.expect_err("somebody else was first");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(rows(&engine, table)?.iter().all(|row| row.2 != Some(-1)));
    }
    Ok(())
}
