//! Columns of values that are assigned to columns of a table.

use super::columns::data_type;
use super::datum::{Datum, refused};
use super::input::Surroundings;
use super::second_digits::rounded;
use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, new_null_array};
use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::error::DataFusionError;
use nyala_core::Value;
use nyala_core::arrays::array_of_values;
use nyala_core::store::Capabilities;
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

/// Values as a column of a name and type stores them. Texts become what the column needs if `is_unknown`: they were written
/// as literals.
pub(crate) fn assigned(
    values: &ArrayRef,
    is_unknown: bool,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<ArrayRef> {
    if let Some((unrounded, digits)) = declared.rounded() {
        return rounded(&assigned(values, is_unknown, name, unrounded, around)?, digits);
    }
    let values = plain(values)?;
    let own = declared.column_type().data_type();
    if values.data_type() == &DataType::Null {
        return Ok(new_null_array(&own, values.len()));
    }
    match declared {
        DeclaredType::Text if values.data_type() == &own && !has_zero_byte(&values) => Ok(values),
        DeclaredType::Float4 | DeclaredType::Float8 if values.data_type() == &own => Ok(one_zero(&values)),
        // Texts may be too long, or no value of the type.
        DeclaredType::Text
        | DeclaredType::Varchar(_)
        | DeclaredType::Char(_)
        | DeclaredType::Uuid
        | DeclaredType::Json
        | DeclaredType::Jsonb => converted(&values, is_unknown, name, declared, around),
        DeclaredType::Float4 | DeclaredType::Float8 => converted(&values, is_unknown, name, declared, around),
        // Without a zone, it is the time of clocks.
        DeclaredType::Timestamptz if values.data_type() == &data_type(declared) => {
            Ok(cast(&values, &own).map_err(DataFusionError::from)?)
        }
        DeclaredType::Timestamptz => converted(&values, is_unknown, name, declared, around),
        _ if values.data_type() == &own => Ok(values),
        _ => converted(&values, is_unknown, name, declared, around),
    }
}

/// Floats as they are stored: there is one NaN and one zero.
pub(crate) fn one_zero(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let one = |number: f64| match number {
                number if number.is_nan() => f64::NAN.abs(),
                number => number + 0.0,
            };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |number: f32| match number {
                number if number.is_nan() => f32::NAN.abs(),
                number => number + 0.0,
            };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => values.clone(),
    }
}

fn has_zero_byte(values: &ArrayRef) -> bool {
    values.as_string_opt::<i32>().is_none_or(|texts| texts.value_data().contains(&0))
}

fn converted(
    values: &ArrayRef,
    is_unknown: bool,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<ArrayRef> {
    let data = (0..values.len()).map(|row| {
        let refused = || refused(name, declared, &values.data_type().to_string());
        Datum::at(values, row, is_unknown).ok_or_else(refused)
    });
    column_of(data, name, declared, around)
}

/// A column of values that are assigned one by one.
pub(crate) fn column_of<'a>(
    data: impl Iterator<Item = SqlResult<Datum<'a>>>,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<ArrayRef> {
    if let DeclaredType::Text | DeclaredType::Varchar(_) | DeclaredType::Char(_) = declared {
        // Each text is copied once.
        let mut texts = StringBuilder::with_capacity(data.size_hint().0, 0);
        for datum in data {
            texts.append_option(datum?.stored_text(declared, around)?);
        }
        return Ok(Arc::new(texts.finish()));
    }
    let stored = data.map(|datum| datum?.stored(name, declared, around)).collect::<SqlResult<Vec<_>>>()?;
    of_values(declared, &stored)
}

/// A column of values that were converted.
pub(crate) fn of_values(declared: DeclaredType, values: &[Option<Value>]) -> SqlResult<ArrayRef> {
    let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
    Ok(array_of_values(declared.column_type(), &values)?)
}

/// Values in a form that is read directly.
fn plain(values: &ArrayRef) -> SqlResult<ArrayRef> {
    let to = match values.data_type() {
        DataType::Dictionary(_, inner) => (**inner).clone(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => return Ok(values.clone()),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        DataType::Date64 => DataType::Date32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal256(precision, scale) => DataType::Decimal128((*precision).min(38), *scale),
        DataType::Float16 => DataType::Float32,
        _ => return Ok(values.clone()),
    };
    Ok(cast(values, &to).map_err(DataFusionError::from)?)
}

/// Checks that cells are not larger than the store takes.
pub(crate) fn check_sizes(
    values: &ArrayRef,
    name: &str,
    is_key: bool,
    capabilities: &Capabilities,
) -> SqlResult<()> {
    let longest = match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().offsets().lengths().max(),
        DataType::Binary => values.as_binary::<i32>().offsets().lengths().max(),
        _ => return Ok(()),
    };
    let max = match is_key {
        true => capabilities.key_bytes_max.min(capabilities.cell_bytes_max),
        false => capabilities.cell_bytes_max,
    };
    match longest {
        Some(bytes) if bytes > max => {
            let message = format!("a value of column \"{name}\" has {bytes} bytes, and {max} are possible");
            Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message))
        }
        _ => Ok(()),
    }
}
