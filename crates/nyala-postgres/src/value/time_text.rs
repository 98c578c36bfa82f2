//! Reads dates, times and intervals as clients write them: ISO 8601, with the liberties that PostgreSQL takes.
//!
//! Not read are names of months, day-first dates and names of time zones: drivers never send them as parameters. Times keep
//! their nanoseconds.

use super::time::Day;
use crate::error::Failure;
use arrow_buffer::IntervalMonthDayNano;
use nyala_exec::Zone;

const SECOND_NS: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * SECOND_NS;
/// Days of a month when a part of one has to be days, as in PostgreSQL.
const DAYS_OF_MONTH: i128 = 30;

/// Reads a date, as days since 1970.
pub fn read_date(text: &str) -> Result<i32, Failure> {
    let malformed = || Failure::malformed("date", text);
    let mut rest = Reader::of(text);
    match rest.left().to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i32::MAX),
        "-infinity" => return Ok(i32::MIN),
        "epoch" => return Ok(0),
        _ => {}
    }
    let day = rest.date().ok_or_else(malformed)?;
    let mut day = day.checked().ok_or_else(|| field_out_of_range(text))?;
    // A time of the day is read and ignored.
    if rest.skip_separator() && rest.clock().is_some() {
        rest.zone();
    }
    rest.era(&mut day);
    match rest.is_at_end() {
        true => i32::try_from(day.to_unix()).map_err(|_| Failure::new("22008", "date out of range")),
        false => Err(malformed()),
    }
}

/// Reads a time of day, in microseconds.
pub fn read_time(text: &str) -> Result<i64, Failure> {
    let mut rest = Reader::of(text);
    let found = rest.clock();
    rest.zone();
    match found.filter(|_| rest.is_at_end()) {
        // Rounded, as in PostgreSQL, which has no shorter part of a second.
        Some(ns) if !rest.is_out_of_range => Ok(((ns + 500) / 1000) as i64),
        Some(_) => Err(field_out_of_range(text)),
        None => Err(Failure::malformed("time", text)),
    }
}

/// Reads a time, in nanoseconds since 1970. An offset in the text counts if the type has a zone; a time without one is in
/// `zone`.
pub fn read_timestamp(text: &str, zone: Option<Zone>) -> Result<i64, Failure> {
    let type_name = if zone.is_some() { "timestamp with time zone" } else { "timestamp" };
    let malformed = || Failure::malformed(type_name, text);
    let out_of_range = || Failure::new("22008", format!("timestamp out of range: \"{}\"", shortened(text)));
    let mut rest = Reader::of(text);
    match rest.left().to_ascii_lowercase().as_str() {
        "infinity" | "-infinity" => return Err(out_of_range()),
        "epoch" => return Ok(0),
        _ => {}
    }
    let day = rest.date().ok_or_else(malformed)?;
    let mut day = day.checked().ok_or_else(|| field_out_of_range(text))?;
    let (mut clock_ns, mut offset_s) = (0, None);
    if rest.skip_separator()
        && let Some(found) = rest.clock()
    {
        clock_ns = found;
        offset_s = rest.zone();
    }
    rest.era(&mut day);
    if !rest.is_at_end() {
        return Err(malformed());
    }
    if rest.is_out_of_range {
        return Err(field_out_of_range(text));
    }
    if rest.is_beyond_zones {
        return Err(Failure::new(
            "22009",
            format!("time zone displacement out of range: \"{}\"", shortened(text)),
        ));
    }
    let local_ns = i128::from(day.to_unix()) * DAY_NS + clock_ns;
    let offset_s = match (zone, offset_s) {
        (None, _) => 0,
        (Some(_), Some(offset_s)) => offset_s,
        (Some(zone), None) => {
            let local_s = i64::try_from(local_ns.div_euclid(SECOND_NS)).map_err(|_| out_of_range())?;
            zone.offset_at_local_of_postgresql(local_s).into()
        }
    };
    let unix_ns = local_ns - i128::from(offset_s) * SECOND_NS;
    i64::try_from(unix_ns).map_err(|_| out_of_range())
}

fn field_out_of_range(text: &str) -> Failure {
    Failure::new("22008", format!("date/time field value out of range: \"{}\"", shortened(text)))
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

impl Day {
    /// The date, if there is such a day.
    fn checked(self) -> Option<Self> {
        let exists = (1..=12).contains(&self.month) && (1..=self.days_of_month()).contains(&self.day);
        exists.then_some(self)
    }
}

/// What is left of a text.
struct Reader<'a> {
    text: &'a str,
    /// Whether a part of a time of day was beyond what there is.
    is_out_of_range: bool,
    /// Whether an offset was beyond any zone there is.
    is_beyond_zones: bool,
}

impl<'a> Reader<'a> {
    fn of(text: &'a str) -> Self {
        Self { text: text.trim(), is_out_of_range: false, is_beyond_zones: false }
    }

