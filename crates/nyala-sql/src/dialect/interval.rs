//! An interval many times, or a part of it.

use arrow_array::builder::IntervalMonthDayNanoBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAYS_OF_MONTH: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;

/// `interval '1 day' * 1.5` and `interval '1 day' / 2`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Times {
    is_division: bool,
    signature: Signature,
}

impl Times {
    pub(super) fn of(is_division: bool) -> Self {
        let signature = Signature::exact(vec![SPAN, DataType::Float64], Volatility::Immutable);
        Self { is_division, signature }
    }
}

impl ScalarUDFImpl for Times {
    fn name(&self) -> &str {
        if self.is_division { "interval::divided" } else { "interval::times" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arrays: Vec<ArrayRef> =
            arguments.args.iter().map(|own| own.to_array(rows)).collect::<Result<_>>()?;
        let spans = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
        let numbers = arrays[1].as_primitive::<Float64Type>();
        let mut done = IntervalMonthDayNanoBuilder::with_capacity(rows);
        for row in 0..rows {
            if spans.is_null(row) || numbers.is_null(row) {
                done.append_null();
                continue;
            }
            let (span, number) = (spans.value(row), numbers.value(row));
            if self.is_division && number == 0.0 {
                return Err(arrow_schema::ArrowError::DivideByZero.into());
            }
            let computed = times(span, if self.is_division { 1.0 / number } else { number });
            done.append_value(computed.ok_or_else(|| {
                let message = "interval out of range";
                crate::error::SqlError::new(crate::error::SqlState::DATETIME_OUT_OF_RANGE, message)
            })?);
        }
        let done: ArrayRef = Arc::new(done.finish());
        Ok(match is_constant {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&done, 0)?),
            false => ColumnarValue::Array(done),
        })
    }
}

/// A part of an interval; `None`: out of range.
pub(crate) fn interval_parts(span: IntervalMonthDayNano, count: f64) -> Option<IntervalMonthDayNano> {
    times(span, 1.0 / count)
}

/// As PostgreSQL computes it: what is left of a month becomes days, what is left of a day time. `None`: out of range.
fn times(span: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let whole = |value: f64| (value.abs() < f64::from(i32::MAX)).then_some(value as i32);
    let in_us = |value: f64| (value * 1e6).round() / 1e6;
    let months = whole(f64::from(span.months) * factor)?;
    let mut days = whole(f64::from(span.days) * factor)?;
    let of_month = in_us((f64::from(span.months) * factor - f64::from(months)) * DAYS_OF_MONTH);
    let of_day = f64::from(span.days) * factor - f64::from(days) + (of_month - of_month.trunc());
    let mut seconds = in_us(of_day * DAY_SECONDS);
    if seconds.abs() >= DAY_SECONDS {
        days = days.checked_add(whole(seconds / DAY_SECONDS)?)?;
        seconds %= DAY_SECONDS;
    }
    days = days.checked_add(whole(of_month)?)?;
    let us = ((span.nanoseconds as f64 / 1e3) * factor + seconds * 1e6).round();
    // Anything longer is not of use: it would be no time of nyala.
    (us.abs() < i64::MAX as f64 / 1e3).then(|| IntervalMonthDayNano::new(months, days, us as i64 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_to_the_next_unit() {
        let span = IntervalMonthDayNano::new;
        assert_eq!(times(span(1, 0, 0), 1.5), Some(span(1, 15, 0)));
        assert_eq!(times(span(0, 1, 0), 0.5), Some(span(0, 0, 43_200_000_000_000)));
        assert_eq!(
            times(span(0, 0, 1_000_000_000), 1_709_287_200.0).unwrap().nanoseconds,
            1_709_287_200_000_000_000
        );
        assert_eq!(times(span(i32::MAX, 0, 0), 2.0), None);
    }
}
