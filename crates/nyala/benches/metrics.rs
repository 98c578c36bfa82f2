//! Compares the cost of metrics with one series each, of as many series of one metric, both as Prometheus writes them,
//! and of measurements with a table each, as line protocol creates them.
//!
//! `cargo bench -p nyala --bench metrics` writes 10 000 of each kind (`-- --count N`) through the whole store: their
//! first samples, in 10 requests, then 100 more of each. Data goes to a temporary directory.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::Store;
use nyala_db::catalog::Catalog;
use nyala_db::ingest::ParseOptions;
use nyala_db::write::LineWriter;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// 2023-11-15.
const BEGUN_S: i64 = 1_700_006_400;
const STEP_S: i64 = 15;
const REQUESTS: usize = 10;
const ROUNDS: i64 = 10;
const SAMPLES: i64 = 10;
const PAIRS: usize = 5;

#[derive(Clone, Copy)]
enum Kind {
    /// Series of one metric.
    Series,
    /// Metrics of one series.
    Metrics,
    /// Measurements of one series, with a table each.
    Tables,
}

struct Cost {
    first: Duration,
    more: Duration,
    memory_bytes: usize,
    flush: Duration,
    files: usize,
}

fn head(kind: Kind, number: usize) -> String {
    match kind {
        Kind::Series => {
            format!("requests_total,__name__=requests_total,instance=host_{number:05}:9100,job=node")
        }
        Kind::Metrics => {
            format!("metric_{number:05}_total,__name__=metric_{number:05}_total,instance=host:9100,job=node")
        }
        Kind::Tables => {
            format!("table_{number:05}_total,__name__=table_{number:05}_total,instance=host:9100,job=node")
        }
    }
}

fn write(writer: &LineWriter, kind: Kind, heads: &[String], from_s: i64, samples: i64) -> Result<()> {
    let options = ParseOptions::default();
    for heads in heads.chunks(heads.len().div_ceil(REQUESTS)) {
        let mut body = String::new();
        for (number, head) in heads.iter().enumerate() {
            for sample in 0..samples {
                let (value, time_s) = (number as i64 * 7 % 100 + sample, from_s + sample * STEP_S);
                let _ = writeln!(body, "{head} value={value} {time_s}000000000");
            }
        }
        let report = match kind {
            Kind::Tables => block_on(writer.write("d", "", options, body.as_bytes()))?,
            Kind::Series | Kind::Metrics => {
                block_on(writer.write_samples("d", "", options, body.as_bytes()))?
            }
        };
        assert_eq!(report.written, heads.len() as u64 * samples as u64);
    }
    Ok(())
}

fn cost(kind: Kind, count: usize, data_dir: &Path) -> Result<Cost> {
    let memory = MemoryBudget::new(2 << 30);
    let options = EngineOptions { memory: memory.clone(), ..EngineOptions::new(data_dir) };
    let engine = Arc::new(Engine::open(options)?);
    let catalog = Arc::new(block_on(Catalog::open(engine.clone()))?);
    block_on(catalog.create_database("d", None))?;
    let writer = LineWriter::new(catalog.clone(), memory.clone(), usize::MAX);
    let heads: Vec<String> = (0..count).map(|number| head(kind, number)).collect();
    let before_bytes = memory.total_bytes() as usize;
    let begun = Instant::now();
    write(&writer, kind, &heads, BEGUN_S, 1)?;
    let first = begun.elapsed();
    let memory_bytes = memory.total_bytes() as usize - before_bytes + catalog.measure_series_memory();
    let begun = Instant::now();
    for round in 0..ROUNDS {
        write(&writer, kind, &heads, BEGUN_S + (1 + round * SAMPLES) * STEP_S, SAMPLES)?;
    }
    let more = begun.elapsed();
    let begun = Instant::now();
    engine.flush()?;
    let flush = begun.elapsed();
    let tables = engine.tables().len();
    let files = std::fs::read_dir(data_dir.join("rowsets"))?.count();
    assert!(files >= tables.min(2), "flushed");
    Ok(Cost { first, more, memory_bytes, flush, files })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == "--count");
    let count = place.map_or(10_000, |at| arguments[at + 1].parse().expect("a number of series"));
    println!("{count} of each kind, medians of {PAIRS} rounds in turns");
    println!(
        "kind | first samples s | {} more each s | memory of the first KiB | flush s | files",
        ROUNDS * SAMPLES
    );
    let kinds = [("series", Kind::Series), ("metrics", Kind::Metrics), ("tables", Kind::Tables)];
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for _ in 0..PAIRS {
        for (costs, (_, kind)) in costs.iter_mut().zip(kinds) {
            let temporary = tempfile::tempdir()?;
            costs.push(cost(kind, count, &temporary.path().join("data"))?);
        }
    }
    for (costs, (name, _)) in costs.iter().zip(kinds) {
        let median = |of: &dyn Fn(&Cost) -> f64| {
            let mut all: Vec<f64> = costs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{name} | {:.3} | {:.3} | {:.0} | {:.3} | {}",
            median(&|cost| cost.first.as_secs_f64()),
            median(&|cost| cost.more.as_secs_f64()),
            median(&|cost| cost.memory_bytes as f64 / 1024.0),
            median(&|cost| cost.flush.as_secs_f64()),
            median(&|cost| cost.files as f64),
        );
    }
    Ok(())
}