    fn left(&self) -> &'a str {
        self.text
    }

    fn is_at_end(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn take(&mut self, letters: &[char]) -> Option<char> {
        let found = self.text.chars().next().filter(|letter| letters.contains(letter))?;
        self.text = &self.text[found.len_utf8()..];
        Some(found)
    }

    fn digits(&mut self) -> &'a str {
        let end = self.text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.text.split_at(end);
        self.text = rest;
        digits
    }

    fn number(&mut self) -> Option<i64> {
        self.digits().parse().ok()
    }

    /// `2024-02-29`, `20240229`; a year has at least four digits.
    fn date(&mut self) -> Option<Day> {
        let digits = self.digits();
        if digits.len() == 8 && !self.text.starts_with('-') {
            let part = |range: std::ops::Range<usize>| digits[range].parse::<u32>().ok();
            return Some(Day { year: part(0..4)?.into(), month: part(4..6)?, day: part(6..8)? });
        }
        if !(4..=7).contains(&digits.len()) {
            return None;
        }
        self.take(&['-', '/'])?;
        let month = u32::try_from(self.number()?).ok()?;
        self.take(&['-', '/'])?;
        let day = u32::try_from(self.number()?).ok()?;
        Some(Day { year: digits.parse().ok()?, month, day })
    }

    fn skip_separator(&mut self) -> bool {
        let before = self.text.len();
        self.text = self.text.trim_start();
        self.take(&['T', 't']);
        self.text.len() < before
    }

    /// `12:34`, `12:34:56.789`, in nanoseconds.
    fn clock(&mut self) -> Option<i128> {
        let rest = self.text;
        let found = self.clock_parts();
        if found.is_none() {
            self.text = rest;
        }
        found
    }

    fn clock_parts(&mut self) -> Option<i128> {
        // Longer numbers are no times.
        let part = |reader: &mut Self| reader.number().filter(|number| *number < 1_000_000);
        let hours = part(self)?;
        self.take(&[':'])?;
        let minutes = part(self)?;
        let (mut seconds, mut ns) = (0, 0);
        if self.take(&[':']).is_some() {
            seconds = part(self)?;
            if self.take(&['.']).is_some() {
                ns = nanoseconds(self.digits());
            }
        }
        self.is_out_of_range |= minutes > 59 || seconds > 60;
        let whole = i128::from(hours * 3600 + minutes * 60 + seconds) * SECOND_NS + ns;
        self.is_out_of_range |= whole > DAY_NS;
        Some(whole)
    }

    /// `Z`, `UTC`, `+01`, `-05:30`, in seconds east of Greenwich; `None` if there is none.
    fn zone(&mut self) -> Option<i64> {
        self.text = self.text.trim_start();
        for name in ["UTC", "GMT", "Z"] {
            if self.text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name)) {
                self.text = &self.text[name.len()..];
                return Some(0);
            }
        }
        let sign = self.take(&['+', '-'])?;
        let digits = self.digits();
        let (hours, mut minutes) = match digits.len() {
            4 => (&digits[..2], digits[2..].parse().unwrap_or(0)),
            _ => (digits, 0),
        };
        let hours: i64 = hours.parse().unwrap_or(0);
        let mut seconds = 0;
        if self.take(&[':']).is_some() {
            minutes = self.number().unwrap_or(0);
            if self.take(&[':']).is_some() {
                seconds = self.number().unwrap_or(0);
            }
        }
        if hours > 15 || minutes > 59 || seconds > 59 {
            self.is_beyond_zones = true;
            return None;
        }
        let offset = hours * 3600 + minutes * 60 + seconds;
        Some(if sign == '-' { -offset } else { offset })
    }

    /// A year before Christ.
    fn era(&mut self, day: &mut Day) {
        self.text = self.text.trim_start();
        if self.text.get(..2).is_some_and(|era| era.eq_ignore_ascii_case("BC")) {
            self.text = &self.text[2..];
            day.year = 1 - day.year;
        }
    }
}

/// A fraction of a second.
fn nanoseconds(digits: &str) -> i128 {
    let kept = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    kept.fold(0, |ns, digit| ns * 10 + i128::from(digit - b'0'))
}

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
pub fn read_interval(text: &str) -> Result<IntervalMonthDayNano, Failure> {
    let trimmed = text.trim();
    let sum = match trimmed.strip_prefix(['P', 'p']) {
        Some(rest) => iso_interval(rest),
        None => worded_interval(trimmed),
    };
    let sum = sum.ok_or_else(|| Failure::malformed("interval", text))?;
    let parts = (i32::try_from(sum.months), i32::try_from(sum.days), i64::try_from(sum.ns));
    match parts {
        (Ok(months), Ok(days), Ok(ns)) => Ok(IntervalMonthDayNano::new(months, days, ns)),
        _ => Err(Failure::new("22008", "interval out of range")),
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
    let mut reader = Reader::of(unsigned);
    let hours = reader.digits();
    // More hours are out of range in any case.
    let hours: i128 = if hours.len() > 19 { return None } else { hours.parse().ok()? };
    reader.take(&[':'])?;
    let minutes = i128::from(reader.number().filter(|minutes| *minutes < 60)?);
    let mut ns = (hours.checked_mul(3600)? + minutes * 60).checked_mul(SECOND_NS)?;
    if reader.take(&[':']).is_some() {
        ns += i128::from(reader.number().filter(|seconds| *seconds <= 60)?) * SECOND_NS;
        if reader.take(&['.']).is_some() {
            ns += nanoseconds(reader.digits());
        }
    }
    Some((if text.starts_with('-') { -ns } else { ns }, reader.text))
}

/// A number with a sign and a fraction at the beginning of a text, in billionths.
fn quantity(text: &str) -> Option<(i128, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut reader = Reader::of(unsigned);
    let whole = reader.digits();
    let fraction = if reader.take(&['.']).is_some() { reader.digits() } else { "" };
    // Longer numbers are out of range for every unit.
    if whole.is_empty() && fraction.is_empty() || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let billionths = whole * SECOND_NS + nanoseconds(fraction);
    Some((if text.starts_with('-') { -billionths } else { billionths }, reader.text))
}
