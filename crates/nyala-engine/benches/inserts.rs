//! Rows inserted one by one beside a loader: what each costs the other.
//!
//! `cargo bench -p nyala-engine --bench inserts` runs at the contract, in a directory below the current one, each write
//! synced. Sixteen tasks insert rows of a keyed table one by one, on condition that their keys are new; one task loads
//! batches of a thousand points with ten fields into a table of series. In turns: each alone, 10 000 inserts a second
//! beside the loader as fast as it can, and at half its speed, and all as fast as they can. Beside the rates stands
//! what the loader's thread computed for a value, and how long the slowest hundredth of the inserts took, beside a bare
//! loop of appending and syncing a file.
//!
//! `-- --seconds 10` measures each for so long (5), `--pairs 5` so often (3).

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use arrow_array::{ArrayRef, Float64Array, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Alteration, CellColumn, Operation, Store, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableId, TableSchema};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TASKS: usize = 16;
const FIELDS: u32 = 10;
const POINTS: i64 = 1000;

struct Bed {
    engine: Engine,
    keyed: TableId,
    series: TableId,
    next_key: AtomicI64,
    next_time: AtomicI64,
}

/// What was done in some time.
#[derive(Default)]
struct Done {
    inserts_per_second: f64,
    insert_p99: Duration,
    values_per_second: f64,
    cpu_ns_per_value: f64,
}

impl Bed {
    fn new(directory: &std::path::Path) -> Result<Self> {
        let memory = MemoryBudget::new(1 << 30);
        let engine = Engine::open(EngineOptions { memory, ..EngineOptions::new(directory) })?;
        let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
        let value = ColumnSchema::new(ColumnId(1), "v", ColumnType::Int64);
        let schema = TableSchema::keyed("keyed", vec![key, value], vec![ColumnId(0)]);
        let keyed = block_on(engine.create_table(schema))?;
        let series = block_on(engine.create_table(TableSchema::measurement("series", 86_400_000_000_000)))?;
        let fields =
            (0..FIELDS).map(|field| Alteration::add_column(format!("f{field}"), ColumnType::Float64));
        block_on(engine.alter_table(series, fields.collect()))?;
        let (next_key, next_time) = (AtomicI64::new(0), AtomicI64::new(0));
        Ok(Self { engine, keyed, series, next_key, next_time })
    }

    fn insert(&self) -> Result<()> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        // Keys do not come in order.
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        let cells = |column, value| {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            CellColumn { column: ColumnId(column), values, null_cells: None }
        };
        let (table, mode) = (self.keyed, WriteMode::Insert);
        let upsert = Upsert { table, mode, columns: vec![cells(0, key), cells(1, 7)] };
        block_on(self.engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
    }

