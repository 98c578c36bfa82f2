//! Runs the conformance battery on several threads at once, with flushes, compactions and a ledger that always
//! balances, on disks that fail and with writes that panic. Every answer is that of the naive store, and so is the
//! content after the next start, after a kill under any sync policy.
//!
//! Each thread has tables and a naive store of its own, so that its answers are known although the threads share one
//! log, one manifest and one memory budget. See `support/seeds.rs` for how to repeat a failure and how to run more.

#[path = "support/seeds.rs"]
mod seeds;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::battery::{Generator, Outcome, check_reads, compare_snapshots};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    Alteration, CellColumn, Operation, RowSelection, ScanRequest, Snapshot, SnapshotRef, Store, Upsert,
    WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema};
use nyala_engine::fs::{Fault, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, WriteHook, WriteStep, block_on};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use seeds::{POLICIES, seeds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WORKERS: u64 = 3;
const STEPS: usize = 60;
const LEDGERS: u32 = 2;
const VALUE: ColumnId = ColumnId(2);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// Syncs and writes fail.
    Disk,
    /// Writes panic.
    Panics,
}

fn options(fs: &SimulatedFs, policy: SyncPolicy) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        wal_sync: policy,
        maintenance_threads: 2,
        wal_segment_bytes: 1 << 18,
        // Flushes all the time, and so compacts.
        wal_bytes_max: 48 << 10,
        memory: MemoryBudget::new(128 << 20),
        last_rows_from: 1,
        ..EngineOptions::new("/data")
    }
}

/// The tables of a thread and their expected contents.
struct Known {
    tables: Vec<(TableId, TableId)>,
    /// The expected contents: one of these, when it is not known whether the last step happened.
    states: Vec<SnapshotRef>,
}

/// Snapshots of both stores taken at the same moment.
struct Held {
    subject: SnapshotRef,
    model: SnapshotRef,
    tables: Vec<(TableId, TableId)>,
}

/// Takes steps until all are done, or the store takes no more of them.
fn work(engine: &Engine, number: u64, seed: u64, trouble: Trouble) -> std::result::Result<Known, String> {
    let mut generator = Generator::beside_others(seed ^ number << 48, number + 1);
    let model = MemoryStore::model_of(engine.capabilities());
    let mut held: Option<Held> = None;
    for step_number in 0..STEPS {
        let place = |error: String| format!("worker {number} step {step_number}: {error}");
        // Rows among which a write broke off are not shown.
        let unless_torn = |read: std::result::Result<(), String>| match read {
            Err(error) if engine.check_writable().is_ok() || !error.contains("Retry") => Err(place(error)),
            _ => Ok(()),
        };
        match generator.below(10) {
            0 => {
                if let Some(Held { subject, model, tables }) = held.take() {
                    unless_torn(block_on(compare_snapshots(&*subject, &*model, &tables)))?;
                }
                held = Some(Held {
                    subject: engine.latest(),
                    model: model.latest(),
                    tables: generator.table_ids(),
                });
            }
            1..4 => {
                let (subject, model) = (engine.latest(), model.latest());
                unless_torn(block_on(check_reads(&mut generator, &*subject, &*model)))?;
            }
            _ => {
                let step = generator.step();
                let taken = catch_unwind(AssertUnwindSafe(|| {
                    block_on(step.try_on_both(&mut generator, engine, &model))
                }));
                let outcome = match taken {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(error)) => return Err(place(format!("{step:?}: {error}"))),
                    Err(_) => Outcome::Failed(ErrorKind::Unknown),
                };
                match outcome {
                    Outcome::Done => {}
                    Outcome::Failed(ErrorKind::Retry) if engine.check_writable().is_err() => break,
                    // It broke off, or one before it did.
                    Outcome::Failed(ErrorKind::Unknown) if trouble == Trouble::Panics => {
                        let before = model.latest();
                        block_on(step.apply_to_model(&model));
                        let states = vec![before, model.latest()];
                        return Ok(Known { tables: generator.table_ids(), states });
                    }
                    // Its sync failed: nobody saw it, and the log cuts it off with the next write.
                    Outcome::Failed(_) => {}
                }
            }
        }
    }
    Ok(Known { tables: generator.table_ids(), states: vec![model.latest()] })
}

