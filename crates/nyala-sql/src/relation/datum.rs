//! A value with the type that it has, on its way into a column: the conversions that PostgreSQL makes when a value is
//! assigned, and the errors of those that it refuses.

use super::decimal::{Written, rescaled, text_of};
use super::input::{self, Surroundings, decimal, float, is_in_range, read, short_name};
use super::output;
use super::second_digits::rounded_value;
use super::time_text::{TimeError, local_of_moment, moment_of_local};
use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;
use std::borrow::Cow;

const DAY_NS: i64 = 86_400_000_000_000;

/// A value and its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// A decimal, with its digits behind the point.
    Decimal(i128, i8),
    /// A number as it is written, whose type is not decided yet.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// A text in quotes, which becomes what it is needed as.
    Unknown(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// Days since 1970.
    Date(i32),
    /// Date and time of day, ns since 1970.
    Timestamp(i64),
    /// A moment, ns since 1970.
    Moment(i64),
}

impl<'a> Datum<'a> {
    /// The value of a slot; `None` if it is of a type that no column takes. Texts are of the type unknown if `is_unknown`.
    pub(crate) fn at(array: &'a ArrayRef, row: usize, is_unknown: bool) -> Option<Self> {
        if array.is_null(row) {
            return Some(Self::Null);
        }
        let text = |text: &'a str| match is_unknown {
            true => Self::Unknown(text.into()),
            false => Self::Text(text.into()),
        };
        macro_rules! int {
            ($type:ty) => {
                Self::Int(array.as_primitive::<$type>().value(row).into())
            };
        }
        Some(match array.data_type() {
            DataType::Boolean => Self::Bool(array.as_boolean().value(row)),
            DataType::Int8 => int!(Int8Type),
            DataType::Int16 => int!(Int16Type),
            DataType::Int32 => int!(Int32Type),
            DataType::Int64 => int!(Int64Type),
            DataType::UInt8 => int!(UInt8Type),
            DataType::UInt16 => int!(UInt16Type),
            DataType::UInt32 => int!(UInt32Type),
            DataType::UInt64 => int!(UInt64Type),
            DataType::Float32 => Self::Float(array.as_primitive::<Float32Type>().value(row).into()),
            DataType::Float64 => Self::Float(array.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal128(_, scale) => {
                Self::Decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)
            }
            DataType::Utf8 => text(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => text(array.as_string::<i64>().value(row)),
            DataType::Utf8View => text(array.as_string_view().value(row)),
            DataType::Binary => Self::Bytes(array.as_binary::<i32>().value(row).into()),
            DataType::LargeBinary => Self::Bytes(array.as_binary::<i64>().value(row).into()),
            DataType::BinaryView => Self::Bytes(array.as_binary_view().value(row).into()),
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>().value(row)),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let time_ns = array.as_primitive::<TimestampNanosecondType>().value(row);
                if zone.is_some() { Self::Moment(time_ns) } else { Self::Timestamp(time_ns) }
            }
            _ => return None,
        })
    }

    /// A scalar, as [`Datum::at`] takes a slot.
    pub(crate) fn of_scalar(scalar: &'a ScalarValue, is_unknown: bool) -> Option<Self> {
        Some(match scalar {
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)) => match is_unknown {
                true => Self::Unknown(text.into()),
                false => Self::Text(text.into()),
            },
            ScalarValue::Boolean(Some(value)) => Self::Bool(*value),
            ScalarValue::Int8(Some(value)) => Self::Int((*value).into()),
            ScalarValue::Int16(Some(value)) => Self::Int((*value).into()),
            ScalarValue::Int32(Some(value)) => Self::Int((*value).into()),
            ScalarValue::Int64(Some(value)) => Self::Int((*value).into()),
            ScalarValue::UInt8(Some(value)) => Self::Int((*value).into()),
            ScalarValue::UInt16(Some(value)) => Self::Int((*value).into()),
            ScalarValue::UInt32(Some(value)) => Self::Int((*value).into()),
            ScalarValue::UInt64(Some(value)) => Self::Int((*value).into()),
            ScalarValue::Float32(Some(value)) => Self::Float((*value).into()),
            ScalarValue::Float64(Some(value)) => Self::Float(*value),
            ScalarValue::Decimal128(Some(value), _, scale) => Self::Decimal(*value, *scale),
            ScalarValue::Binary(Some(bytes))
            | ScalarValue::LargeBinary(Some(bytes))
            | ScalarValue::BinaryView(Some(bytes)) => Self::Bytes(bytes.into()),
            ScalarValue::Date32(Some(days)) => Self::Date(*days),
            ScalarValue::TimestampNanosecond(Some(time_ns), Some(_)) => Self::Moment(*time_ns),
            ScalarValue::TimestampNanosecond(Some(time_ns), None) => Self::Timestamp(*time_ns),
            ScalarValue::Dictionary(_, inner) => return Self::of_scalar(inner, is_unknown),
            other if other.is_null() => Self::Null,
            _ => return None,
        })
    }

    /// The value as a column of texts stores it; `None` if it is NULL.
    pub(crate) fn stored_text(
        &self,
        declared: DeclaredType,
        around: &Surroundings,
    ) -> SqlResult<Option<Cow<'_, str>>> {
        if *self == Self::Null {
            return Ok(None);
        }
        Ok(Some(match self.text(around) {
            Cow::Borrowed(text) => input::text_of(text, declared)?,
            Cow::Owned(text) => input::text_of(&text, declared)?.into_owned().into(),
        }))
    }

    /// The value as a column of a name and type stores it; `None` if it is NULL.
    pub(crate) fn stored(
        self,
        name: &str,
        declared: DeclaredType,
        around: &Surroundings,
    ) -> SqlResult<Option<Value>> {
        use DeclaredType as D;
        if let Some((unrounded, digits)) = declared.rounded() {
            let stored = self.stored(name, unrounded, around)?;
            return stored.map(|value| rounded_value(value, digits)).transpose();
        }
        let refused = |datum: &Self| Err(refused(name, declared, datum.type_name()));
        Ok(Some(match (self, declared) {
            (Self::Null, _) => return Ok(None),
            (Self::Unknown(text), _) => read(&text, declared, around)?,
            (Self::Number(text), _) => number(&text, name, declared, around)?,
            (datum, D::Text | D::Varchar(_) | D::Char(_)) => {
                Value::String(input::text_of(&datum.text(around), declared)?.into_owned())
            }
            (Self::Text(text), D::Uuid | D::Json | D::Jsonb) => read(&text, declared, around)?,
            (Self::Bool(value), D::Bool) => Value::Bool(value),
            (Self::Int(value), D::Int2 | D::Int4 | D::Int8) => integer(Some(value), declared)?,
            (Self::Decimal(value, scale), D::Int2 | D::Int4 | D::Int8) => {
                integer(rescaled(value, scale, 0).map(|(value, _)| value), declared)?
            }
            (Self::Float(value), D::Int2 | D::Int4 | D::Int8) => {
                let rounded = value.round_ties_even();
                integer((rounded.abs() < 1e20).then_some(rounded as i128), declared)?
            }
            (Self::Int(value), D::Float4 | D::Float8) => narrowed(value as f64, declared)?,
            (Self::Decimal(value, scale), D::Float4 | D::Float8) => {
                narrowed(text_of(value, scale).parse().unwrap_or(f64::NAN), declared)?
            }
            (Self::Float(value), D::Float4 | D::Float8) => narrowed(value, declared)?,
            (Self::Int(value), D::Numeric { precision, scale }) => {
                decimal(rescaled(value, 0, scale as i8).map(|(value, _)| value), precision, scale)?
            }
            (Self::Decimal(value, from), D::Numeric { precision, scale }) => {
                decimal(rescaled(value, from, scale as i8).map(|(value, _)| value), precision, scale)?
            }
            (Self::Float(value), D::Numeric { .. }) if !value.is_finite() => {
                return Err(SqlError::unsupported(format!("the value {value} of type numeric")));
            }
            (Self::Float(value), D::Numeric { precision, scale }) => {
                // As many digits as a float surely has.
                let written = Written::read(&format!("{value:.14e}"));
                decimal(written.and_then(|written| written.scaled(scale)), precision, scale)?
            }
            (Self::Bytes(bytes), D::Bytea) => Value::Binary(bytes.into_owned()),
            (
                datum @ (Self::Date(_) | Self::Timestamp(_) | Self::Moment(_)),
                D::Date | D::Timestamp | D::Timestamptz,
            ) => datum.time(declared, around)?,
            (other, _) => return refused(&other),
        }))
    }

    fn time(&self, declared: DeclaredType, around: &Surroundings) -> SqlResult<Value> {
        let beyond = |_| SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "timestamp out of range");
        let zone = around.zone;
        let local_ns = match self {
            Self::Moment(moment_ns) if declared == DeclaredType::Timestamptz => {
                return Ok(Value::Int(*moment_ns));
            }
            Self::Moment(moment_ns) => local_of_moment(*moment_ns, zone),
            Self::Timestamp(local_ns) => *local_ns,
            Self::Date(days) => {
                i64::from(*days).checked_mul(DAY_NS).ok_or(TimeError::Range).map_err(beyond)?
            }
            _ => unreachable!("it is a time"),
        };
        Ok(Value::Int(match declared {
            DeclaredType::Date => local_ns.div_euclid(DAY_NS),
            DeclaredType::Timestamp => local_ns,
            _ => moment_of_local(local_ns, zone).map_err(beyond)?,
        }))
    }

    /// The value as text.
    fn text(&self, around: &Surroundings) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Unknown(text) | Self::Number(text) => Cow::Borrowed(text),
            Self::Null => Cow::Borrowed(""),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Int(value) => value.to_string().into(),
            Self::Float(value) => output::float(*value).into(),
            Self::Decimal(value, scale) => text_of(*value, *scale).into(),
            Self::Bytes(bytes) => output::bytes(bytes).into(),
            Self::Date(days) => output::date(i64::from(*days)).into(),
            Self::Timestamp(time_ns) => output::timestamp(*time_ns).into(),
            Self::Moment(time_ns) => output::moment(*time_ns, around.zone).into(),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null | Self::Unknown(_) => "unknown",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "bigint",
            Self::Float(_) => "double precision",
            Self::Decimal(..) => "numeric",
            Self::Number(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => "integer",
            Self::Number(_) => "numeric",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytea",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::Moment(_) => "timestamp with time zone",
        }
    }
}

