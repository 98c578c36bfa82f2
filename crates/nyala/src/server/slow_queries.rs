//! Logs and counts statements that took long (setting `slow-query-threshold`).
//!
//! Statements of all languages are in the list of running queries, which knows their text without passwords. The time until
//! the client has read the answer counts, too.

use super::audit::{LogLimit, shown};
use super::metric::Metric;
use nyala_exec::running::Query;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is slow, and how often that was seen.
#[derive(Debug)]
pub struct SlowQueries {
    threshold: Duration,
    count: AtomicU64,
    lines: LogLimit,
}

impl SlowQueries {
    /// Statements that take so long are slow; `None` if that is zero.
    pub fn new(threshold: Duration) -> Option<Self> {
        (!threshold.is_zero()).then(|| Self {
            threshold,
            count: AtomicU64::new(0),
            lines: LogLimit::default(),
        })
    }

    /// A query has ended.
    pub fn ended(&self, query: &Query) {
        let duration = query.elapsed();
        if duration < self.threshold {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.lines.next() {
            tracing::warn!(
                duration_ms = duration.as_millis() as u64,
                statement = shown(&query.text()),
                database = shown(query.database()),
                user = query.user().map(shown),
                query = query.number(),
                killed = query.is_killed(),
                left_out,
                "a slow query"
            );
        }
    }

    /// How many there were, for `/metrics`.
    pub fn metric(&self) -> Metric {
        let help = "Statements that took slow-query-threshold or longer.";
        Metric::counter("nyala_slow_queries_total", help, self.count.load(Ordering::Relaxed))
    }
}