    /// Returns how many values.
    fn load(&self) -> Result<u64> {
        let time_ns = self.next_time.fetch_add(1, Ordering::Relaxed) * 1_000_000_000;
        let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
        let mut columns = vec![
            cells(0, Arc::new(UInt32Array::from_iter_values(0..POINTS as u32)) as ArrayRef),
            cells(1, Arc::new(TimestampNanosecondArray::from(vec![time_ns; POINTS as usize]))),
        ];
        columns.extend((0..FIELDS).map(|field| {
            let value = |row: i64| ((time_ns / 1_000_000_000 + row * i64::from(field)) % 1000) as f64 / 10.0;
            cells(2 + field, Arc::new(Float64Array::from_iter_values((0..POINTS).map(value))))
        }));
        let upsert = Upsert { table: self.series, mode: WriteMode::Upsert, columns };
        block_on(self.engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }))?;
        Ok(POINTS as u64 * u64::from(FIELDS))
    }

    /// Runs tasks and a loader, if they are wanted, at most at so many inserts and values a second.
    fn run(&self, inserts_rate: Option<f64>, values_rate: Option<f64>, time: Duration) -> Done {
        let tasks = if inserts_rate.is_some() { TASKS } else { 0 };
        let task_rate = inserts_rate.unwrap_or(0.0) / TASKS as f64;
        let (ended, inserts) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let inserters: Vec<_> = (0..tasks)
                .map(|_| {
                    scope.spawn(|| {
                        let (first, mut took) = (Instant::now(), Vec::new());
                        while !ended.load(Ordering::Relaxed) {
                            let begun = Instant::now();
                            self.insert().expect("inserted");
                            took.push(begun.elapsed());
                            let due = Duration::from_secs_f64(took.len() as f64 / task_rate);
                            std::thread::sleep(due.saturating_sub(first.elapsed()));
                            inserts.fetch_add(1, Ordering::Relaxed);
                        }
                        took
                    })
                })
                .collect();
            let loader = values_rate.map(|rate| {
                let ended = &ended;
                scope.spawn(move || {
                    let (begun, cpu_ns, mut values) = (Instant::now(), thread_cpu_ns(), 0);
                    while !ended.load(Ordering::Relaxed) {
                        values += self.load().expect("loaded");
                        let due = Duration::from_secs_f64(values as f64 / rate);
                        std::thread::sleep(due.saturating_sub(begun.elapsed()));
                    }
                    (values as f64, begun.elapsed().as_secs_f64(), (thread_cpu_ns() - cpu_ns) as f64)
                })
            });
            let begun = Instant::now();
            std::thread::sleep(time);
            let inserts_per_second = inserts.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
            ended.store(true, Ordering::Relaxed);
            let took = inserters.into_iter().flat_map(|task| task.join().expect("no panic"));
            let insert_p99 = percentile_99(took.collect());
            let loaded = loader.map(|loader| loader.join().expect("no panic"));
            let (values, seconds, cpu_ns) = loaded.unwrap_or((0.0, 1.0, 0.0));
            let cpu_ns_per_value = cpu_ns / values.max(1.0);
            Done { inserts_per_second, insert_p99, values_per_second: values / seconds, cpu_ns_per_value }
        })
    }
}

fn percentile_99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() * 99 / 100).copied().unwrap_or_default()
}

/// What the calling thread has computed.
fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// How long the slowest hundredth of appending and syncing takes.
fn bare_syncs(directory: &std::path::Path, time: Duration) -> std::io::Result<(f64, Duration)> {
    let mut file = std::fs::File::create(directory.join("bare"))?;
    file.set_len(64 << 20)?;
    let (begun, mut took) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let one = Instant::now();
        file.write_all(&[7; 128])?;
        file.sync_data()?;
        took.push(one.elapsed());
    }
    Ok((took.len() as f64 / time.as_secs_f64(), percentile_99(took)))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let number = |name: &str, otherwise| after(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (seconds, pairs) = (number("--seconds", 5), number("--pairs", 3));
    let time = Duration::from_secs(seconds);
    let directory = tempfile::tempdir_in(".")?;
    let (syncs, slow) = bare_syncs(directory.path(), time)?;
    println!("a bare loop of syncs: {syncs:.0} a second, 99 % within {slow:.1?}");
    let bed = Bed::new(&directory.path().join("data"))?;
    let show = |what: &str, done: &Done| {
        println!(
            "{what:<42} {:>8.0} inserts/s, 99 % within {:>8.1?}   {:>6.2} M values/s, {:>5.1} ns of CPU each",
            done.inserts_per_second,
            done.insert_p99,
            done.values_per_second / 1e6,
            done.cpu_ns_per_value
        );
    };
    const FAST: Option<f64> = Some(f64::INFINITY);
    const INSERTS: Option<f64> = Some(10_000.0);
    show("inserts alone, as fast as they can", &bed.run(FAST, None, time));
    for _ in 0..pairs {
        let alone = bed.run(None, FAST, time);
        show("the loader alone", &alone);
        show("the loader beside inserts", &bed.run(INSERTS, FAST, time));
        let half = Some(alone.values_per_second / 2.0);
        show("the loader at half its speed", &bed.run(None, half, time));
        show("the loader at half its speed beside inserts", &bed.run(INSERTS, half, time));
    }
    show("both as fast as they can", &bed.run(FAST, FAST, time));
    bed.engine.close()
}
