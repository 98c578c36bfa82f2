//! Values of parameters as JSON has them.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::Prepared;
use arrow_array::ArrayRef;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use serde::Deserialize;

/// A value of a parameter, as JSON has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer that is larger than those.
    Unsigned(u64),
    /// Any other number.
    Number(f64),
    /// Text, also of a time, a date, or a decimal.
    Text(String),
}

impl Prepared {
    /// The values of parameters, each of its type.
    ///
    /// # Errors
    /// If there are too many or too few, or one is no value of its type.
    pub fn values(&self, parameters: &[Parameter]) -> SqlResult<Vec<ScalarValue>> {
        self.check_count(parameters.len())?;
        let typed = parameters.iter().zip(&self.parameters).zip(1..);
        typed.map(|((parameter, data_type), number)| parameter.typed(data_type, number)).collect()
    }

    /// The values of parameters that are a row of columns.
    ///
    /// # Errors
    /// If there are too many or too few, or one is no value of its type.
    pub fn values_of_row(&self, columns: &[ArrayRef], row: usize) -> SqlResult<Vec<ScalarValue>> {
        self.check_count(columns.len())?;
        let values = columns.iter().zip(&self.parameters).zip(1..).map(|((values, data_type), number)| {
            let value = ScalarValue::try_from_array(values, row)?;
            // A text of a time is read when it is known in which zone.
            match (&value, data_type) {
                (ScalarValue::Utf8(_), DataType::Timestamp(..)) => Ok(value),
                _ => cast(&value, data_type, number),
            }
        });
        values.collect()
    }
}

impl Parameter {
    fn typed(&self, data_type: &DataType, number: usize) -> SqlResult<ScalarValue> {
        let value = match self {
            Parameter::Null => return Ok(ScalarValue::try_from(data_type)?),
            Parameter::Bool(value) => ScalarValue::Boolean(Some(*value)),
            Parameter::Integer(value) => ScalarValue::Int64(Some(*value)),
            Parameter::Unsigned(value) => ScalarValue::UInt64(Some(*value)),
            Parameter::Number(value) => ScalarValue::Float64(Some(*value)),
            Parameter::Text(text) => ScalarValue::Utf8(Some(text.clone())),
        };
        cast(&value, data_type, number)
    }
}

/// A value in the type that its place has. A fraction is not cut off: the statement may compare with it.
fn cast(value: &ScalarValue, data_type: &DataType, number: usize) -> SqlResult<ScalarValue> {
    let typed = value.cast_to(data_type).map_err(|error| of_parameter(error, number))?;
    let has_fraction = || match value {
        ScalarValue::Float32(Some(value)) => value.fract() != 0.0,
        ScalarValue::Float64(Some(value)) => value.fract() != 0.0,
        _ if value.data_type().is_decimal() => typed.cast_to(&value.data_type()).ok().as_ref() != Some(value),
        _ => false,
    };
    if data_type.is_integer() && has_fraction() {
        let words = format!("parameter ${number}: the statement wants an integer, not {value}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, words).with_hint(format!(
            "Say CAST(${number} AS double precision) to compare an integer with a fraction."
        )));
    }
    Ok(typed)
}

fn of_parameter(error: DataFusionError, number: usize) -> SqlError {
    let error = SqlError::from(error);
    SqlError::new(SqlState::INVALID_TEXT, format!("parameter ${number}: {}", error.message))
}
