//! A time that was cast to a type with fewer digits behind the seconds, such as `timestamp(3)`.

use crate::relation::declared_type::second_digits;
use crate::relation::second_digits::rounded;
use crate::unknown_bounds;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// Its name, which nobody can write.
pub(crate) const NAME: &str = "time::rounded";

/// The function: a time, and how many digits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RoundedTime(Signature);

impl Default for RoundedTime {
    fn default() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for RoundedTime {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Timestamp(_, zone), _] => {
                Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()), DataType::Int64])
            }
            _ => plan_err!("{NAME} takes a time and digits"),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [times, ColumnarValue::Scalar(ScalarValue::Int64(Some(digits)))] = &arguments.args[..] else {
            return exec_err!("{NAME} takes a time and digits");
        };
        let digits = second_digits(digits.unsigned_abs())?;
        Ok(match times {
            ColumnarValue::Array(times) => ColumnarValue::Array(rounded(times, digits)?),
            ColumnarValue::Scalar(time) => {
                let time = rounded(&time.to_array()?, digits)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&time, 0)?)
            }
        })
    }
}
