//! Values and arrays, between the contract's types and Kudu's.
//!
//! Kudu has no unsigned integers, and no nanoseconds: unsigned ones are stored with their sign bit flipped, so that they
//! keep their order, and times as `INT64`. Days are `INT32`, since Kudu's dates end with the year 9999. Of a key `BOOL` is
//! `INT8`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use kudu_client::{Cell, DataType, Value as KuduValue};
use nyala_core::schema::ColumnType;
use nyala_core::{Error, Result, Value};
use std::sync::Arc;

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) column_type: ColumnType,
    pub(crate) is_key: bool,
}

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// Kudu's decimals have no negative scale; what has one is stored unscaled.
const DECIMAL_PRECISION_MAX: u8 = 38;

impl Stored {
    /// The type in the cluster.
    pub(crate) fn data_type(self) -> DataType {
        match self.column_type {
            ColumnType::Bool if self.is_key => DataType::Int8,
            ColumnType::Bool => DataType::Bool,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 | ColumnType::UInt32 | ColumnType::Date => DataType::Int32,
            ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Timestamp => DataType::Int64,
            ColumnType::Float32 => DataType::Float,
            ColumnType::Float64 => DataType::Double,
            ColumnType::Decimal { precision, scale } => match u8::try_from(scale) {
                Ok(scale) => DataType::Decimal { precision, scale },
                Err(_) => DataType::Decimal { precision: DECIMAL_PRECISION_MAX, scale: 0 },
            },
            ColumnType::String => DataType::String,
            ColumnType::Binary => DataType::Binary,
        }
    }

    /// A value as the cluster stores it; `None` if no cell of the column can be this.
    pub(crate) fn value(self, value: &Value) -> Option<KuduValue> {
        Some(match (self.column_type, value) {
            (ColumnType::Bool, Value::Bool(value)) if self.is_key => KuduValue::Int8((*value).into()),
            (ColumnType::Bool, Value::Bool(value)) => KuduValue::Bool(*value),
            (ColumnType::Int8, Value::Int(value)) => KuduValue::Int8((*value).try_into().ok()?),
            (ColumnType::Int16, Value::Int(value)) => KuduValue::Int16((*value).try_into().ok()?),
            (ColumnType::Int32 | ColumnType::Date, Value::Int(value)) => {
                KuduValue::Int32((*value).try_into().ok()?)
            }
            (ColumnType::Int64 | ColumnType::Timestamp, Value::Int(value)) => KuduValue::Int64(*value),
            (ColumnType::UInt32, Value::UInt(value)) => KuduValue::Int32(flip_32((*value).try_into().ok()?)),
            (ColumnType::UInt64, Value::UInt(value)) => KuduValue::Int64(flip_64(*value)),
            (ColumnType::Float32, Value::Float(value)) => KuduValue::Float(*value as f32),
            (ColumnType::Float64, Value::Float(value)) => KuduValue::Double(*value),
            (ColumnType::Decimal { .. }, Value::Decimal(value)) => KuduValue::Int128(*value),
            (ColumnType::String, Value::String(value)) => KuduValue::String(value.clone()),
            (ColumnType::Binary, Value::Binary(value)) => KuduValue::Binary(value.clone()),
            _ => return None,
        })
    }

