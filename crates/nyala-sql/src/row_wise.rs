//! Functions that are computed row by row.

use crate::error::{SqlError, SqlState};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// The most that the values of a function take for the rows of a batch.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 20;

/// The error of a function whose values take more than [`BATCH_BYTES_MAX`].
pub(crate) fn too_long(function: &str) -> DataFusionError {
    let words = format!("the values of {function} may take more than {} MiB", BATCH_BYTES_MAX >> 20);
    SqlError::new(SqlState::LIMIT_EXCEEDED, words).into()
}

/// The values of a function whose value depends on its arguments alone. NULL for any argument is NULL if the function is
/// strict.
pub(crate) fn computed(
    name: &str,
    arguments: &ScalarFunctionArgs,
    is_strict: bool,
    compute: &dyn Fn(&[ScalarValue]) -> Result<ScalarValue>,
) -> Result<ColumnarValue> {
    let is_constant = arguments.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
    computed_as(is_constant, name, arguments, is_strict, compute)
}

/// The same for a function that is computed for each row, whatever its arguments are.
pub(crate) fn computed_each(
    name: &str,
    arguments: &ScalarFunctionArgs,
    is_strict: bool,
    compute: &dyn Fn(&[ScalarValue]) -> Result<ScalarValue>,
) -> Result<ColumnarValue> {
    computed_as(false, name, arguments, is_strict, compute)
}

fn computed_as(
    is_constant: bool,
    name: &str,
    arguments: &ScalarFunctionArgs,
    is_strict: bool,
    compute: &dyn Fn(&[ScalarValue]) -> Result<ScalarValue>,
) -> Result<ColumnarValue> {
    let data_type = arguments.return_field.data_type();
    let of_row = |values: Vec<ScalarValue>| {
        if is_strict && values.iter().any(ScalarValue::is_null) {
            return ScalarValue::try_from(data_type);
        }
        let value = compute(&values)?;
        if value.is_null() { ScalarValue::try_from(data_type) } else { Ok(value) }
    };
    let row = |row: usize| -> Result<ScalarValue> {
        let value = |own: &ColumnarValue| match own {
            ColumnarValue::Scalar(own) => Ok(own.clone()),
            ColumnarValue::Array(own) => ScalarValue::try_from_array(own, row),
        };
        of_row(arguments.args.iter().map(value).collect::<Result<_>>()?)
    };
    if is_constant {
        return row(0).map(ColumnarValue::Scalar);
    }
    if arguments.number_rows == 0 {
        return Ok(ColumnarValue::Array(arrow_array::new_empty_array(data_type)));
    }
    let mut bytes = 0;
    let bounded = |own: Result<ScalarValue>| {
        bytes += own.as_ref().map_or(0, ScalarValue::size);
        if bytes > BATCH_BYTES_MAX { Err(too_long(name)) } else { own }
    };
    let values = (0..arguments.number_rows).map(row).map(bounded).collect::<Result<Vec<_>>>()?;
    Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
}
