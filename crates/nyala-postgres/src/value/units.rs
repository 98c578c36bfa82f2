//! Arrow's times in PostgreSQL's unit, the microsecond.

use super::time::Span;
use crate::error::Failure;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano};
use arrow_schema::TimeUnit;

const DAY_US: i64 = 86_400_000_000;

/// Days, of milliseconds since 1970.
pub(super) fn days(unix_ms: i64) -> Result<i32, Failure> {
    i32::try_from(unix_ms.div_euclid(86_400_000)).map_err(|_| Failure::new("22008", "date out of range"))
}

/// Microseconds; a time between two of them is the earlier one.
pub(super) fn microseconds(value: i64, unit: TimeUnit) -> Result<i64, Failure> {
    let found = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1000)),
    };
    found.ok_or_else(|| Failure::new("22008", "timestamp out of range"))
}

pub(super) fn of_day_time(value: IntervalDayTime) -> Span {
    Span { months: 0, days: value.days, us: i64::from(value.milliseconds) * 1000 }
}

pub(super) fn of_month_day_nano(value: IntervalMonthDayNano) -> Span {
    Span { months: value.months, days: value.days, us: value.nanoseconds.div_euclid(1000) }
}

/// The time between two others, whose hours PostgreSQL makes days of.
pub(super) fn of_duration(value: i64, unit: TimeUnit) -> Result<Span, Failure> {
    let us = microseconds(value, unit)?;
    let days = i32::try_from(us / DAY_US).map_err(|_| Failure::new("22008", "interval out of range"))?;
    Ok(Span { days, us: us % DAY_US, ..Span::default() })
}
