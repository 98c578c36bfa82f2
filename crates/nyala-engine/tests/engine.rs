//! The engine through its public interface: what is written is there, also after reopening.

mod support;

use nyala_core::store::{Alteration, Store};
use nyala_core::{ColumnType, Result, TableId, TableSchema};
use nyala_engine::fs::{FileSystem, OperationKind, SimulatedFs};
use nyala_engine::{Engine, block_on};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
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
    assert_eq!(engine.recovery.records, 1);
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

/// Far longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Holds the next sync of a file whose path begins so: tells when it is reached, and goes on when it is told.
fn hold_a_sync(fs: &SimulatedFs, path: &'static str) -> (Receiver<()>, Sender<()>) {
    let (syncing, began) = channel();
    let (release, released) = channel::<()>();
    let hold = parking_lot::Mutex::new(Some((syncing, released)));
    fs.on_operation(move |_, operation| {
        let is_held = operation.path.to_string_lossy().starts_with(path)
            && matches!(operation.kind, OperationKind::Sync);
        let held = hold.lock().take_if(|_| is_held);
        if let Some((syncing, released)) = held {
            syncing.send(()).expect("the test waits for it");
            released.recv().expect("the test lets it go on");
        }
    });
    (began, release)
}

#[test]
fn a_batch_is_written_while_a_table_is_being_made_or_altered() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 1, Some(1))])))?;
    let changes: [fn(&Engine, TableId) -> Result<()>; 2] = [
        |engine, _| block_on(engine.create_table(TableSchema::measurement("new", 1000))).map(drop),
        |engine, table| {
            let added = Alteration::add_column("w", ColumnType::Float64);
            block_on(engine.alter_table(table, vec![added])).map(drop)
        },
    ];
    for (change, time_ns) in changes.into_iter().zip(2..) {
        let (began, release) = hold_a_sync(&fs, "/data/manifest");
        std::thread::scope(|scope| {
            let changer = engine.clone();
            scope.spawn(move || change(&changer, table).expect("changed"));
            began.recv_timeout(TIMEOUT).expect("the change reaches its sync");
            let (written, done) = channel();
            let writer = engine.clone();
            scope.spawn(move || {
                let row = [(1, time_ns, Some(time_ns))];
                written.send(block_on(writer.write(points(table, &row)))).expect("the test waits for it");
            });
            let done = done.recv_timeout(TIMEOUT);
            release.send(()).expect("the change waits for it");
            done.expect("others write while a table is changed").expect("written");
        });
    }
    assert_eq!(rows(&engine, table)?, [(1, 1, Some(1)), (1, 2, Some(2)), (1, 3, Some(3))]);
    Ok(())
}

#[test]
fn tables_and_columns_come_and_go_while_a_batch_is_being_synced() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let table = create(&engine)?;
    let doomed = block_on(engine.create_table(TableSchema::measurement("doomed", 1000)))?;
    block_on(engine.write(points(table, &[(1, 1, Some(1))])))?;
    let (began, release) = hold_a_sync(&fs, "/data/wal");
    std::thread::scope(|scope| {
        let writer = engine.clone();
        scope.spawn(move || block_on(writer.write(points(table, &[(1, 2, Some(2))]))).expect("written"));
        began.recv_timeout(TIMEOUT).expect("the batch reaches its sync");
        let (changed, done) = channel();
        let changer = engine.clone();
        scope.spawn(move || {
            block_on(async {
                let new = ["new 1", "new 2"].map(|name| TableSchema::measurement(name, 1000));
                changer.create_tables(new.to_vec()).await?;
                let column_type = ColumnType::Float64;
                let added = Alteration::add_column("w", column_type);
                changer.alter_tables(vec![(table, vec![added])]).await?;
                changer.drop_tables(vec![doomed]).await
            })
            .expect("changed");
            changed.send(()).expect("the test waits for it");
        });
        let done = done.recv_timeout(TIMEOUT);
        release.send(()).expect("the batch waits for it");
        done.expect("tables are changed while a batch is on its way");
    });
    assert_eq!(rows(&engine, table)?, [(1, 1, Some(1)), (1, 2, Some(2))]);
    assert_eq!(engine.tables().len(), 3);
    Ok(())
}

