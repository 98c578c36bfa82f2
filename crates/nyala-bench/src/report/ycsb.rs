//! Results of YCSB: what a phase did, over time, and as text. `ycsb_page` draws them.

use super::result::Machine;
use super::table::{align, bytes, count, milliseconds};
use crate::measure::latency::LatencySummary;
use crate::workload::ycsb::ActionKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`YcsbReport`].
pub const YCSB_REPORT_VERSION: u32 = 1;
/// Windows whose mean rate is compared with the others': merges and flushes are seconds long.
const STEADY_WINDOWS: usize = 10;

/// Runs of YCSB on some servers, as a file has them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct YcsbReport {
    /// Of the file's form.
    pub version: u32,
    /// `ycsb`.
    pub benchmark: String,
    /// When the first run began, in seconds since 1970.
    pub started_at: u64,
    /// Where it ran.
    pub machine: Machine,
    /// What rows and runs were like.
    pub parameters: Vec<(String, String)>,
    /// The runs.
    pub runs: Vec<YcsbRun>,
}

/// A run: the phases on one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct YcsbRun {
    /// Of the server and what was changed about it.
    pub name: String,
    /// Phases, one after the other.
    pub results: Vec<YcsbResult>,
}

/// What a phase did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct YcsbResult {
    /// `load` or the workload.
    pub phase: String,
    /// Actions, or rows when loading.
    pub actions: u64,
    /// How long it took.
    pub seconds: f64,
    /// CPU time of the process; if the store is in this process, its clients are included.
    pub cpu_seconds: f64,
    /// Bytes written to storage for each byte of rows that was written, as the system counts them: in whole pages.
    pub write_amplification: Option<f64>,
    /// The same, as the store counts what its log, flushes and merges write.
    pub store_write_amplification: Option<f64>,
    /// The maximum of resident memory so far.
    pub peak_resident_bytes: u64,
    /// Writes that the store refused for want of memory; they were sent again.
    pub rejected_writes: Option<f64>,
    /// Questions to Bloom filters.
    pub filter_lookups_per_action: Option<f64>,
    /// What happened over time.
    pub windows: Vec<Window>,
    /// Latencies of requests by kind of action.
    pub latencies: BTreeMap<ActionKind, LatencySummary>,
    /// How they are distributed: pairs of a latency in ms and the share of requests that took about so long.
    pub densities: BTreeMap<ActionKind, Vec<[f64; 2]>>,
    /// The number of peaks of each distribution.
    pub peaks: BTreeMap<ActionKind, usize>,
    /// Numbers of the store: how much they grew per action.
    pub statistics: Vec<(String, f64)>,
}

/// A part of a phase. What the process or the store does not tell is `None`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// When it ended, since the phase began.
    pub seconds: f64,
    /// Actions that ended in it, per second.
    pub actions_per_second: f64,
    /// How long they took, if there were any.
    pub latency: Option<Percentiles>,
    /// Cores that were busy.
    pub cores: Option<f64>,
    /// Resident memory of the process at its end.
    pub resident_bytes: Option<u64>,
    /// Memory in use, as the store counts it.
    pub memory_bytes: Option<f64>,
    /// By flushes.
    pub flushed_bytes_per_second: Option<f64>,
    /// By merges.
    pub compacted_bytes_per_second: Option<f64>,
    /// Refused for want of memory.
    pub rejected_writes_per_second: Option<f64>,
    /// Slowed for want of memory.
    pub slowed_writes_per_second: Option<f64>,
    /// Questions to Bloom filters.
    pub filter_lookups_per_action: Option<f64>,
    /// Bytes written to storage for each byte of rows, since the phase began, as the system counts them.
    pub write_amplification: Option<f64>,
    /// The same, as the store counts them.
    pub store_write_amplification: Option<f64>,
}

/// Latencies of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50_ms: f64,
    /// 95 % are not slower.
    pub p95_ms: f64,
    /// 99 % are not slower.
    pub p99_ms: f64,
    /// Slowest.
    pub max_ms: f64,
}

impl YcsbResult {
    /// Actions per second.
    pub fn rate(&self) -> f64 {
        self.actions as f64 / self.seconds
    }

