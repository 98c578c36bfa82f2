//! Dates, times and intervals: their text in PostgreSQL's ISO style, and the numbers of their binary forms.
//!
//! PostgreSQL counts microseconds, and from the year 2000 on; stored times are nanoseconds since 1970. A time between
//! two microseconds is shown as the earlier one.

use nyala_core::time::{civil_date, days_since_1970};
use nyala_exec::Zone;
use std::io::Write;

const DAY_S: i64 = 86_400;
/// Microseconds of a day.
pub const DAY_US: i64 = DAY_S * 1_000_000;
/// Days from 1970 to 2000.
pub const DAYS_TO_2000: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub const US_TO_2000: i64 = DAYS_TO_2000 as i64 * DAY_US;

/// A calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// The year; 0 is the year 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Day {
    /// The date that is so many days after 1970-01-01, in the proleptic Gregorian calendar.
    pub fn of_unix(days: i64) -> Self {
        let (year, month, day) = civil_date(days);
        Self { year, month: month as u32, day: day as u32 }
    }

    /// The date, if there is such a day.
    pub fn checked(self) -> Option<Self> {
        let exists = (1..=12).contains(&self.month) && (1..=self.days_of_month()).contains(&self.day);
        exists.then_some(self)
    }

    /// Days since 1970-01-01.
    pub fn to_unix(self) -> i64 {
        days_since_1970(self.year, self.month.into(), self.day.into())
    }

    /// The days of its month.
    pub fn days_of_month(self) -> u32 {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Writes it without its era, and returns whether that is BC.
    fn write(self, out: &mut Vec<u8>) -> bool {
        let is_before = self.year < 1;
        let shown = if is_before { 1 - self.year } else { self.year };
        if (0..10_000).contains(&shown) {
            out.extend_from_slice(&digits_of((shown / 100) as u32));
            out.extend_from_slice(&digits_of((shown % 100) as u32));
        } else {
            out.extend_from_slice(itoa::Buffer::new().format(shown).as_bytes());
        }
        let [month, day] = [digits_of(self.month), digits_of(self.day)];
        out.extend_from_slice(&[b'-', month[0], month[1], b'-', day[0], day[1]]);
        is_before
    }
}

/// Appends a date, given as days since 1970.
pub fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        _ => {
            if Day::of_unix(days.into()).write(out) {
                out.extend_from_slice(b" BC");
            }
        }
    }
}

/// Appends a timestamp, given as microseconds since 1970: as clocks of a zone show it, if it has one.
pub fn write_timestamp(unix_us: i64, zone: Option<Zone>, out: &mut Vec<u8>) {
    match unix_us {
        i64::MAX => return out.extend_from_slice(b"infinity"),
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let offset_s = zone.map(|zone| zone.offset_seconds(unix_us.div_euclid(1_000_000)));
    let local_us = unix_us.saturating_add(i64::from(offset_s.unwrap_or(0)) * 1_000_000);
    let is_before = Day::of_unix(local_us.div_euclid(DAY_US)).write(out);
    out.push(b' ');
    write_time(local_us.rem_euclid(DAY_US), out);
    if let Some(offset_s) = offset_s {
        write_offset(offset_s, out);
    }
    if is_before {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a timestamp, given as nanoseconds since 1970, with all digits that it has.
pub fn write_exact_timestamp(unix_ns: i64, zone: Option<Zone>, out: &mut Vec<u8>) {
    let (unix_s, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000) as u32);
    let offset_s = zone.map(|zone| zone.offset_seconds(unix_s));
    // Nanoseconds do not reach back to the year 1.
    let local_s = unix_s + i64::from(offset_s.unwrap_or(0));
    Day::of_unix(local_s.div_euclid(DAY_S)).write(out);
    out.push(b' ');
    clock(local_s.rem_euclid(DAY_S) as u64, ns, out);
    if let Some(offset_s) = offset_s {
        write_offset(offset_s, out);
    }
}

/// `+02`, `-03:30`; with seconds for times before there were zones.
fn write_offset(offset_s: i32, out: &mut Vec<u8>) {
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    let seconds = offset_s.unsigned_abs();
    out.extend_from_slice(&digits_of(seconds / 3600));
    let parts = [seconds / 60 % 60, seconds % 60];
    let shown = if parts[1] > 0 { 2 } else { usize::from(parts[0] > 0) };
    for part in &parts[..shown] {
        out.push(b':');
        out.extend_from_slice(&digits_of(*part));
    }
}

/// Appends a time of day.
pub fn write_time(of_day_us: i64, out: &mut Vec<u8>) {
    let seconds = of_day_us / 1_000_000;
    clock(seconds.unsigned_abs(), (of_day_us % 1_000_000).unsigned_abs() as u32 * 1000, out);
}

/// `HH:MM:SS` of a second of a day.
pub fn clock_digits(of_day_s: u32) -> [u8; 8] {
    let [hours, minutes, seconds] = [of_day_s / 3600, of_day_s / 60 % 60, of_day_s % 60].map(digits_of);
    [hours[0], hours[1], b':', minutes[0], minutes[1], b':', seconds[0], seconds[1]]
}

/// `HH:MM:SS`, and the nanoseconds without zeros at the end.
fn clock(seconds: u64, ns: u32, out: &mut Vec<u8>) {
    let (hours, minutes, seconds) = (seconds / 3600, (seconds / 60 % 60) as u32, (seconds % 60) as u32);
    if hours < 100 {
        out.extend_from_slice(&digits_of(hours as u32));
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(hours).as_bytes());
    }
    let [minutes, seconds] = [digits_of(minutes), digits_of(seconds)];
    out.extend_from_slice(&[b':', minutes[0], minutes[1], b':', seconds[0], seconds[1]]);
    if ns > 0 {
        let mut digits = [b'0'; 9];
        let (mut left, mut kept) = (ns, 9);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        while digits[kept - 1] == b'0' {
            kept -= 1;
        }
        out.push(b'.');
        out.extend_from_slice(&digits[..kept]);
    }
}

/// The digits of a number below 100.
fn digits_of(value: u32) -> [u8; 2] {
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

/// A span of time; its parts cannot be converted into each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Months, of which twelve are a year.
    pub months: i32,
    /// Days, of any length.
    pub days: i32,
    /// Microseconds.
    pub us: i64,
}

impl Span {
    /// Appends it in PostgreSQL's own style: `1 year 2 mons 3 days 04:05:06`.
    pub fn write(self, out: &mut Vec<u8>) {
        let (mut is_first, mut was_negative) = (true, false);
        for (value, unit) in [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")] {
            if value == 0 {
                continue;
            }
            let space = if is_first { "" } else { " " };
            let sign = if was_negative && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            write!(out, "{space}{sign}{value} {unit}{plural}").expect("memory takes every byte");
            (is_first, was_negative) = (false, value < 0);
        }
        if self.us == 0 && !is_first {
            return;
        }
        if !is_first {
            out.push(b' ');
        }
        if self.us < 0 {
            out.push(b'-');
        } else if was_negative {
            out.push(b'+');
        }
        let us = self.us.unsigned_abs();
        clock(us / 1_000_000, (us % 1_000_000) as u32 * 1000, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_their_numbers_are_each_other() {
        for days in (-2_500_000..2_500_000_i64).step_by(97).chain([0, -1, 11_016, 19_782]) {
            let day = Day::of_unix(days);
            assert_eq!(day.to_unix(), days, "{day:?}");
            assert!((1..=day.days_of_month()).contains(&day.day));
        }
        assert_eq!(Day::of_unix(19_782), Day { year: 2024, month: 2, day: 29 });
    }
}
