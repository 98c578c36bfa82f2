//! Compares this client with Kudu's own C++ tools, on one cluster and with the same tables.
//!
//! `cargo run --release -p kudu-client --example perf [million rows] [rounds]`
//!
//! Each round loads a table with `kudu perf loadgen` and one with this client (same columns, values and
//! partitions, two writers each), then scans both tables with `kudu perf table_scan` and with this client. CPU
//! is that of the client process alone, read from /proc, so that what the servers use does not count.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Int32Array, Int64Array, RecordBatch, StringArray};
use kudu_client::test_cluster::{ClusterOptions, TestCluster};
use kudu_client::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const WRITERS: u64 = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let millions: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let rows = millions * 1_000_000;
    let cluster = TestCluster::start(&ClusterOptions::new(1, 1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{rows} rows, {WRITERS} writers, 4 hash partitions, 1 replica; load is {}", load_average());
    println!("{:<34} {:>12} {:>16}", "", "M rows/s", "client us/row");
    for round in 1..=rounds {
        let theirs = loadgen(&cluster, rows)?;
        report(round, "write, kudu perf loadgen", rows, theirs);
        let ours = measure(Cpu::OwnProcess, || {
            runtime.block_on(load(&cluster, &format!("ours_{round}"), rows, write_rows))
        })?;
        report(round, "write, kudu-client rows", rows, ours);
        let arrow = format!("arrow_{round}");
        let ours =
            measure(Cpu::OwnProcess, || runtime.block_on(load(&cluster, &arrow, rows, write_batches)))?;
        report(round, "write, kudu-client arrow", rows, ours);

        let table = format!("ours_{round}");
        let theirs = table_scan(&cluster, &table)?;
        report(round, "scan, kudu perf table_scan", rows, theirs);
        for (name, layout) in [("columnar", Layout::Columnar), ("rowwise", Layout::Rowwise)] {
            let ours = measure(Cpu::OwnProcess, || runtime.block_on(scan(&cluster, &table, layout, rows)))?;
            report(round, &format!("scan, kudu-client {name}"), rows, ours);
        }
        println!("load is {}, largest memory so far {}", load_average(), peak_memory());
    }
    Ok(())
}

fn report(round: usize, what: &str, rows: u64, (seconds, cpu): (f64, f64)) {
    let rate = rows as f64 / seconds / 1e6;
    println!("{:<34} {rate:>12.2} {:>16.3}", format!("{round} {what}"), cpu / rows as f64 * 1e6);
}

#[derive(Clone, Copy)]
enum Cpu {
    OwnProcess,
    Children,
}

/// Wall clock seconds and CPU seconds.
fn measure(cpu: Cpu, work: impl FnOnce() -> Result<()>) -> Result<(f64, f64)> {
    let before = cpu_seconds(cpu)?;
    let started = Instant::now();
    work()?;
    Ok((started.elapsed().as_secs_f64(), cpu_seconds(cpu)? - before))
}

fn cpu_seconds(cpu: Cpu) -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // After the name: user and system time are fields 11 and 12, those of waited-for children 13 and 14.
    let first = match cpu {
        Cpu::OwnProcess => 11,
        Cpu::Children => 13,
    };
    Ok((fields[first].parse::<f64>()? + fields[first + 1].parse::<f64>()?) / 100.0)
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn loadgen(cluster: &TestCluster, rows: u64) -> Result<(f64, f64)> {
    let mut said = String::new();
    let (_, cpu) = measure(Cpu::Children, || {
        said = run(cluster
            .kudu()
            .args(["perf", "loadgen", &cluster.masters()[0], "--table_num_replicas=1"])
            .args(["--table_num_hash_partitions=4", "--show_first_n_errors=1"])
            .arg(format!("--num_threads={WRITERS}"))
            .arg(format!("--num_rows_per_thread={}", rows / WRITERS)))?;
        Ok(())
    })?;
    Ok((number_after(&said, "time total:")? / 1000.0, cpu))
}

/// The tools report their time without start-up, which would otherwise count against them.
fn number_after(text: &str, label: &str) -> Result<f64> {
    let number = text.split(label).nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("no {label:?} in {text}"))?.parse()?)
}

fn table_scan(cluster: &TestCluster, table: &str) -> Result<(f64, f64)> {
    let mut said = String::new();
    let (_, cpu) = measure(Cpu::Children, || {
        said = run(cluster.kudu().args([
            "perf",
            "table_scan",
            &cluster.masters()[0],
            table,
            "--num_threads=2",
        ]))?;
        Ok(())
    })?;
    Ok((number_after(&said, " cost")?, cpu))
}

/// The texts of loadgen: 32 bytes.
fn text_of(key: u64) -> String {
    format!("{:x<32}", format!("{key}."))
}

async fn create(cluster: &TestCluster, name: &str) -> Result<Table> {
    let client = Client::builder(cluster.masters()).connect().await?;
    // The columns of loadgen's own table.
    let schema = Schema::new(vec![
        Column::new("key", DataType::Int64).key(),
        Column::new("int_val", DataType::Int32),
        Column::new("string_val", DataType::String),
    ])?;
    Ok(client.create_table(name, schema).replicas(1).hash(HashPartition::new(["key"], 4)).create().await?)
}

/// Creates a table and writes the keys below `rows` by parallel writers.
async fn load<F>(
    cluster: &TestCluster,
    name: &str,
    rows: u64,
    write: fn(Table, Session, Range<u64>) -> F,
) -> Result<()>
where
    F: Future<Output = kudu_client::Result<()>> + Send + 'static,
{
    let table = create(cluster, name).await?;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (session, per_writer) = (table.session().open(), rows / WRITERS);
        let written = write(table.clone(), session.clone(), writer * per_writer..(writer + 1) * per_writer);
        writers.push(tokio::spawn(async move {
            written.await?;
            session.flush().await
        }));
    }
    for writer in writers {
        writer.await??;
    }
    Ok(())
}

async fn write_rows(table: Table, session: Session, keys: Range<u64>) -> kudu_client::Result<()> {
    for key in keys {
        let mut row = table.row(Operation::Insert);
        row.set_at(0, key as i64)?.set_at(1, key as i32)?.set_at(2, &text_of(key))?;
        session.apply(&row).await?;
    }
    Ok(())
}

async fn write_batches(table: Table, session: Session, keys: Range<u64>) -> kudu_client::Result<()> {
    let mut key = keys.start;
    while key < keys.end {
        let batch_keys = key..keys.end.min(key + 10_000);
        key = batch_keys.end;
        let integers = Int64Array::from_iter_values(batch_keys.clone().map(|key| key as i64));
        let small_integers = Int32Array::from_iter_values(batch_keys.clone().map(|key| key as i32));
        let texts = StringArray::from_iter_values(batch_keys.map(text_of));
        let batch = RecordBatch::try_new(
            Arc::new(table.schema().to_arrow()),
            vec![Arc::new(integers), Arc::new(small_integers), Arc::new(texts)],
        );
        let batch = batch.map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
        session.apply_arrow(Operation::Insert, &batch).await?;
    }
    Ok(())
}

async fn scan(cluster: &TestCluster, name: &str, layout: Layout, rows: u64) -> Result<()> {
    let client = Client::builder(cluster.masters()).connect().await?;
    let table = client.open_table(name).await?;
    let mut scanner = table.scan().layout(layout).parallelism(2).open().await?;
    let mut seen = 0;
    while let Some(batch) = scanner.next_batch().await? {
        seen += batch.num_rows() as u64;
    }
    if seen != rows {
        return Err(format!("{seen} rows instead of {rows}").into());
    }
    Ok(())
}
