//! Loads: large batches of a stage whose keys ascend, which go to the disk past memory. What a stage must answer is tested
//! by the battery, which has such batches, too.

#[path = "support/seeds.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod seeds;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_buffer::BooleanBuffer;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{
    CellColumn, DeleteMode, Freshness, Operation, RowSelection, ScanRequest, SnapshotRef, Stage, Store,
    Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema, Value};
use nyala_engine::fs::{Fault, FileSystem, FsRef, OperationKind, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use seeds::seeds;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);
const TEXT: ColumnId = ColumnId(2);
const DEFAULTED: ColumnId = ColumnId(3);

/// Every batch whose keys ascend is loaded, and a rowset of a run is full after a few of them.
fn options(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        memory: MemoryBudget::new(64 << 20),
        stage_bytes_max: Some(1),
        loaded_rows_min: 1,
        rowset_bytes_max: 2500,
        ..EngineOptions::new("/data")
    }
}

fn table(engine: &Engine, name: &str) -> Result<TableId> {
    let columns = vec![
        ColumnSchema::new(KEY, "k", ColumnType::Int64).required(),
        ColumnSchema::new(VALUE, "v", ColumnType::Int64),
        ColumnSchema::new(TEXT, "t", ColumnType::String),
        ColumnSchema { default: Some(Value::Int(7)), ..ColumnSchema::new(DEFAULTED, "d", ColumnType::Int64) },
    ];
    block_on(engine.create_table(TableSchema::keyed(name, columns, vec![KEY])))
}

/// Rows of which each value says by what it was written. Every third text is NULL.
fn rows_of(table: TableId, mode: WriteMode, keys: impl Iterator<Item = i64>, value: i64) -> WriteBatch {
    let keys: Vec<i64> = keys.collect();
    let texts = keys.iter().map(|key| (key % 3 != 0).then(|| format!("text {key}")));
    let nulls = BooleanBuffer::from_iter(keys.iter().map(|key| key % 3 == 0));
    let columns = vec![
        CellColumn {
            column: TEXT,
            values: Arc::new(texts.collect::<StringArray>()),
            null_cells: Some(nulls),
        },
        CellColumn {
            column: VALUE,
            values: Arc::new(Int64Array::from(vec![value; keys.len()])),
            null_cells: None,
        },
        CellColumn { column: KEY, values: Arc::new(Int64Array::from(keys)), null_cells: None },
    ];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode, columns })] }
}

fn insert(table: TableId, keys: std::ops::Range<i64>, value: i64) -> WriteBatch {
    rows_of(table, WriteMode::Insert, keys, value)
}

fn deletion(table: TableId, keys: &[i64]) -> WriteBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    WriteBatch {
        operations: vec![Operation::DeleteKeys { table, mode: DeleteMode::Delete, keys: vec![keys] }],
    }
}

/// The values, after looking whether the other columns are as they must be.
async fn rows(snapshot: &SnapshotRef, table: TableId) -> Result<BTreeMap<i64, i64>> {
    let wanted = vec![KEY, VALUE, TEXT, DEFAULTED];
    let mut stream = snapshot.scan(ScanRequest::by_key(table, RowSelection::All, wanted)).await?;
    let mut rows = BTreeMap::new();
    while let Some(batch) = stream.next().await? {
        let integers = |column: usize| batch.columns[column].as_primitive::<Int64Type>();
        let texts = batch.columns[2].as_string::<i32>();
        for row in 0..batch.rows {
            let key = integers(0).value(row);
            let text = (!arrow_array::Array::is_null(texts, row)).then(|| texts.value(row).to_owned());
            assert_eq!(text, (key % 3 != 0).then(|| format!("text {key}")));
            assert_eq!(integers(3).value(row), 7);
            rows.insert(key, integers(1).value(row));
        }
    }
    Ok(rows)
}

fn written(ranges: &[(std::ops::Range<i64>, i64)]) -> BTreeMap<i64, i64> {
    ranges.iter().flat_map(|(keys, value)| keys.clone().map(|key| (key, *value))).collect()
}

fn files(fs: &SimulatedFs, ending: &str) -> Result<usize> {
    let names = fs.list(Path::new("/data/rowsets"))?.into_iter().map(|entry| entry.name);
    Ok(names.filter(|name| name.ends_with(ending)).count())
}

fn undamaged(fs: &SimulatedFs) -> Result<()> {
    let disk: FsRef = Arc::new(fs.clone());
    let report = check(&disk, Path::new("/data"), &mut |_| {})?;
    assert_eq!(report.damage_count, 0, "{:?}", report.damage);
    Ok(())
}

