//! Functions that users of other time-series databases expect, besides those of DataFusion.

mod avg;
mod converted;
mod digests;
mod first_last;
mod guarded;
mod interval_sum;
mod intervals;
mod moving_sum;
mod numbers;
mod ordered_set;
mod padding;
mod patterns;
mod plain;
mod sum;
mod time_bucket;

pub(crate) use time_bucket::{TimeBucket, buckets as time_buckets};

use crate::buckets::Buckets;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;

/// Makes the functions known to a planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(TimeBucket::default())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(first_last::FirstLast::first())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(first_last::FirstLast::last())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(sum::CheckedSum::default())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(avg::Average::default())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(ordered_set::OrderedSet::mode())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(ordered_set::OrderedSet::percentile())))?;
    let plain = [
        digests::FUNCTIONS,
        intervals::FUNCTIONS,
        numbers::FUNCTIONS,
        padding::FUNCTIONS,
        patterns::FUNCTIONS,
    ];
    plain.into_iter().try_for_each(|functions| plain::register(state, functions))?;
    guarded::register(state)
}

/// The buckets that a call with constant arguments divides its second argument into; `None` if it is another function, or
/// not all of its other arguments are constant.
pub(crate) fn bucket_of(call: &ScalarFunctionExpr) -> Option<Buckets> {
    let constant = |position: usize| {
        call.args().get(position).and_then(|own| own.downcast_ref::<Literal>()).map(Literal::value)
    };
    let others = match call.args().len() {
        2 => None,
        3 => Some(constant(2)?),
        _ => return None,
    };
    match call.name() {
        "date_trunc" => Buckets::of_unit(constant(0)?.try_as_str()??),
        "date_bin" => {
            let origin_ns = others.map_or(Some(0), time_ns)?;
            Buckets::of_interval(interval(constant(0)?)?, Some(origin_ns), None)
        }
        "time_bucket" => time_bucket::buckets(constant(0)?, others).ok(),
        _ => None,
    }
}

/// Months, days and nanoseconds of an interval.
pub(crate) fn interval(value: &ScalarValue) -> Option<(i32, i32, i64)> {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(own)) => Some((own.months, own.days, own.nanoseconds)),
        ScalarValue::IntervalDayTime(Some(own)) => {
            Some((0, own.days, i64::from(own.milliseconds) * 1_000_000))
        }
        ScalarValue::IntervalYearMonth(Some(months)) => Some((*months, 0, 0)),
        _ => None,
    }
}

/// A time, ns since 1970.
pub(crate) fn time_ns(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(Some(ns), _) => Some(*ns),
        ScalarValue::TimestampMicrosecond(Some(us), _) => us.checked_mul(1_000),
        ScalarValue::TimestampMillisecond(Some(ms), _) => ms.checked_mul(1_000_000),
        ScalarValue::TimestampSecond(Some(s), _) => s.checked_mul(1_000_000_000),
        _ => None,
    }
}
