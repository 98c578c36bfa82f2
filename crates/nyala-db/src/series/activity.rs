//! Which series got points lately, whatever the times of the points.
//!
//! Noted as whole spans of time: a series that got none in the span before this one, nor in this one, is silent.

use crate::ingest::UNRESOLVED_SERIES;
use roaring::RoaringBitmap;

/// The series that got points in this span of time, and in the one before.
#[derive(Default)]
pub(crate) struct Activity {
    /// Nothing is noted of measurements with few series.
    current: Option<RoaringBitmap>,
    /// None in the first span.
    previous: Option<RoaringBitmap>,
    begun_ns: i64,
}

impl Activity {
    /// Whether nothing has to be noted of rows.
    pub(crate) fn has(&self, ids: &[u32]) -> bool {
        let Some(current) = &self.current else { return true };
        let (least, most) =
            ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
        // Nearly always a batch has series of which all between are there too.
        ids.is_empty() || current.contains_range(least..=most) || ids.iter().all(|id| current.contains(*id))
    }

    /// Notes that series get points.
    pub(crate) fn note(&mut self, ids: &[u32]) {
        if let Some(current) = &mut self.current {
            current.extend(ids.iter().copied().filter(|id| *id != UNRESOLVED_SERIES));
        }
    }

    /// Begins the next span, if this one is as long as it should be; whether it did, and the one before is known.
    pub(crate) fn advance(&mut self, now_ns: i64, span_ns: i64) -> bool {
        if self.current.is_some() && now_ns.abs_diff(self.begun_ns) < span_ns.unsigned_abs() {
            return false;
        }
        self.begun_ns = now_ns;
        self.previous = self.current.replace(RoaringBitmap::new());
        self.previous.is_some()
    }

    /// Notes nothing any more.
    pub(crate) fn end(&mut self) {
        (self.current, self.previous) = (None, None);
    }

    /// Leaves the silent ones of some series; none if it is not known.
    pub(crate) fn keep_silent(&self, ids: &mut RoaringBitmap) {
        match (&self.current, &self.previous) {
            (Some(current), Some(previous)) => {
                *ids -= current;
                *ids -= previous;
            }
            _ => ids.clear(),
        }
    }

    /// Bytes held in memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        [&self.current, &self.previous].into_iter().flatten().map(RoaringBitmap::serialized_size).sum()
    }
}
