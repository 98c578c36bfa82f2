//! Dates and times as they are written: ISO 8601, and the special words that clients use.

use crate::clocks::known_zone;
use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use nyala_core::time::days_since_1970;

/// Why a text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeError {
    /// It has another form.
    Syntax,
    /// A part of it, or all of it, is out of range.
    Range,
}

/// A time as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrittenTime {
    /// The date and the time of day as they stand there.
    local: NaiveDateTime,
    /// How far that is ahead of UTC, seconds, if the text says so.
    offset_s: Option<i32>,
}

impl WrittenTime {
    /// Reads a text. `zone` is that of names of zones that are missing, `now_ns` what `now` means.
    pub(super) fn read(text: &str, zone: Tz, now_ns: i64) -> Result<Self, TimeError> {
        let text = text.trim();
        let local_now = || zone.from_utc_datetime(&DateTime::from_timestamp_nanos(now_ns).naive_utc());
        let day = |days: i64| {
            let today = local_now().date_naive();
            let day = match days {
                ..0 => today.checked_sub_days(Days::new(days.unsigned_abs())),
                _ => today.checked_add_days(Days::new(days.unsigned_abs())),
            };
            let local = day.ok_or(TimeError::Range)?.and_time(NaiveTime::MIN);
            Ok(Self { local, offset_s: None })
        };
        match &*text.to_ascii_lowercase() {
            "now" => {
                let now = local_now();
                return Ok(Self {
                    local: now.naive_local(),
                    offset_s: Some(now.offset().fix().local_minus_utc()),
                });
            }
            "today" => return day(0),
            "tomorrow" => return day(1),
            "yesterday" => return day(-1),
            "epoch" => return Ok(Self { local: DateTime::UNIX_EPOCH.naive_utc(), offset_s: Some(0) }),
            "infinity" | "-infinity" => return Err(TimeError::Range),
            _ => {}
        }
        let (date, rest) = read_date(text)?;
        let rest = match rest.as_bytes().first() {
            None => return Ok(Self { local: date.and_time(NaiveTime::MIN), offset_s: None }),
            Some(b'T' | b't') => &rest[1..],
            Some(b' ') => rest.trim_start(),
            // A zone without a time of day.
            Some(_) => rest,
        };
        let (time, days, rest) = match rest.as_bytes().first() {
            Some(byte) if byte.is_ascii_digit() => read_time_of_day(rest)?,
            _ => (NaiveTime::MIN, 0, rest),
        };
        let date = date.checked_add_days(Days::new(days)).ok_or(TimeError::Range)?;
        let local = date.and_time(time);
        Ok(Self { local, offset_s: read_zone(rest.trim(), local)? })
    }

    /// The date.
    pub(super) fn days(self) -> i32 {
        let epoch = DateTime::UNIX_EPOCH.date_naive();
        self.local.date().signed_duration_since(epoch).num_days() as i32
    }

    /// The date and time of day, ns since 1970; a zone is ignored.
    pub(super) fn local_ns(self) -> Result<i64, TimeError> {
        self.local.and_utc().timestamp_nanos_opt().ok_or(TimeError::Range)
    }

    /// The moment, ns since 1970. `zone` is that of a text without one.
    pub(super) fn moment_ns(self, zone: Tz) -> Result<i64, TimeError> {
        let local_ns = self.local_ns()?;
        match self.offset_s {
            Some(offset_s) => {
                local_ns.checked_sub(i64::from(offset_s) * 1_000_000_000).ok_or(TimeError::Range)
            }
            None => moment_of_local(local_ns, zone),
        }
    }
}

