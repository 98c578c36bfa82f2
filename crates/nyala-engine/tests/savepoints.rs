//! Savepoints of stages whose rows are on the disk, or are loaded. What a stage must answer is tested by the battery.

#[path = "support/keyed_table.rs"]
mod keyed_table;

use keyed_table::{rows, staged_files, table, upsert};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Stage, Store, WriteBatch};
use nyala_core::{ErrorKind, Result, TableId, TableSchema};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::collections::BTreeMap;
use std::sync::Arc;

type RowMap = BTreeMap<i64, i64>;

fn options(fs: &SimulatedFs, stage_bytes_max: u64) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        memory: MemoryBudget::new(256 << 20),
        stage_bytes_max: Some(stage_bytes_max),
        ..EngineOptions::new("/data")
    }
}

fn batch(table: TableId, rows: &[(i64, i64)]) -> WriteBatch {
    keyed_table::batch(vec![upsert(table, rows)])
}

fn deletion(table: TableId, keys: &[i64]) -> WriteBatch {
    keyed_table::batch(vec![keyed_table::deletion(table, keys)])
}

/// Commits a stage, and checks what is there then, also after a restart.
fn commit(
    fs: &SimulatedFs,
    engine: Engine,
    stage: Box<dyn Stage>,
    expected: &[(TableId, RowMap)],
) -> Result<()> {
    block_on(stage.commit())?;
    assert_eq!(staged_files(fs)?, 0, "nothing of the stage is left over");
    for (table, expected) in expected {
        assert_eq!(block_on(rows(&engine.latest(), *table))?, *expected);
    }
    drop(engine);
    let engine = Engine::open(options(fs, 1))?;
    for (table, expected) in expected {
        assert_eq!(block_on(rows(&engine.latest(), *table))?, *expected);
    }
    Ok(())
}

#[test]
fn a_stage_goes_back_over_rows_on_the_disk() -> Result<()> {
    const SAVEPOINTS: i64 = 40;
    let fs = SimulatedFs::new();
    // Rows go to the disk with every batch.
    let engine = Engine::open(options(&fs, 1))?;
    let table = table(&engine, "t")?;
    block_on(engine.write(batch(table, &[(-1, 1), (-2, 2)])))?;
    let mut stage = block_on(engine.stage())?;
    let mut states = Vec::new();
    let mut expected = RowMap::from([(-1, 1), (-2, 2)]);
    block_on(async {
        for number in 0..SAVEPOINTS {
            assert_eq!(stage.savepoint().await?, number as usize);
            states.push((expected.clone(), stage.snapshot().await?));
            let written = [(number, number), (number / 2, -number), (-1, number)];
            stage.write(batch(table, &written[..1])).await?;
            stage.write(batch(table, &written[1..])).await?;
            stage.write(deletion(table, &[-2, number / 3])).await?;
            expected.extend(written);
            expected.retain(|key, _| *key != -2 && *key != number / 3);
        }
        assert_eq!(rows(&stage.snapshot().await?, table).await?, expected);
        for number in [39, 37, 20, 19, 3] {
            stage.roll_back_to(number).await?;
            assert_eq!(rows(&stage.snapshot().await?, table).await?, states[number].0, "savepoint {number}");
            // What was written again is gone again.
            stage.write(batch(table, &[(1000, 1)])).await?;
            stage.roll_back_to(number).await?;
        }
        for (expected, snapshot) in &states {
            assert_eq!(rows(snapshot, table).await?, *expected, "snapshots stay as they are");
        }
        stage.write(batch(table, &[(7, 7)])).await
    })?;
    // A row that was only written since is in conflict with nobody.
    block_on(engine.write(batch(table, &[(30, 30)])))?;
    let mut expected = states.swap_remove(3).0;
    drop(states);
    expected.extend([(7, 7), (30, 30)]);
    commit(&fs, engine, stage, &[(table, expected)])
}

#[test]
fn a_stage_goes_back_over_loads() -> Result<()> {
    const ROWS: i64 = 3000;
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, 40_000))?;
    let (first, second) = (table(&engine, "first")?, table(&engine, "second")?);
    let mut stage = block_on(engine.stage())?;
    let loaded = |begin: i64, value: i64| (begin..begin + ROWS).map(|key| (key, value)).collect::<Vec<_>>();
    let mut expected = RowMap::new();
    block_on(async {
        stage.write(batch(first, &[(-1, 1)])).await?;
        assert_eq!(stage.savepoint().await?, 0);
        stage.write(batch(first, &[(-2, 2)])).await?;
        for begin in [0, ROWS] {
            stage.write(batch(first, &loaded(begin, 1))).await?;
        }
        stage.write(batch(second, &[(5, 5)])).await?;
        // Before the load has ended.
        stage.roll_back_to(0).await?;
        assert_eq!(rows(&stage.snapshot().await?, first).await?, RowMap::from([(-1, 1)]));
        assert_eq!(rows(&stage.snapshot().await?, second).await?, RowMap::new());
        stage.write(batch(first, &loaded(ROWS, 2))).await?;
        stage.write(batch(second, &[(6, 6)])).await?;
        assert_eq!(stage.savepoint().await?, 1, "in the middle of a load");
        expected.extend(loaded(ROWS, 2));
        expected.insert(-1, 1);
        stage.write(batch(first, &loaded(2 * ROWS, 3))).await?;
        stage.write(batch(second, &loaded(0, 3))).await?;
        stage.write(deletion(first, &[ROWS, -1])).await?;
        stage.roll_back_to(1).await?;
        assert_eq!(rows(&stage.snapshot().await?, first).await?, expected);
        assert_eq!(rows(&stage.snapshot().await?, second).await?, RowMap::from([(6, 6)]));
        stage.release(0);
        stage.write(batch(first, &loaded(0, 4))).await?;
        expected.extend(loaded(0, 4));
        assert_eq!(stage.savepoint().await?, 0);
        stage.write(batch(first, &[(-5, 5)])).await?;
        expected.insert(-5, 5);
        stage.release(0);
        Result::Ok(())
    })?;
    commit(&fs, engine, stage, &[(first, expected), (second, RowMap::from([(6, 6)]))])
}

