//! Requests that were answered, counted by path and status, and how long writes and queries took.
//!
//! Recording a request costs one atomic addition. For writes and queries it also takes the histogram's lock for a few
//! instructions. Nothing is allocated.

use super::metric::Metric;
use hyper::StatusCode;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Paths that are counted apart. Those of writes and queries come first, and their latencies are measured.
const KNOWN_PATHS: [&str; 12] = [
    "/write",
    "/query",
    "/api/sql",
    "/api/v2/write",
    "/api/v1/prom/write",
    "/api/v1/prom/read",
    "/v1/metrics",
    "/ping",
    "/health",
    "/ready",
    "/metrics",
    "/status",
];
/// How many of these paths are writes and queries.
const MEASURED_PATHS: usize = 7;

/// Upper bounds of latencies, seconds: from light requests, which take a tenth of a millisecond, to heavy queries.
const DURATION_BOUNDS: [f64; 16] =
    [1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The range of status codes.
const STATUSES: Range<u16> = 100..600;
/// Counts of the requests of a path by status.
type Counts = [AtomicU64; (STATUSES.end - STATUSES.start) as usize];

/// Counts and latencies of requests.
pub struct RequestMetrics {
    /// Of the known paths, and of the others together.
    counts: Box<[Counts]>,
    /// Of the measured paths.
    durations: [Histogram; MEASURED_PATHS],
    /// Writes `durations` as text.
    registry: Registry,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let none = || -> Counts { std::array::from_fn(|_| AtomicU64::new(0)) };
        let histogram: fn() -> Histogram = || Histogram::new(DURATION_BOUNDS);
        let family = Family::<[(&str, &str); 1], Histogram>::new_with_constructor(histogram);
        let durations =
            std::array::from_fn(|path| family.get_or_create_owned(&[("path", KNOWN_PATHS[path])]));
        let mut registry = Registry::default();
        let help = "Time from the end of a request's header until its answer begins to be sent";
        registry.register("nyala_http_request_duration_seconds", help, family);
        Self { counts: (0..=KNOWN_PATHS.len()).map(|_| none()).collect(), durations, registry }
    }
}

impl RequestMetrics {
    /// Records a request that was answered; unknown paths are counted together.
    pub fn answered(&self, path: &str, status: StatusCode, duration: Duration) {
        let path = KNOWN_PATHS.iter().position(|known| *known == path).unwrap_or(KNOWN_PATHS.len());
        let status = status.as_u16().clamp(STATUSES.start, STATUSES.end - 1) - STATUSES.start;
        self.counts[path][usize::from(status)].fetch_add(1, Ordering::Relaxed);
        if let Some(durations) = self.durations.get(path) {
            durations.observe(duration.as_secs_f64());
        }
    }

    /// Requests by path and status.
    pub fn counts(&self) -> Vec<(&'static str, u16, u64)> {
        let paths = KNOWN_PATHS.into_iter().chain(["other"]);
        let by_status = paths.zip(&self.counts).flat_map(|(path, counts)| {
            let count =
                move |(status, count): (u16, &AtomicU64)| (path, status, count.load(Ordering::Relaxed));
            STATUSES.zip(counts).map(count)
        });
        by_status.filter(|(_, _, count)| *count > 0).collect()
    }

    /// The same as a metric.
    pub(super) fn counts_metric(&self) -> Metric {
        let labels = |(path, status, count)| (format!("path=\"{path}\",status=\"{status}\""), count);
        Metric::counter("nyala_http_requests_total", "Requests answered.", 0)
            .by_labels(self.counts().into_iter().map(labels))
    }

    /// Appends the histograms in Prometheus' text format.
    pub(super) fn write_durations(&self, text: &mut String) -> std::fmt::Result {
        encode_registry(text, &self.registry)
    }
}
