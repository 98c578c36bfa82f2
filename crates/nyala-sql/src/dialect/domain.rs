//! Roots and logarithms of numbers that have none: errors, where DataFusion gives NaN or an infinity.

use crate::error::{SqlError, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, Float64Array};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::math::log10;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The functions.
pub(super) const NAMES: [&str; 5] = ["sqrt", "ln", "log", "log2", "log10"];

/// One of them, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Domain {
    inner: Arc<ScalarUDF>,
}

impl Domain {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }

    /// What is wrong with a number.
    fn refused(&self, number: f64) -> Option<SqlError> {
        let (code, words) = match self.name() {
            "sqrt" if number < 0.0 => {
                (SqlState::INVALID_POWER_ARGUMENT, "cannot take square root of a negative number")
            }
            "sqrt" => return None,
            _ if number == 0.0 => (SqlState::INVALID_LOGARITHM_ARGUMENT, "cannot take logarithm of zero"),
            _ if number < 0.0 => {
                (SqlState::INVALID_LOGARITHM_ARGUMENT, "cannot take logarithm of a negative number")
            }
            _ => return None,
        };
        Some(SqlError::new(code, words))
    }
}

impl ScalarUDFImpl for Domain {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for argument in &arguments.args {
            let refused = match argument {
                ColumnarValue::Scalar(ScalarValue::Float64(Some(number))) => self.refused(*number),
                ColumnarValue::Array(numbers) if *numbers.data_type() == DataType::Float64 => {
                    let numbers: &Float64Array = numbers.as_primitive::<Float64Type>();
                    // What a NULL stands for does not matter.
                    let valid = |row: &usize| numbers.is_valid(*row);
                    let refused = |row: usize| self.refused(numbers.value(row));
                    (0..numbers.len()).filter(valid).find_map(refused)
                }
                _ => None,
            };
            if let Some(error) = refused {
                return Err(error.into());
            }
        }
        match &arguments.args[..] {
            // DataFusion divides two natural logarithms.
            [number] if self.name() == "log" && number.data_type() == DataType::Float64 => {
                log10().invoke_with_args(arguments)
            }
            _ => self.inner.invoke_with_args(arguments),
        }
    }
}
