//! The schema telegraf-prometheus-v1: which point a data point is.

use super::attributes::Inherited;
use super::{DataPoint, Kind};
use crate::{Point, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Says that a data point has no value.
const NO_RECORDED_VALUE: u64 = 1;

/// Why a data point is no point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NotANumber,
    NoValue,
    Invalid(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::NotANumber => "the value is not a finite number",
            Refused::NoValue => "the data point has no value",
            Refused::Invalid(words) => words,
        })
    }
}

/// The point of a data point.
pub(super) fn point<'a>(
    inherited: &'a mut Inherited<'_>,
    name: &'a str,
    kind: Kind,
    data_point: DataPoint<'a>,
) -> Result<Point<'a>, Refused> {
    if name.is_empty() {
        return Err(Refused::Invalid("a metric without a name"));
    }
    if data_point.flags & NO_RECORDED_VALUE != 0 {
        return Err(Refused::NoValue);
    }
    let time_ns = match data_point.time_ns {
        0 => None,
        time_ns => Some(i64::try_from(time_ns).map_err(|_| Refused::Invalid("the time is out of range"))?),
    };
    let mut fields = Fields::default();
    match kind {
        Kind::Gauge => fields.number("gauge", &data_point)?,
        Kind::Counter => fields.number("counter", &data_point)?,
        Kind::Histogram => fields.histogram(&data_point)?,
        Kind::Summary => fields.summary(&data_point),
        Kind::ExponentialHistogram => {
            return Err(Refused::Invalid(
                "exponential histograms are not understood: let the exporter use explicit buckets",
            ));
        }
    }
    if data_point.start_ns > 0 {
        let start_ns = i64::try_from(data_point.start_ns);
        let start_ns = start_ns.map_err(|_| Refused::Invalid("the start time is out of range"))?;
        fields.0.push(("start_time_unix_nano".into(), Value::Integer(start_ns)));
    }
    let tags = data_point.attributes.over(inherited.tags());
    Ok(Point { measurement: name.into(), tags, fields: fields.0, time_ns })
}

#[derive(Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, Value)>);

impl Fields<'_> {
    fn number(&mut self, name: &'static str, data_point: &DataPoint<'_>) -> Result<(), Refused> {
        let value = data_point.number.ok_or(Refused::NoValue)?;
        if matches!(value, Value::Float(value) if !value.is_finite()) {
            return Err(Refused::NotANumber);
        }
        self.0.push((name.into(), value));
        Ok(())
    }

    /// Fields named after the upper bounds have the counts of all values up to there.
    fn histogram(&mut self, data_point: &DataPoint<'_>) -> Result<(), Refused> {
        let DataPoint { bucket_counts, bounds, .. } = data_point;
        if !bucket_counts.is_empty() && ![bounds.len(), bounds.len() + 1].contains(&bucket_counts.len()) {
            return Err(Refused::Invalid("a histogram has another number of buckets than of bounds"));
        }
        if !bounds.is_sorted_by(|one, next| one < next) || bounds.iter().any(|bound| !bound.is_finite()) {
            return Err(Refused::Invalid("the bounds of a histogram do not increase"));
        }
        self.push("count", data_point.count as f64);
        for (name, value) in [("sum", data_point.sum), ("min", data_point.min), ("max", data_point.max)] {
            value.into_iter().for_each(|value| self.push(name, value));
        }
        let mut count = 0_u64;
        for (index, in_bucket) in bucket_counts.iter().enumerate() {
            count = count.wrapping_add(*in_bucket);
            let name = bounds.get(index).map_or("+Inf".into(), f64::to_string);
            self.push(name, count as f64);
        }
        Ok(())
    }

    fn summary(&mut self, data_point: &DataPoint<'_>) {
        self.push("count", data_point.count as f64);
        self.push("sum", data_point.sum.unwrap_or_default());
        // Of the same quantile the last value is the one, as in the exporter.
        let mut known = HashSet::new();
        let mut is_last = |quantile: f64| known.insert((!quantile.is_nan()).then(|| quantile.to_bits()));
        let from_the_last = data_point.quantiles.iter().rev();
        let values: Vec<_> = from_the_last.filter(|(quantile, _)| is_last(*quantile)).collect();
        for (quantile, value) in values.into_iter().rev() {
            self.push(quantile.to_string(), *value);
        }
    }

    /// Adds a field, but not one that line protocol has no number for: a quantile of no values is not a number.
    fn push(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.0.push((name.into().into(), Value::Float(value)));
        }
    }
}
