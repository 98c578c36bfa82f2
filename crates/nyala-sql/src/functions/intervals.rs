//! Functions of intervals and times.

use super::plain::{Call, Kind, PlainFunction, immutable, stable};
use super::time_ns;
use crate::clocks::{utc_ns, zone_named};
use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::types::IntervalMonthDayNano;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use datafusion::common::ScalarValue;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_NS: i64 = 86_400_000_000_000;
const DAYS_OF_MONTH: i32 = 30;
const INT: Kind = Kind::Int;
const FLOAT: Kind = Kind::Float;

pub(super) static FUNCTIONS: &[PlainFunction] = &[
    stable(
        "age",
        &[
            &[Kind::Moment, Kind::Moment],
            &[Kind::Time, Kind::Time],
            &[Kind::Time, Kind::Moment],
            &[Kind::Moment, Kind::Time],
        ],
        Kind::Span,
        |call| Ok(span(age(local(call, 0)?, local(call, 1)?))),
    ),
    immutable("justify_days", &[&[Kind::Span]], Kind::Span, |call| {
        Ok(span(justified_days(interval(call, 0)).ok_or_else(out_of_range)?))
    }),
    immutable("justify_hours", &[&[Kind::Span]], Kind::Span, |call| {
        Ok(span(justified_hours(interval(call, 0)).ok_or_else(out_of_range)?))
    }),
    immutable("justify_interval", &[&[Kind::Span]], Kind::Span, |call| {
        Ok(span(justified(interval(call, 0)).ok_or_else(out_of_range)?))
    }),
    immutable("make_interval", &[&[INT, INT, INT, INT, INT, INT, FLOAT]], Kind::Span, make_interval),
    immutable("make_timestamp", &[&[INT, INT, INT, INT, INT, FLOAT]], Kind::Time, |call| {
        let ns = utc_ns(made_time(call)?, None, Tz::UTC).ok_or_else(beyond)?;
        Ok(ScalarValue::TimestampNanosecond(Some(ns), None))
    }),
    stable(
        "make_timestamptz",
        &[&[INT, INT, INT, INT, INT, FLOAT], &[INT, INT, INT, INT, INT, FLOAT, Kind::Text]],
        Kind::Moment,
        |call| {
            let zone = match call.values.len() {
                7 => zone_named(call.text(6))?,
                _ => call.zone,
            };
            let ns = utc_ns(made_time(call)?, None, zone).ok_or_else(beyond)?;
            Ok(ScalarValue::TimestampNanosecond(Some(ns), Some("+00:00".into())))
        },
    ),
    // What a predicate of ranges is rewritten to.
    immutable(
        "overlaps",
        &[
            &[Kind::Moment, Kind::Moment, Kind::Moment, Kind::Moment],
            &[Kind::Time, Kind::Time, Kind::Time, Kind::Time],
        ],
        Kind::Bool,
        |call| Ok(ScalarValue::Boolean(Some(overlap(range(call, 0), range(call, 2))))),
    ),
    // Every time is finite here.
    immutable("isfinite", &[&[Kind::Moment], &[Kind::Time], &[Kind::Span]], Kind::Bool, |_| {
        Ok(ScalarValue::Boolean(Some(true)))
    }),
    PlainFunction {
        volatility: datafusion::logical_expr::Volatility::Volatile,
        ..immutable("clock_timestamp", &[&[]], Kind::Moment, |_| {
            let passed = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| beyond())?;
            let ns = i64::try_from(passed.as_nanos()).map_err(|_| beyond())?;
            Ok(ScalarValue::TimestampNanosecond(Some(ns), Some("+00:00".into())))
        })
    },
];

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "interval out of range")
}

fn beyond() -> SqlError {
    SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "timestamp out of range")
}

/// The earlier and the later of two times.
fn range(call: &Call<'_>, place: usize) -> (i64, i64) {
    let ns = |place: usize| call.values.get(place).and_then(time_ns).unwrap_or_default();
    let (begin, end) = (ns(place), ns(place + 1));
    (begin.min(end), begin.max(end))
}

/// Whether ranges have a moment in common. Their ends do not belong to them, unless they are beginnings, too.
fn overlap(one: (i64, i64), other: (i64, i64)) -> bool {
    one.0 == other.0 || one.0 < other.1 && other.0 < one.1
}

fn interval(call: &Call<'_>, place: usize) -> IntervalMonthDayNano {
    match call.values.get(place) {
        Some(ScalarValue::IntervalMonthDayNano(Some(own))) => *own,
        _ => IntervalMonthDayNano::ZERO,
    }
}

fn span(own: IntervalMonthDayNano) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(Some(own))
}

/// What clocks show at a time: those of the session, if it has a zone.
fn local(call: &Call<'_>, place: usize) -> SqlResult<NaiveDateTime> {
    match call.values.get(place) {
        Some(ScalarValue::TimestampNanosecond(Some(ns), zone)) => {
            let utc = DateTime::<Utc>::from_timestamp_nanos(*ns).naive_utc();
            Ok(match zone {
                Some(_) => call.zone.from_utc_datetime(&utc).naive_local(),
                None => utc,
            })
        }
        _ => Err(beyond()),
    }
}