/// Loads a table in order of its keys, in parts of a hundred rows.
async fn load(stage: &mut Box<dyn Stage>, table: TableId, parts: i64) -> Result<()> {
    for part in 0..parts {
        let outcome = stage.write(insert(table, part * 100..part * 100 + 100, part)).await?;
        assert_eq!(outcome.affected, 100);
    }
    Ok(())
}

fn loaded(parts: i64) -> BTreeMap<i64, i64> {
    (0..parts * 100).map(|key| (key, key / 100)).collect()
}

#[test]
fn what_comes_in_order_is_written_once() -> Result<()> {
    const PARTS: i64 = 40;
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let (table, other) = (table(&engine, "t")?, table(&engine, "u")?);
    let created = Arc::new(AtomicUsize::new(0));
    let count = created.clone();
    fs.on_operation(move |_, operation| {
        let is_rowset = operation.path.to_string_lossy().contains("rowsets");
        let is_new = is_rowset && operation.kind == OperationKind::Create;
        count.fetch_add(usize::from(is_new), Ordering::Relaxed);
    });
    block_on(async {
        let mut stage = engine.stage().await?;
        load(&mut stage, table, PARTS).await?;
        // A second table beside it, and somebody else.
        stage.write(insert(other, 0..50, 9)).await?;
        stage.write(insert(table, 100 * PARTS..100 * PARTS + 100, PARTS)).await?;
        engine.write(insert(other, 100..110, 1)).await?;
        assert_eq!(files(&fs, ".rowset")?, 0);
        let sequence = stage.commit().await?;
        let snapshot = engine.snapshot(Freshness::AtLeast(sequence)).await?;
        assert_eq!(rows(&snapshot, table).await?, loaded(PARTS + 1));
        assert_eq!(rows(&snapshot, other).await?, written(&[(0..50, 9), (100..110, 1)]));
        Ok::<_, nyala_core::Error>(())
    })?;
    let (of_run, staged) = (files(&fs, ".rowset")?, files(&fs, ".staged")?);
    assert!(of_run > 4, "the run has {of_run} files");
    // The flush before the commit wrote the other's row.
    assert_eq!((created.load(Ordering::Relaxed), staged), (of_run, 0));
    engine.flush()?;
    engine.compact()?;
    assert_eq!(block_on(rows(&engine.latest(), table))?, loaded(PARTS + 1));
    drop(engine);
    undamaged(&fs)?;
    assert_eq!(block_on(rows(&Engine::open(options(&fs))?.latest(), table))?, loaded(PARTS + 1));
    Ok(())
}

#[test]
fn a_load_is_read_and_changed_before_its_commit() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine, "t")?;
    block_on(async {
        // Some rows on the disk, some in memory.
        engine.write(insert(table, 1000..1010, -1)).await?;
        engine.flush()?;
        engine.write(insert(table, 1010..1020, -2)).await?;
        engine.write(deletion(table, &[1000])).await?;
        let mut stage = engine.stage().await?;
        stage.write(insert(table, 0..100, 1)).await?;
        let early = stage.snapshot().await?;
        stage.write(insert(table, 100..200, 2)).await?;
        // A row that was deleted is a new one.
        stage.write(insert(table, 1000..1001, 3)).await?;
        // Not in order, and it overwrites what was loaded.
        stage.write(rows_of(table, WriteMode::Upsert, [150, 50].into_iter(), 4)).await?;
        stage.write(rows_of(table, WriteMode::Upsert, 1015..1030, 5)).await?;
        stage.write(deletion(table, &[0, 199, 1016])).await?;
        stage.write(insert(table, 0..1, 6)).await?;
        let mut expected = written(&[
            (0..100, 1),
            (100..199, 2),
            (1000..1001, 3),
            (1001..1010, -1),
            (1010..1015, -2),
            (1015..1016, 5),
            (1017..1030, 5),
        ]);
        expected.extend([(0, 6), (50, 4), (150, 4)]);
        assert_eq!(rows(&stage.snapshot().await?, table).await?, expected);
        let before = written(&[(0..100, 1), (1001..1010, -1), (1010..1020, -2)]);
        assert_eq!(rows(&early, table).await?, before, "a snapshot stays as it is");
        stage.write(insert(table, 2000..2100, 7)).await?;
        expected.extend(written(&[(2000..2100, 7)]));
        stage.commit().await?;
        assert_eq!(rows(&engine.latest(), table).await?, expected);
        drop(early);
        assert_eq!(files(&fs, ".staged")?, 0, "nothing of the stage is left over");
        engine.flush()?;
        engine.compact()?;
        assert_eq!(rows(&engine.latest(), table).await?, expected);
        Ok::<_, nyala_core::Error>(())
    })?;
    drop(engine);
    undamaged(&fs)
}

