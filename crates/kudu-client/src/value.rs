//! Single values: borrowed ([`Cell`]) for writing rows, owned ([`Value`]) for defaults, bounds and predicates.

use std::fmt;

use bytes::Bytes;

use crate::data_type::DataType;
use crate::error::{Error, Result};

/// A borrowed value for a column. Rust's types convert to it, so `row.set("name", "x")` works.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// For `Bool`.
    Bool(bool),
    /// For `Int8`.
    Int8(i8),
    /// For `Int16`.
    Int16(i16),
    /// For `Int32` and `Date` (days since 1970).
    Int32(i32),
    /// For `Int64` and `UnixtimeMicros`.
    Int64(i64),
    /// For `Decimal`: the unscaled value, so 1.50 in a column of scale 2 is 150.
    Int128(i128),
    /// For `Float`.
    Float(f32),
    /// For `Double`.
    Double(f64),
    /// For `String` and `Varchar`.
    String(&'a str),
    /// For `Binary`.
    Binary(&'a [u8]),
}

macro_rules! cell_from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Cell<'_> {
            fn from(value: $source) -> Self {
                Cell::$variant(value)
            }
        })*
    };
}

cell_from!(bool => Bool, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, i128 => Int128, f32 => Float,
    f64 => Double);

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Cell::String(value)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(value: &'a String) -> Self {
        Cell::String(value)
    }
}

impl<'a> From<&'a [u8]> for Cell<'a> {
    fn from(value: &'a [u8]) -> Self {
        Cell::Binary(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Cell<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Cell::Binary(value)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl<'a> From<&'a Value> for Cell<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(*value),
            Value::Int8(value) => Cell::Int8(*value),
            Value::Int16(value) => Cell::Int16(*value),
            Value::Int32(value) => Cell::Int32(*value),
            Value::Int64(value) => Cell::Int64(*value),
            Value::Int128(value) => Cell::Int128(*value),
            Value::Float(value) => Cell::Float(*value),
            Value::Double(value) => Cell::Double(*value),
            Value::String(value) => Cell::String(value),
            Value::Binary(value) => Cell::Binary(value),
        }
    }
}

/// An owned value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// Of a `Bool` column.
    Bool(bool),
    /// Of an `Int8` column.
    Int8(i8),
    /// Of an `Int16` column.
    Int16(i16),
    /// Of an `Int32` or `Date` column.
    Int32(i32),
    /// Of an `Int64` or `UnixtimeMicros` column.
    Int64(i64),
    /// Of a `Decimal` column: the unscaled value.
    Int128(i128),
    /// Of a `Float` column.
    Float(f32),
    /// Of a `Double` column.
    Double(f64),
    /// Of a `String` or `Varchar` column.
    String(String),
    /// Of a `Binary` column.
    Binary(Vec<u8>),
}

impl<'a, T: Into<Cell<'a>>> From<T> for Value {
    fn from(value: T) -> Self {
        match value.into() {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(value),
            Cell::Int8(value) => Value::Int8(value),
            Cell::Int16(value) => Value::Int16(value),
            Cell::Int32(value) => Value::Int32(value),
            Cell::Int64(value) => Value::Int64(value),
            Cell::Int128(value) => Value::Int128(value),
            Cell::Float(value) => Value::Float(value),
            Cell::Double(value) => Value::Double(value),
            Cell::String(value) => Value::String(value.to_owned()),
            Cell::Binary(value) => Value::Binary(value.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => formatter.write_str("NULL"),
            Value::Bool(value) => value.fmt(formatter),
            Value::Int8(value) => value.fmt(formatter),
            Value::Int16(value) => value.fmt(formatter),
            Value::Int32(value) => value.fmt(formatter),
            Value::Int64(value) => value.fmt(formatter),
            Value::Int128(value) => value.fmt(formatter),
            Value::Float(value) => value.fmt(formatter),
            Value::Double(value) => value.fmt(formatter),
            Value::String(value) => write!(formatter, "{value:?}"),
            Value::Binary(value) => write!(formatter, "{value:02x?}"),
        }
    }
}

/// The widest fixed-size cell.
pub(crate) const MAX_FIXED_BYTES: usize = 16;

/// The bytes of a cell as the wire carries them.
pub(crate) enum CellBytes<'a> {
    Fixed([u8; MAX_FIXED_BYTES], usize),
    Variable(&'a [u8]),
}

impl CellBytes<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            CellBytes::Fixed(bytes, length) => &bytes[..*length],
            CellBytes::Variable(bytes) => bytes,
        }
    }
}

fn fixed<const N: usize>(bytes: [u8; N]) -> CellBytes<'static> {
    let mut wide = [0; MAX_FIXED_BYTES];
    wide[..N].copy_from_slice(&bytes);
    CellBytes::Fixed(wide, N)
}