/// Two tables whose values add up to nothing, whatever was moved between them.
#[derive(Clone, Copy)]
struct Ledger {
    series: TableId,
    keyed: TableId,
}

impl Ledger {
    fn create(engine: &Engine) -> Result<Self> {
        let series = block_on(engine.create_table(TableSchema::measurement("ledger by series", 2)))?;
        let value = Alteration::add_column("v", ColumnType::Int64);
        block_on(engine.alter_table(series, vec![value]))?;
        let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
        let columns = vec![key, ColumnSchema::new(VALUE, "v", ColumnType::Int64)];
        let schema = TableSchema::keyed("ledger by key", columns, vec![ColumnId(0)]);
        let keyed = block_on(engine.create_table(schema))?;
        Ok(Self { series, keyed })
    }

    /// Moves amounts between accounts of one writer, over tables and partitions, until told to stop or refused.
    fn write(self, engine: &Engine, writer: u32, seed: u64, ended: &AtomicBool) -> u64 {
        let mut random = SmallRng::seed_from_u64(seed ^ u64::from(writer) << 32 ^ 0x1ed6e5);
        let (mut by_series, mut by_key, mut moves) = ([0_i64; 6], [0_i64; 4], 0);
        while !ended.load(Ordering::Relaxed) {
            let (from, to, amount) =
                (random.random_range(0..6), random.random_range(0..4), random.random_range(-50..50));
            let (less, more) = (by_series[from] - amount, by_key[to] + amount);
            let cells = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
            let value = |value: i64| cells(VALUE, Arc::new(Int64Array::from(vec![value])));
            let upsert = |table, mut columns: Vec<CellColumn>, amount| {
                columns.push(value(amount));
                Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
            };
            let key = i64::from(writer) * 100 + to as i64;
            let operations = vec![
                upsert(
                    self.series,
                    vec![
                        cells(ColumnId(0), Arc::new(UInt32Array::from(vec![writer]))),
                        cells(ColumnId(1), Arc::new(TimestampNanosecondArray::from(vec![from as i64]))),
                    ],
                    less,
                ),
                upsert(self.keyed, vec![cells(ColumnId(0), Arc::new(Int64Array::from(vec![key])))], more),
            ];
            let write = || block_on(engine.write(WriteBatch { operations }));
            match catch_unwind(AssertUnwindSafe(write)) {
                Ok(Ok(_)) => (by_series[from], by_key[to], moves) = (less, more, moves + 1),
                Ok(Err(error)) if error.kind() == ErrorKind::Retry && engine.check_writable().is_ok() => {}
                // It may have happened: what is moved next would not balance.
                Ok(Err(_)) | Err(_) => break,
            }
        }
        moves
    }

