//! Results of benchmarks of tables: how fast they were loaded, how long queries took, and what peers needed for the same.

use super::result::Machine;
use super::table::{align, bytes, count, milliseconds};
use crate::measure::latency::LatencySummary;
use serde::{Deserialize, Serialize};

/// A run of a benchmark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SqlResult {
    /// Which, with its size.
    pub benchmark: String,
    /// What was measured on.
    pub machine: Machine,
    /// Names and versions of the peers.
    pub peers: Vec<String>,
    /// The tables.
    pub loads: Vec<TableLoad>,
    /// Bytes of the data directory when everything was loaded, log included.
    pub disk_bytes: Option<u64>,
    /// Bytes of the Parquet that the peers read.
    pub parquet_bytes: Option<u64>,
    /// CPU time of the server while loading.
    pub load_cpu_seconds: Option<f64>,
    /// The most memory that the server had in use, in any of its lives.
    pub peak_resident_bytes: Option<u64>,
    /// The queries.
    pub queries: Vec<QueryTimes>,
    /// What else was done.
    pub phases: Vec<Phase>,
}

/// Something that was done once, or many times in a row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// What.
    pub name: String,
    /// Rows, or how often.
    pub count: u64,
    /// How long all of it took.
    pub seconds: f64,
    /// How long each took.
    pub latency: Option<LatencySummary>,
    /// Bytes that it made.
    pub bytes: Option<u64>,
}

/// How a table was loaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableLoad {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// How long the server took, without making the rows.
    pub seconds: f64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

/// How long a query took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueryTimes {
    /// Its name.
    pub name: String,
    /// Rows of its answer.
    pub rows: u64,
    /// Of the server.
    pub own: Times,
    /// The median of the server while somebody writes.
    pub busy_ms: Option<f64>,
    /// Of each peer.
    pub peers: Vec<Times>,
    /// What was found when its answer was compared.
    pub verdict: Verdict,
}

/// Times in milliseconds; those that were not measured are missing.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// With nothing in memory.
    pub cold_ms: Option<f64>,
    /// The median of the others.
    pub warm_ms: Option<f64>,
    /// Processor time of each of those, on all cores.
    pub cpu_ms: Option<f64>,
}

/// What was found about an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There was nothing to compare it with.
    Unchecked,
    /// It is that of the peer.
    Equal,
    /// It is another one.
    Differs(String),
    /// The server answered with an error.
    Refused(String),
}

impl SqlResult {
    /// Answers that are wrong or missing, and how many were asked for.
    pub fn faults(&self) -> (usize, usize) {
        let is_fault = |query: &&QueryTimes| !matches!(query.verdict, Verdict::Equal | Verdict::Unchecked);
        (self.queries.iter().filter(is_fault).count(), self.queries.len())
    }

    /// The geometric mean of how many times as long as a peer the server took.
    pub fn ratio(&self, peer: usize, times: fn(&Times) -> Option<f64>) -> Option<f64> {
        // Times of the processor are counted in hundredths of a second: a short query may have none.
        let ratio = |query: &QueryTimes| {
            let (own, other) = (times(&query.own)?, times(query.peers.get(peer)?)?);
            (own > 0.0 && other > 0.0).then_some(own / other)
        };
        let logarithms: Vec<f64> = self.queries.iter().filter_map(ratio).map(f64::ln).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        (!logarithms.is_empty()).then(|| mean.exp())
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.benchmark);
        if !self.loads.is_empty() {
            text.push_str(&align(&self.load_rows()));
            let sizes = [
                ("server CPU-s", self.load_cpu_seconds.map(|seconds| format!("{seconds:.2}"))),
                ("on disk, log included", self.disk_bytes.map(|size| bytes(size as f64))),
                ("Parquet of the same rows", self.parquet_bytes.map(|size| bytes(size as f64))),
            ];
            for (name, value) in sizes.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
        if !self.queries.is_empty() {
            text.push('\n');
            text.push_str(&align(&self.query_rows()));
            self.put_summary(&mut text);
        }
        if !self.phases.is_empty() {
            text.push('\n');
            text.push_str(&align(&self.phase_rows()));
        }
        text
    }

