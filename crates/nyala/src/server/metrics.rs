//! `/metrics`: collects the metrics of all parts of the server as text.
//!
//! The list of them is `metric_sources` in `assemble.rs`; those of the store are in `storage/`. Latencies come from `request_metrics`, which writes its histograms itself.

use super::metric::Metric;
use super::request_metrics::RequestMetrics;

/// A part of the server that has metrics.
pub type MetricSource = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;

/// All metrics of this server.
pub struct Metrics {
    /// Requests that were answered.
    pub requests: RequestMetrics,
    sources: Vec<MetricSource>,
}

impl Metrics {
    /// Those of requests and of these sources.
    pub fn new(sources: Vec<MetricSource>) -> Self {
        Self { requests: RequestMetrics::default(), sources }
    }

    /// All of them in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let of_sources = self.sources.iter().flat_map(|source| source());
        std::iter::once(self.requests.counts_metric())
            .chain(of_sources)
            .try_for_each(|metric| metric.write(&mut text))
            .and_then(|()| self.requests.write_durations(&mut text))
            .expect("writing to memory does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use std::time::Duration;

    #[test]
    fn a_metric_is_shown_with_its_help_and_labels() {
        let metrics = Metrics::new(vec![Box::new(|| {
            let by_letter = [("letter=\"a\"".to_owned(), 1), ("letter=\"b\"".to_owned(), 2)];
            vec![
                Metric::counter("nyala_words_total", "Words.", 3).with_statistic("words"),
                Metric::histogram("nyala_reads", "Reads.", 2, Duration::from_millis(1_500), [(0.5, 1)]),
                Metric::gauge("nyala_letters", "Letters.", 0).by_labels(by_letter),
            ]
        })]);
        metrics.requests.answered("/write", StatusCode::NO_CONTENT, Duration::from_millis(3));
        metrics.requests.answered("/elsewhere", StatusCode::NOT_FOUND, Duration::from_millis(3));
        let text = metrics.text();
        for part in [
            "# TYPE nyala_http_requests_total counter\n",
            "nyala_http_requests_total{path=\"/write\",status=\"204\"} 1\n",
            "nyala_http_requests_total{path=\"other\",status=\"404\"} 1\n",
            "# HELP nyala_words_total Words.\n# TYPE nyala_words_total counter\nnyala_words_total 3\n",
            "# TYPE nyala_reads histogram\nnyala_reads_bucket{le=\"0.5\"} 1\nnyala_reads_bucket{le=\"+Inf\"} 2\n\
             nyala_reads_sum 1.5\nnyala_reads_count 2\n",
            "# TYPE nyala_letters gauge\nnyala_letters{letter=\"a\"} 1\nnyala_letters{letter=\"b\"} 2\n",
            "# TYPE nyala_http_request_duration_seconds histogram\n",
            "nyala_http_request_duration_seconds_bucket{le=\"0.0025\",path=\"/write\"} 0\n",
            "nyala_http_request_duration_seconds_bucket{le=\"0.005\",path=\"/write\"} 1\n",
            "nyala_http_request_duration_seconds_bucket{le=\"+Inf\",path=\"/write\"} 1\n",
            "nyala_http_request_duration_seconds_count{path=\"/write\"} 1\n",
            "nyala_http_request_duration_seconds_count{path=\"/query\"} 0\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