    fn sum(self, snapshot: &dyn Snapshot) -> Result<i64> {
        block_on(async {
            let mut sum = 0;
            for table in [self.series, self.keyed] {
                let request = ScanRequest::by_key(table, RowSelection::All, vec![VALUE]);
                let mut stream = snapshot.scan(request).await?;
                while let Some(batch) = stream.next().await? {
                    sum += batch.columns[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
                }
            }
            Ok(sum)
        })
    }
}

/// A hook that panics at a random step of a random write, once, after some.
fn trap(seed: u64) -> WriteHook {
    let after = SmallRng::seed_from_u64(seed ^ 0x7a9).random_range(50..900);
    let seen = AtomicU64::new(0);
    WriteHook::new(move |step: WriteStep| {
        // Not one of a write alone.
        if step != WriteStep::Committed && seen.fetch_add(1, Ordering::Relaxed) == after {
            panic!("a panic that a test wants, at {step:?}");
        }
    })
}

fn run(seed: u64, policy: SyncPolicy, trouble: Trouble) -> std::result::Result<(), String> {
    let text = |error: nyala_core::Error| error.to_string();
    let fs = SimulatedFs::new();
    let mut settings = options(&fs, policy);
    if trouble == Trouble::Panics {
        settings.write_hook = trap(seed);
    }
    let engine = Engine::open(settings).map_err(text)?;
    let ledger = Ledger::create(&engine).map_err(text)?;
    let ended = AtomicBool::new(false);
    let mut known = Vec::new();
    std::thread::scope(|scope| -> std::result::Result<(), String> {
        let (engine, ended, fs) = (&engine, &ended, &fs);
        let writers: Vec<_> = (0..LEDGERS)
            .map(|writer| scope.spawn(move || ledger.write(engine, writer, seed, ended)))
            .collect();
        let reader = scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match ledger.sum(&*engine.latest()) {
                    Ok(0) => {}
                    Ok(sum) => return Err(format!("a snapshot is out of balance by {sum}")),
                    Err(_) if engine.check_writable().is_err() => {}
                    Err(error) => return Err(format!("a snapshot cannot be read: {error}")),
                }
            }
            Ok(())
        });
        let disturber = scope.spawn(move || {
            let mut random = SmallRng::seed_from_u64(seed ^ 0xd157);
            while !ended.load(Ordering::Relaxed) {
                // They may fail where the disk does, and are tried again.
                let _ = if random.random_bool(0.7) { engine.flush() } else { engine.compact() };
                if trouble == Trouble::Disk && random.random_bool(0.5) {
                    let skip = random.random_range(0..20);
                    fs.inject(match random.random_range(0..3) {
                        0 => Fault::Sync { skip },
                        1 => Fault::SyncDir { skip },
                        _ => Fault::Write { skip, written: random.random_range(0..40) },
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(random.random_range(0..8)));
            }
        });
        let workers: Vec<_> =
            (0..WORKERS).map(|number| scope.spawn(move || work(engine, number, seed, trouble))).collect();
        for worker in workers {
            let worked = worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned()));
            known.push(worked);
        }
        ended.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writer of the ledger panicked")?;
        }
        disturber.join().map_err(|_| "flushes or compactions panicked")?;
        reader.join().map_err(|_| "the reader panicked")?
    })?;
    let known = known.into_iter().collect::<std::result::Result<Vec<_>, String>>()?;
    fs.clear_faults();
    if trouble == Trouble::Disk {
        // Log and manifest settle doubtful changes with the next change.
        block_on(engine.create_table(TableSchema::measurement("the last one", 1000))).map_err(text)?;
        let cells = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
        let upsert = Upsert {
            table: ledger.series,
            mode: WriteMode::Upsert,
            columns: vec![
                cells(ColumnId(0), Arc::new(UInt32Array::from(vec![999]))),
                cells(ColumnId(1), Arc::new(TimestampNanosecondArray::from(vec![1]))),
            ],
        };
        block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map_err(text)?;
    }
    if engine.check_writable().is_ok() {
        agree(&engine, ledger, &known, "at the end")?;
    }
    if trouble == Trouble::Disk && policy != SyncPolicy::Always {
        // The next flush makes records durable that were acknowledged before their sync failed.
        engine.flush().map_err(text)?;
    }
    let killed = fs.snapshot();
    drop(engine);
    for (disk, when) in
        [(killed, "killed"), (fs.snapshot(), "closed"), (fs.crash(seed), "closed and cut off")]
    {
        let restarted = Engine::open(options(&disk, policy)).map_err(|error| format!("{when}: {error}"))?;
        let damage = restarted.recovery.damage_count;
        if damage > 0 {
            return Err(format!("{when}: {damage} damaged places"));
        }
        agree(&restarted, ledger, &known, when)?;
        restarted.flush().map_err(text)?;
        restarted.compact().map_err(text)?;
        agree(&restarted, ledger, &known, &format!("{when}, then flushed and compacted"))?;
    }
    Ok(())
}

