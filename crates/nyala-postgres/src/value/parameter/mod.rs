//! Parameters: what a client sent in text or binary, as a value of the type that the statement wants.
//!
//! Two types meet here. The bytes are of the type that the client declared, or that it was told when it declared none;
//! the statement may want another one, such as a dictionary of strings, and gets it by a cast.

mod array;

use super::column::{Format, uuid};
use super::numeric::Decimal;
use super::time::{DAY_US, US_TO_2000};
use super::time_text::{date_of, read_date, read_time, read_timestamp};
use super::types::{ColumnType, PgType};
use crate::error::Failure;
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::DataType;
use nyala_exec::Zone;
use nyala_sql::{ScalarValue, read_bytes, read_interval};

/// Reads a parameter. A text of a time without a zone means one of `zone`.
///
/// # Errors
/// PostgreSQL's: malformed text or bytes, or a value beyond the range of its type.
pub fn read(
    bytes: Option<&[u8]>,
    format: Format,
    sent_as: ColumnType,
    wanted: &DataType,
    zone: Zone,
) -> Result<ScalarValue, Failure> {
    let Some(bytes) = bytes else {
        return ScalarValue::try_new_null(wanted).map_err(|error| Failure::unsupported(error.to_string()));
    };
    let found = match (sent_as.is_array, format) {
        (false, Format::Text) => of_text(utf8(bytes)?, sent_as.of, wanted, zone)?,
        (false, Format::Binary) => of_binary(bytes, sent_as.of, wanted)?,
        (true, Format::Text) => array::of_text(utf8(bytes)?, sent_as.of, zone)?,
        (true, Format::Binary) => array::of_binary(bytes, sent_as.of)?,
    };
    if found.data_type() == *wanted {
        return Ok(found);
    }
    let cast = found.cast_to(wanted);
    cast.map_err(|_| {
        Failure::new("22003", format!("a value of type {} is out of range for {wanted}", sent_as.of.name()))
    })
}

/// Text that a client sent.
///
/// # Errors
/// PostgreSQL's, which shows the first bytes that are no text. Its strings end at a zero.
pub fn utf8(bytes: &[u8]) -> Result<&str, Failure> {
    let text = std::str::from_utf8(bytes);
    let wrong = match text {
        Ok(text) => match memchr::memchr(0, bytes) {
            None => return Ok(text),
            Some(at) => at,
        },
        Err(error) => {
            let valid = error.valid_up_to();
            memchr::memchr(0, &bytes[..valid]).unwrap_or(valid)
        }
    };
    let length = match bytes[wrong] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let shown = bytes[wrong..].iter().take(length).map(|byte| format!("0x{byte:02x}"));
    let shown = shown.collect::<Vec<_>>().join(" ");
    Err(Failure::new("22021", format!("invalid byte sequence for encoding \"UTF8\": {shown}")))
}

