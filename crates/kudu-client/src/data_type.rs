//! The types of columns.
//!
//! In Arrow, integers, floats and dates map one to one; `UnixtimeMicros` becomes a UTC timestamp, and decimals become
//! `Decimal128` whatever their width on the wire.

use arrow_schema::{DataType as ArrowType, TimeUnit};

use crate::pb;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// UTF-8 text, up to 64 KiB.
    String,
    /// UTF-8 text, cut to this many characters when written (1 to 65535).
    Varchar {
        /// The largest number of characters.
        length: u16,
    },
    /// Bytes, up to 64 KiB.
    Binary,
    /// True or false.
    Bool,
    /// 32 bits, IEEE.
    Float,
    /// 64 bits, IEEE.
    Double,
    /// Microseconds since 1970, UTC.
    UnixtimeMicros,
    /// Days since 1970, in the years 0001 to 9999.
    Date,
    /// A decimal number.
    Decimal {
        /// Number of digits, 1 to 38.
        precision: u8,
        /// Digits after the decimal point, at most the precision.
        scale: u8,
    },
    /// An unknown type, or a known one with invalid attributes. Such columns can be neither read nor written.
    Unknown(i32),
}

impl DataType {
    pub(crate) fn from_pb(code: i32, attributes: Option<&pb::ColumnTypeAttributes>) -> Self {
        let attributes = attributes.copied().unwrap_or_default();
        match code {
            1 => Self::Int8,
            3 => Self::Int16,
            5 => Self::Int32,
            7 => Self::Int64,
            8 => Self::String,
            9 => Self::Bool,
            10 => Self::Float,
            11 => Self::Double,
            12 => Self::Binary,
            13 => Self::UnixtimeMicros,
            15..=17 => {
                let (most, least) = [(9, 1), (18, 10), (38, 19)][(code - 15) as usize];
                let precision = attributes.precision.unwrap_or(most);
                let scale = attributes.scale.unwrap_or(0);
                if !(least..=most).contains(&precision) || !(0..=precision).contains(&scale) {
                    return Self::Unknown(code);
                }
                Self::Decimal { precision: precision as u8, scale: scale as u8 }
            }
            19 => match u16::try_from(attributes.length.unwrap_or(i32::from(u16::MAX))) {
                Ok(length) => Self::Varchar { length },
                Err(_) => Self::Unknown(code),
            },
            20 => Self::Date,
            other => Self::Unknown(other),
        }
    }

    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 3,
            Self::Int32 => 5,
            Self::Int64 => 7,
            Self::String => 8,
            Self::Bool => 9,
            Self::Float => 10,
            Self::Double => 11,
            Self::Binary => 12,
            Self::UnixtimeMicros => 13,
            Self::Decimal { precision: ..=9, .. } => 15,
            Self::Decimal { precision: 10..=18, .. } => 16,
            Self::Decimal { .. } => 17,
            Self::Varchar { .. } => 19,
            Self::Date => 20,
            Self::Unknown(code) => code,
        }
    }

    pub(crate) fn attributes(self) -> Option<pb::ColumnTypeAttributes> {
        match self {
            Self::Decimal { precision, scale } => Some(pb::ColumnTypeAttributes {
                precision: Some(precision.into()),
                scale: Some(scale.into()),
                length: None,
            }),
            Self::Varchar { length } => {
                Some(pb::ColumnTypeAttributes { length: Some(length.into()), ..Default::default() })
            }
            _ => None,
        }
    }

    /// The size of a cell, `None` for text and bytes.
    pub(crate) fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Int8 => Some(1),
            Self::Int16 => Some(2),
            Self::Int32 | Self::Float | Self::Date | Self::Decimal { precision: ..=9, .. } => Some(4),
            Self::Int64 | Self::Double | Self::UnixtimeMicros | Self::Decimal { precision: 10..=18, .. } => {
                Some(8)
            }
            Self::Decimal { .. } => Some(16),
            Self::String | Self::Varchar { .. } | Self::Binary | Self::Unknown(_) => None,
        }
    }

    /// The Arrow type in which scans return this type.
    pub fn arrow_type(self) -> ArrowType {
        match self {
            Self::Int8 => ArrowType::Int8,
            Self::Int16 => ArrowType::Int16,
            Self::Int32 => ArrowType::Int32,
            Self::Int64 => ArrowType::Int64,
            Self::String | Self::Varchar { .. } => ArrowType::Utf8,
            Self::Binary => ArrowType::Binary,
            Self::Bool => ArrowType::Boolean,
            Self::Float => ArrowType::Float32,
            Self::Double => ArrowType::Float64,
            Self::UnixtimeMicros => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Date => ArrowType::Date32,
            Self::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
            Self::Unknown(_) => ArrowType::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_newer_servers_are_unknown() {
        assert_eq!(DataType::from_pb(21, None), DataType::Unknown(21));
        let wrong = pb::ColumnTypeAttributes { precision: Some(77), scale: Some(0), length: None };
        assert_eq!(DataType::from_pb(15, Some(&wrong)), DataType::Unknown(15));
        let narrow = pb::ColumnTypeAttributes { precision: Some(5), scale: Some(0), length: None };
        assert_eq!(
            DataType::from_pb(16, Some(&narrow)),
            DataType::Unknown(16),
            "its cells would be 4 bytes here"
        );
    }
}
