//! Reads intervals as PostgreSQL does, also as ISO 8601 writes them. Parts of a second keep their nanoseconds.

use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::types::IntervalMonthDayNano;
use nyala_core::time::fraction_ns;

const SECOND_NS: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * SECOND_NS;
/// Days of a month when a part of one has to be days, as in PostgreSQL.
const DAYS_OF_MONTH: i128 = 30;

/// A span of time that is being read, in its three units.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    ns: i128,
}

impl Sum {
    /// Adds a number of billionths of a unit. What is no whole month is days of 30, what is no whole day is time.
    fn add(&mut self, billionths: i128, unit: &str) -> Option<()> {
        let (months, days, ns) = match unit {
            "millennium" | "millennia" | "mil" | "mils" => (12_000, 0, 0),
            "century" | "centuries" | "c" | "cent" => (1200, 0, 0),
            "decade" | "decades" | "dec" | "decs" => (120, 0, 0),
            "year" | "years" | "y" | "yr" | "yrs" => (12, 0, 0),
            "month" | "months" | "mon" | "mons" => (1, 0, 0),
            "week" | "weeks" | "w" => (0, 7, 0),
            "day" | "days" | "d" => (0, 1, 0),
            "hour" | "hours" | "h" | "hr" | "hrs" => (0, 0, 3600 * SECOND_NS),
            "minute" | "minutes" | "m" | "min" | "mins" => (0, 0, 60 * SECOND_NS),
            "second" | "seconds" | "s" | "sec" | "secs" => (0, 0, SECOND_NS),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => (0, 0, 1_000_000),
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => (0, 0, 1000),
            "nanosecond" | "nanoseconds" | "ns" => (0, 0, 1),
            _ => return None,
        };
        let whole = |value: i128| (value / SECOND_NS, value % SECOND_NS);
        let (added_months, rest) = whole(billionths.checked_mul(months)?);
        // A year is twelve months, and no part of a year is shorter than one.
        let rest = if months > 1 { 0 } else { rest };
        let (added_days, rest) = whole(rest * DAYS_OF_MONTH + billionths.checked_mul(days)?);
        self.months += added_months;
        self.days += added_days;
        self.ns += rest * (DAY_NS / SECOND_NS) + billionths.checked_mul(ns)? / SECOND_NS;
        Some(())
    }
}

/// Reads an interval: `1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`.
///
/// # Errors
/// If the text is none, or an interval cannot be so long.
pub fn read_interval(text: &str) -> SqlResult<IntervalMonthDayNano> {
    let trimmed = text.trim();
    let sum = match trimmed.strip_prefix(['P', 'p']) {
        Some(rest) => iso_interval(rest),
        None => worded_interval(trimmed),
    };
    let sum = sum.ok_or_else(|| {
        let message = format!("invalid input syntax for type interval: \"{text}\"");
        SqlError::new(SqlState::INVALID_DATETIME, message)
    })?;
    let parts = (i32::try_from(sum.months), i32::try_from(sum.days), i64::try_from(sum.ns));
    match parts {
        (Ok(months), Ok(days), Ok(ns)) => Ok(IntervalMonthDayNano::new(months, days, ns)),
        _ => Err(SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "interval out of range")),
    }
}

fn iso_interval(text: &str) -> Option<Sum> {
    let (mut sum, mut rest, mut in_time) = (Sum::default(), text, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']).filter(|_| !in_time) {
            (rest, in_time) = (after, true);
            continue;
        }
        let (billionths, after) = quantity(rest)?;
        let unit = after.chars().next()?;
        let name = match (unit.to_ascii_uppercase(), in_time) {
            ('Y', false) => "year",
            ('M', false) => "month",
            ('W', false) => "week",
            ('D', false) => "day",
            ('H', true) => "hour",
            ('M', true) => "minute",
            ('S', true) => "second",
            _ => return None,
        };
        sum.add(billionths, name)?;
        rest = &after[unit.len_utf8()..];
    }
    (!text.is_empty()).then_some(sum)
}

fn worded_interval(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let lower = text.to_ascii_lowercase();
    let (words, is_ago) = match lower.strip_suffix("ago") {
        Some(words) => (words.trim_end(), true),
        None => (lower.as_str(), false),
    };
    let mut rest = words.trim_start_matches('@').trim_start();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some((ns, after)) = signed_clock(rest) {
            sum.ns += ns;
            rest = after.trim_start();
            continue;
        }
        let (billionths, after) = quantity(rest)?;
        let after = after.trim_start();
        let end = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        // A number alone is seconds.
        let unit = if end == 0 && after.is_empty() { "second" } else { &after[..end] };
        sum.add(billionths, unit)?;
        rest = after[end..].trim_start();
    }
    if is_ago {
        (sum.months, sum.days, sum.ns) = (-sum.months, -sum.days, -sum.ns);
    }
    Some(sum)
}

/// `-04:05:06.789` at the beginning of a text; hours may be many.
fn signed_clock(text: &str) -> Option<(i128, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut reader = Reader(unsigned);
    let hours = reader.digits();
    // More hours are out of range in any case.
    let hours: i128 = if hours.len() > 19 { return None } else { hours.parse().ok()? };
    reader.take(&[':'])?;
    let minutes = i128::from(reader.number().filter(|minutes| *minutes < 60)?);
    let mut ns = (hours.checked_mul(3600)? + minutes * 60).checked_mul(SECOND_NS)?;
    if reader.take(&[':']).is_some() {
        ns += i128::from(reader.number().filter(|seconds| *seconds <= 60)?) * SECOND_NS;
        if reader.take(&['.']).is_some() {
            ns += i128::from(fraction_ns(reader.digits()));
        }
    }
    Some((if text.starts_with('-') { -ns } else { ns }, reader.0))
}

/// A number with a sign and a fraction at the beginning of a text, in billionths.
fn quantity(text: &str) -> Option<(i128, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut reader = Reader(unsigned);
    let whole = reader.digits();
    let fraction = if reader.take(&['.']).is_some() { reader.digits() } else { "" };
    // Longer numbers are out of range for every unit.
    if whole.is_empty() && fraction.is_empty() || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let billionths = whole * SECOND_NS + i128::from(fraction_ns(fraction));
    Some((if text.starts_with('-') { -billionths } else { billionths }, reader.0))
}

/// What is left of a text.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn take(&mut self, letters: &[char]) -> Option<char> {
        let found = self.0.chars().next().filter(|letter| letters.contains(letter))?;
        self.0 = &self.0[found.len_utf8()..];
        Some(found)
    }

    fn digits(&mut self) -> &'a str {
        let end = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits
    }

    fn number(&mut self) -> Option<i64> {
        self.digits().parse().ok()
    }
}
