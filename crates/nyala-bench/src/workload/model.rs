//! What verification knows of a data set with the measurement `cpu`: its hosts and their rows.

use super::cpu::{CpuConfig, FIELD_COUNT};
use super::host::Host;
use crate::time::Span;

/// A data set with the measurement `cpu`, whose rows can be computed again.
pub trait CpuModel {
    /// Number of hosts.
    fn hosts(&self) -> u64;

    /// Tags of one host.
    fn host(&self, number: u64) -> Host;

    /// Times (seconds) and values of one host's rows within `span`.
    fn rows(&self, host: u64, span: Span) -> Vec<(i64, [f64; FIELD_COUNT])>;

    /// The time span of the data.
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
