//! Values as they are written in text, read as the type of a column asks for.

use super::decimal::{Written, fits};
use super::second_digits::rounded_value;
pub(crate) use super::time_text::quick_time;
use super::time_text::{TimeError, WrittenTime};
use crate::bytes_text::read_bytes;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::{json_text, jsonb_text, uuid_text};
use chrono_tz::Tz;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;
use std::borrow::Cow;

/// What the meaning of a text depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    /// The time zone of the session.
    pub(crate) zone: Tz,
    /// The time of the statement, ns.
    pub(crate) now_ns: i64,
}

/// Reads a text as a value of a type.
pub(crate) fn read(text: &str, declared: DeclaredType, around: &Surroundings) -> SqlResult<Value> {
    let malformed = || {
        let name = short_name(declared);
        SqlError::new(SqlState::INVALID_TEXT, format!("invalid input syntax for type {name}: \"{text}\""))
    };
    if let Some((unrounded, digits)) = declared.rounded() {
        return rounded_value(read(text, unrounded, around)?, digits);
    }
    let trimmed = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
    match declared {
        DeclaredType::Bool => read_bool(trimmed).map(Value::Bool).ok_or_else(malformed),
        DeclaredType::Int2 | DeclaredType::Int4 | DeclaredType::Int8 => {
            let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(malformed());
            }
            let number = trimmed.parse().ok().filter(|number| is_in_range(*number, declared));
            number.map(Value::Int).ok_or_else(|| beyond_type(text, declared))
        }
        DeclaredType::Float4 | DeclaredType::Float8 => read_float(trimmed, text, declared, malformed),
        DeclaredType::Numeric { precision, scale } => match Written::read(trimmed) {
            Some(written) => decimal(written.scaled(scale), precision, scale),
            None if is_special(trimmed) => {
                Err(SqlError::unsupported(format!("the value {trimmed} of type numeric")))
            }
            None => Err(malformed()),
        },
        DeclaredType::Text
        | DeclaredType::Varchar(_)
        | DeclaredType::Char(_)
        | DeclaredType::Uuid
        | DeclaredType::Json
        | DeclaredType::Jsonb => text_of(text, declared).map(|text| Value::String(text.into_owned())),
        DeclaredType::Bytea => read_bytes(text).map(Value::Binary),
        _ => read_time(text, declared, around).map_err(|error| match error {
            TimeError::Syntax => {
                let message = malformed().message;
                SqlError::new(SqlState::INVALID_DATETIME, message)
            }
            TimeError::Range => {
                let message = format!("date/time field value out of range: \"{text}\"");
                SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, message)
                    .with_hint("Times lie between the years 1678 and 2262, and there is no infinity.")
            }
        }),
    }
}

fn read_time(text: &str, declared: DeclaredType, around: &Surroundings) -> Result<Value, TimeError> {
    let written = WrittenTime::read(text, around.zone, around.now_ns)?;
    Ok(Value::Int(match declared {
        DeclaredType::Date => i64::from(written.days()),
        DeclaredType::Timestamp => written.local_ns()?,
        _ => written.moment_ns(around.zone)?,
    }))
}

/// The name in messages about values, which leaves out what does not matter there.
pub(super) fn short_name(declared: DeclaredType) -> &'static str {
    match declared.unrounded() {
        DeclaredType::Timestamp => "timestamp",
        other => other.name(),
    }
}

fn read_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let is_start = |word: &str, least: usize| lower.len() >= least && word.starts_with(&*lower);
    match &*lower {
        "1" => Some(true),
        "0" => Some(false),
        _ if is_start("true", 1) || is_start("yes", 1) || is_start("on", 2) => Some(true),
        _ if is_start("false", 1) || is_start("no", 1) || is_start("off", 2) => Some(false),
        _ => None,
    }
}

fn read_float(
    trimmed: &str,
    text: &str,
    declared: DeclaredType,
    malformed: impl Fn() -> SqlError,
) -> SqlResult<Value> {
    let is_number = trimmed.bytes().any(|byte| byte.is_ascii_digit());
    if !is_number && !is_special(trimmed) {
        return Err(malformed());
    }
    let number: f64 = trimmed.parse().map_err(|_| malformed())?;
    let narrowed = match declared {
        DeclaredType::Float4 => f64::from(number as f32),
        _ => number,
    };
    let is_zero = Written::read(trimmed).is_none_or(|written| written.is_zero());
    if is_number && (narrowed.is_infinite() || (narrowed == 0.0 && !is_zero)) {
        let message = format!("\"{text}\" is out of range for type {}", declared.name());
        return Err(SqlError::new(SqlState::OUT_OF_RANGE, message));
    }
    Ok(float(narrowed))
}

