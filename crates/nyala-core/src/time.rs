//! Time: nanoseconds since 1970-01-01T00:00:00Z in an `i64`.

/// The smallest time a point can have, ns.
pub const MIN_TIME_NS: i64 = -9_223_372_036_854_775_806;
/// The largest time a point can have, ns.
pub const MAX_TIME_NS: i64 = 9_223_372_036_854_775_806;

/// A half-open range of times, `[start_ns, end_ns)`.
///
/// Because [`MAX_TIME_NS`] is below `i64::MAX`, every set of valid times has such a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// First time inside, ns.
    pub start_ns: i64,
    /// First time past the end, ns.
    pub end_ns: i64,
}

impl TimeRange {
    /// Every valid time.
    pub const ALL: Self = Self { start_ns: i64::MIN, end_ns: i64::MAX };

    /// The range `[start_ns, end_ns)`.
    pub fn new(start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns, end_ns }
    }

    /// Whether nothing is inside.
    pub fn is_empty(self) -> bool {
        self.start_ns >= self.end_ns
    }

    /// Whether `time_ns` is inside.
    pub fn contains(self, time_ns: i64) -> bool {
        self.start_ns <= time_ns && time_ns < self.end_ns
    }

    /// The times that are in both ranges.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.max(other.start_ns), end_ns: self.end_ns.min(other.end_ns) }
    }

    /// The shortest range that covers both, neither of which is empty.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns) }
    }

    /// Whether both ranges have a time in common.
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersect(other).is_empty()
    }

    /// Whether all of `other` is inside this range.
    pub fn covers(self, other: Self) -> bool {
        other.is_empty() || (self.start_ns <= other.start_ns && other.end_ns <= self.end_ns)
    }
}

/// The time that determines the range partition of a key with this time. Ranges end before `i64::MAX`, so a key at
/// `i64::MAX` belongs to the partition of the time before it.
pub fn partition_time(time_ns: i64) -> i64 {
    time_ns.min(MAX_TIME_NS)
}

/// Seconds from 0001-01-01 to 1970-01-01. Windows and shards are counted from the former, as Go's `time.Truncate` does,
/// so that seven-day shards start on Mondays.
const ZERO_TIME_BEFORE_EPOCH_SECONDS: i128 = 62_135_596_800;

/// The start of the window of `width_ns` that holds `time_ns`, counted from the year 1.
pub fn truncate_to_width(time_ns: i64, width_ns: i64) -> i64 {
    i64::try_from(window_start(time_ns, width_ns)).unwrap_or(i64::MIN)
}

/// The window of `width_ns` that holds `time_ns`, counted from the year 1. The first and the last window are cut to
/// what an `i64` can represent.
pub fn window_of_width(time_ns: i64, width_ns: i64) -> TimeRange {
    let start = window_start(time_ns, width_ns);
    let end = start + i128::from(width_ns);
    TimeRange::new(i64::try_from(start).unwrap_or(i64::MIN), i64::try_from(end).unwrap_or(i64::MAX))
}

fn window_start(time_ns: i64, width_ns: i64) -> i128 {
    assert!(width_ns > 0, "a window has a positive width");
    let since_zero = i128::from(time_ns) + ZERO_TIME_BEFORE_EPOCH_SECONDS * 1_000_000_000;
    i128::from(time_ns) - since_zero.rem_euclid(i128::from(width_ns))
}

/// Year, month and day of the Gregorian calendar, given the days since 1970-01-01 (H. Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms").
pub fn civil_date(days: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01, so that a leap day ends its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A time for people, as `2026-01-31T12:00:00.123Z`.
pub fn shown_time(time_ns: i64) -> String {
    const MS_PER_DAY: i64 = 86_400_000;
    let ms = time_ns.div_euclid(1_000_000);
    let (year, month, day) = civil_date(ms.div_euclid(MS_PER_DAY));
    let ms = ms.rem_euclid(MS_PER_DAY);
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", ms % 1000)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A fraction of a second, given its decimal digits; those behind the ninth are cut off.
pub fn fraction_ns(digits: &str) -> i64 {
    let kept = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    kept.fold(0, |ns, digit| ns * 10 + i64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_convert_both_ways() {
        for (days, date) in
            [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (11_016, (2000, 2, 29)), (-719_162, (1, 1, 1))]
        {
            assert_eq!((civil_date(days), days_since_1970(date.0, date.1, date.2)), (date, days));
        }
    }

    #[test]
    fn times_are_shown() {
        assert_eq!(shown_time(1_769_860_800_123_456_789), "2026-01-31T12:00:00.123Z");
        assert_eq!(shown_time(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn fractions_have_nine_digits() {
        assert_eq!(["", "5", "000000001", "1234567899"].map(fraction_ns), [0, 500_000_000, 1, 123_456_789]);
    }

    #[test]
    fn weeks_start_on_mondays() {
        let day_ns = 86_400_000_000_000;
        // 1970-01-01 was a Thursday; its week started on 1969-12-29.
        assert_eq!(truncate_to_width(0, 7 * day_ns), -3 * day_ns);
        assert_eq!(truncate_to_width(4 * day_ns, 7 * day_ns), 4 * day_ns);
        assert_eq!(truncate_to_width(-1, day_ns), -day_ns);
        assert_eq!(truncate_to_width(i64::MIN + 1, 7 * day_ns), i64::MIN);
    }

    #[test]
    fn windows_at_the_ends_of_time_do_not_overlap_their_neighbours() {
        let width_ns = 7 * 86_400_000_000_000;
        let first = window_of_width(i64::MIN, width_ns);
        let second = window_of_width(first.end_ns, width_ns);
        assert_eq!((first.start_ns, first.end_ns), (i64::MIN, second.start_ns));
        assert_eq!(second.end_ns - second.start_ns, width_ns);
        let last = window_of_width(MAX_TIME_NS, width_ns);
        assert_eq!((last.end_ns, truncate_to_width(MAX_TIME_NS, width_ns)), (i64::MAX, last.start_ns));
        assert!(last.contains(partition_time(i64::MAX)));
    }

    #[test]
    fn ranges_are_half_open() {
        let range = TimeRange::new(1, 3);
        assert!(range.contains(1) && range.contains(2) && !range.contains(3));
        assert!(!range.overlaps(TimeRange::new(3, 9)));
        assert!(TimeRange::ALL.covers(TimeRange::new(MIN_TIME_NS, MAX_TIME_NS + 1)));
    }
}