/// Reads a value that is no array from text.
pub(super) fn of_text(text: &str, of: PgType, wanted: &DataType, zone: Zone) -> Result<ScalarValue, Failure> {
    let malformed = || Failure::malformed(long_name(of), text);
    let trimmed = text.trim_matches(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b');
    Ok(match of {
        PgType::Bool => ScalarValue::Boolean(Some(boolean(trimmed).ok_or_else(malformed)?)),
        PgType::Int2 | PgType::Int4 | PgType::Int8 => integer(trimmed, of)?,
        PgType::Oid | PgType::Xid => {
            ScalarValue::Int64(Some(trimmed.parse::<u32>().map_err(|_| malformed())?.into()))
        }
        PgType::Float4 => ScalarValue::Float32(Some(float(trimmed, of, |value: &f32| value.is_infinite())?)),
        PgType::Float8 => ScalarValue::Float64(Some(float(trimmed, of, |value: &f64| value.is_infinite())?)),
        PgType::Numeric => decimal(Decimal::read(text)?, wanted)?,
        PgType::Bytea => ScalarValue::Binary(Some(read_bytes(text)?)),
        PgType::Date => ScalarValue::Date32(Some(read_date(text)?)),
        PgType::Time => ScalarValue::Time64Microsecond(Some(read_time(text)?)),
        PgType::Timestamp => ScalarValue::TimestampNanosecond(Some(read_timestamp(text, None)?), None),
        PgType::Timestamptz => {
            ScalarValue::TimestampNanosecond(Some(read_timestamp(text, Some(zone))?), Some("UTC".into()))
        }
        PgType::Interval => ScalarValue::IntervalMonthDayNano(Some(read_interval(text)?)),
        PgType::Uuid => ScalarValue::Utf8(Some(uuid_text(uuid(text).ok_or_else(malformed)?))),
        _ => ScalarValue::Utf8(Some(text.to_owned())),
    })
}

/// Reads a value that is no array from its binary form.
pub(super) fn of_binary(bytes: &[u8], of: PgType, wanted: &DataType) -> Result<ScalarValue, Failure> {
    let invalid = || Failure::invalid_binary(long_name(of));
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_be_bytes(bytes.try_into().map_err(|_| invalid())?)
        };
    }
    Ok(match of {
        PgType::Bool => ScalarValue::Boolean(Some(number!(u8) != 0)),
        PgType::Int2 => ScalarValue::Int16(Some(number!(i16))),
        PgType::Int4 => ScalarValue::Int32(Some(number!(i32))),
        PgType::Int8 => ScalarValue::Int64(Some(number!(i64))),
        PgType::Oid | PgType::Xid | PgType::Regclass | PgType::Regtype | PgType::Regproc => {
            ScalarValue::Int64(Some(number!(u32).into()))
        }
        PgType::Float4 => ScalarValue::Float32(Some(number!(f32))),
        PgType::Float8 => ScalarValue::Float64(Some(number!(f64))),
        PgType::Numeric => decimal(Decimal::of_binary(bytes)?, wanted)?,
        PgType::Bytea => ScalarValue::Binary(Some(bytes.to_vec())),
        PgType::Date => ScalarValue::Date32(Some(match number!(i32) {
            infinite @ (i32::MIN | i32::MAX) => infinite,
            from_2000 => date_of(from_2000.into())?,
        })),
        PgType::Time => {
            let of_day_us = Some(number!(i64)).filter(|us| (0..=DAY_US).contains(us));
            let of_day_us = of_day_us.ok_or_else(|| Failure::new("22008", "time out of range"))?;
            ScalarValue::Time64Microsecond(Some(of_day_us))
        }
        PgType::Timestamp => ScalarValue::TimestampNanosecond(Some(unix_ns(number!(i64))?), None),
        PgType::Timestamptz => {
            ScalarValue::TimestampNanosecond(Some(unix_ns(number!(i64))?), Some("UTC".into()))
        }
        PgType::Interval => {
            let (us, days, months) = bytes
                .split_first_chunk::<8>()
                .and_then(|(us, rest)| {
                    let (days, months) = rest.split_first_chunk::<4>()?;
                    Some((i64::from_be_bytes(*us), i32::from_be_bytes(*days), months.try_into().ok()?))
                })
                .ok_or_else(invalid)?;
            let ns = us.checked_mul(1000).ok_or_else(|| Failure::new("22008", "interval out of range"))?;
            let span = IntervalMonthDayNano::new(i32::from_be_bytes(months), days, ns);
            ScalarValue::IntervalMonthDayNano(Some(span))
        }
        PgType::Uuid => ScalarValue::Utf8(Some(uuid_text(bytes.try_into().map_err(|_| invalid())?))),
        PgType::Jsonb => match bytes.split_first() {
            Some((1, text)) => ScalarValue::Utf8(Some(utf8(text)?.to_owned())),
            _ => return Err(invalid()),
        },
        PgType::Int2vector
        | PgType::Oidvector
        | PgType::Anyarray
        | PgType::Aclitem
        | PgType::PgLsn
        | PgType::PgNodeTree
        | PgType::Inet => return Err(invalid()),
        PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name | PgType::Char | PgType::Json => {
            ScalarValue::Utf8(Some(utf8(bytes)?.to_owned()))
        }
    })
}

