//! A metric: its name, kind, help and values. Each metric of the server is written once, as a [`Metric`], by the module
//! that counts it.
//!
//! Some counts are statistics of `SHOW STATS` as well: such a metric carries that name too.

use nyala_query::report::{Datum, Report};
use std::fmt::{Display, Write};
use std::time::Duration;

/// What can happen to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It only grows, until the server is started again.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts durations by upper bounds.
    Histogram,
}

/// A metric and its values now.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// Its name in SHOW STATS, if it is there.
    statistic: Option<&'static str>,
    /// By what follows the name: labels written as `{path="/write"}`, or nothing.
    values: Vec<(String, f64)>,
}

impl Metric {
    /// A count of what happened since the start.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, kind: Kind::Counter, help, statistic: None, values: vec![(String::new(), value as f64)] }
    }

    /// Time that was used since the start, in seconds.
    pub fn seconds(name: &'static str, help: &'static str, used: Duration) -> Self {
        Self { values: vec![(String::new(), used.as_secs_f64())], ..Self::counter(name, help, 0) }
    }

    /// What there is now.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { kind: Kind::Gauge, ..Self::counter(name, help, value) }
    }

    /// How long something took.
    pub fn duration(name: &'static str, help: &'static str, duration: Duration) -> Self {
        let values = vec![(String::new(), duration.as_secs_f64())];
        Self { name, kind: Kind::Gauge, help, statistic: None, values }
    }

    /// Durations: their number, their sum, and for some upper bounds in seconds, how many were not longer.
    pub fn histogram(
        name: &'static str,
        help: &'static str,
        count: u64,
        sum: Duration,
        bounds: impl IntoIterator<Item = (f64, u64)>,
    ) -> Self {
        let bucket = |bound: &dyn Display, count| (format!("_bucket{{le=\"{bound}\"}}"), count as f64);
        let mut values: Vec<_> = bounds.into_iter().map(|(bound, count)| bucket(&bound, count)).collect();
        let sum = ("_sum".to_owned(), sum.as_secs_f64());
        values.extend([bucket(&"+Inf", count), sum, ("_count".to_owned(), count as f64)]);
        Self { name, kind: Kind::Histogram, help, statistic: None, values }
    }

    /// Several values instead of one, each with the label pairs that tell it apart.
    #[must_use]
    pub fn by_labels(self, values: impl IntoIterator<Item = (String, u64)>) -> Self {
        let values =
            values.into_iter().map(|(labels, value)| (format!("{{{labels}}}"), value as f64)).collect();
        Self { values, ..self }
    }

    /// Shows its value in SHOW STATS too.
    #[must_use]
    pub fn with_statistic(self, name: &'static str) -> Self {
        Self { statistic: Some(name), ..self }
    }

    /// Appends the metric in Prometheus' text format.
    pub(super) fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { name, kind, help, values, .. } = self;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        values.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{labels} {value}"))
    }
}

/// Those of some metrics that are statistics, as a report of SHOW STATS.
pub fn statistics(name: &str, metrics: &[Metric]) -> Report {
    let of_metric =
        |metric: &Metric| Some((metric.statistic?, Datum::count(metric.values.first()?.1 as u64)));
    Report::new(name, metrics.iter().filter_map(of_metric))
}
