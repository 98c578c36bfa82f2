//! Times in seconds since 1970, time spans, RFC 3339, and durations on the command line.

use chrono::{DateTime, SecondsFormat};

/// 2016-01-01T00:00:00Z, where TSBS' data begins.
pub const TSBS_START: i64 = 1_451_606_400;
/// Seconds of a minute.
pub const MINUTE_SECONDS: i64 = 60;
/// Seconds of an hour.
pub const HOUR_SECONDS: i64 = 3600;
/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// A time span in seconds since 1970; its end is exclusive.
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

/// `2016-01-01T00:00:00Z`; the plain number for times beyond chrono's years.
pub fn rfc3339(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0);
    time.map_or_else(|| seconds.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// The reverse of [`rfc3339`]; `None` for anything else, other offsets and fractions of seconds included.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let seconds = DateTime::parse_from_rfc3339(text).ok()?.timestamp();
    (rfc3339(seconds) == text).then_some(seconds)
}

/// Reads durations such as `10s`, `90m`, `6h`, `3d`, `1d12h` as seconds.
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
