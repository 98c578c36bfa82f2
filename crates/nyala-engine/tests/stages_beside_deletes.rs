//! Stages that are committed while others delete ranges: their commits read hardly any of their own rows for that, and hold
//! nobody up.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "support/keyed_table.rs"]
mod keyed_table;
#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::store::{Delete, RowSelection, SeriesSet, SnapshotRef, Stage, Store, WriteBatch};
use nyala_core::{ErrorKind, Result, SeriesId, TableId, TimeRange, Value};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, WriteHook, WriteStep, block_on};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

const BATCHES: i64 = 12;
const ROWS: i64 = 4000;
const RANGES: i64 = 200;
/// Keys of the stage are so far from each other.
const STEP: i64 = 10;

/// Rows of stages are moved to the disk with every batch.
fn spilling(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions { stage_bytes_max: Some(1), loaded_rows_min: usize::MAX, ..support::options(fs) }
}

fn keys(table: TableId, start: i64, end: i64) -> Delete {
    let bound = |key| vec![Value::Int(key)];
    let rows = RowSelection::Keys { start: Bound::Included(bound(start)), end: Bound::Excluded(bound(end)) };
    Delete { table, rows, predicates: Vec::new() }
}

fn series(table: TableId, series: SeriesSet, start_ns: i64, end_ns: i64) -> Delete {
    let time = TimeRange::new(start_ns, end_ns);
    Delete { table, rows: RowSelection::Series { series, time }, predicates: Vec::new() }
}

/// A stage of many keyed rows, from key 0 on.
fn keyed_stage(engine: &Engine, table: TableId) -> Result<Box<dyn Stage>> {
    let mut stage = block_on(engine.stage())?;
    for number in 0..BATCHES {
        let rows: Vec<_> = (0..ROWS).map(|row| (STEP * (row * BATCHES + number), number)).collect();
        block_on(stage.write(keyed_table::batch(vec![keyed_table::upsert(table, &rows)])))?;
    }
    Ok(stage)
}

/// The same of points of series from 100 on, at times from 100 on.
fn stage_of_points(engine: &Engine, table: TableId) -> Result<Box<dyn Stage>> {
    let mut stage = block_on(engine.stage())?;
    for number in 0..BATCHES {
        let point = |row: i64| (100 + 2 * (row % 40) as u32, 100 + 4 * (row / 40 + number), Some(row));
        let batch: WriteBatch = support::points(table, &(0..ROWS).map(point).collect::<Vec<_>>());
        block_on(stage.write(batch))?;
    }
    Ok(stage)
}

/// How often files are read in a commit, when others have deleted some ranges since the opening.
fn reads_of(
    create: impl Fn(&Engine) -> Result<TableId>,
    stage: impl Fn(&Engine, TableId) -> Result<Box<dyn Stage>>,
    deletes: impl Fn(TableId) -> Vec<Delete>,
) -> Result<u64> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(spilling(&fs))?;
    let table = create(&engine)?;
    let stage = stage(&engine, table)?;
    assert!(keyed_table::staged_files(&fs)? > 0, "its rows are on the disk");
    for delete in deletes(table) {
        block_on(engine.delete(delete))?;
    }
    let before = fs.reads();
    block_on(stage.commit())?;
    Ok(fs.reads() - before)
}

#[test]
fn ranges_that_others_deleted_elsewhere_cost_a_commit_no_reads() -> Result<()> {
    let create = |engine: &Engine| keyed_table::table(engine, "t");
    let without = reads_of(create, keyed_stage, |_| Vec::new())?;
    let before = |table| (1..=RANGES).map(|number| keys(table, -10 * number, 5 - 10 * number)).collect();
    let with = reads_of(create, keyed_stage, before)?;
    assert!(with <= without + 10, "{with} reads, and {without} without deletes");
    let behind = |table| {
        let end = STEP * BATCHES * ROWS;
        (1..=RANGES).map(|number| keys(table, end + 10 * number, end + 10 * number + 5)).collect()
    };
    let with = reads_of(create, keyed_stage, behind)?;
    assert!(with <= without + 10, "{with} reads, and {without} without deletes");
    // Between its keys: the groups around them are read, and no others.
    let among =
        |table| (0..RANGES).map(|number| keys(table, STEP * number + 1, STEP * (number + 1))).collect();
    let with = reads_of(create, keyed_stage, among)?;
    assert!(with <= without + 40, "{with} reads, and {without} without deletes");
    Ok(())
}

