//! A column that is being filled, value by value.
//!
//! What most values look like is read here directly; whatever else a type accepts, and every error, is left to
//! [`crate::relation::input`].

use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::input::{Surroundings, float, quick_time, read, text_of};
use crate::relation::second_digits::rounded_ns;
use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder,
};
use arrow_schema::ArrowError;
use chrono_tz::Tz;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

/// The values of a column, in the type in which the store has them.
pub(super) struct Cells {
    declared: DeclaredType,
    values: Values,
}

enum Values {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(TimestampNanosecondBuilder),
}

impl Cells {
    pub(super) fn of(declared: DeclaredType) -> SqlResult<Self> {
        let values = match declared {
            DeclaredType::Bool => Values::Bool(BooleanBuilder::new()),
            DeclaredType::Int2 => Values::Int2(Int16Builder::new()),
            DeclaredType::Int4 => Values::Int4(Int32Builder::new()),
            DeclaredType::Int8 => Values::Int8(Int64Builder::new()),
            DeclaredType::Float4 => Values::Float4(Float32Builder::new()),
            DeclaredType::Float8 => Values::Float8(Float64Builder::new()),
            DeclaredType::Numeric { precision, scale } => {
                let builder = Decimal128Builder::new().with_precision_and_scale(precision, scale as i8);
                Values::Numeric(builder.map_err(internal)?)
            }
            DeclaredType::Text
            | DeclaredType::Varchar(_)
            | DeclaredType::Char(_)
            | DeclaredType::Uuid
            | DeclaredType::Json
            | DeclaredType::Jsonb => Values::Text(StringBuilder::new()),
            DeclaredType::Bytea => Values::Bytes(BinaryBuilder::new()),
            DeclaredType::Date => Values::Date(Date32Builder::new()),
            DeclaredType::Timestamp
            | DeclaredType::Timestamptz
            | DeclaredType::TimestampDigits(_)
            | DeclaredType::TimestamptzDigits(_) => Values::Time(TimestampNanosecondBuilder::new()),
        };
        Ok(Self { declared, values })
    }

    pub(super) fn add_null(&mut self) {
        match &mut self.values {
            Values::Bool(values) => values.append_null(),
            Values::Int2(values) => values.append_null(),
            Values::Int4(values) => values.append_null(),
            Values::Int8(values) => values.append_null(),
            Values::Float4(values) => values.append_null(),
            Values::Float8(values) => values.append_null(),
            Values::Numeric(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
            Values::Bytes(values) => values.append_null(),
            Values::Date(values) => values.append_null(),
            Values::Time(values) => values.append_null(),
        }
    }

    /// Adds a value that is written in text.
    pub(super) fn add_text(&mut self, text: &str, around: &Surroundings) -> SqlResult<()> {
        let is_added = match &mut self.values {
            Values::Int2(values) => whole(text).map(|number| values.append_value(number)),
            Values::Int4(values) => whole(text).map(|number| values.append_value(number)),
            Values::Int8(values) => whole(text).map(|number| values.append_value(number)),
            Values::Float4(values) => {
                let number = plain_float(text).and_then(|text| text.parse::<f32>().ok());
                let number = number.filter(|number| number.is_finite() && *number != 0.0);
                number.map(|number| values.append_value(number))
            }
            Values::Float8(values) => {
                let number = plain_float(text).and_then(|text| text.parse::<f64>().ok());
                let number = number.filter(|number| number.is_finite() && *number != 0.0);
                number.map(|number| values.append_value(number))
            }
            Values::Text(values) if self.declared == DeclaredType::Text => {
                let is_whole = !text.as_bytes().contains(&0);
                is_whole.then(|| values.append_value(text))
            }
            Values::Time(values) => {
                let time_ns =
                    quick_time(text).and_then(|(local_ns, offset_s)| match self.declared.unrounded() {
                        DeclaredType::Timestamp => Some(local_ns),
                        _ if offset_s.is_some() || around.zone == Tz::UTC => {
                            local_ns.checked_sub(i64::from(offset_s.unwrap_or(0)) * 1_000_000_000)
                        }
                        _ => None,
                    });
                let time_ns = match (time_ns, self.declared.rounded()) {
                    (Some(time_ns), Some((_, digits))) => Some(rounded_ns(time_ns, digits)?),
                    (time_ns, _) => time_ns,
                };
                time_ns.map(|time_ns| values.append_value(time_ns))
            }
            _ => None,
        };
        match is_added {
            Some(()) => Ok(()),
            None => self.add(read(text, self.declared, around)?),
        }
    }

    /// Adds a value that a client sent in the form of its type.
    pub(super) fn add_scalar(&mut self, scalar: ScalarValue) -> SqlResult<()> {
        let wrong = |scalar: &ScalarValue| {
            let message = format!("a value of type {} for {}", scalar.data_type(), self.declared.name());
            Err(SqlError::new(SqlState::TYPE_MISMATCH, message))
        };
        let value = match scalar {
            scalar if scalar.is_null() => {
                self.add_null();
                return Ok(());
            }
            ScalarValue::Boolean(Some(value)) => Value::Bool(value),
            ScalarValue::Int16(Some(value)) => Value::Int(value.into()),
            ScalarValue::Int32(Some(value)) => Value::Int(value.into()),
            ScalarValue::Int64(Some(value)) => Value::Int(value),
            ScalarValue::Float32(Some(value)) => float(value.into()),
            ScalarValue::Float64(Some(value)) => float(value),
            ScalarValue::Decimal128(Some(value), ..) => Value::Decimal(value),
            ScalarValue::Utf8(Some(text)) => Value::String(text_of(&text, self.declared)?.into_owned()),
            ScalarValue::Binary(Some(bytes)) => Value::Binary(bytes),
            ScalarValue::Date32(Some(i32::MIN | i32::MAX)) => {
                let words = "date/time field value out of range: \"infinity\"";
                return Err(SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, words)
                    .with_hint("Times lie between the years 1678 and 2262, and there is no infinity."));
            }
            ScalarValue::Date32(Some(days)) => Value::Int(days.into()),
            ScalarValue::TimestampNanosecond(Some(time_ns), _) => match self.declared.rounded() {
                Some((_, digits)) => Value::Int(rounded_ns(time_ns, digits)?),
                None => Value::Int(time_ns),
            },
            other => return wrong(&other),
        };
        self.add(value)
    }