/// Reads the form that most programs write, `2024-01-31 12:34:56.789` with a `T` or a blank and perhaps `+00` or `Z`: the
/// time as ns since 1970, and how far it is ahead of UTC, seconds. `None`: [`WrittenTime::read`] may know it.
pub(crate) fn quick_time(text: &str) -> Option<(i64, Option<i32>)> {
    let (head, rest) = text.as_bytes().split_first_chunk::<19>()?;
    let is_form = head[4] == b'-' && head[7] == b'-' && head[13] == b':' && head[16] == b':';
    if !is_form || !matches!(head[10], b' ' | b'T') {
        return None;
    }
    let part = |range: std::ops::Range<usize>| {
        head[range].iter().try_fold(0_i64, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit <= 9).then_some(number * 10 + i64::from(digit))
        })
    };
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let (hour, minute, second) = (part(11..13)?, part(14..16)?, part(17..19)?);
    // A day that not every month has is left to the calendar.
    let is_plain = (1700..2200).contains(&year) && (1..=12).contains(&month) && (1..=28).contains(&day);
    if !is_plain || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let digits = match rest {
        [b'.', fraction @ ..] => fraction.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let mut fraction_ns = 0;
    let zone = match digits {
        0 => rest,
        1..=9 => {
            fraction_ns = rest[1..=digits].iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
            fraction_ns *= 10_i64.pow(9 - digits as u32);
            &rest[1 + digits..]
        }
        _ => return None,
    };
    let offset_s = match zone {
        b"" => None,
        b"Z" | b"+00" | b"+00:00" => Some(0),
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((seconds * 1_000_000_000 + fraction_ns, offset_s))
}

/// The moment at which clocks in a zone show a time. Where they show it twice, the later moment, and where they never do,
/// the time as the clock before the leap would have shown it, as PostgreSQL decides.
pub(super) fn moment_of_local(local_ns: i64, zone: Tz) -> Result<i64, TimeError> {
    let local = DateTime::from_timestamp_nanos(local_ns).naive_utc();
    let offset_s = match zone.offset_from_local_datetime(&local) {
        chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
        chrono::LocalResult::Ambiguous(_, late) => late.fix().local_minus_utc(),
        chrono::LocalResult::None => {
            let before = local.checked_sub_signed(chrono::TimeDelta::hours(3)).ok_or(TimeError::Range)?;
            zone.offset_from_local_datetime(&before)
                .latest()
                .map_or(0, |offset| offset.fix().local_minus_utc())
        }
    };
    local_ns.checked_sub(i64::from(offset_s) * 1_000_000_000).ok_or(TimeError::Range)
}

/// What clocks in a zone show at a moment.
pub(super) fn local_of_moment(moment_ns: i64, zone: Tz) -> i64 {
    let utc = DateTime::<Utc>::from_timestamp_nanos(moment_ns).naive_utc();
    let offset_s = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    moment_ns.saturating_add(i64::from(offset_s) * 1_000_000_000)
}

/// A date at the beginning of a text, and what follows.
fn read_date(text: &str) -> Result<(NaiveDate, &str), TimeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (year, month, day, rest) = if digits == 8 {
        (&text[..4], &text[4..6], &text[6..8], &text[8..])
    } else {
        let (year, rest) = text.split_at(digits);
        let (month, rest) = part_behind(rest, '-')?;
        let (day, rest) = part_behind(rest, '-')?;
        (year, month, day, rest)
    };
    if !(4..=6).contains(&year.len()) || month.len() > 2 || day.len() > 2 {
        return Err(TimeError::Syntax);
    }
    let date = NaiveDate::from_ymd_opt(number(year)? as i32, number(month)?, number(day)?);
    Ok((date.ok_or(TimeError::Range)?, rest))
}

/// A time of day at the beginning of a text, how many days it is later, and what follows.
fn read_time_of_day(text: &str) -> Result<(NaiveTime, u64, &str), TimeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (hour, rest) = text.split_at(digits);
    let (minute, rest) = part_behind(rest, ':')?;
    let (second, rest) = match rest.starts_with(':') {
        true => part_behind(rest, ':')?,
        false => ("0", rest),
    };
    let (fraction, rest) = match rest.starts_with('.') {
        true => {
            let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
            (&rest[1..1 + digits], &rest[1 + digits..])
        }
        false => ("", rest),
    };
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    // Checked before it is multiplied: many hours would wrap around to a time of this day.
    if hour > 24 || minute > 59 || second > 60 {
        return Err(TimeError::Range);
    }
    let nine = format!("{fraction:0<10}");
    let (nanoseconds, next) = (number(&nine[..9])?, nine.as_bytes()[9] >= b'5');
    let mut total_ns = (u64::from(hour) * 3600 + u64::from(minute) * 60 + u64::from(second)) * 1_000_000_000;
    total_ns += u64::from(nanoseconds) + u64::from(next);
    // The last second of a minute may be a leap second, and the last time of a day is midnight.
    if total_ns > 86_400_000_000_000 {
        return Err(TimeError::Range);
    }
    let (days, left_ns) = (total_ns / 86_400_000_000_000, total_ns % 86_400_000_000_000);
    let (seconds, nanoseconds) = ((left_ns / 1_000_000_000) as u32, (left_ns % 1_000_000_000) as u32);
    let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanoseconds);
    Ok((time.ok_or(TimeError::Range)?, days, rest))
}

