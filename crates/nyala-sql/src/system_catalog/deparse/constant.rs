//! Values of literals, as their types write them.

use super::node::{BOOL, INT4, INT8, INTERVAL, NUMERIC, Node, TEXT, element_of};
use crate::identifier::{PUBLIC, parts_of, quoted};
use crate::interval_text::read_interval;
use crate::relation::input::{Surroundings, read};
use crate::relation::output;
use crate::time_printing::Span;
use chrono_tz::Tz;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;

/// The most digits of a decimal here.
const DIGITS_MAX: usize = 38;
/// The years all of whose moments are nanoseconds since 1970 of 64 bits.
const YEARS: std::ops::Range<u32> = 1678..2262;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 63;

/// What the meaning of literals depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The zone of the session.
    pub(super) zone: Tz,
    /// Whether names need their schema.
    pub(super) names_schemas: bool,
}

impl Reading {
    /// The value of a literal in quotes. `None`: it is none of the type, or not known here.
    pub(super) fn read(&self, text: &str, oid: u32) -> Option<String> {
        let declared = match oid {
            TEXT | 1042 | 1043 => return Some(text.to_owned()),
            NUMERIC => return number(text),
            INTERVAL => return interval(text),
            2205 => return self.relation(text),
            19 => return (text.len() <= NAME_BYTES_MAX).then(|| text.to_owned()),
            26 => return text.trim().parse::<u32>().ok().map(|own| own.to_string()),
            BOOL => DeclaredType::Bool,
            21 => DeclaredType::Int2,
            INT4 => DeclaredType::Int4,
            INT8 => DeclaredType::Int8,
            700 => DeclaredType::Float4,
            701 => DeclaredType::Float8,
            17 => DeclaredType::Bytea,
            1082 => DeclaredType::Date,
            1114 => DeclaredType::Timestamp,
            1184 => DeclaredType::Timestamptz,
            2950 => DeclaredType::Uuid,
            114 => DeclaredType::Json,
            3802 => DeclaredType::Jsonb,
            _ => return self.array(text, element_of(oid)?),
        };
        // What depends on the time when it is read is no value yet.
        let words = ["now", "today", "tomorrow", "yesterday"];
        let is_time = matches!(oid, 1082 | 1114 | 1184);
        if is_time && words.contains(&&*text.trim().to_ascii_lowercase()) {
            return None;
        }
        let value: Value = read(text, declared, &Surroundings { zone: self.zone, now_ns: 0 }).ok()?;
        let shown = output::value(Some(&value), declared, self.zone);
        // Expressions have no days whose moments have too many nanoseconds.
        let is_known_year = |year: &str| year.parse().is_ok_and(|year| YEARS.contains(&year));
        (!is_time || shown.split('-').next().is_some_and(is_known_year)).then_some(shown)
    }

    /// The name of a relation.
    fn relation(&self, text: &str) -> Option<String> {
        let name = match &parts_of(text)?[..] {
            // A number would be that of a relation.
            [name] if !name.starts_with(|letter: char| letter.is_ascii_digit()) => quoted(name),
            [schema, name] if schema == PUBLIC => quoted(name),
            _ => return None,
        };
        Some(if self.names_schemas { format!("{PUBLIC}.{name}") } else { name })
    }

    /// An array of plain values.
    fn array(&self, text: &str, element: u32) -> Option<String> {
        let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        if inner.trim().is_empty() {
            return Some("{}".to_owned());
        }
        let is_plain = |own: &str| {
            let has_end = own.starts_with(char::is_whitespace) || own.ends_with(char::is_whitespace);
            let has_letter = own.contains(['{', '}', '"', '\\', ' ']);
            !own.is_empty() && !has_end && !has_letter && !own.eq_ignore_ascii_case("null")
        };
        let values = inner.split(',').map(|own| {
            let value = self.read(own.trim(), element)?;
            is_plain(&value).then_some(value)
        });
        Some(format!("{{{}}}", values.collect::<Option<Vec<_>>>()?.join(",")))
    }
}

/// A number that is written without quotes.
pub(super) fn of_number(written: &str) -> Option<Node> {
    let digits = written.strip_prefix('-').unwrap_or(written);
    if digits.bytes().all(|own| own.is_ascii_digit())
        && let Ok(number) = written.parse::<i64>()
    {
        let oid = if i32::try_from(number).is_ok() { INT4 } else { INT8 };
        return Some(Node::constant(number.to_string(), oid));
    }
    Some(Node::constant(number(written)?, NUMERIC))
}

/// A decimal number with all the digits that it is written with, and no exponent.
fn number(text: &str) -> Option<String> {
    let text = text.trim();
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|own| own.is_ascii_digit()) {
        return None;
    }
    if exponent.unsigned_abs() > DIGITS_MAX as u64 {
        return None;
    }
    // How many digits stand before the point.
    let mut point = whole.len() as i64 + exponent;
    if point < 1 {
        digits.insert_str(0, &"0".repeat(usize::try_from(1 - point).ok()?));
        point = 1;
    }
    let point = usize::try_from(point).ok()?;
    while digits.len() < point {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at(point);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let is_zero = digits.bytes().all(|own| own == b'0');
    let sign = if is_negative && !is_zero { "-" } else { "" };
    let separator = if fraction.is_empty() { "" } else { "." };
    let is_short = whole.len() + fraction.len() <= DIGITS_MAX;
    is_short.then(|| format!("{sign}{whole}{separator}{fraction}"))
}

fn interval(text: &str) -> Option<String> {
    let read = read_interval(text).ok()?;
    // PostgreSQL keeps microseconds.
    if read.nanoseconds % 1000 != 0 {
        return None;
    }
    let mut out = Vec::new();
    Span { months: read.months, days: read.days, us: read.nanoseconds / 1000 }.write(&mut out);
    String::from_utf8(out).ok()
}