    fn load_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["table", "rows", "s", "rows/s", "MB/s sent"].map(str::to_owned).to_vec()];
        for load in &self.loads {
            let seconds = load.seconds.max(1e-9);
            rows.push(vec![
                load.table.clone(),
                count(load.rows as f64),
                format!("{:.2}", load.seconds),
                count(load.rows as f64 / seconds),
                format!("{:.1}", load.sent_bytes as f64 / 1e6 / seconds),
            ]);
        }
        rows
    }

    fn query_rows(&self) -> Vec<Vec<String>> {
        let is_busy = self.queries.iter().any(|query| query.busy_ms.is_some());
        let mut titles = ["query", "rows", "cold ms", "warm ms", "CPU ms"].map(str::to_owned).to_vec();
        titles.extend(is_busy.then(|| "beside a writer".to_owned()));
        for peer in &self.peers {
            titles.extend([
                format!("{peer}: cold"),
                "warm".to_owned(),
                "CPU".to_owned(),
                "warm ratio".to_owned(),
            ]);
        }
        titles.push("answer".to_owned());
        let mut rows = vec![titles];
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), milliseconds);
        for query in &self.queries {
            let mut row = vec![query.name.clone(), count(query.rows as f64)];
            row.extend([query.own.cold_ms, query.own.warm_ms, query.own.cpu_ms].map(shown));
            row.extend(is_busy.then(|| shown(query.busy_ms)));
            for at in 0..self.peers.len() {
                let times = query.peers.get(at).copied().unwrap_or_default();
                let ratio = query.own.warm_ms.zip(times.warm_ms).map(|(own, peer)| own / peer);
                row.extend([times.cold_ms, times.warm_ms, times.cpu_ms].map(shown));
                row.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
            }
            row.push(match &query.verdict {
                Verdict::Unchecked => "-".to_owned(),
                Verdict::Equal => "equal".to_owned(),
                Verdict::Differs(_) => "differs".to_owned(),
                Verdict::Refused(_) => "refused".to_owned(),
            });
            rows.push(row);
        }
        rows
    }

    fn phase_rows(&self) -> Vec<Vec<String>> {
        let mut rows =
            vec![["", "count", "s", "per s", "p50 ms", "p99 ms", "size", "MB/s"].map(str::to_owned).to_vec()];
        for phase in &self.phases {
            let seconds = phase.seconds.max(1e-9);
            let none = || "-".to_owned();
            let time = |of: fn(&LatencySummary) -> f64| {
                phase.latency.as_ref().map_or_else(none, |all| milliseconds(of(all)))
            };
            rows.push(vec![
                phase.name.clone(),
                count(phase.count as f64),
                format!("{:.2}", phase.seconds),
                count(phase.count as f64 / seconds),
                time(|latency| latency.p50_ms),
                time(|latency| latency.p99_ms),
                phase.bytes.map_or_else(none, |size| bytes(size as f64)),
                phase.bytes.map_or_else(none, |size| format!("{:.1}", size as f64 / 1e6 / seconds)),
            ]);
        }
        rows
    }

    fn put_summary(&self, text: &mut String) {
        for (at, peer) in self.peers.iter().enumerate() {
            let shown = |times: fn(&Times) -> Option<f64>| {
                self.ratio(at, times).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            };
            let (warm, cold) = (shown(|times| times.warm_ms), shown(|times| times.cold_ms));
            let cpu = shown(|times| times.cpu_ms);
            text.push_str(&format!(
                "time beside {peer}, geometric mean: {warm} × warm, {cold} × cold; processor time {cpu} ×\n"
            ));
        }
        if let Some(peak) = self.peak_resident_bytes {
            text.push_str(&format!("server peak memory: {}\n", bytes(peak as f64)));
        }
        let (faults, asked) = self.faults();
        let equal = self.queries.iter().filter(|query| query.verdict == Verdict::Equal).count();
        text.push_str(&format!("{asked} queries, {equal} answers equal, {faults} wrong or refused\n"));
        for query in &self.queries {
            if let Verdict::Differs(words) | Verdict::Refused(words) = &query.verdict {
                text.push_str(&format!("  {}: {words}\n", query.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, warm_ms: f64, peer_ms: f64, verdict: Verdict) -> QueryTimes {
        let times = |warm_ms| Times { warm_ms: Some(warm_ms), ..Times::default() };
        let (own, peers) = (times(warm_ms), vec![times(peer_ms)]);
        QueryTimes { name: name.to_owned(), rows: 1, own, busy_ms: None, peers, verdict }
    }

    #[test]
    fn faults_and_ratios_are_summed_up() {
        let wrong = Verdict::Differs("1 row instead of 2".to_owned());
        let result = SqlResult {
            peers: vec!["DuckDB".to_owned()],
            queries: vec![query("1", 2.0, 1.0, Verdict::Equal), query("2", 8.0, 1.0, wrong)],
            ..SqlResult::default()
        };
        assert_eq!(result.ratio(0, |times| times.warm_ms).map(f64::round), Some(4.0));
        assert_eq!(result.ratio(0, |times| times.cold_ms), None);
        assert_eq!(result.faults(), (1, 2));
        let text = result.text();
        assert!(text.contains("geometric mean: 4.00 × warm, - × cold"), "{text}");
        assert!(
            text.contains("2 queries, 1 answers equal, 1 wrong or refused\n  2: 1 row instead of 2\n"),
            "{text}"
        );
    }
}
