//! Durations: `1h30m`, counted in nanoseconds.

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// Parses a duration such as `90m` or `1h30m`. The error is InfluxDB's text.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || Err("invalid duration".to_string());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if text.len() < 2 || rest.is_empty() {
        return invalid();
    }
    let mut total: i128 = 0;
    let mut last = (0, "");
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(count) = rest[..digits].parse::<i64>() else { return invalid() };
        rest = &rest[digits..];
        let units: [(&str, i64); 9] = [
            ("ns", 1),
            ("ms", MILLISECOND),
            ("u", MICROSECOND),
            ("µ", MICROSECOND),
            ("m", MINUTE),
            ("s", SECOND),
            ("h", HOUR),
            ("d", DAY),
            ("w", WEEK),
        ];
        let Some((unit, scale)) = units.iter().find(|(unit, _)| rest.starts_with(unit)) else {
            return invalid();
        };
        rest = &rest[unit.len()..];
        last = (count, unit);
        // Bounded by the length of the text, far from where i128 would overflow.
        total += i128::from(count) * i128::from(*scale);
    }
    // InfluxDB computes in 64 bits and notices an overflow only if the sum wraps to a negative number. Here every
    // overflow is refused with the same message.
    match i64::try_from(total) {
        Ok(nanoseconds) if negative => Ok(-nanoseconds),
        Ok(nanoseconds) => Ok(nanoseconds),
        Err(_) => Err(format!("overflowed duration {}{}: choose a smaller duration or INF", last.0, last.1)),
    }
}

/// A duration in the greatest unit that divides it: `90m`, `1500ms`, `0s`.
pub fn format_duration(nanoseconds: i64) -> String {
    let units = [
        ("w", WEEK),
        ("d", DAY),
        ("h", HOUR),
        ("m", MINUTE),
        ("s", SECOND),
        ("ms", MILLISECOND),
        ("u", MICROSECOND),
    ];
    if nanoseconds == 0 {
        return "0s".to_string();
    }
    match units.iter().find(|(_, scale)| nanoseconds % scale == 0) {
        Some((unit, scale)) => format!("{}{unit}", nanoseconds / scale),
        None => format!("{nanoseconds}ns"),
    }
}

/// A duration of whole seconds as Go writes it: `168h0m0s`.
pub(crate) fn go_duration(duration_ns: i64) -> String {
    let seconds = duration_ns / SECOND;
    let fraction = match duration_ns % SECOND {
        0 => String::new(),
        rest => format!(".{rest:09}").trim_end_matches('0').to_owned(),
    };
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}{fraction}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}{fraction}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_compounds() {
        for (text, nanoseconds) in [
            ("10ns", 10),
            ("10u", 10 * MICROSECOND),
            ("10µ", 10 * MICROSECOND),
            ("10ms", 10 * MILLISECOND),
            ("1h30m", 90 * MINUTE),
            ("3mm", -1),
            ("100d", 100 * DAY),
            ("1w1ns", WEEK + 1),
            ("-5m", -5 * MINUTE),
        ] {
            if nanoseconds == -1 {
                assert!(parse_duration(text).is_err());
            } else {
                assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
            }
        }
        for text in ["", "1", "m", "-", "1n", "1x", "m1", "1m1", "99999999999999999999s", "1h-1m"] {
            assert_eq!(parse_duration(text), Err("invalid duration".to_string()), "{text}");
        }
        assert_eq!(
            parse_duration("1s300000w").unwrap_err(),
            "overflowed duration 300000w: choose a smaller duration or INF"
        );
    }

    #[test]
    fn the_greatest_unit_that_divides() {
        for text in ["0s", "3w", "2d", "25h", "90m", "61s", "1500ms", "10u", "7ns", "-5m"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }
}
