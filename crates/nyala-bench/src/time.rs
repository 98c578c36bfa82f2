//! Seconds since 1970, spans of them, their RFC 3339 text, and durations as people type them.

/// 2016-01-01T00:00:00Z, where TSBS' data begin.
pub const TSBS_START: i64 = 1_451_606_400;
/// Seconds of a minute.
pub const MINUTE_SECONDS: i64 = 60;
/// Seconds of an hour.
pub const HOUR_SECONDS: i64 = 3600;
/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// A span of time, its end excluded, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First second.
    pub start: i64,
    /// The second after the last.
    pub end: i64,
}

impl Span {
    /// Its length.
    pub fn seconds(&self) -> i64 {
        self.end - self.start
    }

    /// Whether `time` lies in it.
    pub fn contains(&self, time: i64) -> bool {
        self.start <= time && time < self.end
    }
}

/// `2016-01-01T00:00:00Z`.
pub fn rfc3339(seconds: i64) -> String {
    let (year, month, day) = civil_date(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / HOUR_SECONDS,
        second / MINUTE_SECONDS % 60,
        second % 60
    )
}

/// The reverse of [`rfc3339`]; `None` for anything else, fractions of seconds included.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 20 || !text.is_ascii() {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        bytes[range]
            .iter()
            .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let seconds =
        days_from_civil(year, month, day) * DAY_SECONDS + hour * HOUR_SECONDS + minute * 60 + second;
    // Separators, and days that do not exist, are checked by writing it again.
    (rfc3339(seconds) == text).then_some(seconds)
}

/// Days since 1970 to a date; eras of 400 years that begin in March make leap days fall at the end.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads `10s`, `90m`, `6h`, `3d`, `1d12h` as seconds; the message says what is wrong.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is not a duration like 10s, 90m, 6h, 3d or 1d12h");
    let (mut total, mut number) = (0i64, None::<i64>);
    for character in text.chars() {
        if let Some(digit) = character.to_digit(10) {
            let next = number.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(i64::from(digit)));
            number = Some(next.ok_or_else(wrong)?);
            continue;
        }
        let unit = match character {
            's' => 1,
            'm' => MINUTE_SECONDS,
            'h' => HOUR_SECONDS,
            'd' => DAY_SECONDS,
            'w' => 7 * DAY_SECONDS,
            _ => return Err(wrong()),
        };
        let part = number.take().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
    }
    // Ten years bounds every product of durations and counts below 2^63 nanoseconds.
    if number.is_some() || total == 0 || total > 3653 * DAY_SECONDS { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_as_rfc_3339() {
        for (seconds, text) in [
            (TSBS_START, "2016-01-01T00:00:00Z"),
            (TSBS_START + 59 * DAY_SECONDS + 3723, "2016-02-29T01:02:03Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert_eq!(parse_rfc3339(text), Some(seconds));
        }
        for text in
            ["", "2016-01-01", "2016-02-30T00:00:00Z", "2016-01-01T00:00:00.5Z", "2016-01-01 00:00:00Z"]
        {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_or_refused() {
        assert_eq!(parse_duration("10s"), Ok(10));
        assert_eq!(parse_duration("1d12h"), Ok(36 * HOUR_SECONDS));
        for text in ["", "10", "s", "1y", "-1s", "0s", "99999999999999999999s", "9999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