/// How far a zone is ahead of UTC at a local time, seconds; `None` if the text is empty.
fn read_zone(text: &str, local: NaiveDateTime) -> Result<Option<i32>, TimeError> {
    let sign = match text.as_bytes().first() {
        None => return Ok(None),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) if text.eq_ignore_ascii_case("z") => return Ok(Some(0)),
        Some(_) => {
            let zone = known_zone(text).ok_or(TimeError::Syntax)?;
            let offset = zone.offset_from_local_datetime(&local).latest();
            return Ok(Some(offset.map_or(0, |offset| offset.fix().local_minus_utc())));
        }
    };
    let digits: String = text[1..].chars().filter(|letter| *letter != ':').collect();
    let is_form = |letter: char| letter.is_ascii_digit() || letter == ':';
    if !text[1..].chars().all(is_form) || !matches!(digits.len(), 1..=6) {
        return Err(TimeError::Syntax);
    }
    let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits };
    let part = |from: usize| padded.get(from..from + 2).map_or(Ok(0), number);
    let (hours, minutes, seconds) = (part(0)?, part(2)?, part(4)?);
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(TimeError::Range);
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60 + seconds) as i32))
}

/// Digits behind a mark, and what follows.
fn part_behind(text: &str, mark: char) -> Result<(&str, &str), TimeError> {
    let rest = text.strip_prefix(mark).ok_or(TimeError::Syntax)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        0 => Err(TimeError::Syntax),
        _ => Ok(rest.split_at(digits)),
    }
}

fn number(digits: &str) -> Result<u32, TimeError> {
    digits.parse().map_err(|_| TimeError::Syntax)
}

/// Reads a text in every way there is: what a fuzzer calls. It asserts that the quick reader agrees with the other.
pub(crate) fn read_arbitrary(text: &str) {
    let zone = Tz::Europe__Berlin;
    let found = WrittenTime::read(text, zone, 0);
    if let Ok(time) = found {
        let _ = (time.days(), time.moment_ns(zone));
    }
    if let Some((local_ns, offset_s)) = quick_time(text) {
        let found = found.map(|time| (time.local_ns(), time.offset_s));
        assert_eq!(found, Ok((Ok(local_ns), offset_s)), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_reader_agrees_with_the_other() {
        for date in
            ["1970-01-01", "1700-02-28", "2000-02-28", "2024-02-29", "2024-03-01", "2199-12-31", "2023-13-01"]
        {
            for time in
                [" 00:00:00", "T23:59:59", " 12:34:56.5", " 12:34:56.123456789", " 24:00:00", " 12:34:56."]
            {
                for zone in ["", "Z", "+00", "+00:00", "+01", "x"] {
                    let text = format!("{date}{time}{zone}");
                    let Some((local_ns, offset_s)) = quick_time(&text) else { continue };
                    let slow = WrittenTime::read(&text, Tz::UTC, 0).unwrap();
                    assert_eq!((Ok(local_ns), offset_s), (slow.local_ns(), slow.offset_s), "{text}");
                }
            }
        }
        assert_eq!(quick_time("1970-01-02 00:00:00.25+00"), Some((86_400_250_000_000, Some(0))));
        assert_eq!(quick_time("2024-02-30 00:00:00"), None);
    }

    #[test]
    fn times_are_read_in_the_forms_of_iso_8601() {
        let berlin = chrono_tz::Europe::Berlin;
        let moment = |text: &str| WrittenTime::read(text, berlin, 0).and_then(|time| time.moment_ns(berlin));
        let noon = 1_704_106_800_000_000_000;
        for text in [
            "2024-01-01 12:00",
            "2024-01-01T12:00:00",
            "20240101 12:00:00.000",
            "2024-01-01 11:00:00Z",
            "2024-01-01 11:00:00+00",
            "2024-01-01 06:30:00-0430",
            "2024-01-01 12:00 Europe/Paris",
            " 2024-1-1 12:00 ",
        ] {
            assert_eq!(moment(text), Ok(noon), "{text}");
        }
        assert_eq!(moment("2024-01-01 12:00:00.1234567896"), Ok(noon + 123_456_790));
        assert_eq!(moment("2024-07-01"), Ok(1_719_784_800_000_000_000));
        assert_eq!(moment("2023-12-31 24:00"), moment("2024-01-01"));
        assert_eq!(moment("2024-03-31 02:30"), Ok(1_711_848_600_000_000_000), "this time is left out");
        assert_eq!(moment("2024-10-27 02:30"), Ok(1_729_992_600_000_000_000), "this time comes twice");
        assert_eq!(moment("epoch"), Ok(0));
        for (text, error) in [
            ("2024-13-01", TimeError::Range),
            ("2024-02-30", TimeError::Range),
            ("2024-01-01 25:00", TimeError::Range),
            // 1526 seconds more than 2^64 ns.
            ("2024-01-01 5124096:00", TimeError::Range),
            ("2300-01-01", TimeError::Range),
            ("infinity", TimeError::Range),
            ("2024-01", TimeError::Syntax),
            ("tuesday", TimeError::Syntax),
            ("2024-01-01 12", TimeError::Syntax),
            ("2024-01-01 12:00 Mars", TimeError::Syntax),
            ("", TimeError::Syntax),
        ] {
            assert_eq!(moment(text), Err(error), "{text}");
        }
    }
}