/// A UUID as it is stored: with small letters and four hyphens.
fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The name of a type in error messages.
fn long_name(of: PgType) -> &'static str {
    match of {
        PgType::Bool => "boolean",
        PgType::Int2 => "smallint",
        PgType::Int4 => "integer",
        PgType::Int8 => "bigint",
        PgType::Float4 => "real",
        PgType::Float8 => "double precision",
        PgType::Timestamptz => "timestamp with time zone",
        other => other.name(),
    }
}

/// Any beginning of true, false, yes, no; on, off, 1, 0.
fn boolean(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if begins("true", 1) || begins("yes", 1) || lower == "on" || lower == "1" {
        return Some(true);
    }
    (begins("false", 1) || begins("no", 1) || begins("off", 2) || lower == "0").then_some(false)
}

fn integer(text: &str, of: PgType) -> Result<ScalarValue, Failure> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Failure::malformed(long_name(of), text));
    }
    let found = match of {
        PgType::Int2 => text.parse().ok().map(|value| ScalarValue::Int16(Some(value))),
        PgType::Int4 => text.parse().ok().map(|value| ScalarValue::Int32(Some(value))),
        _ => text.parse().ok().map(|value| ScalarValue::Int64(Some(value))),
    };
    found.ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        Failure::new("22003", format!("value \"{shown}\" is out of range for type {}", long_name(of)))
    })
}

/// A number, or `NaN`, `Infinity`, `inf`; one that is infinite only because it has many digits is refused.
fn float<T: std::str::FromStr>(
    text: &str,
    of: PgType,
    is_infinite: impl Fn(&T) -> bool,
) -> Result<T, Failure> {
    let lower = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    let is_word = matches!(lower.as_str(), "nan" | "inf" | "infinity");
    let is_number = lower.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let value = (is_word || is_number).then(|| text.parse::<T>().ok()).flatten();
    let value = value.ok_or_else(|| Failure::malformed(long_name(of), text))?;
    if is_infinite(&value) && !is_word {
        let shown: String = text.chars().take(64).collect();
        return Err(Failure::new("22003", format!("\"{shown}\" is out of range for type {}", long_name(of))));
    }
    Ok(value)
}

/// A decimal number with the digits that the statement wants, or with its own; or its text, where no number is wanted. It is
/// not rounded to an integer, because the statement may compare with it.
fn decimal(found: Decimal, wanted: &DataType) -> Result<ScalarValue, Failure> {
    match wanted {
        DataType::Decimal128(precision, scale) => {
            let rounded = found.rounded(*scale, *precision).ok_or_else(|| {
                Failure::new("22003", "numeric field overflow")
                    .with_hint(format!("The statement wants a numeric({precision}, {scale})."))
            })?;
            Ok(ScalarValue::Decimal128(Some(rounded), *precision, *scale))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            let mut text = Vec::new();
            super::numeric::write_text(&found.value.to_string(), found.scale, &mut text);
            Ok(ScalarValue::Utf8(Some(String::from_utf8_lossy(&text).into_owned())))
        }
        DataType::Float64 | DataType::Float32 => {
            // Through its text, so that it is the nearest number.
            let mut text = Vec::new();
            super::numeric::write_text(&found.value.to_string(), found.scale, &mut text);
            let value =
                String::from_utf8_lossy(&text).parse().map_err(|_| Failure::invalid_binary("numeric"))?;
            Ok(ScalarValue::Float64(Some(value)))
        }
        other if other.is_integer() => {
            let whole = found.whole();
            let whole = whole.ok_or_else(|| {
                let shown = ScalarValue::Decimal128(Some(found.value), 38, found.scale);
                Failure::new("22023", format!("the statement wants an integer, not {shown}"))
                    .with_hint("Say CAST($1 AS numeric(38, 9)) to compare an integer with a fraction.")
            })?;
            Ok(ScalarValue::Decimal128(Some(whole), 38, 0))
        }
        _ => Ok(ScalarValue::Decimal128(Some(found.value), 38, found.scale)),
    }
}

fn unix_ns(from_2000_us: i64) -> Result<i64, Failure> {
    let unix_us = from_2000_us.checked_add(US_TO_2000).filter(|_| from_2000_us != i64::MIN);
    let unix_ns = unix_us.and_then(|us| us.checked_mul(1000));
    unix_ns.ok_or_else(|| Failure::new("22008", "timestamp out of range"))
}