#[test]
fn keys_that_are_taken_are_refused_and_the_load_goes_on() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine, "t")?;
    block_on(async {
        engine.write(insert(table, 500..510, 0)).await?;
        engine.flush()?;
        engine.write(insert(table, 705..706, 0)).await?;
        let mut stage = engine.stage().await?;
        stage.write(insert(table, 0..100, 1)).await?;
        for taken in [505..600, 400..501, 700..800, 99..101, 0..1] {
            let error = stage.write(insert(table, taken.clone(), 2)).await.expect_err("a key is taken");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{taken:?}: {error}");
        }
        let twice = rows_of(table, WriteMode::Insert, [900, 900].into_iter(), 2);
        assert_eq!(stage.write(twice).await.expect_err("the same key").kind(), ErrorKind::Conflict);
        stage.write(insert(table, 510..705, 3)).await?;
        stage.commit().await?;
        let expected = written(&[(0..100, 1), (500..510, 0), (510..705, 3), (705..706, 0)]);
        assert_eq!(rows(&engine.latest(), table).await?, expected);
        Ok::<_, nyala_core::Error>(())
    })?;
    drop(engine);
    undamaged(&fs)
}

#[test]
fn whoever_writes_a_key_of_a_load_meanwhile_was_first() -> Result<()> {
    for (keys, is_conflict) in [(350..351, true), (5000..5001, false)] {
        for is_flushed in [false, true] {
            let fs = SimulatedFs::new();
            let engine = Engine::open(options(&fs))?;
            let table = table(&engine, "t")?;
            block_on(async {
                let mut stage = engine.stage().await?;
                load(&mut stage, table, 5).await?;
                engine.write(insert(table, keys.clone(), -1)).await?;
                if is_flushed {
                    engine.flush()?;
                    engine.compact()?;
                }
                load_more(&mut stage, table).await?;
                let outcome = stage.commit().await;
                let seen = rows(&engine.latest(), table).await?;
                match is_conflict {
                    true => {
                        assert_eq!(outcome.expect_err("the other was first").kind(), ErrorKind::Conflict);
                        assert_eq!(seen, written(&[(keys.clone(), -1)]));
                    }
                    false => {
                        outcome?;
                        assert_eq!(seen.len(), 601);
                    }
                }
                assert_eq!(files(&fs, ".staged")?, 0);
                Ok::<_, nyala_core::Error>(())
            })?;
            drop(engine);
            undamaged(&fs)?;
        }
    }
    Ok(())
}

async fn load_more(stage: &mut Box<dyn Stage>, table: TableId) -> Result<()> {
    stage.write(insert(table, 500..600, 5)).await.map(drop)
}

