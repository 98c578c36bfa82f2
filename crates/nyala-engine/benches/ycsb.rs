//! YCSB at the contract: how fast rows of a table with any key are loaded, looked up, changed and scanned.
//!
//! `cargo bench -p nyala-engine --bench ycsb` loads rows into an engine in a directory below the current one, each write
//! synced, and runs workloads on them. It prints what each did and writes `ycsb.json` and `ycsb.html`. `-- --help` lists
//! its options. `-- --peer FILE` puts the results that `peers/rocksdb-ycsb` wrote beside ours.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use arrow_array::{ArrayRef, StringArray};
use clap::Parser;
use nyala_bench::measure::counters::StoreCounters;
use nyala_bench::report::ycsb::YcsbResult;
use nyala_bench::run::ycsb::{KeyValueStore, Ycsb, YcsbOptions};
use nyala_bench::workload::ycsb::{RowShape, Workload};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{
    CellColumn, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, TableId, TableSchema, Value};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::io::Write;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs YCSB on the engine.
#[derive(Parser, Debug)]
#[command(after_help = "Examples:
  cargo bench -p nyala-engine --bench ycsb -- --rows 1000000 --fields 1 lookup missing
  cargo bench -p nyala-engine --bench ycsb -- --rows 2000000 --memory-mib 2048 --seconds 60 a b c d e f
  cargo bench -p nyala-engine --bench ycsb -- --rows 5000000 --seconds 600 --threads 16 --sync-beside upsert")]
struct Options {
    /// Workloads to run, one after the other.
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// Rows to load.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Fields of a row.
    #[arg(long, default_value_t = 10)]
    fields: u32,
    /// Bytes of a field.
    #[arg(long, default_value_t = 100)]
    field_bytes: usize,
    /// Load in the order of keys.
    #[arg(long)]
    ordered: bool,
    /// Rows that are written at once when loading.
    #[arg(long, default_value_t = 100)]
    batch: u64,
    /// Threads.
    #[arg(long, default_value_t = 16)]
    threads: u64,
    /// How long each workload runs.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How long compactions go on before the first workload.
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
    /// Memory limit.
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Maintenance threads.
    #[arg(long, default_value_t = 2)]
    maintenance_threads: usize,
    /// Append a KiB and sync it, again and again, beside each workload, and print how long that takes.
    #[arg(long)]
    sync_beside: bool,
    /// Where to put the data, which is removed at the end.
    #[arg(long, default_value = "ycsb-data")]
    data_dir: PathBuf,
    /// Results of a peer to show beside ours.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A table in an engine.
struct EngineTable {
    engine: Engine,
    table: TableId,
    fields: Vec<ColumnId>,
}

impl EngineTable {
    fn create(options: &Options) -> Result<Self, String> {
        let engine = Engine::open(EngineOptions {
            memory: MemoryBudget::new(options.memory_mib << 20),
            maintenance_threads: options.maintenance_threads,
            ..EngineOptions::new(&options.data_dir)
        });
        let engine = engine.map_err(|error| error.to_string())?;
        let fields: Vec<ColumnId> = (1..=options.fields).map(ColumnId).collect();
        let key = ColumnSchema::new(ColumnId(0), "key", ColumnType::String).required();
        let columns =
            fields.iter().map(|id| ColumnSchema::new(*id, format!("field{id}"), ColumnType::String));
        let schema =
            TableSchema::keyed("usertable", [key].into_iter().chain(columns).collect(), vec![ColumnId(0)]);
        let table = block_on(engine.create_table(schema)).map_err(|error| error.to_string())?;
        Ok(Self { engine, table, fields })
    }

