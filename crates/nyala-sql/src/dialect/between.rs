//! The time between two times: an interval of days and hours, where DataFusion gives a number of nanoseconds.

use super::date_part::span_between;
use crate::unknown_bounds;
use arrow_schema::{DataType, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The interval that a difference is.
pub(super) fn of(difference: Expr) -> Expr {
    ScalarUDF::from(Between { signature: Signature::any(1, Volatility::Immutable) }).call(vec![difference])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Between {
    signature: Signature,
}

impl ScalarUDFImpl for Between {
    fn name(&self) -> &str {
        "interval::between"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &arguments.args[0] {
            ColumnarValue::Array(differences) => ColumnarValue::Array(span_between(differences)?),
            ColumnarValue::Scalar(difference) => {
                let span = span_between(&difference.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&span, 0)?)
            }
        })
    }
}
