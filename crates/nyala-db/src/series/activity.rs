//! Which series were written lately, whatever the times of their points.
//!
//! They are noted by whole spans of time: a series that was written neither in the current span nor in the one before is
//! inactive.

use crate::ingest::UNRESOLVED_SERIES;
use roaring::RoaringBitmap;

/// The series that were written in the current span, and in the span before.
#[derive(Default)]
pub(crate) struct Activity {
    /// `None`: nothing is noted, because the measurement has few series.
    current: Option<RoaringBitmap>,
    /// `None` in the first span.
    previous: Option<RoaringBitmap>,
    begun_ns: i64,
}

impl Activity {
    /// Whether all these series are noted in the current span, or nothing is noted at all.
    pub(crate) fn has_all(&self, ids: &[u32]) -> bool {
        let Some(current) = &self.current else { return true };
        let (least, most) =
            ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
        // In most batches all ids between the least and the greatest are noted.
        ids.is_empty() || current.contains_range(least..=most) || ids.iter().all(|id| current.contains(*id))
    }

    /// Notes that series are written.
    pub(crate) fn note(&mut self, ids: &[u32]) {
        if let Some(current) = &mut self.current {
            current.extend(ids.iter().copied().filter(|id| *id != UNRESOLVED_SERIES));
        }
    }

    /// Begins the next span if the current one is long enough. Returns whether it did and the span before is known.
    pub(crate) fn advance(&mut self, now_ns: i64, span_ns: i64) -> bool {
        if self.current.is_some() && now_ns.abs_diff(self.begun_ns) < span_ns.unsigned_abs() {
            return false;
        }
        self.begun_ns = now_ns;
        self.previous = self.current.replace(RoaringBitmap::new());
        self.previous.is_some()
    }

    /// Stops noting.
    pub(crate) fn end(&mut self) {
        (self.current, self.previous) = (None, None);
    }

    /// Keeps only the inactive ones of some series; none if this is not known.
    pub(crate) fn keep_inactive(&self, ids: &mut RoaringBitmap) {
        match (&self.current, &self.previous) {
            (Some(current), Some(previous)) => {
                *ids -= current;
                *ids -= previous;
            }
            _ => ids.clear(),
        }
    }

    /// The approximate memory, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        [&self.current, &self.previous].into_iter().flatten().map(RoaringBitmap::serialized_size).sum()
    }
}
