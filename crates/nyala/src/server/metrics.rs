//! Counts in Prometheus' text format.

use hyper::StatusCode;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

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

/// Counts of this server.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    sources: Vec<MetricSource>,
}

impl Metrics {
    /// Counts that also show what `sources` tell.
    pub fn new(sources: Vec<MetricSource>) -> Self {
        Self { requests: Mutex::default(), sources }
    }

    /// Counts a request; unknown paths together.
    pub fn request(&self, path: &str, status: StatusCode) {
        let path = KNOWN_PATHS.into_iter().find(|known| *known == path).unwrap_or("other");
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((path, status.as_u16())).or_default() += 1;
    }

    /// Requests by path and status.
    pub fn counts(&self) -> Vec<(&'static str, u16, u64)> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|((path, status), count)| (*path, *status, *count)).collect()
    }

    /// All metrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        text.push_str("# HELP nyala_http_requests_total Requests answered.\n");
        text.push_str("# TYPE nyala_http_requests_total counter\n");
        for ((path, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            let line =
                format_args!("nyala_http_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}\n");
            text.write_fmt(line).expect("writing to memory does not fail");
        }
        self.sources.iter().for_each(|source| source(&mut text));
        text
    }
}
