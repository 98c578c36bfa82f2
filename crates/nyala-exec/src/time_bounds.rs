//! The time range of a query.

use nyala_core::TimeRange;
use nyala_core::time::{MAX_TIME_NS, MIN_TIME_NS};

/// The first and the last time of a query; without a bound the first or last time that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    /// The first, ns.
    pub first_ns: i64,
    /// The last, ns.
    pub last_ns: i64,
}

impl TimeBounds {
    /// All times.
    pub const ALL: Self = Self { first_ns: MIN_TIME_NS, last_ns: MAX_TIME_NS };

    /// Whether there is a first time.
    pub fn begins(self) -> bool {
        self.first_ns > MIN_TIME_NS
    }

    /// Whether there is a last time.
    pub fn ends(self) -> bool {
        self.last_ns < MAX_TIME_NS
    }

    /// The times that are also within `other`.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self { first_ns: self.first_ns.max(other.first_ns), last_ns: self.last_ns.min(other.last_ns) }
    }

    /// The times as a half-open range; without a bound all that can be stored.
    pub fn range(self) -> TimeRange {
        let first_ns = if self.begins() { self.first_ns } else { i64::MIN };
        TimeRange::new(first_ns, self.last_ns.min(MAX_TIME_NS).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_bounds_include_all_times() {
        let (all, some) = (TimeBounds::ALL, TimeBounds { first_ns: 3, last_ns: 5 });
        assert_eq!(all.range(), TimeRange::new(i64::MIN, i64::MAX));
        assert_eq!((all.begins(), all.ends(), some.begins(), some.ends()), (false, false, true, true));
        assert_eq!(all.within(some).range(), TimeRange::new(3, 6));
        let open = TimeBounds { last_ns: i64::MAX, ..some };
        assert_eq!(open.within(all), TimeBounds { last_ns: MAX_TIME_NS, ..some });
    }
}