    /// CPU time of the process for each action; `None` if it was not measured.
    pub fn cpu_us_per_action(&self) -> Option<f64> {
        (self.cpu_seconds > 0.0).then(|| self.cpu_seconds * 1e6 / self.actions.max(1) as f64)
    }

    /// Mean rates of ten windows each, the last ones left out if they are fewer.
    fn steady_rates(&self) -> Vec<f64> {
        let mean = |windows: &[Window]| {
            windows.iter().map(|window| window.actions_per_second).sum::<f64>() / windows.len() as f64
        };
        self.windows.chunks_exact(STEADY_WINDOWS).map(mean).collect()
    }

    /// The slowest ten seconds as a part of the median: small if throughput collapsed for a while.
    pub fn steadiness(&self) -> Option<f64> {
        let mut rates = self.steady_rates();
        rates.sort_by(f64::total_cmp);
        Some(rates.first()? / rates.get(rates.len() / 2)?)
    }

    /// The rate of the last third as a part of the first third's: less than 1 if it goes down.
    pub fn trend(&self) -> Option<f64> {
        let rates = self.steady_rates();
        let third = rates.len() / 3;
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        (third > 0).then(|| sum(&rates[rates.len() - third..]) / sum(&rates[..third]))
    }

    /// As lines of text.
    pub fn text(&self) -> String {
        let head = ["", "requests", "mean ms", "p50", "p95", "p99", "max", "peaks"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (kind, latency) in &self.latencies {
            let times = [latency.mean_ms, latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms];
            let mut row = vec![kind.to_string(), count(latency.count as f64)];
            row.extend(times.map(milliseconds));
            row.push(self.peaks.get(kind).map_or_else(String::new, usize::to_string));
            rows.push(row);
        }
        let mut text = format!("{}: {} actions/s", self.phase, count(self.rate()));
        if let Some(cpu_us) = self.cpu_us_per_action() {
            text.push_str(&format!(", {cpu_us:.1} µs of CPU each"));
        }
        if self.peak_resident_bytes > 0 {
            text.push_str(&format!(", {} resident at most", bytes(self.peak_resident_bytes as f64)));
        }
        for (value, words) in [
            (self.steadiness(), "slowest ten seconds, as a part of the median"),
            (self.trend(), "last third, as a part of the first"),
            (self.write_amplification, "bytes written per byte"),
            (self.store_write_amplification, "of them by log, flushes and merges"),
            (self.filter_lookups_per_action, "filter look-ups each"),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(", {value:.2} {words}"));
            }
        }
        if let Some(rejected) = self.rejected_writes.filter(|rejected| *rejected > 0.0) {
            text.push_str(&format!(", {} writes refused and sent again", count(rejected)));
        }
        text.push('\n');
        text.push_str(&align(&rows));
        for (name, value) in &self.statistics {
            text.push_str(&format!("  {name}: {value:.4} per action\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collapses_and_slopes_are_found() {
        let rates = |rates: &[f64]| {
            let windows = rates.iter().flat_map(|rate| {
                (0..STEADY_WINDOWS).map(|_| Window { actions_per_second: *rate, ..Window::default() })
            });
            YcsbResult { windows: windows.collect(), ..YcsbResult::default() }
        };
        let flat = rates(&[10.0, 10.0, 10.0]);
        assert_eq!((flat.steadiness(), flat.trend()), (Some(1.0), Some(1.0)));
        let collapsed = rates(&[10.0, 1.0, 10.0]);
        assert_eq!((collapsed.steadiness(), collapsed.trend()), (Some(0.1), Some(1.0)));
        let falling = rates(&[10.0, 8.0, 5.0]);
        assert_eq!((falling.steadiness(), falling.trend()), (Some(0.625), Some(0.5)));
        assert_eq!((rates(&[]).steadiness(), rates(&[1.0]).trend()), (None, None));
    }

    #[test]
    fn reports_survive_json() {
        let result = YcsbResult {
            windows: vec![Window { latency: Some(Percentiles::default()), ..Window::default() }],
            densities: [(ActionKind::Insert, vec![[0.1, 1.0]])].into(),
            ..YcsbResult::default()
        };
        let json = serde_json::to_string(&result).unwrap();
        let again: YcsbResult = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), json);
    }
}