    /// The cell of a valid slot of an array of the column's type.
    pub(crate) fn cell(self, array: &dyn Array, row: usize) -> Cell<'_> {
        macro_rules! of {
            ($type:ty) => {
                array.as_primitive::<$type>().value(row)
            };
        }
        match self.column_type {
            ColumnType::Bool if self.is_key => Cell::Int8(array.as_boolean().value(row).into()),
            ColumnType::Bool => Cell::Bool(array.as_boolean().value(row)),
            ColumnType::Int8 => Cell::Int8(of!(Int8Type)),
            ColumnType::Int16 => Cell::Int16(of!(Int16Type)),
            ColumnType::Int32 => Cell::Int32(of!(Int32Type)),
            ColumnType::Int64 => Cell::Int64(of!(Int64Type)),
            ColumnType::UInt32 => Cell::Int32(flip_32(of!(UInt32Type))),
            ColumnType::UInt64 => Cell::Int64(flip_64(of!(UInt64Type))),
            ColumnType::Float32 => Cell::Float(of!(Float32Type)),
            ColumnType::Float64 => Cell::Double(of!(Float64Type)),
            ColumnType::Decimal { .. } => Cell::Int128(of!(Decimal128Type)),
            ColumnType::String => Cell::String(array.as_string::<i32>().value(row)),
            ColumnType::Binary => Cell::Binary(array.as_binary::<i32>().value(row)),
            ColumnType::Date => Cell::Int32(of!(Date32Type)),
            ColumnType::Timestamp => Cell::Int64(of!(TimestampNanosecondType)),
        }
    }

    /// An array of the column's type, of one that a scan returned.
    pub(crate) fn array(self, scanned: &ArrayRef) -> Result<ArrayRef> {
        if scanned.data_type() != &self.data_type().arrow_type() {
            return Err(Error::invalid(format!(
                "the cluster's column is of type {}, not {:?}",
                scanned.data_type(),
                self.data_type()
            )));
        }
        Ok(match self.column_type {
            ColumnType::Bool if self.is_key => {
                let bytes = scanned.as_primitive::<Int8Type>();
                Arc::new(BooleanArray::from_unary(bytes, |byte| byte != 0))
            }
            ColumnType::UInt32 => {
                let flipped: UInt32Array =
                    scanned.as_primitive::<Int32Type>().unary(|value| value as u32 ^ SIGN_32);
                Arc::new(flipped)
            }
            ColumnType::UInt64 => {
                let flipped: UInt64Array =
                    scanned.as_primitive::<Int64Type>().unary(|value| value as u64 ^ SIGN_64);
                Arc::new(flipped)
            }
            ColumnType::Date => {
                let days: Date32Array = scanned.as_primitive::<Int32Type>().reinterpret_cast();
                Arc::new(days)
            }
            ColumnType::Timestamp => {
                let times: TimestampNanosecondArray = scanned.as_primitive::<Int64Type>().reinterpret_cast();
                Arc::new(times)
            }
            ColumnType::Decimal { precision, scale } if scale < 0 => {
                let unscaled = scanned.as_primitive::<Decimal128Type>().clone();
                let scaled = unscaled.with_precision_and_scale(precision, scale);
                Arc::new(scaled.map_err(|error| Error::invalid(format!("a decimal: {error}")))?)
            }
            _ => scanned.clone(),
        })
    }
}

fn flip_32(value: u32) -> i32 {
    (value ^ SIGN_32) as i32
}

fn flip_64(value: u64) -> i64 {
    (value ^ SIGN_64) as i64
}

/// A series as the cluster stores it.
pub(crate) fn series_value(series: u32) -> KuduValue {
    KuduValue::Int32(flip_32(series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_numbers_keep_their_order() {
        let stored = Stored { column_type: ColumnType::UInt32, is_key: true };
        let values = [0, 1, SIGN_32 - 1, SIGN_32, u32::MAX];
        let flipped: Vec<i32> = values.iter().map(|value| flip_32(*value)).collect();
        assert!(flipped.is_sorted());
        let scanned: ArrayRef = Arc::new(arrow_array::Int32Array::from(flipped));
        let read = stored.array(&scanned).expect("the types agree");
        assert_eq!(read.as_primitive::<UInt32Type>().values(), &values);
        let values = [0, 1, SIGN_64 - 1, SIGN_64, u64::MAX];
        assert!(values.map(flip_64).is_sorted());
    }

    #[test]
    fn what_no_cell_can_be_has_no_value() {
        let stored = Stored { column_type: ColumnType::Int8, is_key: false };
        assert!(stored.value(&Value::Int(128)).is_none());
        assert!(stored.value(&Value::UInt(1)).is_none());
    }
}
