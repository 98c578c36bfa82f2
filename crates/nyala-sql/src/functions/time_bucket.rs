//! `time_bucket(width, time [, origin | zone])`: the start of the bucket that holds a time, as in TimescaleDB.
//!
//! Without an origin, buckets are counted from Monday, 3 January 2000, and months from January 2000. With a zone, days and
//! months begin at its midnight, and a bucket over a change of clocks is longer or shorter. `buckets.rs` computes; here its arguments
//! are read.

use super::{interval, time_ns};
use crate::buckets::{Buckets, zone_of};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::unknown_bounds;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeBucket {
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The buckets of a width, and an origin or a zone.
pub(crate) fn buckets(width: &ScalarValue, third: Option<&ScalarValue>) -> SqlResult<Buckets> {
    let invalid = |words: &str| SqlError::new(SqlState::INVALID_PARAMETER, format!("time_bucket: {words}"));
    let width = interval(width).ok_or_else(|| invalid("the width must be a constant interval"))?;
    let (mut origin_ns, mut zone) = (None, None);
    match third {
        None => {}
        Some(value) => match value.try_as_str().flatten() {
            Some(name) => {
                let words = |error: nyala_core::Error| invalid(&error.to_string());
                zone = Some(zone_of(name).map_err(words)?);
            }
            None => {
                let origin = time_ns(value);
                let words = "the third argument must be a constant origin or the name of a time zone";
                origin_ns = Some(origin.ok_or_else(|| invalid(words))?);
            }
        },
    }
    if width.0 != 0 && (width.1, width.2) != (0, 0) {
        return Err(invalid("a width has months, or days and times, but not both"));
    }
    Buckets::of_interval(width, origin_ns, zone).ok_or_else(|| match width.0 {
        0 => invalid("the width must be positive"),
        _ => invalid("the width must be positive, and buckets of months begin with a month"),
    })
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let refused = || {
            let words = "time_bucket takes an interval, a time, and an origin or the name of a time zone";
            SqlError::new(SqlState::UNKNOWN_FUNCTION, words)
        };
        let (width, time, third) = match given {
            [width, time] => (width, time, None),
            [width, time, third] => (width, time, Some(third)),
            _ => return Err(refused().into()),
        };
        if !(width.is_string() || matches!(width, DataType::Interval(_))) {
            return Err(refused().into());
        }
        let time = match time {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Nanosecond, None),
            _ => return Err(refused().into()),
        };
        let mut types = vec![DataType::Interval(IntervalUnit::MonthDayNano), time.clone()];
        types.extend(third.map(|third| match third.is_string() {
            true => DataType::Utf8,
            false => time,
        }));
        Ok(types)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[1].clone())
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[1].sort_properties)
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => value.clone(),
            ColumnarValue::Array(_) => ScalarValue::Null,
        };
        let data_type = arguments.return_field.data_type().clone();
        let values = arguments.args;
        let width = constant(&values[0]);
        if width.is_null() && matches!(values[0], ColumnarValue::Scalar(_)) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&data_type)?));
        }
        let third = values.get(2).map(constant);
        let buckets = buckets(&width, third.as_ref())?;
        let start = |time_ns: i64| buckets.start_of(time_ns);
        match &values[1] {
            ColumnarValue::Scalar(value) => {
                let DataType::Timestamp(_, zone) = &data_type else { unreachable!("it is coerced") };
                let start_ns = time_ns(value).and_then(start);
                Ok(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(start_ns, zone.clone())))
            }
            ColumnarValue::Array(times) => {
                let times = times.as_primitive::<TimestampNanosecondType>();
                let starts = times.unary_opt::<_, TimestampNanosecondType>(start);
                Ok(ColumnarValue::Array(Arc::new(starts.with_data_type(times.data_type().clone()))))
            }
        }
    }
}