#[test]
fn a_flush_writes_nothing_of_tables_dropped_meanwhile() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let schema = |number: i64| TableSchema::measurement(format!("table {number}"), 1000);
    let tables = block_on(engine.create_tables((0..20).map(schema).collect()))?;
    for table in &tables {
        let column_type = ColumnType::Int64;
        let field = Alteration::add_column("v", column_type);
        block_on(engine.alter_table(*table, vec![field]))?;
        block_on(engine.write(points(*table, &[(1, 10, Some(1))])))?;
    }
    let memory_bytes = block_on(engine.partitions(tables[0]))?[0].memory_bytes;
    assert!((512..2048).contains(&memory_bytes), "{memory_bytes} bytes of a memtable with a row");
    let files = Arc::new(AtomicU64::new(0));
    let (counted, dropper, dropped) = (files.clone(), Arc::downgrade(&engine), tables[1..].to_vec());
    fs.on_operation(move |_, operation| {
        let is_rowset = operation.path.extension().is_some_and(|extension| extension == "rowset");
        if is_rowset
            && operation.kind == OperationKind::Create
            && counted.fetch_add(1, Ordering::Relaxed) == 0
        {
            let engine = dropper.upgrade().expect("the test holds it");
            block_on(engine.drop_tables(dropped.clone())).expect("they are there");
        }
    });
    assert!(engine.flush()?);
    assert_eq!(files.load(Ordering::Relaxed), 1, "files of rows");
    assert_eq!((engine.tables().len(), engine.stats().rowsets), (1, 1));
    assert_eq!(rows(&engine, tables[0])?, [(1, 10, Some(1))]);
    drop(engine);
    let engine = Engine::open(options(&fs.snapshot()))?;
    assert_eq!(rows(&engine, tables[0])?, [(1, 10, Some(1))]);
    Ok(())
}

#[test]
fn dropping_many_tables_does_not_wait_until_their_files_are_unlinked() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let schema = |number: i64| TableSchema::measurement(format!("table {number}"), 1000);
    let column_type = ColumnType::Int64;
    let field = Alteration::add_column("v", column_type);
    let tables = block_on(engine.create_tables((0..100).map(schema).collect()))?;
    block_on(engine.alter_tables(tables.iter().map(|table| (*table, vec![field.clone()])).collect()))?;
    for table in &tables {
        block_on(engine.write(points(*table, &[(1, 10, Some(1))])))?;
    }
    assert!(engine.flush()?);
    let (release, released) = channel::<()>();
    let hold = parking_lot::Mutex::new(Some(released));
    fs.on_operation(move |_, operation| {
        let is_rowset = operation.path.extension().is_some_and(|extension| extension == "rowset");
        let held = hold.lock().take_if(|_| is_rowset && operation.kind == OperationKind::Remove);
        if let Some(released) = held {
            released.recv().expect("the test lets it go on");
        }
    });
    std::thread::scope(|scope| {
        let (dropped, done) = channel();
        let dropper = engine.clone();
        scope.spawn(move || {
            block_on(dropper.drop_tables(tables)).expect("they are there");
            dropped.send(()).expect("the test waits for it");
        });
        let done = done.recv_timeout(TIMEOUT);
        release.send(()).expect("a file is about to be unlinked");
        done.expect("the tables are dropped before their files are unlinked");
    });
    let files = || fs.list(Path::new("/data/rowsets")).expect("a directory").len();
    let begun = Instant::now();
    while files() > 0 {
        assert!(begun.elapsed() < TIMEOUT, "{} files are left", files());
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
