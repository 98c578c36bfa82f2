//! A metric: its name, kind, help and values. Each metric of the server is written once, as a [`Metric`], by the module
//! that counts it.
//!
//! Some counts are statistics of `SHOW STATS` as well: such a metric carries that name too.

use nyala_query::report::{Datum, Report};
use std::fmt::Write;

/// What can happen to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It only grows, until the server is started again.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A metric and its values now.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// Its name in SHOW STATS, if it is there.
    statistic: Option<&'static str>,
    /// By labels, written as `{path="/write"}`, or empty.
    values: Vec<(String, u64)>,
}

impl Metric {
    /// A count of what happened since the start.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, kind: Kind::Counter, help, statistic: None, values: vec![(String::new(), value)] }
    }

    /// What there is now.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { kind: Kind::Gauge, ..Self::counter(name, help, value) }
    }

    /// Several values instead of one, each with the label pairs that tell it apart.
    #[must_use]
    pub fn by_labels(self, values: impl IntoIterator<Item = (String, u64)>) -> Self {
        let values = values.into_iter().map(|(labels, value)| (format!("{{{labels}}}"), value)).collect();
        Self { values, ..self }
    }

    /// Shows its value in SHOW STATS too.
    #[must_use]
    pub fn as_statistic(self, name: &'static str) -> Self {
        Self { statistic: Some(name), ..self }
    }

    /// Appends the metric in Prometheus' text format.
    pub(super) fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { name, kind, help, values, .. } = self;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        values.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{labels} {value}"))
    }
}

/// Those of some metrics that are statistics, as a report of SHOW STATS.
pub fn statistics(name: &str, metrics: &[Metric]) -> Report {
    let of_metric = |metric: &Metric| Some((metric.statistic?, Datum::count(metric.values.first()?.1)));
    Report::new(name, metrics.iter().filter_map(of_metric))
}
