//! Are the answers right? Computed again, naively, from the generator's model, and compared.
//!
//! [`answer`] reads a server's JSON row by row, [`expected`] computes what it should say from the model
//! alone (no index, no block, no shared code with any server), [`compare`] names the first difference.

pub mod answer;
pub mod compare;
pub mod expected;

use crate::time::Span;
use crate::workload::cpu::{CpuConfig, FIELD_COUNT};
use crate::workload::host::Host;

/// A data set with the measurement `cpu`, as its generator knows it.
pub trait CpuModel {
    /// Number of hosts.
    fn hosts(&self) -> u64;

    /// Tags of one host.
    fn host(&self, number: u64) -> Host;

    /// Times (seconds) and values of one host's rows within `span`.
    fn rows(&self, host: u64, span: Span) -> Vec<(i64, [f64; FIELD_COUNT])>;

    /// All times of the data.
    fn span(&self) -> Span;
}

impl CpuModel for CpuConfig {
    fn hosts(&self) -> u64 {
        self.hosts
    }

    fn host(&self, number: u64) -> Host {
        CpuConfig::host(self, number)
    }

    fn rows(&self, host: u64, span: Span) -> Vec<(i64, [f64; FIELD_COUNT])> {
        let times = (0..self.ticks()).map(|tick| self.time_of(tick)).take_while(|&time| time < span.end);
        times
            .zip(self.history(host))
            .filter(|(time, _)| *time >= span.start)
            .map(|(time, row)| (time, row.map(f64::from)))
            .collect()
    }

    fn span(&self) -> Span {
        self.span
    }
}
