//! Buckets of time: what `time_bucket`, `date_bin` and `date_trunc` divide time into.
//!
//! The functions ask for the bucket of one time, and a pushed-down aggregate for all buckets of a range of times. Both
//! answers come from the same rule, so that a query gives the same groups on both ways.

use crate::clocks::known_zone;
use chrono::{DateTime, Datelike, NaiveDate};
use nyala_core::store::{WindowRuns, Windows};
use nyala_core::{Error, Result};
use nyala_exec::{WindowRule, Zone};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// Monday, 3 January 2000: what TimescaleDB counts its buckets from, so that buckets of weeks begin on Mondays.
pub(crate) const MONDAY_NS: i64 = 10_959 * DAY_NS;
/// 1 January 2000, which buckets of months are counted from.
const MONTHS_OF_2000: i32 = 2000 * 12;

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Buckets {
    /// Into buckets of equal width, by the clock of a zone.
    Width(WindowRule),
    /// Into so many months each.
    Months {
        /// How many.
        months: i32,
        /// A month that a bucket begins with, counted from year 0.
        origin: i32,
        /// The zone whose midnight begins a month; `None` means UTC.
        zone: Option<Zone>,
    },
}

impl Buckets {
    /// Buckets of a width, one of which begins at a time; `None` if the width is not positive.
    pub(crate) fn of_width(width_ns: i64, origin_ns: i64, zone: Option<Zone>) -> Option<Self> {
        let rule = || WindowRule { interval_ns: width_ns, offset_ns: origin_ns.rem_euclid(width_ns), zone };
        (width_ns > 0).then(|| Buckets::Width(rule()))
    }

    /// Buckets of months. `origin_ns` must be the midnight that a month begins with; `None`: January 2000.
    pub(crate) fn of_months(months: i32, origin_ns: Option<i64>, zone: Option<Zone>) -> Option<Self> {
        let origin = match origin_ns {
            None => MONTHS_OF_2000,
            Some(ns) => {
                let month = month_of(ns, zone)?;
                (start_of_month(month, zone)? == ns).then_some(month)?
            }
        };
        (months > 0).then_some(Buckets::Months { months, origin, zone })
    }

    /// An interval of SQL: months, or days (of 24 hours) and nanoseconds. `origin_ns`: a time that a bucket begins at, by the
    /// clock of the zone.
    pub(crate) fn of_interval(
        (months, days, ns): (i32, i32, i64),
        origin_ns: Option<i64>,
        zone: Option<Zone>,
    ) -> Option<Self> {
        match (months, days, ns) {
            (0, ..) => {
                let width_ns = DAY_NS.checked_mul(days.into())?.checked_add(ns)?;
                Self::of_width(width_ns, origin_ns.unwrap_or(MONDAY_NS), zone)
            }
            (months, 0, 0) => Self::of_months(months, origin_ns, zone),
            _ => None,
        }
    }

    /// The parts of the calendar that `date_trunc` knows, in UTC.
    pub(crate) fn of_unit(unit: &str) -> Option<Self> {
        let width = |width_ns| Self::of_width(width_ns, MONDAY_NS, None);
        match unit.to_ascii_lowercase().as_str() {
            "microsecond" => width(1_000),
            "millisecond" => width(1_000_000),
            "second" => width(SECOND_NS),
            "minute" => width(60 * SECOND_NS),
            "hour" => width(3_600 * SECOND_NS),
            "day" => width(DAY_NS),
            "week" => width(7 * DAY_NS),
            "month" => Self::of_months(1, None, None),
            "quarter" => Self::of_months(3, None, None),
            "year" => Self::of_months(12, None, None),
            _ => None,
        }
    }

    /// The start of the bucket that holds a time; `None` if it lies before the least time.
    pub(crate) fn start_of(&self, time_ns: i64) -> Option<i64> {
        match self {
            Buckets::Width(rule @ WindowRule { zone: None, .. }) => {
                let since_start_ns = time_ns.wrapping_sub(rule.offset_ns).rem_euclid(rule.interval_ns);
                match time_ns.checked_sub(rule.offset_ns) {
                    Some(_) => time_ns.checked_sub(since_start_ns),
                    None => None,
                }
            }
            Buckets::Width(rule) => Some(rule.window_of(time_ns).0),
            Buckets::Months { months, origin, zone } => {
                let month = month_of(time_ns, *zone)?;
                let mut first = month - (month - origin).rem_euclid(*months);
                // Clocks that were set back over midnight show the month before once more.
                if start_of_month(first, *zone)? > time_ns {
                    first -= months;
                }
                start_of_month(first, *zone)
            }
        }
    }

    /// The start of the bucket behind the one that begins at a time.
    pub(crate) fn next_start(&self, start_ns: i64) -> Option<i64> {
        match self {
            Buckets::Width(rule) => Some(rule.window_of(start_ns).1).filter(|next_ns| *next_ns > start_ns),
            Buckets::Months { months, zone, .. } => {
                // The middle of a month is in it by every clock.
                let month = month_of(start_ns.checked_add(15 * DAY_NS)?, *zone)?;
                start_of_month(month + months, *zone)
            }
        }
    }