/// Kills and power cuts at any change of the disk.
#[test]
fn a_load_survives_a_crash_whole_or_not_at_all() -> Result<()> {
    const PARTS: i64 = 30;
    let fs = SimulatedFs::new();
    // Also the past is as it was.
    let options = |fs| EngineOptions { history: Duration::from_secs(3600), ..options(fs) };
    let engine = Engine::open(options(&fs))?;
    let table = table(&engine, "t")?;
    block_on(engine.write(insert(table, 10_000..10_010, -1)))?;
    let before = block_on(rows(&engine.latest(), table))?;
    let (crashes, is_done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (taken, done) = (crashes.clone(), is_done.clone());
    fs.on_operation(move |fs, operation| {
        // What was done before is on the disk. Other threads go on while it is taken.
        let was_done = done.load(Ordering::SeqCst);
        let is_kill = operation.index.is_multiple_of(2);
        let disk = if is_kill { fs.snapshot() } else { fs.crash(operation.index) };
        taken.lock().expect("not poisoned").push((disk, was_done));
    });
    let sequence = block_on(async {
        let mut stage = engine.stage().await?;
        load(&mut stage, table, PARTS).await?;
        stage.commit().await
    })?;
    is_done.store(true, Ordering::SeqCst);
    let after = block_on(rows(&engine.latest(), table))?;
    assert_eq!(after.len() as i64, PARTS * 100 + 10);
    let around = block_on(engine.around(sequence))?;
    assert_eq!(block_on(rows(&around.before, table))?, before);
    assert_eq!(block_on(rows(&around.after, table))?, after);
    // One more change of the disk, behind the commit.
    engine.flush()?;
    block_on(engine.write(insert(table, 20_000..20_001, -1)))?;
    engine.flush()?;
    drop((around, engine));
    let crashes = std::mem::take(&mut *crashes.lock().expect("not poisoned"));
    let mut found = [0; 2];
    for (number, (disk, was_done)) in crashes.iter().enumerate() {
        let engine = Engine::open(options(disk))?;
        assert_eq!((engine.recovery.damage_count, files(disk, ".staged")?), (0, 0));
        let mut state = block_on(rows(&engine.latest(), table))?;
        state.remove(&20_000);
        assert!(state == after || state == before, "a part of the load was there after crash {number}");
        assert!(state == after || !was_done, "the load was lost in crash {number}");
        found[usize::from(state == after)] += 1;
    }
    assert!(found[0] > 10 && found[1] > 0, "{found:?}");
    Ok(())
}

#[test]
fn a_load_on_a_failing_disk_says_what_became_of_it() -> Result<()> {
    for skip in 0..16 {
        for fault in
            [Fault::Sync { skip }, Fault::SyncDir { skip: skip / 4 }, Fault::Write { skip, written: 7 }]
        {
            let fs = SimulatedFs::new();
            let engine = Engine::open(options(&fs))?;
            let table = table(&engine, "t")?;
            block_on(engine.write(insert(table, 10_000..10_010, -1)))?;
            let count = |engine: &Engine| block_on(rows(&engine.latest(), table)).map(|rows| rows.len());
            let outcome = block_on(async {
                let mut stage = engine.stage().await?;
                fs.inject(fault.clone());
                if let Err(error) = load(&mut stage, table, 12).await {
                    // Some rows of a batch may be on the disk: it cannot be used further.
                    assert!(stage.write(insert(table, 5000..5001, 0)).await.is_err());
                    assert!(stage.commit().await.is_err());
                    return Err(error);
                }
                stage.commit().await
            });
            fs.clear_faults();
            let expected = if outcome.is_ok() { 1210 } else { 10 };
            assert_eq!(count(&engine)?, expected, "{fault:?}: {outcome:?}");
            engine.retry_failed();
            block_on(engine.write(insert(table, 10_010..10_011, 5)))?;
            drop(engine);
            undamaged(&fs)?;
            assert_eq!(files(&fs, ".staged")?, 0, "{fault:?}");
            let engine = Engine::open(options(&fs))?;
            assert_eq!(count(&engine)?, expected + 1, "{fault:?}, after the next start");
        }
    }
    Ok(())
}

/// What a stage has in memory when it becomes large is a part of the run, too, if it is in order.
#[test]
fn the_beginning_of_a_load_is_in_its_run() -> Result<()> {
    for is_in_order in [true, false] {
        let fs = SimulatedFs::new();
        let engine = Engine::open(EngineOptions { stage_bytes_max: Some(200_000), ..options(&fs) })?;
        let (table, other) = (table(&engine, "t")?, table(&engine, "u")?);
        block_on(async {
            let mut stage = engine.stage().await?;
            load(&mut stage, table, 3).await?;
            stage.write(insert(other, 0..10, 8)).await?;
            let early = stage.snapshot().await?;
            assert_eq!(files(&fs, ".staged")?, 0, "all is in memory");
            let mut expected = loaded(3);
            if !is_in_order {
                stage.write(deletion(table, &[5])).await?;
                expected.remove(&5);
            }
            for part in 3..40 {
                stage.write(insert(table, part * 100..part * 100 + 100, part)).await?;
            }
            expected.extend((300..4000).map(|key| (key, key / 100)));
            assert!(files(&fs, ".staged")? > 0);
            assert_eq!(rows(&early, table).await?, loaded(3));
            assert_eq!(rows(&stage.snapshot().await?, table).await?, expected);
            assert_eq!(rows(&stage.snapshot().await?, other).await?, written(&[(0..10, 8)]));
            stage.commit().await?;
            assert_eq!(rows(&engine.latest(), table).await?, expected);
            assert_eq!(rows(&engine.latest(), other).await?, written(&[(0..10, 8)]));
            Ok::<_, nyala_core::Error>(())
        })?;
        drop(engine);
        undamaged(&fs)?;
    }
    Ok(())
}

/// Batches of all kinds, in any order, against a map: with little and with much room for rows that wait.
#[test]
fn rows_in_any_order_are_what_a_map_has() -> Result<()> {
    for seed in seeds(12) {
        let mut random = SmallRng::seed_from_u64(seed);
        let fs = SimulatedFs::new();
        let stage_bytes_max = Some([1, 20_000, 100_000][seed as usize % 3]);
        let engine = Engine::open(EngineOptions { stage_bytes_max, ..options(&fs) })?;
        let table = table(&engine, "t")?;
        let outcome = block_on(async {
            let mut model = BTreeMap::new();
            engine.write(insert(table, 300..310, -1)).await?;
            model.extend((300..310).map(|key| (key, -1)));
            engine.flush()?;
            let mut stage = engine.stage().await?;
            let mut next = 1000;
            for value in 0..40 {
                let count = random.random_range(1..200);
                let mut keys: Vec<i64> = match random.random_range(0..4) {
                    // In order, or a little out of it.
                    0 | 1 => {
                        next += 2 * count;
                        (next - 2 * count - random.random_range(0..300)..next).step_by(2).collect()
                    }
                    // In any order.
                    2 => (0..count).map(|_| random.random_range(0..20_000)).collect(),
                    _ => (0..count).map(|number| 5000 - number * 7 + random.random_range(0..7)).collect(),
                };
                if random.random_range(0..4) > 0 {
                    // New keys, so that an insertion succeeds mostly.
                    let mut seen = std::collections::BTreeSet::new();
                    keys.retain(|key| !model.contains_key(key) && seen.insert(*key));
                }
                let is_insert = random.random_range(0..3) > 0;
                let mode = if is_insert { WriteMode::Insert } else { WriteMode::Upsert };
                let mut changed = model.clone();
                changed.extend(keys.iter().map(|key| (*key, value)));
                let is_new = changed.len() == model.len() + keys.len();
                let outcome = stage.write(rows_of(table, mode, keys.iter().copied(), value)).await;
                match (outcome, is_new || !is_insert) {
                    (Ok(outcome), true) => {
                        assert_eq!(outcome.affected, keys.len() as u64);
                        model = changed;
                    }
                    (Err(error), false) if error.kind() == ErrorKind::Conflict => {}
                    (outcome, _) => panic!("batch {value}: {outcome:?}"),
                }
                if random.random_range(0..12) == 0 {
                    let gone: Vec<i64> = model.keys().step_by(9).copied().take(20).collect();
                    stage.write(deletion(table, &gone)).await?;
                    model.retain(|key, _| !gone.contains(key));
                }
                if random.random_range(0..12) == 0 {
                    assert_eq!(rows(&stage.snapshot().await?, table).await?, model, "batch {value}");
                }
            }
            stage.commit().await?;
            assert_eq!(rows(&engine.latest(), table).await?, model, "committed");
            engine.flush()?;
            engine.compact()?;
            assert_eq!(rows(&engine.latest(), table).await?, model, "compacted");
            Ok::<_, nyala_core::Error>(())
        });
        outcome.unwrap_or_else(|error| panic!("NYALA_BATTERY_SEED={seed}: {error}"));
        drop(engine);
        undamaged(&fs)?;
    }
    Ok(())
}

#[test]
fn a_load_may_be_larger_than_memory() -> Result<()> {
    const MEMORY_BYTES: u64 = 16 << 20;
    const ROWS: i64 = 2000;
    for (parts, is_in_order) in [(150, true), (60, false)] {
        let fs = SimulatedFs::new();
        let memory = MemoryBudget::new(MEMORY_BYTES);
        let defaults = EngineOptions::new("/data");
        let (stage_bytes_max, loaded_rows_min) = (defaults.stage_bytes_max, defaults.loaded_rows_min);
        let small =
            EngineOptions { stage_bytes_max, loaded_rows_min, memory: memory.clone(), ..options(&fs) };
        let engine = Engine::open(EngineOptions { rowset_bytes_max: 1 << 20, ..small })?;
        let table = table(&engine, "t")?;
        let mut most_bytes = 0;
        block_on(async {
            let mut stage = engine.stage().await?;
            for part in 0..parts {
                let keys =
                    (0..ROWS).map(|row| if is_in_order { part * ROWS + row } else { row * parts + part });
                stage.write(rows_of(table, WriteMode::Insert, keys, part)).await?;
                most_bytes = most_bytes.max(memory.total_bytes());
            }
            assert!(files(&fs, ".staged")? > 0, "they are on the disk");
            stage.commit().await?;
            most_bytes = most_bytes.max(memory.total_bytes());
            assert_eq!(rows(&engine.latest(), table).await?.len() as i64, parts * ROWS);
            Ok::<_, nyala_core::Error>(())
        })?;
        assert!(most_bytes < MEMORY_BYTES, "{most_bytes} bytes");
        drop(engine);
        undamaged(&fs)?;
    }
    Ok(())
}
