//! Exact percentiles of bounded numbers of latencies.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most latencies that one recorder keeps (8 bytes each); more are dropped.
pub const LATENCY_LIMIT: usize = 16 << 20;
/// Points of the distribution that go into a report.
const CURVE_POINTS: usize = 64;

/// Latencies as they are measured, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    nanoseconds: Vec<u64>,
}

impl Latencies {
    /// Adds one latency; beyond [`LATENCY_LIMIT`] it is dropped.
    #[inline]
    pub fn add(&mut self, latency: Duration) {
        if self.nanoseconds.len() < LATENCY_LIMIT {
            self.nanoseconds.push(latency.as_nanos() as u64);
        }
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: Latencies) {
        let room = LATENCY_LIMIT - self.nanoseconds.len();
        self.nanoseconds.extend(other.nanoseconds.into_iter().take(room));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.nanoseconds.len()
    }

    /// Their summary; `None` without any.
    pub fn summary(mut self) -> Option<LatencySummary> {
        self.nanoseconds.sort_unstable();
        let sorted = &self.nanoseconds;
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let sum: u128 = sorted.iter().map(|&latency| u128::from(latency)).sum();
        Some(LatencySummary {
            count: sorted.len() as u64,
            min_ms: milliseconds(first),
            mean_ms: sum as f64 / sorted.len() as f64 / 1e6,
            p50_ms: milliseconds(percentile(sorted, 0.50)),
            p95_ms: milliseconds(percentile(sorted, 0.95)),
            p99_ms: milliseconds(percentile(sorted, 0.99)),
            max_ms: milliseconds(last),
            curve: LatencySummary::shares()
                .map(|share| [share, milliseconds(percentile(sorted, share))])
                .collect(),
        })
    }
}

/// The smallest latency that at least `share` of all do not exceed.
fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// A summary of latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of requests.
    pub count: u64,
    /// Fastest.
    pub min_ms: f64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95 % are not slower.
    pub p95_ms: f64,
    /// 99 % are not slower.
    pub p99_ms: f64,
    /// Slowest.
    pub max_ms: f64,
    /// Pairs of share and latency, for plots.
    pub curve: Vec<[f64; 2]>,
}

impl LatencySummary {
    /// The shares of the curve: denser towards the slow end, where the shape matters, 1 - 10^(-i/16).
    pub(super) fn shares() -> impl Iterator<Item = f64> {
        (0..CURVE_POINTS).map(|point| 1.0 - 10f64.powf(-(point as f64) / 16.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut latencies = Latencies::default();
        for millisecond in (1..=200).rev() {
            latencies.add(Duration::from_millis(millisecond));
        }
        let summary = latencies.summary().unwrap();
        assert_eq!((summary.count, summary.min_ms, summary.max_ms), (200, 1.0, 200.0));
        assert_eq!((summary.p50_ms, summary.p95_ms, summary.p99_ms), (100.0, 190.0, 198.0));
        assert_eq!(summary.mean_ms, 100.5);
        assert!(summary.curve.windows(2).all(|pair| pair[0][1] <= pair[1][1]));
        assert_eq!(Latencies::default().summary(), None);
    }
}
