//! Reads dates and times as clients write them: ISO 8601, with the liberties that PostgreSQL takes.
//!
//! Not read are names of months, day-first dates and names of time zones: drivers never send them as parameters. Times keep
//! their nanoseconds.

use super::time::{DAYS_TO_2000, Day};
use crate::error::Failure;
use nyala_core::time::fraction_ns;
use nyala_exec::Zone;
use std::ops::Range;

const SECOND_NS: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * SECOND_NS;
/// The dates that PostgreSQL has, in days since 2000: from 4714-11-24 BC to 5874897-12-31.
const DATES: Range<i64> = -2_451_545..2_145_031_949;

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
        true => date_of(day.to_unix() - i64::from(DAYS_TO_2000)),
        false => Err(malformed()),
    }
}

/// Days since 1970, of days since 2000.
pub fn date_of(from_2000: i64) -> Result<i32, Failure> {
    let days = i32::try_from(from_2000 + i64::from(DAYS_TO_2000)).ok();
    days.filter(|_| DATES.contains(&from_2000)).ok_or_else(|| Failure::new("22008", "date out of range"))
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
            let part = |range: Range<usize>| digits[range].parse::<u32>().ok();
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
                ns = i128::from(fraction_ns(self.digits()));
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
        let before = self.text;
        let sign = self.take(&['+', '-'])?;
        let digits = self.digits();
        if digits.is_empty() {
            self.text = before;
            return None;
        }
        // What has too many digits is beyond any zone.
        let number = |digits: &str| match digits {
            "" => 0,
            _ => digits.parse().unwrap_or(i64::MAX),
        };
        let (hours, minutes) = match digits.len() {
            3 | 4 => digits.split_at(digits.len() - 2),
            _ => (digits, ""),
        };
        let hours = number(hours);
        let mut minutes = number(minutes);
        let mut seconds = 0;
        if self.take(&[':']).is_some() {
            minutes = number(self.digits());
            if self.take(&[':']).is_some() {
                seconds = number(self.digits());
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
