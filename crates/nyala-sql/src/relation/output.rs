//! Values as text, as PostgreSQL writes them, for messages and for columns of text.

use super::decimal::text_of;
use super::time_text::local_of_moment;
use crate::bytes_text::hexadecimal;
use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;
use std::fmt::Write;

/// A value of a column.
pub(crate) fn value(value: Option<&Value>, declared: DeclaredType, zone: Tz) -> String {
    match (value, declared.unrounded()) {
        (None, _) => "null".to_owned(),
        (Some(Value::Bool(value)), _) => if *value { "t" } else { "f" }.to_owned(),
        (Some(Value::Int(days)), DeclaredType::Date) => date(*days),
        (Some(Value::Int(time_ns)), DeclaredType::Timestamp) => timestamp(*time_ns),
        (Some(Value::Int(time_ns)), DeclaredType::Timestamptz) => moment(*time_ns, zone),
        (Some(Value::Int(value)), _) => value.to_string(),
        (Some(Value::UInt(value)), _) => value.to_string(),
        (Some(Value::Float(value)), DeclaredType::Float4) => {
            shortest(f64::from(*value as f32), &(*value as f32), 1e6)
        }
        (Some(Value::Float(value)), _) => float(*value),
        (Some(Value::Decimal(value)), DeclaredType::Numeric { scale, .. }) => text_of(*value, scale as i8),
        (Some(Value::Decimal(value)), _) => value.to_string(),
        (Some(Value::String(text)), _) => text.clone(),
        (Some(Value::Binary(data)), _) => bytes(data),
    }
}

/// A float with as many digits as it needs.
pub(super) fn float(value: f64) -> String {
    shortest(value, &value, 1e15)
}

/// `limit` is from where on there is an exponent.
fn shortest(value: f64, shown: &(impl std::fmt::Display + std::fmt::LowerExp), limit: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 || (1e-4..limit).contains(&value.abs()) {
        return shown.to_string();
    }
    // The exponent has a sign and at least two digits.
    let text = format!("{shown:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

pub(super) fn bytes(bytes: &[u8]) -> String {
    format!("\\x{}", hexadecimal(bytes))
}

pub(super) fn date(days: i64) -> String {
    let date = DateTime::from_timestamp(days.saturating_mul(86_400), 0);
    date.map_or_else(|| format!("{days} days"), |date| date.format("%Y-%m-%d").to_string())
}

pub(super) fn timestamp(time_ns: i64) -> String {
    let time = DateTime::from_timestamp_nanos(time_ns);
    let mut text = time.format("%Y-%m-%d %H:%M:%S").to_string();
    let fraction = format!("{:09}", time_ns.rem_euclid(1_000_000_000));
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

pub(super) fn moment(time_ns: i64, zone: Tz) -> String {
    let utc = DateTime::from_timestamp_nanos(time_ns).naive_utc();
    let offset_s = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    let (sign, offset_s) = if offset_s < 0 { ('-', -offset_s) } else { ('+', offset_s) };
    let mut text = format!("{}{sign}{:02}", timestamp(local_of_moment(time_ns, zone)), offset_s / 3600);
    if offset_s % 3600 != 0 {
        let _ = write!(text, ":{:02}", offset_s / 60 % 60);
    }
    text
}