    /// Writes a batch; while memory is full, again and again.
    fn upsert(&self, columns: &[(ColumnId, ArrayRef)]) -> Result<(), String> {
        loop {
            let cells = |(column, values): &(ColumnId, ArrayRef)| CellColumn {
                column: *column,
                values: values.clone(),
                null_cells: None,
            };
            let columns = columns.iter().map(cells).collect();
            let upsert = Upsert { table: self.table, mode: WriteMode::Upsert, columns };
            match block_on(self.engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Retry => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn rows(
        &self,
        start: Bound<Vec<Value>>,
        end: Bound<Vec<Value>>,
        fields: u32,
        limit: usize,
    ) -> Result<usize, String> {
        let rows = RowSelection::Keys { start, end };
        let fields = self.fields[..fields as usize].to_vec();
        let request = ScanRequest { limit: Some(limit), ..ScanRequest::by_key(self.table, rows, fields) };
        let count = block_on(async {
            let (mut stream, mut rows) = (self.engine.latest().scan(request).await?, 0);
            while let Some(batch) = stream.next().await? {
                rows += std::hint::black_box(batch).rows;
            }
            nyala_core::Result::Ok(rows)
        });
        count.map_err(|error| error.to_string())
    }
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

impl KeyValueStore for EngineTable {
    fn write(&self, rows: &[(String, Vec<String>)]) -> Result<(), String> {
        let mut columns = vec![(ColumnId(0), strings(rows.iter().map(|(key, _)| key.as_str())))];
        for (position, id) in self.fields.iter().enumerate() {
            columns.push((*id, strings(rows.iter().map(|(_, values)| values[position].as_str()))));
        }
        self.upsert(&columns)
    }

    fn update(&self, key: &str, field: u32, value: &str) -> Result<(), String> {
        let field = self.fields[field as usize];
        self.upsert(&[(ColumnId(0), strings([key].into_iter())), (field, strings([value].into_iter()))])
    }

    fn read(&self, key: &str) -> Result<bool, String> {
        let key = Bound::Included(vec![Value::String(key.to_owned())]);
        Ok(self.rows(key.clone(), key, self.fields.len() as u32, 1)? == 1)
    }

    fn scan(&self, from: &str, rows: usize, fields: u32) -> Result<usize, String> {
        self.rows(Bound::Included(vec![Value::String(from.to_owned())]), Bound::Unbounded, fields, rows)
    }

    fn counters(&self) -> StoreCounters {
        let stats = self.engine.stats();
        StoreCounters {
            memory_bytes: None,
            log_bytes: stats.wal.as_ref().map(|log| log.written_bytes as f64),
            flushed_bytes: Some(stats.flushed_bytes as f64),
            compacted_bytes: Some(stats.compacted_bytes_written as f64),
            rejected_writes: Some(stats.writes_refused as f64),
            slowed_writes: Some(stats.write_stalls as f64),
            filter_lookups: Some(stats.filter_lookups as f64),
        }
    }

    fn statistics(&self) -> Vec<(String, f64)> {
        let stats = self.engine.stats();
        let numbers = [
            ("blocks read from files", stats.cache_misses),
            ("blocks found in the cache", stats.cache_hits),
            ("bytes flushed", stats.flushed_bytes),
            ("bytes written by compactions", stats.compacted_bytes_written),
            ("batches slowed", stats.write_stalls),
        ];
        numbers.map(|(name, number)| (name.to_owned(), number as f64)).to_vec()
    }
}

/// Appends and syncs until it is told to stop; returns the 99th percentile of a round.
fn sync_loop(options: &Options, stop: &AtomicBool) -> Result<Duration, String> {
    let path = options.data_dir.join("sync-beside");
    let file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    let (mut rounds, mut offset) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let written = file.write_all_at(&[7; 1024], offset).and_then(|()| file.sync_data());
        written.map_err(|error| error.to_string())?;
        rounds.push(begun.elapsed());
        offset += 1024;
    }
    rounds.sort_unstable();
    Ok(rounds.get(rounds.len() * 99 / 100).copied().unwrap_or_default())
}

fn run(options: &Options) -> Result<Vec<YcsbResult>, String> {
    let mut out = std::io::stdout();
    let Options { fields, field_bytes, ordered, rows, batch, threads, seconds, .. } = *options;
    let shape = RowShape { fields, field_bytes, ordered, seed: 1 };
    let store = EngineTable::create(options)?;
    let ycsb = Ycsb::new(&store, YcsbOptions { shape, rows, batch, threads, seconds, popularity: None });
    let mut results = vec![ycsb.load(&mut out)?];
    println!("{}", results[0].text());
    std::thread::sleep(Duration::from_secs(options.settle_seconds));
    let stats = store.engine.stats();
    let space = stats.rowset_bytes as f64 / (rows * shape.row_bytes()) as f64;
    println!("settled: {} rowsets, {space:.2} bytes per byte\n", stats.rowsets);
    for workload in &options.workloads {
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let beside = options.sync_beside.then(|| scope.spawn(|| sync_loop(options, &stop)));
            let result = ycsb.run_workload(*workload, &mut out);
            stop.store(true, Ordering::Relaxed);
            if let Some(Ok(Ok(p99))) = beside.map(|thread| thread.join()) {
                println!("{workload:?}: p99 of a bare sync beside it {:.3} ms", p99.as_secs_f64() * 1e3);
            }
            result
        })?;
        println!("{}", result.text());
        results.push(result);
    }
    Ok(results)
}

fn main() -> Result<(), String> {
    let options = Options::parse();
    if options.data_dir.exists() {
        return Err(format!("{} exists: remove it, or name another directory", options.data_dir.display()));
    }
    let outcome = run(&options);
    let removed = std::fs::remove_dir_all(&options.data_dir);
    let results = outcome?;
    removed.map_err(|error| error.to_string())?;
    let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
    let mut stores = vec![("nyala".to_owned(), results)];
    if let Some(peer) = &options.peer {
        let text = std::fs::read_to_string(peer).map_err(|error| format!("{}: {error}", peer.display()))?;
        let name = peer.file_stem().map_or_else(|| "peer".to_owned(), |name| name.to_string_lossy().into());
        stores.push((name, serde_json::from_str(&text).map_err(|error| error.to_string())?));
    }
    for (path, text) in [
        ("ycsb.json", json),
        ("ycsb.html", nyala_bench::report::ycsb_page::page(&format!("{options:?}"), &stores)),
    ] {
        std::fs::write(path, text).map_err(|error| format!("{path}: {error}"))?;
    }
    writeln!(std::io::stdout(), "written: ycsb.json, ycsb.html").map_err(|error| error.to_string())
}
