//! The types of columns, and the Arrow type of each.

use arrow_schema::{DataType, TimeUnit};

/// The type of a column; each has one Arrow array type across the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `BooleanArray`.
    Bool,
    /// `Int8Array`.
    Int8,
    /// `Int16Array`.
    Int16,
    /// `Int32Array`.
    Int32,
    /// `Int64Array`.
    Int64,
    /// `UInt32Array`; series ids.
    UInt32,
    /// `UInt64Array`.
    UInt64,
    /// `Float32Array`.
    Float32,
    /// `Float64Array`.
    Float64,
    /// `Decimal128Array`.
    Decimal {
        /// Digits in all, at most 38.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// `StringArray`.
    String,
    /// `BinaryArray`.
    Binary,
    /// `Date32Array`, days since 1970.
    Date,
    /// `TimestampNanosecondArray` without a zone.
    Timestamp,
}

impl ColumnType {
    /// The Arrow type of its values.
    pub fn data_type(self) -> DataType {
        match self {
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::UInt32 => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnType::String => DataType::Utf8,
            ColumnType::Binary => DataType::Binary,
            ColumnType::Date => DataType::Date32,
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }

    /// Whether every value of this type is also a value of `other`, and reads the same there.
    pub fn widens_to(self, other: ColumnType) -> bool {
        use ColumnType::{Decimal, Float32, Float64, Int8, Int16, Int32, Int64, UInt32, UInt64};
        match (self, other) {
            (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
            (UInt32, UInt64) | (Float32, Float64) => true,
            (Decimal { precision: from, scale }, Decimal { precision: to, scale: same }) => {
                scale == same && from < to
            }
            _ => false,
        }
    }

    /// Whether a key column may have it: every type but floats.
    pub fn can_be_key(self) -> bool {
        !matches!(self, ColumnType::Float32 | ColumnType::Float64)
    }
}
