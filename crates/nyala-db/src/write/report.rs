//! The report of a write request, and counters of all requests.

use crate::ingest::ParseErrors;
use nyala_core::Result;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of a request.
#[derive(Debug, Clone, Default)]
pub struct WriteReport {
    /// The number of stored points.
    pub written: u64,
    /// Lines that could not be parsed.
    pub unreadable: ParseErrors,
    /// The number of points older than their retention policy allows.
    pub expired: u64,
    /// Other points that were parsed but not stored.
    pub dropped: Option<Dropped>,
    /// Whether a shard's points were not stored because a field that was new there had two types.
    pub conflict: bool,
    /// Whether points were not stored because of a quota of series.
    pub is_over_quota: bool,
    /// The number of stored values of each measurement, if they are counted.
    pub values: Option<BTreeMap<String, u64>>,
}

impl WriteReport {
    /// Adds the report of another part of the request.
    pub fn add(&mut self, other: Self) {
        self.unreadable.append(other.unreadable);
        self.written += other.written;
        self.expired += other.expired;
        self.conflict |= other.conflict;
        self.is_over_quota |= other.is_over_quota;
        match (&mut self.dropped, other.dropped) {
            (Some(own), Some(other)) => own.count += other.count,
            (own, other) => *own = own.take().or(other),
        }
    }

    /// InfluxDB's message about points that were not stored, if there are any. Of several kinds of errors it reports
    /// one.
    pub fn complaint(&self) -> Option<String> {
        let partial = |reason: &str, count: u64| Some(format!("partial write: {reason} dropped={count}"));
        if self.conflict {
            return Some("field type conflict".to_owned());
        }
        if let Some(dropped) = &self.dropped {
            return partial(&dropped.reason, dropped.count);
        }
        if self.expired > 0 {
            return partial("points beyond retention policy", self.expired);
        }
        if self.unreadable.is_empty() {
            return None;
        }
        let text = self.unreadable.text();
        let text = String::from_utf8_lossy(&text);
        match self.written {
            0 => Some(text.into_owned()),
            _ => partial(&text, 0),
        }
    }
}

/// Points that were parsed but not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Why the first of them was not stored.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub struct WriteCounts {
    /// Requests.
    pub requests: AtomicU64,
    /// Stored points.
    pub written: AtomicU64,
    /// Points that were parsed but not stored.
    pub dropped: AtomicU64,
    /// Failed requests.
    pub failed: AtomicU64,
    /// Series that had to be looked up in their index, because they were not in the writer's cache.
    pub looked_up: AtomicU64,
}

impl WriteCounts {
    pub(super) fn note(&self, written: &Result<WriteReport>) {
        let add = |counter: &AtomicU64, count| {
            counter.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.requests, 1);
        match written {
            Ok(report) => {
                add(&self.written, report.written);
                let dropped = report.expired + report.dropped.as_ref().map_or(0, |dropped| dropped.count);
                if dropped > 0 {
                    add(&self.dropped, dropped);
                }
            }
            Err(_) => add(&self.failed, 1),
        }
    }
}