    fn add(&mut self, value: Value) -> SqlResult<()> {
        match (&mut self.values, value) {
            (Values::Bool(values), Value::Bool(value)) => values.append_value(value),
            (Values::Int2(values), Value::Int(value)) => values.append_value(narrow(value)?),
            (Values::Int4(values), Value::Int(value)) => values.append_value(narrow(value)?),
            (Values::Int8(values), Value::Int(value)) => values.append_value(value),
            (Values::Float4(values), Value::Float(value)) => values.append_value(value as f32),
            (Values::Float8(values), Value::Float(value)) => values.append_value(value),
            (Values::Numeric(values), Value::Decimal(value)) => values.append_value(value),
            (Values::Text(values), Value::String(text)) => values.append_value(text),
            (Values::Bytes(values), Value::Binary(bytes)) => values.append_value(bytes),
            (Values::Date(values), Value::Int(days)) => values.append_value(narrow(days)?),
            (Values::Time(values), Value::Int(time_ns)) => values.append_value(time_ns),
            (_, value) => {
                let message = format!("{value:?} is no value of type {}", self.declared.name());
                return Err(SqlError::new(SqlState::INTERNAL, message));
            }
        }
        Ok(())
    }

    /// The values so far; it is empty afterwards.
    pub(super) fn take(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Bool(values) => Arc::new(values.finish()),
            Values::Int2(values) => Arc::new(values.finish()),
            Values::Int4(values) => Arc::new(values.finish()),
            Values::Int8(values) => Arc::new(values.finish()),
            Values::Float4(values) => Arc::new(values.finish()),
            Values::Float8(values) => Arc::new(values.finish()),
            Values::Numeric(values) => Arc::new(values.finish()),
            Values::Text(values) => Arc::new(values.finish()),
            Values::Bytes(values) => Arc::new(values.finish()),
            Values::Date(values) => Arc::new(values.finish()),
            Values::Time(values) => Arc::new(values.finish()),
        }
    }
}

fn narrow<T: TryFrom<i64>>(value: i64) -> SqlResult<T> {
    T::try_from(value)
        .map_err(|_| SqlError::new(SqlState::OUT_OF_RANGE, format!("value \"{value}\" is out of range")))
}

/// A number of at most 18 digits, with or without a minus.
fn whole<T: TryFrom<i64>>(text: &str) -> Option<T> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    T::try_from(if is_negative { -number } else { number }).ok()
}

/// The text if it can only be a number of digits: without blanks, and not one of the words that floats have.
fn plain_float(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let begins = matches!(bytes, [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..]);
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    (begins && bytes.iter().all(is_part)).then_some(text)
}

fn internal(error: ArrowError) -> SqlError {
    DataFusionError::from(error).into()
}
