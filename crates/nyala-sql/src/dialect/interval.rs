//! `*` and `/` of an interval and a number.

use crate::interval_factor::times;
use crate::unknown_bounds;
use arrow_array::builder::IntervalMonthDayNanoBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit};
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

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

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
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
