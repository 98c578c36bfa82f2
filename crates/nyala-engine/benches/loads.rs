//! Loading a table of any key: what a value costs when batches go to the disk at once, and when they go through memory.
//!
//! `cargo bench -p nyala-engine --bench loads` runs at the contract, in a directory below the current one. A stage gets
//! rows of one table in batches of 32 768, as a COPY or CREATE TABLE AS writes them, and is committed. In turns: through
//! memory (as all rows went before), and with keys that ascend straight to rowsets; the same with keys in random order.
//! The table is empty before. Processor time is that of all threads until the commit has returned.
//!
//! `-- --rows 2000000` loads so many (1 000 000), `--columns 50` of so many columns beside the key (20), `--pairs 3` so
//! often (3), `--memory 536870912` within so many bytes.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{CellColumn, Operation, Store, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableSchema};
use nyala_engine::{Engine, EngineOptions, block_on};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Instant;

const BATCH_ROWS: usize = 32_768;
const MONEY: ColumnType = ColumnType::Decimal { precision: 12, scale: 2 };

struct Load {
    rows: usize,
    columns: u32,
    memory_bytes: u64,
}

/// What a load took.
struct Taken {
    seconds: f64,
    cpu_seconds: f64,
    written_bytes: u64,
    disk_bytes: u64,
    rowsets: usize,
}

fn type_of(column: u32) -> ColumnType {
    [ColumnType::Int64, ColumnType::Float64, ColumnType::String, MONEY][column as usize % 4]
}

impl Load {
    fn schema(&self) -> TableSchema {
        let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
        let columns = (1..=self.columns)
            .map(|column| ColumnSchema::new(ColumnId(column), format!("c{column}"), type_of(column)));
        TableSchema::keyed("t", [key].into_iter().chain(columns).collect(), vec![ColumnId(0)])
    }

    /// The batches, made before anything is measured.
    fn batches(&self, is_shuffled: bool) -> Vec<Vec<CellColumn>> {
        let mut random = SmallRng::seed_from_u64(7);
        let mut keys: Vec<i64> = (0..self.rows as i64).collect();
        if is_shuffled {
            keys.shuffle(&mut random);
        }
        let batch = |keys: &[i64]| {
            let cells = |column, values| CellColumn { column: ColumnId(column), values, null_cells: None };
            let mut all = vec![cells(0, Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef)];
            for column in 1..=self.columns {
                let numbers = keys.iter().map(|key| key / 10 + random.random_range(0..1000));
                let values: ArrayRef = match type_of(column) {
                    ColumnType::Int64 => Arc::new(Int64Array::from_iter_values(numbers)),
                    ColumnType::Float64 => {
                        Arc::new(Float64Array::from_iter_values(numbers.map(|number| number as f64 / 10.0)))
                    }
                    ColumnType::String => Arc::new(StringArray::from_iter_values(
                        numbers.map(|number| format!("word {}", number % 100)),
                    )),
                    _ => {
                        let decimals = Decimal128Array::from_iter_values(numbers.map(i128::from));
                        Arc::new(decimals.with_precision_and_scale(12, 2).expect("fits"))
                    }
                };
                all.push(cells(column, values));
            }
            all
        };
        keys.chunks(BATCH_ROWS).map(batch).collect()
    }

    fn run(&self, batches: &[Vec<CellColumn>], goes_through_memory: bool) -> Result<Taken> {
        let directory = tempfile::tempdir_in(".")?;
        let mut options = EngineOptions::new(directory.path().join("data"));
        options.memory = MemoryBudget::new(self.memory_bytes);
        if goes_through_memory {
            options.loaded_rows_min = usize::MAX;
        }
        let engine = Engine::open(options)?;
        let table = block_on(engine.create_table(self.schema()))?;
        let (begun, cpu_seconds, written_bytes) = (Instant::now(), cpu_seconds(), written_bytes());
        block_on(async {
            let mut stage = engine.stage().await?;
            for columns in batches {
                let upsert = Upsert { table, mode: WriteMode::Insert, columns: columns.clone() };
                stage.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await?;
            }
            stage.commit().await
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let partitions = block_on(engine.partitions(table))?;
        let disk_bytes = partitions.iter().map(|partition| partition.disk_bytes).sum();
        let taken = Taken {
            seconds,
            cpu_seconds: self::cpu_seconds() - cpu_seconds,
            written_bytes: self::written_bytes() - written_bytes,
            disk_bytes,
            rowsets: std::fs::read_dir(directory.path().join("data/rowsets"))?.count(),
        };
        engine.close()?;
        Ok(taken)
    }
}

/// What all threads have computed.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = numbers.skip(11).take(2).filter_map(|number| number.parse::<u64>().ok()).sum();
    // Linux counts in hundredths of a second, whatever its clock does.
    ticks as f64 / 100.0
}

/// What was handed to the system to be written.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let number = |name: &str, otherwise| after(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let load = Load {
        rows: number("--rows", 1_000_000) as usize,
        columns: number("--columns", 20) as u32,
        memory_bytes: number("--memory", 512 << 20),
    };
    let values = load.rows as f64 * f64::from(load.columns + 1) / 1e6;
    for is_shuffled in [false, true] {
        let batches = load.batches(is_shuffled);
        let order = if is_shuffled { "keys in random order" } else { "keys that ascend" };
        for _ in 0..number("--pairs", 3) {
            for goes_through_memory in [true, false] {
                let taken = load.run(&batches, goes_through_memory)?;
                println!(
                    "{order:<21} {:<16} {:>6.2} M values/s, {:>6.3} CPU-s per M values, {:>6.1} MB written, {:>6.1} MB in \
                     {} rowsets",
                    if goes_through_memory { "through memory" } else { "loaded" },
                    values / taken.seconds,
                    taken.cpu_seconds / values,
                    taken.written_bytes as f64 / 1e6,
                    taken.disk_bytes as f64 / 1e6,
                    taken.rowsets
                );
            }
        }
    }
    Ok(())
}
