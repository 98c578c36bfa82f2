//! Which points were found, in numbers and ranges.

use nyala_core::TimeRange;
use roaring::RoaringBitmap;

/// Points that are changed, or would be.
#[derive(Debug)]
pub(super) struct FoundPoints {
    /// How many points.
    pub(super) points: u64,
    /// Their series.
    pub(super) series: RoaringBitmap,
    /// The range from the first to the last of them; empty if there are none.
    pub(super) time: TimeRange,
}

impl FoundPoints {
    pub(super) fn none() -> Self {
        Self { points: 0, series: RoaringBitmap::new(), time: TimeRange::new(i64::MAX, i64::MIN) }
    }

    /// Adds points of some series at some times.
    pub(super) fn add(&mut self, series: impl IntoIterator<Item = u32>, times_ns: &[i64]) {
        self.points += times_ns.len() as u64;
        self.series.extend(series);
        for time_ns in times_ns {
            self.time.start_ns = self.time.start_ns.min(*time_ns);
            self.time.end_ns = self.time.end_ns.max(time_ns.saturating_add(1));
        }
    }
}
