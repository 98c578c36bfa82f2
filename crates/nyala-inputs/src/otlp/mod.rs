//! Metrics of OpenTelemetry's protocol (OTLP), in protocol buffers (`binary`) or JSON (`json`).
//!
//! Data points become points as by the exporter of OpenTelemetry's collector for InfluxDB with its default schema,
//! telegraf-prometheus-v1 (`schema`); exemplars are left out. Both forms are read one data point after the other, and an attribute,
//! the attributes of a data point and its buckets have limits: so a small request does not become a large one in memory.

mod attributes;
mod binary;
mod json;
mod schema;

pub use binary::read as read_binary;
pub use json::read as read_json;

use crate::{Point, Value};
use attributes::{Attributes, Inherited};
use nyala_core::{Error, Result};

/// The most attributes of a resource, a scope or a data point. The SDKs' own limit is 128.
const ATTRIBUTES_MAX: usize = 1_024;
/// The longest attribute, as it was sent: as long as a series key of InfluxDB.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// The most buckets or quantiles of a data point.
const BUCKETS_MAX: usize = 4_096;
/// How deep lists in attributes may be nested.
const DEPTH_MAX: usize = 16;

/// Where data points go.
pub(crate) struct Sink<'f> {
    /// Takes points. An error ends the reading.
    pub(crate) take: &'f mut dyn FnMut(Point<'_>) -> Result<()>,
    pub(crate) refused: Refusals,
}

/// Data points that have no form as a point.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// How many.
    pub data_points: u64,
    /// Why, of the first.
    pub words: String,
    /// How many of them are values that are not a number.
    pub not_a_number: u64,
}

/// What the data points of a metric are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A value now, or a sum that also falls or that begins again with each report.
    Gauge,
    /// A sum that only grows.
    Counter,
    Histogram,
    ExponentialHistogram,
    Summary,
}

impl Kind {
    fn of_sum(is_monotonic: bool, temporality: u64) -> Self {
        const CUMULATIVE: u64 = 2;
        if is_monotonic && temporality == CUMULATIVE { Kind::Counter } else { Kind::Gauge }
    }
}

/// A data point, as both forms have it.
#[derive(Debug, Default)]
struct DataPoint<'a> {
    attributes: Attributes<'a>,
    start_ns: u64,
    time_ns: u64,
    flags: u64,
    /// The value of a gauge or a sum.
    number: Option<Number>,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    bucket_counts: Vec<u64>,
    bounds: Vec<f64>,
    /// Quantiles and their values.
    quantiles: Vec<(f64, f64)>,
}

/// A value that may be infinite.
type Number = Value;

impl Sink<'_> {
    fn data_point(
        &mut self,
        inherited: &mut Inherited<'_>,
        name: &str,
        kind: Kind,
        data_point: DataPoint<'_>,
    ) -> Result<()> {
        match schema::point(inherited, name, kind, data_point) {
            Ok(point) => (self.take)(point),
            Err(refused) => {
                self.refused.data_points += 1;
                self.refused.not_a_number += u64::from(refused == schema::Refused::NotANumber);
                if self.refused.words.is_empty() {
                    self.refused.words = format!("metric {name:?}: {refused}");
                }
                Ok(())
            }
        }
    }
}

/// Adds a value to a list that has a limit.
fn push_within<T>(list: &mut Vec<T>, value: T, limit: usize, what: &str) -> Result<()> {
    if list.len() == limit {
        return Err(Error::limit(format!("more than {limit} {what}")));
    }
    list.push(value);
    Ok(())
}
