//! Conversion between arrays and single values.

use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::value::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, PrimitiveArray, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

/// Bytes of the values of an array. Arrays that came in one message share its buffer, which is not counted for each of them.
pub fn value_bytes(array: &ArrayRef) -> usize {
    let of_values = array.to_data().get_slice_memory_size();
    of_values.unwrap_or_else(|_| array.get_buffer_memory_size())
}

/// The value of a slot, or `None` if it is not valid. Panics on an array type that no column has.
pub fn value_at(array: &ArrayRef, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Value::Int(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Value::Int(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt32 => Value::UInt(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Value::UInt(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => Value::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Utf8 => Value::String(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => Value::Binary(array.as_binary::<i32>().value(row).to_vec()),
        DataType::Date32 => Value::Int(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            Value::Int(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        other => unreachable!("no column has type {other}"),
    })
}

/// Whether two slots of arrays of one type are equal: both valid with the same value, floats bit by bit, or both not. Panics
/// on an array type that no column has.
pub fn is_same_cell((one, row): (&ArrayRef, usize), (other, other_row): (&ArrayRef, usize)) -> bool {
    macro_rules! primitive {
        ($type:ty) => {
            one.as_primitive::<$type>().value(row) == other.as_primitive::<$type>().value(other_row)
        };
    }
    macro_rules! float {
        ($type:ty) => {
            one.as_primitive::<$type>().value(row).to_bits()
                == other.as_primitive::<$type>().value(other_row).to_bits()
        };
    }
    if one.is_null(row) || other.is_null(other_row) {
        return one.is_null(row) && other.is_null(other_row);
    }
    match one.data_type() {
        DataType::Boolean => one.as_boolean().value(row) == other.as_boolean().value(other_row),
        DataType::Int8 => primitive!(Int8Type),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::UInt32 => primitive!(UInt32Type),
        DataType::UInt64 => primitive!(UInt64Type),
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        DataType::Decimal128(..) => primitive!(Decimal128Type),
        DataType::Utf8 => one.as_string::<i32>().value(row) == other.as_string::<i32>().value(other_row),
        DataType::Binary => one.as_binary::<i32>().value(row) == other.as_binary::<i32>().value(other_row),
        DataType::Date32 => primitive!(Date32Type),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => primitive!(TimestampNanosecondType),
        other => unreachable!("no column has type {other}"),
    }
}

/// An array of a column's type, made of values. Invalid if a value does not fit the type.
pub fn array_of_values<'a>(column_type: ColumnType, values: &[Option<&'a Value>]) -> Result<ArrayRef> {
    macro_rules! collect {
        ($array:ty, $variant:ident, $convert:expr) => {{
            let cells = values
                .iter()
                .map(|value| match value {
                    None => Ok(None),
                    Some(Value::$variant(value)) => {
                        ($convert)(value).map(Some).ok_or_else(|| out_of_range(column_type))
                    }
                    Some(other) => Err(Error::invalid(format!("{other:?} is not a {column_type:?}"))),
                })
                .collect::<Result<Vec<_>>>()?;
            Arc::new(<$array>::from(cells)) as ArrayRef
        }};
    }
    Ok(match column_type {
        ColumnType::Bool => collect!(BooleanArray, Bool, |v: &bool| Some(*v)),
        ColumnType::Int8 => collect!(Int8Array, Int, |v: &i64| i8::try_from(*v).ok()),
        ColumnType::Int16 => collect!(Int16Array, Int, |v: &i64| i16::try_from(*v).ok()),
        ColumnType::Int32 => collect!(Int32Array, Int, |v: &i64| i32::try_from(*v).ok()),
        ColumnType::Int64 => collect!(Int64Array, Int, |v: &i64| Some(*v)),
        ColumnType::UInt32 => collect!(UInt32Array, UInt, |v: &u64| u32::try_from(*v).ok()),
        ColumnType::UInt64 => collect!(UInt64Array, UInt, |v: &u64| Some(*v)),
        ColumnType::Float32 => collect!(Float32Array, Float, |v: &f64| Some(*v as f32)),
        ColumnType::Float64 => collect!(Float64Array, Float, |v: &f64| Some(*v)),
        ColumnType::Decimal { precision, scale } => {
            let cells = values
                .iter()
                .map(|value| match value {
                    None => Ok(None),
                    Some(Value::Decimal(value)) => Ok(Some(*value)),
                    Some(other) => Err(Error::invalid(format!("{other:?} is not a {column_type:?}"))),
                })
                .collect::<Result<Vec<_>>>()?;
            let array = Decimal128Array::from(cells).with_precision_and_scale(precision, scale);
            Arc::new(array.map_err(|_| out_of_range(column_type))?)
        }
        ColumnType::String => collect!(StringArray, String, |v: &'a String| Some(v.as_str())),
        ColumnType::Binary => collect!(BinaryArray, Binary, |v: &'a Vec<u8>| Some(v.as_slice())),
        ColumnType::Date => collect!(Date32Array, Int, |v: &i64| i32::try_from(*v).ok()),
        ColumnType::Timestamp => collect!(TimestampNanosecondArray, Int, |v: &i64| Some(*v)),
    })
}

/// Some rows of an array, in any order. Panics on an array type that no column has.
pub fn take_rows(array: &ArrayRef, rows: &[u32]) -> ArrayRef {
    let rows = rows.iter().map(|row| *row as usize);
    collect_like(array, rows.map(|row| (array, row)))
}

/// Some rows of an array; NULL where there is none. Panics on an array type that no column has.
pub fn take_rows_or_null(array: &ArrayRef, rows: &[Option<u32>]) -> ArrayRef {
    let null = new_null_array(array.data_type(), 1);
    collect_like(array, rows.iter().map(|row| row.map_or((&null, 0), |row| (array, row as usize))))
}

/// Some rows of several arrays of one type, in any order: each an array and a row of it. There is at least one array.
pub fn interleave(arrays: &[ArrayRef], rows: &[(usize, usize)]) -> ArrayRef {
    collect_like(&arrays[0], rows.iter().map(|(array, row)| (&arrays[*array], *row)))
}

/// The rows of several arrays of one type, concatenated. There is at least one array.
pub fn concat(arrays: &[ArrayRef]) -> ArrayRef {
    match arrays {
        [only] => only.clone(),
        _ => collect_like(
            &arrays[0],
            arrays.iter().flat_map(|array| (0..array.len()).map(move |row| (array, row))),
        ),
    }
}

/// An array of the type of `like`, made of rows of arrays of that type.
fn collect_like<'a>(like: &ArrayRef, rows: impl Iterator<Item = (&'a ArrayRef, usize)>) -> ArrayRef {
    macro_rules! primitive {
        ($type:ty) => {{
            let cell = |(array, row): (&ArrayRef, usize)| {
                array.is_valid(row).then(|| array.as_primitive::<$type>().value(row))
            };
            Arc::new(rows.map(cell).collect::<PrimitiveArray<$type>>()) as ArrayRef
        }};
    }
    match like.data_type() {
        DataType::Boolean => {
            let cell =
                |(array, row): (&ArrayRef, usize)| array.is_valid(row).then(|| array.as_boolean().value(row));
            Arc::new(rows.map(cell).collect::<BooleanArray>())
        }
        DataType::Int8 => primitive!(Int8Type),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::UInt32 => primitive!(UInt32Type),
        DataType::UInt64 => primitive!(UInt64Type),
        DataType::Float32 => primitive!(Float32Type),
        DataType::Float64 => primitive!(Float64Type),
        DataType::Decimal128(precision, scale) => {
            let cell = |(array, row): (&ArrayRef, usize)| {
                array.is_valid(row).then(|| array.as_primitive::<Decimal128Type>().value(row))
            };
            let array = rows.map(cell).collect::<Decimal128Array>();
            Arc::new(array.with_data_type(DataType::Decimal128(*precision, *scale)))
        }
        DataType::Utf8 => {
            let cell = |(array, row): (&'a ArrayRef, usize)| {
                array.is_valid(row).then(|| array.as_string::<i32>().value(row))
            };
            Arc::new(rows.map(cell).collect::<StringArray>())
        }
        DataType::Binary => {
            let cell = |(array, row): (&'a ArrayRef, usize)| {
                array.is_valid(row).then(|| array.as_binary::<i32>().value(row))
            };
            Arc::new(rows.map(cell).collect::<BinaryArray>())
        }
        DataType::Date32 => primitive!(Date32Type),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => primitive!(TimestampNanosecondType),
        other => unreachable!("no column has type {other}"),
    }
}

fn out_of_range(column_type: ColumnType) -> Error {
    Error::invalid(format!("a value is out of range for {column_type:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_the_bytes_of_its_values_only() {
        let numbers: ArrayRef = Arc::new((0..1000).collect::<Int64Array>());
        assert_eq!(value_bytes(&numbers.slice(10, 5)), 5 * 8);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["abc"; 1000]));
        assert_eq!(value_bytes(&texts.slice(10, 5)), 5 * 3 + 6 * 4, "texts and where they begin and end");
    }
}