#[test]
fn points_that_others_deleted_elsewhere_cost_a_commit_no_reads() -> Result<()> {
    let without = reads_of(support::create, stage_of_points, |_| Vec::new())?;
    let earlier = |table| (0..RANGES).map(|_| series(table, SeriesSet::All, 0, 50)).collect::<Vec<_>>();
    let with = reads_of(support::create, stage_of_points, earlier)?;
    assert!(with <= without + 10, "{with} reads, and {without} without deletes");
    let of_others = |table| {
        let ids = |number| SeriesSet::Ids([SeriesId(number)].into());
        (0..RANGES as u32).map(|number| series(table, ids(200 + number), 0, 900)).collect::<Vec<_>>()
    };
    let with = reads_of(support::create, stage_of_points, of_others)?;
    assert!(with <= without + 10, "{with} reads, and {without} without deletes");
    // Between its points: each of their groups is read once, however many ranges there are.
    let among = |table, ranges: i64| {
        let range = |number| series(table, SeriesSet::All, 101 + 4 * number, 104 + 4 * number);
        (0..ranges).map(range).collect::<Vec<_>>()
    };
    let few = reads_of(support::create, stage_of_points, |table| among(table, 60))?;
    let repeated = |table| std::iter::repeat_n(among(table, 60), 10).flatten().collect();
    let many = reads_of(support::create, stage_of_points, repeated)?;
    assert!(many <= few + 10, "{many} reads for ten times the ranges of {few}");
    Ok(())
}

#[test]
fn a_deleted_point_of_a_stage_is_a_conflict_and_no_other() -> Result<()> {
    let point = (100, 100, Some(1));
    let is_refused = |delete: Delete| -> Result<bool> {
        let fs = SimulatedFs::new();
        let engine = Engine::open(spilling(&fs))?;
        let table = support::create(&engine)?;
        let others = [point, (100, 104, Some(1)), (101, 100, Some(1))];
        block_on(engine.write(support::points(table, &others)))?;
        // It writes the first one, and deletes none.
        let mut stage = block_on(engine.stage())?;
        block_on(stage.write(support::points(table, &[(100, 100, Some(2)), (103, 100, Some(2))])))?;
        block_on(stage.write(support::points(table, &[(100, 102, Some(2))])))?;
        block_on(engine.delete(Delete { table, ..delete }))?;
        match block_on(stage.commit()) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(true),
            Err(error) => Err(error),
        }
    };
    let table = TableId(0);
    let ids = |ids: &[u32]| SeriesSet::Ids(ids.iter().copied().map(SeriesId).collect());
    let between = |start: (u64, i64), end: (u64, i64)| {
        let bound = |(series, time_ns)| Bound::Included(vec![Value::UInt(series), Value::Int(time_ns)]);
        let rows = RowSelection::Keys { start: bound(start), end: bound(end) };
        Delete { table, rows, predicates: Vec::new() }
    };
    for refused in [
        series(table, SeriesSet::All, 0, 200),
        series(table, SeriesSet::All, 100, 101),
        series(table, ids(&[7, 100, 101]), 50, 101),
        between((99, 0), (100, 100)),
        between((100, 100), (100, 101)),
    ] {
        assert!(is_refused(refused.clone())?, "{refused:?}");
    }
    for free in [
        series(table, SeriesSet::All, 101, 200),
        series(table, SeriesSet::All, 0, 100),
        series(table, ids(&[7, 101, 103]), 0, 200),
        between((99, 0), (100, 99)),
        between((100, 101), (104, 0)),
    ] {
        assert!(!is_refused(free.clone())?, "{free:?}");
    }
    Ok(())
}

/// What somebody deletes each time before a commit locks its table.
type DeleteThen = Box<dyn Fn(u64) -> Option<Delete> + Send + Sync>;

