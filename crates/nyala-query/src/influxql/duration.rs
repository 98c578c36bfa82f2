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
        // A sum of tens of thousands of long parts could overflow even that.
        total = total.saturating_add(i128::from(count) * i128::from(*scale));
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

/// A duration of at least zero as Go writes it: `168h0m0s`, `1.5s`, `20ms`.
pub(crate) fn go_duration(duration_ns: i64) -> String {
    let in_units = |whole: i64, unit: i64| match duration_ns % unit {
        0 => whole.to_string(),
        rest => {
            let digits = unit.ilog10() as usize;
            format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
        }
    };
    match duration_ns {
        0 => return "0s".to_owned(),
        1..MICROSECOND => return format!("{duration_ns}ns"),
        MICROSECOND..MILLISECOND => return format!("{}µs", in_units(duration_ns / MICROSECOND, MICROSECOND)),
        MILLISECOND..SECOND => return format!("{}ms", in_units(duration_ns / MILLISECOND, MILLISECOND)),
        _ => {}
    }
    let seconds = in_units(duration_ns / SECOND % 60, SECOND);
    match (duration_ns / HOUR, duration_ns / MINUTE % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
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
            ("100d", 100 * DAY),
            ("1w1ns", WEEK + 1),
            ("-5m", -5 * MINUTE),
        ] {
            assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
        }
        for text in ["", "1", "m", "-", "3mm", "1n", "1x", "m1", "1m1", "99999999999999999999s", "1h-1m"] {
            assert_eq!(parse_duration(text), Err("invalid duration".to_string()), "{text}");
        }
        assert_eq!(
            parse_duration("1s300000w").unwrap_err(),
            "overflowed duration 300000w: choose a smaller duration or INF"
        );
        let long = "9223372036854775807w".repeat(40_000);
        assert!(parse_duration(&long).unwrap_err().starts_with("overflowed duration "));
    }

    #[test]
    fn the_greatest_unit_that_divides() {
        for text in ["0s", "3w", "2d", "25h", "90m", "61s", "1500ms", "10u", "7ns", "-5m"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (text, written) in [
            ("0s", "0s"),
            ("7ns", "7ns"),
            ("1500ns", "1.5µs"),
            ("20ms", "20ms"),
            ("20010u", "20.01ms"),
            ("1500ms", "1.5s"),
            ("90s", "1m30s"),
            ("1w", "168h0m0s"),
            ("1h5s10ns", "1h0m5.00000001s"),
        ] {
            assert_eq!(go_duration(parse_duration(text).unwrap()), written);
        }
    }
}