/// The error of a value whose type its column does not take.
pub(super) fn refused(name: &str, declared: DeclaredType, given: &str) -> SqlError {
    let expected = declared.name();
    let message = format!("column \"{name}\" is of type {expected} but expression is of type {given}");
    SqlError::new(SqlState::TYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression.")
}

/// A number as it is written, which is a decimal unless it has to become something else.
fn number(text: &str, name: &str, declared: DeclaredType, around: &Surroundings) -> SqlResult<Value> {
    match declared {
        DeclaredType::Int2 | DeclaredType::Int4 | DeclaredType::Int8 => {
            integer(Written::read(text).and_then(|written| written.scaled(0)), declared)
        }
        DeclaredType::Bool
        | DeclaredType::Bytea
        | DeclaredType::Uuid
        | DeclaredType::Json
        | DeclaredType::Jsonb => Err(refused(name, declared, Datum::Number(text.into()).type_name())),
        DeclaredType::Date | DeclaredType::Timestamp | DeclaredType::Timestamptz => {
            Err(refused(name, declared, Datum::Number(text.into()).type_name()))
        }
        _ => read(text, declared, around),
    }
}

fn integer(value: Option<i128>, declared: DeclaredType) -> SqlResult<Value> {
    let fitting =
        value.and_then(|value| i64::try_from(value).ok()).filter(|value| is_in_range(*value, declared));
    fitting.map(Value::Int).ok_or_else(|| {
        SqlError::new(SqlState::OUT_OF_RANGE, format!("{} out of range", short_name(declared)))
    })
}

fn narrowed(value: f64, declared: DeclaredType) -> SqlResult<Value> {
    if declared == DeclaredType::Float8 {
        return Ok(float(value));
    }
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return Err(SqlError::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && value != 0.0 {
        return Err(SqlError::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(float(f64::from(narrow)))
}