/// An engine where ranges are deleted at the moment before a commit locks its table.
struct Crowded {
    fs: SimulatedFs,
    engine: Arc<Engine>,
    table: TableId,
    deletes: Arc<Mutex<Option<DeleteThen>>>,
    locks: Arc<AtomicU64>,
    /// Reads up to that moment.
    reads: Arc<AtomicU64>,
}

fn crowded() -> Result<Crowded> {
    let (fs, opened) = (SimulatedFs::new(), Arc::<OnceLock<Weak<Engine>>>::default());
    let deletes = Arc::<Mutex<Option<DeleteThen>>>::default();
    let (locks, reads) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let hook = {
        let (fs, opened, deletes) = (fs.clone(), opened.clone(), deletes.clone());
        let (locks, reads) = (locks.clone(), reads.clone());
        WriteHook::new(move |step| {
            if step != WriteStep::Adopting {
                return;
            }
            let number = locks.fetch_add(1, Ordering::SeqCst);
            let delete = deletes.lock().expect("not poisoned").as_ref().and_then(|deletes| deletes(number));
            if let (Some(delete), Some(engine)) = (delete, opened.get().and_then(Weak::upgrade)) {
                block_on(engine.delete(delete)).expect("nothing fails");
            }
            reads.store(fs.reads(), Ordering::SeqCst);
        })
    };
    let engine = Arc::new(Engine::open(EngineOptions { write_hook: hook, ..spilling(&fs) })?);
    opened.set(Arc::downgrade(&engine)).expect("it is the first");
    let table = keyed_table::table(&engine, "t")?;
    Ok(Crowded { fs, engine, table, deletes, locks, reads })
}

impl Crowded {
    /// Commits a stage while ranges are deleted; returns how often it locked its table.
    fn commit(&self, deletes: impl Fn(u64) -> Option<Delete> + Send + Sync + 'static) -> Result<u64> {
        let stage = keyed_stage(&self.engine, self.table)?;
        *self.deletes.lock().expect("not poisoned") = Some(Box::new(deletes));
        self.locks.store(0, Ordering::SeqCst);
        block_on(stage.commit())?;
        Ok(self.locks.load(Ordering::SeqCst))
    }

    fn rows(&self) -> Result<usize> {
        let latest: SnapshotRef = self.engine.latest();
        block_on(keyed_table::rows(&latest, self.table)).map(|rows| rows.len())
    }
}

#[test]
fn a_range_that_is_deleted_right_before_the_lock_is_looked_at_without_it() -> Result<()> {
    let crowded = crowded()?;
    let table = crowded.table;
    assert_eq!(crowded.commit(|_| None)?, 1);
    // Around none of its keys, but between the first and the last of them.
    let once = move |number| (number == 0).then(|| keys(table, 1, STEP));
    assert_eq!(crowded.commit(once)?, 2, "the table is free again while the files are read");
    assert_eq!(crowded.fs.reads(), crowded.reads.load(Ordering::SeqCst), "nothing is read with the lock");
    assert_eq!(crowded.rows()? as i64, BATCHES * ROWS);
    // Where it has no files there is nothing to read.
    let elsewhere = move |_| Some(keys(table, -20, -10));
    assert_eq!(crowded.commit(elsewhere)?, 1);
    Ok(())
}

#[test]
fn a_commit_ends_however_many_ranges_are_deleted() -> Result<()> {
    let crowded = crowded()?;
    let table = crowded.table;
    let locks = crowded.commit(move |number| {
        let start = STEP * number as i64;
        Some(keys(table, start + 1, start + STEP))
    })?;
    assert!((2..20).contains(&locks), "{locks}");
    assert_eq!(crowded.rows()? as i64, BATCHES * ROWS);
    Ok(())
}

#[test]
fn a_row_that_is_deleted_right_before_the_lock_is_a_conflict() -> Result<()> {
    let crowded = crowded()?;
    let table = crowded.table;
    for rows in [STEP, STEP * 1000] {
        let error =
            crowded.commit(move |_| Some(keys(table, STEP, STEP + rows))).expect_err("it hides a row");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!((crowded.rows()?, keyed_table::staged_files(&crowded.fs)?), (0, 0));
    }
    Ok(())
}
