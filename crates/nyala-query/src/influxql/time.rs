//! Points in time, as InfluxQL writes them.
//!
//! A literal may lie far outside what 64 bits of nanoseconds hold (`'0001-01-01'`), so it is kept in 128; whoever
//! turns it into a bound of a range checks it against [`MINIMUM_TIME_NS`] and [`MAXIMUM_TIME_NS`].

use nyala_core::time::{civil_date, days_since_1970};
use std::fmt;

pub use nyala_core::time::{MAX_TIME_NS as MAXIMUM_TIME_NS, MIN_TIME_NS as MINIMUM_TIME_NS};
pub use nyala_exec::Zone;

const SECOND_NS: i128 = 1_000_000_000;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLiteral {
    /// Nanoseconds since 1970.
    pub unix_ns: i128,
    /// The offset from UTC that it was written with; only error messages show it.
    pub offset_seconds: i32,
}

impl TimeLiteral {
    /// A point in UTC.
    pub fn utc(unix_ns: i128) -> TimeLiteral {
        TimeLiteral { unix_ns, offset_seconds: 0 }
    }

    /// RFC 3339 without fractional seconds, in the offset the literal was written with.
    pub(crate) fn to_rfc3339_seconds(self) -> String {
        let seconds = self.unix_ns.div_euclid(SECOND_NS) + i128::from(self.offset_seconds);
        let mut text = civil(seconds);
        if self.offset_seconds == 0 {
            text.push('Z');
        } else {
            let minutes = self.offset_seconds.abs() / 60;
            let sign = if self.offset_seconds < 0 { '-' } else { '+' };
            text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
        text
    }
}

impl fmt::Display for TimeLiteral {
    /// RFC 3339 in UTC with as many fractional digits as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&civil(self.unix_ns.div_euclid(SECOND_NS)))?;
        let fraction = self.unix_ns.rem_euclid(SECOND_NS);
        if fraction != 0 {
            let digits = format!("{fraction:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// `YYYY-MM-DDTHH:MM:SS` of seconds since 1970.
fn civil(unix_seconds: i128) -> String {
    let (year, month, day) = civil_date(unix_seconds.div_euclid(86_400) as i64);
    let second = unix_seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Whether a string looks like a date, or a date and more. Then it must be a time if it is compared with a time.
pub(crate) fn looks_like_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes[..10].iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && bytes.get(10) != Some(&b'\n')
}

/// Reads `YYYY-MM-DD`, `YYYY-MM-DD HH:MM:SS[.fraction]` or RFC 3339; without an offset it is local to `zone`, or UTC.
pub fn parse_time(text: &str, zone: Option<Zone>) -> Option<TimeLiteral> {
    if !looks_like_time(text) {
        return None;
    }
    let number =
        |from: usize, to: usize| text[from..to].bytes().fold(0, |n, byte| n * 10 + i64::from(byte - b'0'));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) {
        return None;
    }
    let mut clock = Clock { rest: &text.as_bytes()[10..] };
    let (mut seconds, mut fraction_ns, mut offset) = (days_since_1970(year, month, day) * 86_400, 0, None);
    match clock.next() {
        None => {}
        Some(separator @ (b' ' | b'T')) => {
            let (second_of_day, nanoseconds) = clock.time_of_day()?;
            seconds += second_of_day;
            fraction_ns = nanoseconds;
            if separator == b'T' {
                offset = Some(clock.offset()?);
            }
            if !clock.rest.is_empty() {
                return None;
            }
        }
        Some(_) => return None,
    }
    let offset = match (offset, zone) {
        (Some(offset), _) => offset,
        (None, Some(zone)) => zone.offset_at_local(seconds),
        (None, None) => 0,
    };
    let unix_ns = i128::from(seconds - i64::from(offset)) * SECOND_NS + i128::from(fraction_ns);
    Some(TimeLiteral { unix_ns, offset_seconds: offset })
}

struct Clock<'a> {
    rest: &'a [u8],
}

impl Clock<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn digit(&mut self) -> Option<i64> {
        match self.rest.first() {
            Some(byte) if byte.is_ascii_digit() => {
                self.rest = &self.rest[1..];
                Some(i64::from(byte - b'0'))
            }
            _ => None,
        }
    }

    fn two_digits(&mut self, below: i64) -> Option<i64> {
        let number = self.digit()? * 10 + self.digit()?;
        (number < below).then_some(number)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// `HH:MM:SS[.fraction]`; the hour may have one digit.
    fn time_of_day(&mut self) -> Option<(i64, i64)> {
        let mut hour = self.digit()?;
        if let Some(units) = self.digit() {
            hour = hour * 10 + units;
        }
        if hour >= 24 {
            return None;
        }
        self.expect(b':')?;
        let minute = self.two_digits(60)?;
        self.expect(b':')?;
        let second = self.two_digits(60)?;
        let mut fraction_ns = 0;
        if self.rest.len() >= 2 && matches!(self.rest[0], b'.' | b',') && self.rest[1].is_ascii_digit() {
            self.rest = &self.rest[1..];
            let mut scale = 100_000_000;
            while let Some(digit) = self.digit() {
                fraction_ns += digit * scale;
                scale /= 10;
            }
        }
        Some((hour * 3_600 + minute * 60 + second, fraction_ns))
    }

    /// `Z`, `+HH:MM` or `-HH:MM`, in seconds.
    fn offset(&mut self) -> Option<i32> {
        let sign = match self.next()? {
            b'Z' => return Some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        // Go allows this much.
        let hours = self.two_digits(25)?;
        self.expect(b':')?;
        let minutes = self.two_digits(61)?;
        i32::try_from(sign * (hours * 3_600 + minutes * 60)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed() {
        for (text, printed) in [
            ("2016-01-01", "2016-01-01T00:00:00Z"),
            ("2016-01-01 02:03:04", "2016-01-01T02:03:04Z"),
            ("2016-01-01 2:03:04.5", "2016-01-01T02:03:04.5Z"),
            ("2016-01-01T02:03:04.000000001Z", "2016-01-01T02:03:04.000000001Z"),
            ("2016-01-01T02:03:04+01:30", "2016-01-01T00:33:04Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("2000-02-29", "2000-02-29T00:00:00Z"),
            ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(
                parse_time(text, None).map(|time| time.to_string()).as_deref(),
                Some(printed),
                "{text}"
            );
        }
        for text in [
            "",
            "2016",
            "2016-13-01",
            "2016-02-30",
            "1900-02-29",
            "2016-01-01 24:00:00",
            "2016-01-01 00:00",
            "2016-01-01T00:00:00",
            "2016-01-01T00:00:00Zx",
            "2016-01-01x",
            "2016-01-01é",
        ] {
            assert_eq!(parse_time(text, None), None, "{text}");
        }
    }

    #[test]
    fn local_times_follow_their_zone() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        for (text, printed) in [
            ("2020-01-15", "2020-01-14T23:00:00Z"),
            ("2020-07-15 12:00:00", "2020-07-15T10:00:00Z"),
            ("2020-07-15T12:00:00Z", "2020-07-15T12:00:00Z"),
            // Clocks went from 02:00 to 03:00 and, in October, from 03:00 back to 02:00.
            ("2020-03-29 02:30:00", "2020-03-29T01:30:00Z"),
            ("2020-10-25 02:30:00", "2020-10-25T01:30:00Z"),
        ] {
            assert_eq!(parse_time(text, Some(berlin)).unwrap().to_string(), printed, "{text}");
        }
    }
}