/// A float as it is stored: there is one NaN, which is greater than all other numbers, and one zero.
pub(crate) fn float(number: f64) -> Value {
    Value::Float(if number.is_nan() {
        f64::NAN.abs()
    } else if number == 0.0 {
        0.0
    } else {
        number
    })
}

fn is_special(text: &str) -> bool {
    let lower = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    matches!(&*lower, "nan" | "infinity" | "inf")
}

/// A decimal, if it has not too many digits.
pub(super) fn decimal(value: Option<i128>, precision: u8, scale: u8) -> SqlResult<Value> {
    value.filter(|value| fits(*value, precision)).map(Value::Decimal).ok_or_else(|| {
        let digits = precision - scale;
        let least = if digits == 0 { "1".to_owned() } else { format!("10^{digits}") };
        SqlError::new(SqlState::OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {least}."
        ))
    })
}

pub(super) fn is_in_range(number: i64, declared: DeclaredType) -> bool {
    match declared {
        DeclaredType::Int2 => i16::try_from(number).is_ok(),
        DeclaredType::Int4 => i32::try_from(number).is_ok(),
        _ => true,
    }
}

fn beyond_type(text: &str, declared: DeclaredType) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {}", declared.name());
    SqlError::new(SqlState::OUT_OF_RANGE, message)
}

/// A text as a column of a type of texts stores it.
///
/// # Errors
/// It is too long, or no value of the type.
pub(crate) fn text_of(text: &str, declared: DeclaredType) -> SqlResult<Cow<'_, str>> {
    let limited = limited_text(text, declared)?;
    match declared {
        DeclaredType::Uuid => uuid_text::read(limited),
        DeclaredType::Json => json_text::read(limited).map(Cow::Borrowed),
        DeclaredType::Jsonb => jsonb_text::normal(json_text::read(limited)?).map(Cow::Owned),
        _ => Ok(limited.into()),
    }
}

/// A text that is not longer than its type allows. Blanks that are too many are cut off, and those at the end of a text of
/// fixed length are not stored.
pub(crate) fn limited_text(text: &str, declared: DeclaredType) -> SqlResult<&str> {
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::INVALID_ENCODING, message));
    }
    let (length, text) = match declared {
        DeclaredType::Varchar(length) => (length as usize, text),
        DeclaredType::Char(length) => (length as usize, text.trim_end_matches(' ')),
        _ => return Ok(text),
    };
    let Some((end, _)) = text.char_indices().nth(length) else { return Ok(text) };
    match text[end..].chars().all(|letter| letter == ' ') {
        true => Ok(&text[..end]),
        false => Err(SqlError::new(SqlState::TEXT_TOO_LONG, format!("value too long for type {declared}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        use DeclaredType::{Bool, Bytea, Char, Float4, Float8, Int2, Json, Jsonb, Numeric, Uuid, Varchar};
        let around = Surroundings { zone: Tz::UTC, now_ns: 0 };
        let got = |text: &str, declared| read(text, declared, &around).map_err(|error| error.code.0);
        assert_eq!(got(" yEs ", Bool), Ok(Value::Bool(true)));
        assert_eq!(got("o", Bool), Err("22P02"));
        assert_eq!(got(" -12 ", Int2), Ok(Value::Int(-12)));
        assert_eq!(got("32768", Int2), Err("22003"));
        assert_eq!(got("1.0", Int2), Err("22P02"));
        assert_eq!(got("nan", Float8), Ok(Value::Float(f64::NAN.abs())));
        assert_eq!(got("-0", Float8), Ok(Value::Float(0.0)));
        assert_eq!(got("1e39", Float4), Err("22003"));
        assert_eq!(got("1e-400", Float8), Err("22003"));
        let numeric = Numeric { precision: 4, scale: 2 };
        assert_eq!(got("99.994", numeric), Ok(Value::Decimal(9999)));
        assert_eq!(got("99.995", numeric), Err("22003"));
        assert_eq!(got("abc  ", Varchar(3)), Ok(Value::String("abc".into())));
        assert_eq!(got("abcd", Varchar(3)), Err("22001"));
        assert_eq!(got("äöü", Char(5)), Ok(Value::String("äöü".into())));
        assert_eq!(got("{\"b\":1, \"a\": [ ]}", Jsonb), Ok(Value::String("{\"a\": [], \"b\": 1}".into())));
        assert_eq!(got(" [1 ]", Json), Ok(Value::String(" [1 ]".into())));
        assert_eq!([got("{", Json), got("x", Uuid)], [Err("22P02"), Err("22P02")]);
        assert_eq!(got("\\x00Ff", Bytea), Ok(Value::Binary(vec![0, 255])));
        assert_eq!(got("a\\\\\\001", Bytea), Ok(Value::Binary(b"a\\\x01".to_vec())));
        assert_eq!(got("\\x0", Bytea), Err("22023"));
    }
}