fn agree(engine: &Engine, ledger: Ledger, known: &[Known], when: &str) -> std::result::Result<(), String> {
    let snapshot = engine.latest();
    for (number, Known { tables, states }) in known.iter().enumerate() {
        let mut differences = Vec::new();
        for state in states {
            match block_on(compare_snapshots(&*snapshot, &**state, tables)) {
                Ok(()) => break,
                Err(error) => differences.push(error),
            }
        }
        if differences.len() == states.len() {
            return Err(format!("{when}, worker {number}: {}", differences.join(" -- and: ")));
        }
    }
    match ledger.sum(&*snapshot) {
        Ok(0) => Ok(()),
        other => Err(format!("{when}: the ledger is out of balance: {other:?}")),
    }
}

fn run_all(rounds: u64, trouble: Trouble) {
    for seed in seeds(rounds) {
        for policy in POLICIES {
            if let Err(error) = run(seed, policy, trouble) {
                panic!("NYALA_BATTERY_SEED={seed}, {policy:?}, {trouble:?}: {error}");
            }
        }
    }
}

#[test]
fn threads_get_the_answers_of_the_naive_store() {
    run_all(2, Trouble::None);
}

#[test]
fn threads_get_the_answers_of_the_naive_store_on_disks_that_fail() {
    run_all(2, Trouble::Disk);
}

#[test]
fn threads_get_the_answers_of_the_naive_store_beside_writes_that_break_off() {
    run_all(3, Trouble::Panics);
}

#[test]
fn writers_go_on_while_columns_of_their_table_come_and_go() {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs, SyncPolicy::Always)).expect("an empty disk");
    let table = block_on(engine.create_table(TableSchema::measurement("wide", 10))).expect("made");
    let ended = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let (engine, ended) = (&engine, &ended);
        let writers: Vec<_> = (0..3_u32)
            .map(|writer| {
                scope.spawn(move || {
                    let mut written = 0;
                    for time in 0.. {
                        if ended.load(Ordering::Relaxed) {
                            break;
                        }
                        // As many columns as there are, at this moment.
                        let schema = engine.schema(table).expect("the table stays");
                        let cells =
                            |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
                        let mut columns = vec![
                            cells(ColumnId(0), Arc::new(UInt32Array::from(vec![writer]))),
                            cells(ColumnId(1), Arc::new(TimestampNanosecondArray::from(vec![time]))),
                        ];
                        let others = schema.columns.iter().filter(|column| !schema.is_key(column.id));
                        columns.extend(
                            others.map(|column| cells(column.id, Arc::new(Int64Array::from(vec![time])))),
                        );
                        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
                        match block_on(
                            engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }),
                        ) {
                            Ok(_) => written += 1,
                            // A column went between the look and the write.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Missing, "{error}"),
                        }
                    }
                    written
                })
            })
            .collect();
        for number in 0..60 {
            let id = ColumnId(2 + number);
            let add = Alteration::add_column(format!("c{number}"), ColumnType::Int64);
            block_on(engine.alter_table(table, vec![add])).expect("added");
            if number % 2 == 1 {
                block_on(engine.alter_table(table, vec![Alteration::DropColumn(id)])).expect("dropped");
            }
        }
        ended.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("answers as they should be")).sum::<usize>()
    });
    engine.check_writable().expect("no batch broke off");
    let rows = |engine: &Engine| {
        let request = ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(1)]);
        block_on(async {
            let (mut stream, mut rows) = (engine.latest().scan(request).await?, 0);
            while let Some(batch) = stream.next().await? {
                rows += batch.rows;
            }
            Result::Ok(rows)
        })
    };
    assert_eq!(rows(&engine).expect("read"), written);
    let killed = fs.snapshot();
    drop(engine);
    let engine = Engine::open(options(&killed, SyncPolicy::Always)).expect("opens");
    assert_eq!(rows(&engine).expect("read"), written);
}
