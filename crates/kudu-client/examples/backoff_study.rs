//! Throughput of writers at an overloaded server: a limit of concurrent writes compared with a fixed pause of 500 ms.
//!
//! `cargo run -p kudu-client --example backoff_study [plot.svg]`
//!
//! One tablet server has two service threads and a queue of two calls; 1 to 64 writers send small batches. With a fixed
//! pause the server idles while all refused writers sleep.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kudu_client::test_cluster::{ClusterOptions, TestCluster};
use kudu_client::*;
use tokio::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const WRITERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const SECONDS: u64 = 4;

fn main() -> Result<()> {
    let options = ClusterOptions::new(1, 1)
        .tablet_server_flag("--rpc_service_queue_length=2")
        .tablet_server_flag("--rpc_num_service_threads=2");
    let cluster = TestCluster::start(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:>8} {:>22} {:>22}", "writers", "adapting, rows/s", "500 ms fixed, rows/s");
    let mut points = Vec::new();
    for writers in WRITERS {
        let mut rates = Vec::new();
        for fixed in [None, Some(Duration::from_millis(500))] {
            rates.push(runtime.block_on(rate(&cluster, writers, fixed))?);
        }
        println!("{writers:>8} {:>22.0} {:>22.0}", rates[0], rates[1]);
        points.push((writers, rates[0], rates[1]));
    }
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(path, plot(&points))?;
    }
    Ok(())
}

async fn rate(cluster: &TestCluster, writers: usize, fixed: Option<Duration>) -> Result<f64> {
    let client = Client::builder(cluster.masters()).connect().await?;
    let schema = Schema::new(vec![
        Column::new("key", DataType::Int64).key(),
        Column::new("text", DataType::String).nullable(),
    ])?;
    let name = format!("study_{writers}_{}", fixed.is_some());
    let creator = client.create_table(&name, schema).replicas(1).hash(HashPartition::new(["key"], 8));
    creator.create().await?;
    let written = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        // Each writer has its own client, like a process of its own, so none learns from the refusals of another.
        let client = Client::builder(cluster.masters()).connect().await?;
        let table = client.open_table(&name).await?;
        let written = written.clone();
        tasks.push(tokio::spawn(async move {
            let session = table.session().mode(FlushMode::Manual).timeout(Duration::from_secs(60));
            let session = match fixed {
                Some(pause) => session.fixed_pause_when_busy(pause).open(),
                None => session.open(),
            };
            let mut key = (writer as i64) << 40;
            while started.elapsed() < Duration::from_secs(SECONDS) {
                for _ in 0..200 {
                    let mut row = table.row(Operation::Insert);
                    row.set_at(0, key)?.set_at(1, "some text of a usual length")?;
                    session.apply(&row).await?;
                    key += 1;
                }
                session.flush().await?;
                written.fetch_add(200, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let rate = written.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
    client.delete_table(&name).await?;
    Ok(rate)
}

/// One line per kind of pause, over the number of writers.
fn plot(points: &[(usize, f64, f64)]) -> String {
    let (width, height, margin) = (640.0, 360.0, 60.0);
    let most = points.iter().map(|point| point.1.max(point.2)).fold(1.0, f64::max);
    let x = |index: usize| margin + (width - 2.0 * margin) * index as f64 / (points.len() - 1).max(1) as f64;
    let y = |rate: f64| height - margin - (height - 2.0 * margin) * rate / most;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let lines: [(&str, &str, Vec<f64>); 2] = [
        ("adapting", "#1b6ca8", points.iter().map(|point| point.1).collect()),
        ("500 ms fixed", "#c0392b", points.iter().map(|point| point.2).collect()),
    ];
    for (number, (name, colour, rates)) in lines.iter().enumerate() {
        let path: Vec<String> = rates
            .iter()
            .enumerate()
            .map(|(index, rate)| format!("{:.1},{:.1}", x(index), y(*rate)))
            .collect();
        let legend = 20.0 + 18.0 * number as f64;
        svg += &format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n\
             <text x=\"{margin}\" y=\"{legend}\" fill=\"{colour}\">{name}</text>\n",
            path.join(" ")
        );
    }
    for (index, (writers, _, _)) in points.iter().enumerate() {
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{writers}</text>\n",
            x(index),
            height - 40.0
        );
    }
    for step in 0..=4 {
        let rate = most * f64::from(step) / 4.0;
        svg += &format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>\n",
            margin - 6.0,
            y(rate) + 4.0,
            rate
        );
    }
    svg += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">writers</text>\n\
         <text x=\"{}\" y=\"20\" text-anchor=\"end\">rows per second acknowledged</text>\n</svg>\n",
        width / 2.0,
        height - 16.0,
        width - margin
    );
    svg
}
