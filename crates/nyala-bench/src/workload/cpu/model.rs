//! What the data sets of hosts have in common, and what verification knows of them.

use super::super::host::Host;
use super::{FIELD_COUNT, Walk};
use crate::random::Ziggurat;
use crate::time::Span;

/// The parameters of a data set of hosts, each of which has the measurement `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostsConfig {
    /// Number of hosts.
    pub hosts: u64,
    /// Times of the data: every multiple of `interval_seconds` from its start, before its end.
    pub span: Span,
    /// Seconds between a host's reports.
    pub interval_seconds: i64,
    /// Seed of the data.
    pub seed: u64,
}

impl HostsConfig {
    /// How many times each host reports.
    pub fn ticks(&self) -> u64 {
        (self.span.seconds() / self.interval_seconds) as u64
    }

    /// How many reports the data set has: one per host and tick.
    pub fn reports(&self) -> u64 {
        self.hosts * self.ticks()
    }

    /// The time of a tick, in seconds since 1970.
    pub fn time_of(&self, tick: u64) -> i64 {
        self.span.start + tick as i64 * self.interval_seconds
    }

    /// The host numbered `number`.
    pub fn host(&self, number: u64) -> Host {
        Host::new(self.seed, number)
    }

    /// One host's times within `span` and the values of its walks, after `written` made of them what is read again.
    pub(in crate::workload) fn walked(&self, host: u64, span: Span, written: fn(f64) -> f64) -> Vec<HostRow> {
        let mut walk = Walk::new(self.seed, host);
        let mut rows = Vec::new();
        for time in (0..self.ticks()).map(|tick| self.time_of(tick)).take_while(|&time| time < span.end) {
            if time >= span.start {
                rows.push((time, walk.values.map(written)));
            }
            walk.advance(Ziggurat::shared());
        }
        rows
    }
}

/// A row's time (seconds) and values.
pub type HostRow = (i64, [f64; FIELD_COUNT]);

/// A data set with the measurement `cpu`, whose rows can be computed again.
pub trait CpuModel {
    /// Its parameters.
    fn config(&self) -> &HostsConfig;

    /// The rows of one host within `span`.
    fn rows(&self, host: u64, span: Span) -> Vec<HostRow>;
}