impl<'a> Cell<'a> {
    /// The wire bytes of this value in a column of this type; an error when the types do not fit.
    pub(crate) fn to_bytes(self, data_type: DataType) -> Result<CellBytes<'a>> {
        use DataType as T;
        Ok(match (data_type, self) {
            (T::Bool, Cell::Bool(value)) => fixed([u8::from(value)]),
            (T::Int8, Cell::Int8(value)) => fixed(value.to_le_bytes()),
            (T::Int16, Cell::Int16(value)) => fixed(value.to_le_bytes()),
            (T::Int32, Cell::Int32(value)) => fixed(value.to_le_bytes()),
            (T::Date, Cell::Int32(value)) => {
                // The years 0001 to 9999, as the servers check.
                if !(-719_162..=2_932_896).contains(&value) {
                    return Err(Error::invalid(format!("day {value} lies outside the years 0001 to 9999")));
                }
                fixed(value.to_le_bytes())
            }
            (T::Int64 | T::UnixtimeMicros, Cell::Int64(value)) => fixed(value.to_le_bytes()),
            (T::Float, Cell::Float(value)) => fixed(value.to_le_bytes()),
            (T::Double, Cell::Double(value)) => fixed(value.to_le_bytes()),
            (T::Decimal { precision, .. }, Cell::Int128(value)) => {
                if value.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
                    return Err(Error::invalid(format!("{value} has more than {precision} digits")));
                }
                match data_type.fixed_bytes() {
                    Some(4) => fixed((value as i32).to_le_bytes()),
                    Some(8) => fixed((value as i64).to_le_bytes()),
                    _ => fixed(value.to_le_bytes()),
                }
            }
            (T::String, Cell::String(value)) => CellBytes::Variable(value.as_bytes()),
            (T::Varchar { length }, Cell::String(value)) => {
                // Servers do not enforce the length, so text is cut here.
                let end = value.char_indices().nth(usize::from(length)).map_or(value.len(), |(end, _)| end);
                CellBytes::Variable(&value.as_bytes()[..end])
            }
            (T::Binary, Cell::Binary(value)) => CellBytes::Variable(value),
            (data_type, value) => {
                return Err(Error::invalid(format!("{value:?} does not fit a column of type {data_type:?}")));
            }
        })
    }
}

impl Value {
    pub(crate) fn is_nan(&self) -> bool {
        match self {
            Self::Float(value) => value.is_nan(),
            Self::Double(value) => value.is_nan(),
            _ => false,
        }
    }

    /// Reads the wire bytes of a column of this type.
    pub(crate) fn from_bytes(data_type: DataType, bytes: &[u8]) -> Result<Self> {
        use DataType as T;
        fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
            bytes.try_into().map_err(|_| {
                Error::protocol(format!("a cell of {} bytes where {N} are expected", bytes.len()))
            })
        }
        Ok(match data_type {
            T::Bool => Value::Bool(array::<1>(bytes)?[0] != 0),
            T::Int8 => Value::Int8(i8::from_le_bytes(array(bytes)?)),
            T::Int16 => Value::Int16(i16::from_le_bytes(array(bytes)?)),
            T::Int32 | T::Date => Value::Int32(i32::from_le_bytes(array(bytes)?)),
            T::Int64 | T::UnixtimeMicros => Value::Int64(i64::from_le_bytes(array(bytes)?)),
            T::Float => Value::Float(f32::from_le_bytes(array(bytes)?)),
            T::Double => Value::Double(f64::from_le_bytes(array(bytes)?)),
            T::Decimal { .. } => Value::Int128(match data_type.fixed_bytes() {
                Some(4) => i32::from_le_bytes(array(bytes)?).into(),
                Some(8) => i64::from_le_bytes(array(bytes)?).into(),
                _ => i128::from_le_bytes(array(bytes)?),
            }),
            T::String | T::Varchar { .. } => match std::str::from_utf8(bytes) {
                Ok(text) => Value::String(text.to_owned()),
                Err(_) => Value::Binary(bytes.to_vec()),
            },
            T::Binary => Value::Binary(bytes.to_vec()),
            T::Unknown(code) => return Err(Error::protocol(format!("a value of the unknown type {code}"))),
        })
    }

    pub(crate) fn to_wire(&self, data_type: DataType) -> Result<Bytes> {
        Ok(Bytes::copy_from_slice(Cell::from(self).to_bytes(data_type)?.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varchar_is_cut_at_characters() {
        let cut = Cell::String("aäöü").to_bytes(DataType::Varchar { length: 2 }).unwrap();
        assert_eq!(cut.as_slice(), "aä".as_bytes());
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let decimal = DataType::Decimal { precision: 3, scale: 1 };
        assert!(Cell::Int128(999).to_bytes(decimal).is_ok());
        assert!(Cell::Int128(-1000).to_bytes(decimal).is_err());
        assert!(Cell::Int32(3_000_000).to_bytes(DataType::Date).is_err());
        assert!(Cell::Int32(1).to_bytes(DataType::Int64).is_err());
    }

    #[test]
    fn decimals_take_the_width_of_their_precision() {
        for (precision, bytes) in [(9, 4), (10, 8), (18, 8), (19, 16), (38, 16)] {
            let data_type = DataType::Decimal { precision, scale: 0 };
            let encoded = Cell::Int128(-5).to_bytes(data_type).unwrap();
            assert_eq!(encoded.as_slice().len(), bytes);
            assert_eq!(Value::from_bytes(data_type, encoded.as_slice()).unwrap(), Value::Int128(-5));
        }
    }
}