    /// About how many buckets begin in a range of times: at least as many as there are, unless clocks are set back.
    pub(crate) fn about_between(&self, start_ns: i64, end_ns: i64) -> u64 {
        let width_ns = match self {
            Buckets::Width(rule) => rule.interval_ns,
            Buckets::Months { months, .. } => i64::from(*months).saturating_mul(28 * DAY_NS),
        };
        let length_ns = (i128::from(end_ns) - i128::from(start_ns)).max(0);
        u64::try_from(length_ns / i128::from(width_ns)).unwrap_or(u64::MAX)
    }

    /// All buckets from the one that holds `first_ns` to the one that holds `last_ns`; `None` if one of them reaches beyond
    /// the times that there are, or there are too many.
    pub(crate) fn windows(&self, first_ns: i64, last_ns: i64) -> Option<Windows> {
        match self {
            Buckets::Width(rule) => {
                first_ns.checked_sub(rule.interval_ns)?.checked_sub(rule.offset_ns)?;
                last_ns.checked_add(rule.interval_ns)?;
                rule.windows(first_ns, last_ns).ok()
            }
            Buckets::Months { .. } => {
                let mut next_ns = self.start_of(first_ns)?;
                let mut runs = WindowRuns::starting_at(next_ns);
                while next_ns <= last_ns {
                    next_ns = self.next_start(next_ns)?;
                    runs.push_to(next_ns);
                }
                Some(runs.into())
            }
        }
    }
}

/// The month that holds a time, counted from year 0.
fn month_of(time_ns: i64, zone: Option<Zone>) -> Option<i32> {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let offset = zone.map_or(0, |zone| zone.offset_seconds(seconds));
    let date = DateTime::from_timestamp(seconds + i64::from(offset), 0)?;
    Some(date.year() * 12 + date.month0() as i32)
}

/// The midnight that a month begins with; `None` if it is no time.
fn start_of_month(month: i32, zone: Option<Zone>) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(month.div_euclid(12), month.rem_euclid(12) as u32 + 1, 1)?;
    let local = date.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
    let offset = zone.map_or(0, |zone| zone.offset_at_local(local));
    (local - i64::from(offset)).checked_mul(SECOND_NS)
}

/// The zone of a name.
pub(crate) fn zone_of(name: &str) -> Result<Zone> {
    let known = known_zone(name).and_then(|zone| Zone::named(zone.name()));
    known.ok_or_else(|| Error::invalid(format!("time zone \"{name}\" not recognized")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
    }

    #[test]
    fn buckets_of_weeks_begin_on_mondays() {
        let weeks = Buckets::of_interval((0, 7, 0), None, None).unwrap();
        assert_eq!(weeks.start_of(ns("2026-11-25T12:00:00Z")), Some(ns("2026-11-23T00:00:00Z")));
        assert_eq!(weeks.start_of(ns("1969-12-31T12:00:00Z")), Some(ns("1969-12-29T00:00:00Z")));
        assert_eq!(weeks, Buckets::of_unit("WEEK").unwrap());
    }

    #[test]
    fn months_follow_the_calendar_of_the_zone() {
        let berlin = zone_of("Europe/Berlin").unwrap();
        let months = Buckets::of_months(1, None, Some(berlin)).unwrap();
        assert_eq!(months.start_of(ns("2026-03-31T22:30:00Z")), Some(ns("2026-03-31T22:00:00Z")));
        assert_eq!(months.start_of(ns("2026-03-31T21:30:00Z")), Some(ns("2026-02-28T23:00:00Z")));
        let quarters = Buckets::of_unit("quarter").unwrap();
        assert_eq!(quarters.start_of(ns("2026-11-25T12:00:00Z")), Some(ns("2026-10-01T00:00:00Z")));
        assert_eq!(quarters.next_start(ns("2026-10-01T00:00:00Z")), Some(ns("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn a_time_is_in_the_window_of_its_bucket() {
        let zone = Zone::named("America/New_York");
        let hour = (0, 0, 3_600 * SECOND_NS);
        for buckets in [
            Buckets::of_interval((0, 1, 0), None, zone),
            Buckets::of_interval(hour, None, zone),
            Buckets::of_interval((0, 0, 7 * SECOND_NS), Some(3), None),
            Buckets::of_interval((5, 0, 0), None, None),
            Buckets::of_interval((1, 0, 0), None, zone),
        ] {
            let buckets = buckets.unwrap();
            let (first_ns, step_ns) = (ns("2025-10-20T00:00:00Z"), 1_237 * SECOND_NS);
            let windows = buckets.windows(first_ns, first_ns + 1_000 * step_ns).unwrap();
            for time_ns in (0..=1_000).map(|number| first_ns + number * step_ns) {
                let range = windows.range(windows.index_of(time_ns).unwrap());
                assert_eq!(buckets.start_of(time_ns), Some(range.start_ns), "{buckets:?} {time_ns}");
                assert_eq!(buckets.next_start(range.start_ns), Some(range.end_ns), "{buckets:?} {time_ns}");
            }
        }
    }
}
