//! YCSB on RocksDB, by the generator and the clock that measure nyala: `cargo bench -p nyala-engine --bench ycsb`.
//!
//! A row is one value: its fields one behind the other, as YCSB's own binding stores them. An update of a field reads the
//! row and writes it again. The log is synced before a write returns; writers share syncs. The block cache has half of the
//! memory limit and memtables a quarter, about what nyala gives them; filters have ten bits a key. Everything else is
//! RocksDB's default.
//!
//! It runs from this directory with
//! `ROCKSDB_LIB_DIR=/usr/lib/x86_64-linux-gnu cargo run --release -- --rows 1000000 lookup missing`, and writes
//! `rocksdb.json`, which the benchmark shows beside its own results with `--peer`.

use clap::Parser;
use nyala_bench::run::ycsb::{KeyValueStore, Ycsb, YcsbOptions};
use nyala_bench::workload::ycsb::{RowShape, Workload};
use rocksdb::{BlockBasedOptions, Cache, DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Runs YCSB on RocksDB. The options are those of nyala's benchmark.
#[derive(Parser, Debug)]
struct Arguments {
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    #[arg(long, default_value_t = 10)]
    fields: u32,
    #[arg(long, default_value_t = 100)]
    field_bytes: usize,
    #[arg(long)]
    ordered: bool,
    #[arg(long, default_value_t = 100)]
    batch: u64,
    #[arg(long, default_value_t = 16)]
    threads: u64,
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    #[arg(long, default_value_t = 2)]
    maintenance_threads: i32,
    #[arg(long, default_value = "ycsb-data")]
    data_dir: PathBuf,
}

struct RocksTable {
    db: DB,
    synced: WriteOptions,
    field_bytes: usize,
}

impl RocksTable {
    fn open(arguments: &Arguments) -> Result<Self, String> {
        let memory = (arguments.memory_mib << 20) as usize;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(memory / 2).map_err(|error| error.to_string())?);
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_db_write_buffer_size(memory / 4);
        options.set_write_buffer_size(memory / 8);
        options.increase_parallelism(arguments.maintenance_threads);
        // The default, Snappy, finds nothing in random text.
        options.set_compression_type(rocksdb::DBCompressionType::None);
        let db = DB::open(&options, &arguments.data_dir).map_err(|error| error.to_string())?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Self { db, synced, field_bytes: arguments.field_bytes })
    }
}

fn text(error: rocksdb::Error) -> String {
    error.to_string()
}

impl KeyValueStore for RocksTable {
    fn write(&self, rows: &[(String, Vec<String>)]) -> Result<(), String> {
        let mut batch = WriteBatch::default();
        rows.iter().for_each(|(key, values)| batch.put(key, values.concat()));
        self.db.write_opt(batch, &self.synced).map_err(text)
    }

    fn update(&self, key: &str, field: u32, value: &str) -> Result<(), String> {
        let mut row = self.db.get(key).map_err(text)?.ok_or_else(|| format!("row {key} is lost"))?;
        let begin = field as usize * self.field_bytes;
        row[begin..begin + self.field_bytes].copy_from_slice(value.as_bytes());
        self.db.put_opt(key, row, &self.synced).map_err(text)
    }

    fn read(&self, key: &str) -> Result<bool, String> {
        Ok(std::hint::black_box(self.db.get_pinned(key).map_err(text)?).is_some())
    }

    fn scan(&self, from: &str, rows: usize, fields: u32) -> Result<usize, String> {
        let wanted_bytes = fields as usize * self.field_bytes;
        let mut count = 0;
        for row in self.db.iterator(IteratorMode::From(from.as_bytes(), Direction::Forward)).take(rows) {
            std::hint::black_box(&row.map_err(text)?.1[..wanted_bytes]);
            count += 1;
        }
        Ok(count)
    }

    fn statistics(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if arguments.data_dir.exists() {
        return Err(format!("{} exists: remove it, or name another directory", arguments.data_dir.display()));
    }
    let mut out = std::io::stdout();
    let mut print = |text: &str| writeln!(out, "{text}").map_err(|error| error.to_string());
    let shape = RowShape {
        fields: arguments.fields,
        field_bytes: arguments.field_bytes,
        ordered: arguments.ordered,
        seed: 1,
    };
    let Arguments { rows, batch, threads, seconds, .. } = arguments;
    let store = RocksTable::open(&arguments)?;
    let ycsb = Ycsb::new(&store, YcsbOptions { shape, rows, batch, threads, seconds, popularity: None });
    let mut results = vec![ycsb.load(&mut std::io::stdout())?];
    print(&results[0].text())?;
    std::thread::sleep(Duration::from_secs(arguments.settle_seconds));
    for workload in &arguments.workloads {
        results.push(ycsb.run_workload(*workload, &mut std::io::stdout())?);
        print(&results[results.len() - 1].text())?;
    }
    drop(store);
    std::fs::remove_dir_all(&arguments.data_dir).map_err(|error| error.to_string())?;
    let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
    std::fs::write("rocksdb.json", json).map_err(|error| error.to_string())
}