/// How much later one time is than another in years, months, days and hours, as people say it.
fn age(one: NaiveDateTime, other: NaiveDateTime) -> IntervalMonthDayNano {
    let (is_negative, later, earlier) = if one < other { (true, other, one) } else { (false, one, other) };
    let time_ns = |own: NaiveDateTime| {
        i64::from(own.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(own.nanosecond())
    };
    let months = |own: NaiveDateTime| own.year() * 12 + own.month0() as i32;
    let mut ns = time_ns(later) - time_ns(earlier);
    let mut days = later.day() as i32 - earlier.day() as i32;
    let mut month = months(later) - months(earlier);
    if ns < 0 {
        ns += DAY_NS;
        days -= 1;
    }
    if days < 0 {
        // As PostgreSQL does, the days of the month of the earlier time are borrowed.
        days += days_of_month(earlier);
        month -= 1;
    }
    let sign = if is_negative { -1 } else { 1 };
    IntervalMonthDayNano::new(month * sign, days * sign, ns * i64::from(sign))
}

fn days_of_month(of: NaiveDateTime) -> i32 {
    let first = of.date().with_day(1).expect("every month has a first day");
    let next = first.checked_add_months(chrono::Months::new(1)).expect("a year after is in range");
    (next - first).num_days() as i32
}

/// Whole months of 30 days as months.
fn justified_days(own: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let mut months = own.months.checked_add(own.days / DAYS_OF_MONTH)?;
    let mut days = own.days % DAYS_OF_MONTH;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + DAYS_OF_MONTH);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - DAYS_OF_MONTH);
    }
    Some(IntervalMonthDayNano::new(months, days, own.nanoseconds))
}

/// Whole 24 hours as days.
fn justified_hours(own: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let mut days = own.days.checked_add((own.nanoseconds / DAY_NS) as i32)?;
    let mut ns = own.nanoseconds % DAY_NS;
    if days > 0 && ns < 0 {
        (days, ns) = (days - 1, ns + DAY_NS);
    } else if days < 0 && ns > 0 {
        (days, ns) = (days + 1, ns - DAY_NS);
    }
    Some(IntervalMonthDayNano::new(own.months, days, ns))
}

fn justified(own: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let days = i64::from(own.days) + own.nanoseconds / DAY_NS;
    let mut ns = own.nanoseconds % DAY_NS;
    let mut months = i32::try_from(i64::from(own.months) + days / i64::from(DAYS_OF_MONTH)).ok()?;
    let mut days = (days % i64::from(DAYS_OF_MONTH)) as i32;
    if months > 0 && (days < 0 || days == 0 && ns < 0) {
        (months, days) = (months - 1, days + DAYS_OF_MONTH);
    } else if months < 0 && (days > 0 || days == 0 && ns > 0) {
        (months, days) = (months + 1, days - DAYS_OF_MONTH);
    }
    if days > 0 && ns < 0 {
        (days, ns) = (days - 1, ns + DAY_NS);
    } else if days < 0 && ns > 0 {
        (days, ns) = (days + 1, ns - DAY_NS);
    }
    Some(IntervalMonthDayNano::new(months, days, ns))
}

fn make_interval(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let [years, months, weeks, days, hours, minutes] =
        [0, 1, 2, 3, 4, 5].map(|place| i64::from(call.int(place)));
    let months = i32::try_from(years * 12 + months).map_err(|_| out_of_range())?;
    let days = i32::try_from(weeks * 7 + days).map_err(|_| out_of_range())?;
    let seconds_us = (call.float(6) * 1e6).round();
    if seconds_us.is_nan() || seconds_us.abs() > i64::MAX as f64 / 1e3 {
        return Err(out_of_range());
    }
    let us = (hours * 60 + minutes) * 60_000_000 + seconds_us as i64;
    let ns = us.checked_mul(1_000).ok_or_else(out_of_range)?;
    Ok(span(IntervalMonthDayNano::new(months, days, ns)))
}

/// The time that the first six arguments say.
fn made_time(call: &Call<'_>) -> SqlResult<NaiveDateTime> {
    let [year, month, day, hour, minute] = [0, 1, 2, 3, 4].map(|place| call.int(place));
    let refused = |what: &str, shown: String| {
        SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, format!("{what} field value out of range: {shown}"))
    };
    let part = |own: i32| u32::try_from(own).unwrap_or(u32::MAX);
    let date = NaiveDate::from_ymd_opt(year, part(month), part(day)).filter(|_| year > 0);
    let date = date.ok_or_else(|| refused("date", format!("{year}-{month:02}-{day:02}")))?;
    let us = (call.float(5) * 1e6).round();
    let is_whole_minute = us == 60e6;
    let in_range = (0.0..=60e6).contains(&us) && (0..24).contains(&hour) && (0..60).contains(&minute);
    let time = match (in_range, is_whole_minute) {
        (false, _) => None,
        (true, true) => NaiveTime::from_hms_opt(part(hour), part(minute), 59),
        (true, false) => {
            let us = us as u32;
            NaiveTime::from_hms_micro_opt(part(hour), part(minute), us / 1_000_000, us % 1_000_000)
        }
    };
    let time = time.ok_or_else(|| refused("time", format!("{hour}:{minute:02}:{:02}", call.float(5))))?;
    let made = date.and_time(time);
    let second = chrono::TimeDelta::seconds(i64::from(is_whole_minute));
    made.checked_add_signed(second).ok_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_as_people_do() {
        let time = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
        let span = IntervalMonthDayNano::new;
        let hour_ns = 3_600_000_000_000;
        for (one, other, expected) in [
            ("2001-04-10 00:00", "1957-06-13 00:00", span(43 * 12 + 9, 27, 0)),
            ("2024-03-01 00:00", "2024-01-31 00:00", span(1, 1, 0)),
            ("2024-03-01 01:00", "2024-02-29 02:00", span(0, 0, 23 * hour_ns)),
        ] {
            assert_eq!(age(time(one), time(other)), expected, "{one} {other}");
            let negative = span(-expected.months, -expected.days, -expected.nanoseconds);
            assert_eq!(age(time(other), time(one)), negative, "{other} {one}");
        }
    }
}
