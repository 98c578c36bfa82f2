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
    /// Whether a part is longer than any interval.
    is_too_long: bool,
}

impl Sum {
    /// Adds a number of billionths of a unit, `None` if they are too many; `None` if there is no such unit. What is no whole month
    /// is days of 30, what is no whole day is time.
    fn add(&mut self, billionths: Option<i128>, unit: &str) -> Option<()> {
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
        let added = billionths.and_then(|billionths| parts_of(billionths, (months, days, ns)));
        self.add_parts(added);
        Some(())
    }

    /// Adds months, days and nanoseconds, `None` if they are too many.
    fn add_parts(&mut self, added: Option<(i128, i128, i128)>) {
        self.is_too_long |= added.is_none();
        let (months, days, ns) = added.unwrap_or_default();
        (self.months, self.days, self.ns) = (self.months + months, self.days + days, self.ns + ns);
    }
}

/// The parts of a number of billionths of a unit that has those parts.
fn parts_of(billionths: i128, unit: (i128, i128, i128)) -> Option<(i128, i128, i128)> {
    let whole = |value: i128| (value / SECOND_NS, value % SECOND_NS);
    let (months, rest) = whole(billionths.checked_mul(unit.0)?);
    // A year is twelve months, and no part of a year is shorter than one.
    let rest = if unit.0 > 1 { 0 } else { rest };
    let (days, rest) = whole(rest * DAYS_OF_MONTH + billionths.checked_mul(unit.1)?);
    let ns = rest * (DAY_NS / SECOND_NS) + billionths.checked_mul(unit.2)? / SECOND_NS;
    Some((months, days, ns))
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
    if sum.is_too_long {
        let message = format!("interval field value out of range: \"{text}\"");
        return Err(SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, message));
    }
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
            sum.add_parts(ns.map(|ns| (0, 0, ns)));
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

/// `-04:05:06.789` at the beginning of a text, in nanoseconds, `None` if they are too many.
fn signed_clock(text: &str) -> Option<(Option<i128>, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut reader = Reader(unsigned);
    let hours = reader.digits();
    if hours.is_empty() {
        return None;
    }
    reader.take(&[':'])?;
    let minutes = i128::from(reader.number().filter(|minutes| *minutes < 60)?);
    let mut ns = minutes * 60 * SECOND_NS;
    if reader.take(&[':']).is_some() {
        ns += i128::from(reader.number().filter(|seconds| *seconds <= 60)?) * SECOND_NS;
        if reader.take(&['.']).is_some() {
            ns += i128::from(fraction_ns(reader.digits()));
        }
    }
    let ns = whole_number(hours).map(|hours| hours * 3600 * SECOND_NS + ns);
    Some((ns.map(|ns| if text.starts_with('-') { -ns } else { ns }), reader.0))
}

/// A number with a sign and a fraction at the beginning of a text, in billionths, `None` if they are too many.
fn quantity(text: &str) -> Option<(Option<i128>, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut reader = Reader(unsigned);
    let whole = reader.digits();
    let fraction = if reader.take(&['.']).is_some() { reader.digits() } else { "" };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let billionths = whole_number(whole).map(|whole| whole * SECOND_NS + i128::from(fraction_ns(fraction)));
    Some((billionths.map(|own| if text.starts_with('-') { -own } else { own }), reader.0))
}

/// The number that some digits are; `None` if it is out of range for every unit.
fn whole_number(digits: &str) -> Option<i128> {
    const DIGITS_MAX: usize = 19;
    match digits.trim_start_matches('0') {
        "" => Some(0),
        own if own.len() <= DIGITS_MAX => own.parse().ok(),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_told_from_what_is_no_interval() {
        let out_of_range = |text: &str| format!("interval field value out of range: \"{text}\"");
        let invalid = |text: &str| format!("invalid input syntax for type interval: \"{text}\"");
        for text in [
            "10000000000000000000 hours",
            "9000000000000000000 hours",
            "-10000000000000000000 ns",
            "99999999999999999999:00:00",
            "P99999999999999999999D",
            "PT9000000000000000000H",
            // One does not make up for the other.
            "99999999999999999999 days -99999999999999999999 days",
        ] {
            let error = read_interval(text).expect_err(text);
            assert_eq!((error.code, error.message), (SqlState::DATETIME_OUT_OF_RANGE, out_of_range(text)));
        }
        for text in
            ["99999999999999999999 fortnights", "99999999999999999999:", "P99999999999999999999X", ":10"]
        {
            let error = read_interval(text).expect_err(text);
            assert_eq!((error.code, error.message), (SqlState::INVALID_DATETIME, invalid(text)));
        }
        let hour = IntervalMonthDayNano::new(0, 0, 3_600_000_000_000);
        for text in
            ["0000000000000000000000001 hour", "0000000000000000000000001:00", "3000000 hours -2999999 hours"]
        {
            assert_eq!(read_interval(text), Ok(hour), "{text}");
        }
    }
}
