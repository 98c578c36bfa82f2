//! The engine through its public face: what is written is there, also after reopening.

mod support;

use nyala_core::Result;
use nyala_core::store::Store;
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, block_on};
use support::{create, options, points, rows};

#[test]
fn rows_survive_flush_compaction_and_reopening() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(1)), (2, 1500, Some(2)), (1, 30, None)])))?;
    assert!(engine.flush()?);
    block_on(engine.write(points(table, &[(1, 20, Some(3)), (1, 10, None), (2, 1500, Some(9))])))?;
    let expected = [(1, 10, Some(1)), (1, 20, Some(3)), (1, 30, None), (2, 1500, Some(9))];
    assert_eq!(rows(&engine, table)?, expected);
    drop(engine);
    let engine = Engine::open(options(&fs.snapshot()))?;
    assert_eq!(engine.recovery().records, 1);
    assert_eq!(rows(&engine, table)?, expected);
    assert!(engine.flush()?);
    assert!(engine.compact()?);
    assert_eq!(rows(&engine, table)?, expected);
    assert_eq!(engine.stats().rowsets, 2, "one in each partition");
    Ok(())
}

#[test]
fn a_second_engine_on_the_directory_is_refused() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    assert!(Engine::open(options(&fs)).is_err());
    drop(engine);
    Engine::open(options(&fs)).map(drop)
}

#[test]
fn a_dropped_write_is_still_finished() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    for time in 0..20 {
        let mut write = Box::pin(engine.write(points(table, &[(1, time, Some(time))])));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = write.as_mut().poll(&mut context);
        drop(write);
    }
    block_on(engine.write(points(table, &[(1, 100, Some(100))])))?;
    let found = rows(&engine, table)?;
    assert_eq!(found.len(), 21, "{found:?}");
    Ok(())
}
