//! `time AT TIME ZONE 'Europe/Berlin'`: of a moment it is what clocks there show, of what clocks there show the moment.

use crate::clocks::{utc_ns, zone_named};
use crate::unknown_bounds;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray};
use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, Utc};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The name that AT TIME ZONE is rewritten to.
pub(crate) const NAME: &str = "at::zone";

const CLOCK: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AtZone {
    signature: Signature,
}

impl Default for AtZone {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AtZone {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match given.first() {
            Some(DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64) => moment(),
            // A text without a type means a moment, too.
            _ => CLOCK,
        })
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let wanted = arguments.return_field.data_type();
        let is_moment = *wanted != CLOCK;
        let given = if is_moment { CLOCK } else { moment() };
        let times = cast(&arguments.args[0].to_array(rows)?, &given)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let zones = cast(&arguments.args[1].to_array(rows)?, &DataType::Utf8)?;
        let zones = zones.as_string::<i32>();
        let mut done: Vec<Option<i64>> = Vec::with_capacity(rows);
        for row in 0..rows {
            if times.is_null(row) || zones.is_null(row) {
                done.push(None);
                continue;
            }
            let zone = zone_named(zones.value(row))?;
            let time = DateTime::<Utc>::from_timestamp_nanos(times.value(row));
            done.push(match is_moment {
                true => utc_ns(time.naive_utc(), None, zone),
                false => time.with_timezone(&zone).naive_local().and_utc().timestamp_nanos_opt(),
            });
        }
        let done: ArrayRef = Arc::new(TimestampNanosecondArray::from(done).with_data_type(wanted.clone()));
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?),
            false => ColumnarValue::Array(done),
        })
    }
}