#[test]
fn of_many_savepoints_the_newest_are_kept_when_rows_go_to_the_disk() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, 200_000))?;
    let table = table(&engine, "t")?;
    let mut stage = block_on(engine.stage())?;
    block_on(async {
        for number in 0..40 {
            stage.savepoint().await?;
            stage.write(batch(table, &[(number, number)])).await?;
        }
        assert_eq!(staged_files(&fs)?, 0, "so far they are in memory");
        let keys: Vec<i64> = (0..20_000).collect();
        stage.write(deletion(table, &keys)).await?;
        stage.write(batch(table, &[(-1, 1)])).await?;
        assert!(staged_files(&fs)? > 0, "they are on the disk");
        let error = stage.roll_back_to(5).await.expect_err("rows before and after it are in one file");
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(rows(&stage.snapshot().await?, table).await?, RowMap::from([(-1, 1)]), "as it was");
        for number in [39, 30, 25] {
            stage.roll_back_to(number).await?;
            let expected: RowMap = (0..number as i64).map(|key| (key, key)).collect();
            assert_eq!(rows(&stage.snapshot().await?, table).await?, expected);
        }
        stage.roll_back_to(0).await?;
        assert_eq!(rows(&stage.snapshot().await?, table).await?, RowMap::new());
        stage.write(batch(table, &[(3, 3)])).await
    })?;
    commit(&fs, engine, stage, &[(table, RowMap::from([(3, 3)]))])
}

#[test]
fn a_stage_takes_tables_that_were_created_since() -> Result<()> {
    for stage_bytes_max in [1, 1 << 20] {
        let fs = SimulatedFs::new();
        let engine = Engine::open(options(&fs, stage_bytes_max))?;
        let old = table(&engine, "old")?;
        let mut stage = block_on(engine.stage())?;
        let expected = block_on(async {
            stage.write(batch(old, &[(1, 1)])).await?;
            stage.savepoint().await?;
            let unknown = stage.add_table(TableId(1000)).await.expect_err("there is none");
            assert_eq!(unknown.kind(), ErrorKind::Missing);
            let new = engine
                .create_table(TableSchema { name: "new".to_owned(), ..(*engine.schema(old)?).clone() })
                .await?;
            let unknown = stage.write(batch(new, &[(1, 1)])).await.expect_err("it was created since");
            assert_eq!(unknown.kind(), ErrorKind::Missing);
            stage.add_table(new).await?;
            assert_eq!(rows(&stage.snapshot().await?, new).await?, RowMap::new());
            stage.write(batch(new, &[(2, 2), (3, 3)])).await?;
            stage.savepoint().await?;
            stage.write(deletion(new, &[2])).await?;
            stage.write(batch(old, &[(4, 4)])).await?;
            assert_eq!(rows(&stage.snapshot().await?, new).await?, RowMap::from([(3, 3)]));
            stage.roll_back_to(1).await?;
            assert_eq!(rows(&stage.snapshot().await?, new).await?, RowMap::from([(2, 2), (3, 3)]));
            stage.roll_back_to(0).await?;
            assert_eq!(rows(&stage.snapshot().await?, new).await?, RowMap::new());
            stage.write(batch(new, &[(5, 5)])).await?;
            Result::Ok([(old, RowMap::from([(1, 1)])), (new, RowMap::from([(5, 5)]))])
        })?;
        commit(&fs, engine, stage, &expected)?;
    }
    Ok(())
}

#[test]
fn rows_of_a_table_that_comes_when_others_go_to_the_disk_stay_the_stages_own() -> Result<()> {
    for rows_written in [1, 3000] {
        let fs = SimulatedFs::new();
        let engine = Engine::open(options(&fs, 1))?;
        let (first, second) = (table(&engine, "first")?, table(&engine, "second")?);
        block_on(engine.write(batch(second, &[(-1, 1)])))?;
        let mut stage = block_on(engine.stage())?;
        let written: Vec<(i64, i64)> = (0..rows_written).map(|key| (key, key)).collect();
        block_on(async {
            stage.write(batch(first, &[(1, 1)])).await?;
            stage.savepoint().await?;
            stage.write(batch(second, &written)).await?;
            // Others write, until sequences of the store are beyond those of the stage.
            for number in 2..6 {
                engine.write(batch(second, &[(-number, number)])).await?;
            }
            let others: RowMap = (1..6).map(|number| (-number, number)).collect();
            assert_eq!(rows(&engine.latest(), second).await?, others, "the stage is not committed");
            assert_eq!(rows(&engine.latest(), first).await?, RowMap::new());
            Result::Ok(())
        })?;
        let mut expected: RowMap = (1..6).map(|number| (-number, number)).collect();
        expected.extend(written);
        commit(&fs, engine, stage, &[(first, RowMap::from([(1, 1)])), (second, expected)])?;
    }
    Ok(())
}
