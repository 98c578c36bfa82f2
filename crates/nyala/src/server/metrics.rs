//! Counts in Prometheus' text format.

use hyper::StatusCode;
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of further metrics: appends them in the text format.
pub type MetricSource = Box<dyn Fn(&mut String) + Send + Sync>;

/// Paths that are counted apart.
const KNOWN_PATHS: [&str; 10] = [
    "/write",
    "/query",
    "/ping",
    "/health",
    "/ready",
    "/metrics",
    "/status",
    "/api/v2/write",
    "/api/v1/prom/write",
    "/api/v1/prom/read",
];

/// Statuses are from 100 on, and there are so many of them.
const STATUSES: Range<u16> = 100..600;
/// Counts of the requests of a path by status.
type Counts = [AtomicU64; (STATUSES.end - STATUSES.start) as usize];

/// Counts of this server.
pub struct Metrics {
    /// Of the known paths, and of the others together.
    requests: Box<[Counts]>,
    sources: Vec<MetricSource>,
}

impl Metrics {
    /// Counts that also show what `sources` tell.
    pub fn new(sources: Vec<MetricSource>) -> Self {
        let none = || -> Counts { std::array::from_fn(|_| AtomicU64::new(0)) };
        Self { requests: (0..=KNOWN_PATHS.len()).map(|_| none()).collect(), sources }
    }

    /// Counts a request; unknown paths together.
    pub fn request(&self, path: &str, status: StatusCode) {
        let path = KNOWN_PATHS.iter().position(|known| *known == path).unwrap_or(KNOWN_PATHS.len());
        let status = status.as_u16().clamp(STATUSES.start, STATUSES.end - 1) - STATUSES.start;
        self.requests[path][usize::from(status)].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests by path and status.
    pub fn counts(&self) -> Vec<(&'static str, u16, u64)> {
        let paths = KNOWN_PATHS.into_iter().chain(["other"]);
        let by_status = paths.zip(&self.requests).flat_map(|(path, counts)| {
            let count =
                move |(status, count): (u16, &AtomicU64)| (path, status, count.load(Ordering::Relaxed));
            STATUSES.zip(counts).map(count)
        });
        by_status.filter(|(_, _, count)| *count > 0).collect()
    }

    /// All metrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        text.push_str("# HELP nyala_http_requests_total Requests answered.\n");
        text.push_str("# TYPE nyala_http_requests_total counter\n");
        for (path, status, count) in self.counts() {
            let line =
                format_args!("nyala_http_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}\n");
            text.write_fmt(line).expect("writing to memory does not fail");
        }
        self.sources.iter().for_each(|source| source(&mut text));
        text
    }
}
