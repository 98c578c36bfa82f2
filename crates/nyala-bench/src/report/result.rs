//! The results of a run as data: the content of the JSON file, from which tables and pages are made.
//!
//! Names end with their units. What could not be measured is `null`.

use crate::measure::latency::LatencySummary;
use serde::{Deserialize, Serialize};

/// Version of the JSON file's layout; raised when a member changes its meaning.
pub const RESULT_VERSION: u32 = 1;

/// One run of one benchmark against one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_VERSION`].
    pub version: u32,
    /// `tsbs`, `devops`, `narrow`, `mixed` or `corrections`.
    pub benchmark: String,
    /// What to call the server in comparisons.
    pub label: String,
    /// When the run began, in seconds since 1970.
    pub started_at: u64,
    /// The machine that the client ran on.
    pub machine: Machine,
    /// The run's parameters, as on the command line.
    pub parameters: Vec<(String, String)>,
    /// Loading, in its phases.
    pub loads: Vec<LoadResult>,
    /// Each type of query at each number of workers.
    pub queries: Vec<QueryResult>,
    /// What `--verify` found.
    pub verification: Option<Verification>,
}

/// The machine that the client ran on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that the client may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Memory.
    pub memory_bytes: u64,
}

/// What loading took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadResult {
    /// Which part of the run.
    pub phase: String,
    /// New series, in phases that measure their cost.
    pub new_series: Option<u64>,
    /// Lines acknowledged.
    pub rows: u64,
    /// Field values acknowledged.
    pub values: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Rows a second.
    pub rows_per_second: f64,
    /// Values a second.
    pub values_per_second: f64,
    /// Connections that wrote.
    pub workers: usize,
    /// Bytes of line protocol.
    pub text_bytes: u64,
    /// Estimated bytes of the line protocol after gzip, in benchmarks that measure it.
    pub gzip_text_bytes: Option<u64>,
    /// Bytes sent, which are fewer than `text_bytes` if compressed.
    pub sent_bytes: u64,
    /// Requests that were answered with 503 and repeated.
    pub refused_requests: u64,
    /// Time per acknowledged request.
    pub latency: Option<LatencySummary>,
    /// CPU time of the client.
    pub client_cpu_seconds: Option<f64>,
    /// CPU time of the server until the last answer.
    pub server_cpu_seconds: Option<f64>,
    /// CPU time of the server until it was idle again.
    pub settled_server_cpu_seconds: Option<f64>,
    /// The server's resident memory at its highest.
    pub peak_resident_bytes: Option<u64>,
    /// The server's resident memory at the end.
    pub resident_bytes: Option<u64>,
    /// What the server wrote to storage until it was idle again.
    pub written_bytes: Option<u64>,
    /// Its data on disk at the last answer.
    pub disk_bytes: Option<u64>,
    /// Its data on disk once it was idle again.
    pub settled_disk_bytes: Option<u64>,
    /// Throughput and resource use over time.
    pub timeline: Vec<Sample>,
}

impl RunResult {
    /// The phase of loading that comparisons show: the first. Most runs have only one.
    pub fn load(&self) -> Option<&LoadResult> {
        self.loads.first()
    }
}

impl LoadResult {
    /// CPU microseconds of the server per new series.
    pub fn cpu_us_per_new_series(&self) -> Option<f64> {
        let series = self.new_series.filter(|&series| series > 0)?;
        Some(self.server_cpu_seconds? * 1e6 / series as f64)
    }

    /// CPU seconds of the server per million values, until it was idle again if the run waited for that.
    pub fn cpu_seconds_per_million_values(&self) -> Option<f64> {
        let seconds = self.settled_server_cpu_seconds.or(self.server_cpu_seconds)?;
        Some(seconds / (self.values as f64 / 1e6))
    }

    /// The throughput of the slowest second divided by that of the median second; `None` for short loads.
    pub fn steadiness(&self) -> Option<f64> {
        const FEWEST_SAMPLES: usize = 5;
        // The last sample may cover less than a second.
        let (_, whole) = self.timeline.split_last()?;
        let mut rates: Vec<f64> = whole.iter().map(|sample| sample.values_per_second).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied().filter(|&median| median > 0.0)?;
        (rates.len() >= FEWEST_SAMPLES).then(|| rates[0] / median)
    }

    /// Bytes on disk per value, after the server was idle if the run waited for that.
    pub fn disk_bytes_per_value(&self) -> Option<f64> {
        Some(self.settled_disk_bytes.or(self.disk_bytes)? as f64 / self.values as f64)
    }

    /// Bytes written to storage per byte on disk at the end.
    pub fn write_amplification(&self) -> Option<f64> {
        let disk = self.settled_disk_bytes.or(self.disk_bytes).filter(|&bytes| bytes > 0)?;
        Some(self.written_bytes? as f64 / disk as f64)
    }
}

/// One second of loading.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Since the start.
    pub seconds: f64,
    /// Values per second acknowledged since the previous sample.
    pub values_per_second: f64,
    /// Cores that the server used since the previous sample.
    pub server_cores: Option<f64>,
    /// Its resident memory.
    pub resident_bytes: Option<u64>,
}

/// One type of query at one number of workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueryResult {
    /// The suite's name.
    pub name: String,
    /// Whether it is counted per minute instead of per second.
    pub heavy: bool,
    /// Connections that sent queries.
    pub workers: usize,
    /// Queries answered.
    pub count: u64,
    /// Queries refused or answered with an error.
    pub errors: u64,
    /// How long it took altogether.
    pub seconds: f64,
    /// Queries answered a second.
    pub queries_per_second: f64,
    /// Time per answered query, to the last byte.
    pub latency: Option<LatencySummary>,
    /// Mean bytes of an answer.
    pub answer_bytes: u64,
    /// CPU time of the server per query.
    pub server_cpu_ms_per_query: Option<f64>,
    /// The time of the first answer, before all others.
    pub first_ms: f64,
}

/// Differences that are kept in words.
const DIFFERENCE_LIMIT: usize = 20;

/// What `--verify` found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Answers compared.
    pub compared: usize,
    /// Answers that differ from what was computed.
    pub wrong: usize,
    /// Values compared in them.
    pub values: u64,
    /// The first differences, in words.
    pub differences: Vec<String>,
}

impl Verification {
    /// Counts one compared answer: the number of its values, or how it differs.
    pub fn add(&mut self, compared: Result<u64, String>, statement: &str) {
        self.compared += 1;
        match compared {
            Ok(values) => self.values += values,
            Err(difference) => {
                self.wrong += 1;
                if self.differences.len() < DIFFERENCE_LIMIT {
                    self.differences.push(format!("{difference}\n    {statement}"));
                }
            }
        }
    }
}
