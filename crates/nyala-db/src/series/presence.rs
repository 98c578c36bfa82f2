//! Which series may have points in which shard. A query of the last hour visits only the series of that hour, and
//! dropping a shard removes the series that are in no other shard, without asking the store for all series.
//!
//! Presence is known only for shards of measurements with many series, and costs a bit per series and shard. A set is
//! begun while writers are locked out; from then on each writer notes what it writes. Later the store is asked which
//! series were there before, and then the set is complete. Deleted rows stay noted: a set may have too many series,
//! never too few.

use crate::ingest::UNRESOLVED_SERIES;
use nyala_core::TimeRange;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// The sets of a measurement's shards, by their starts.
#[derive(Default)]
pub(crate) struct Presence {
    shards: BTreeMap<i64, ShardSeries>,
}

struct ShardSeries {
    range: TimeRange,
    series: RoaringBitmap,
    /// Whether the series that were there before writers noted theirs are included.
    complete: bool,
}

impl Presence {
    /// Whether nothing is known of any shard.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Whether all these rows are noted, or need not be: nothing is known of their shards.
    pub(crate) fn has_all(&self, ids: &[u32], times_ns: &[i64]) -> bool {
        if self.shards.is_empty() || ids.is_empty() {
            return true;
        }
        let bounds = |values: &mut dyn Iterator<Item = i64>| {
            values.fold((i64::MAX, i64::MIN), |(least, most), value| (least.min(value), most.max(value)))
        };
        let (first_ns, last_ns) = bounds(&mut times_ns.iter().copied());
        let shard = self.shard_at(first_ns);
        if shard.is_some_and(|shard| shard.range.contains(last_ns)) {
            let series = shard.map(|shard| &shard.series);
            let (least, most) =
                ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
            // In most batches all ids between the least and the greatest are noted.
            return series.is_some_and(|series| {
                series.contains_range(least..=most) || ids.iter().all(|id| series.contains(*id))
            });
        }
        let noted =
            |(id, time_ns): (&u32, &i64)| self.shard_at(*time_ns).is_none_or(|s| s.series.contains(*id));
        ids.iter().zip(times_ns).all(noted)
    }

    /// Notes that series have points at times.
    pub(crate) fn note(&mut self, ids: &[u32], times_ns: &[i64]) {
        for (id, time_ns) in ids.iter().zip(times_ns).filter(|(id, _)| **id != UNRESOLVED_SERIES) {
            let shard = self.shards.range_mut(..=*time_ns).next_back().map(|(_, shard)| shard);
            if let Some(shard) = shard.filter(|shard| shard.range.contains(*time_ns)) {
                shard.series.insert(*id);
            }
        }
    }

    /// Notes that series may have points in a range of times.
    pub(crate) fn note_range(&mut self, series: &RoaringBitmap, time: TimeRange) {
        self.shards
            .values_mut()
            .filter(|shard| shard.range.overlaps(time))
            .for_each(|shard| shard.series |= series);
    }

    /// Removes series that have no points in these shards. Returns false if this is not known for all of the shards.
    pub(crate) fn narrow(&self, ids: &mut RoaringBitmap, shards: impl Iterator<Item = TimeRange>) -> bool {
        let mut present = RoaringBitmap::new();
        for range in shards {
            match self.shards.get(&range.start_ns) {
                Some(shard) if shard.complete && shard.range == range => present |= &*ids & &shard.series,
                _ => return false,
            }
        }
        *ids = present;
        true
    }

    /// Whether nothing is known of a shard.
    pub(crate) fn lacks(&self, range: TimeRange) -> bool {
        self.shards.get(&range.start_ns).is_none_or(|shard| shard.range != range)
    }

    /// The shards that are not completely known.
    pub(crate) fn incomplete(&self) -> Vec<TimeRange> {
        self.shards.values().filter(|shard| !shard.complete).map(|shard| shard.range).collect()
    }

    /// Begins a set: writers note what they write to the shard from now on. No writer is active.
    pub(crate) fn begin(&mut self, range: TimeRange) {
        self.shards
            .insert(range.start_ns, ShardSeries { range, series: RoaringBitmap::new(), complete: false });
    }

    /// Adds the series that were in a shard before.
    pub(crate) fn complete(&mut self, range: TimeRange, series: &RoaringBitmap) {
        if let Some(shard) = self.shards.get_mut(&range.start_ns).filter(|shard| shard.range == range) {
            shard.series |= series;
            shard.complete = true;
        }
    }

    /// Removes series.
    pub(crate) fn remove(&mut self, gone: &RoaringBitmap) {
        self.shards.values_mut().for_each(|shard| shard.series -= gone);
    }

    /// Forgets shards that no longer exist.
    pub(crate) fn keep(&mut self, is_there: impl Fn(TimeRange) -> bool) {
        self.shards.retain(|_, shard| is_there(shard.range));
    }

    /// The approximate memory, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.shards.values().map(|shard| size_of::<ShardSeries>() + shard.series.serialized_size()).sum()
    }

    fn shard_at(&self, time_ns: i64) -> Option<&ShardSeries> {
        let (_, shard) = self.shards.range(..=time_ns).next_back()?;
        shard.range.contains(time_ns).then_some(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start_ns: i64) -> TimeRange {
        TimeRange::new(start_ns, start_ns + 10)
    }

    fn narrowed(presence: &Presence, ids: &[u32], shards: &[i64]) -> Option<Vec<u32>> {
        let mut ids: RoaringBitmap = ids.iter().copied().collect();
        let known = presence.narrow(&mut ids, shards.iter().map(|start_ns| range(*start_ns)));
        known.then(|| ids.iter().collect())
    }

    #[test]
    fn a_shard_has_its_earlier_series_and_those_noted_since() {
        let mut presence = Presence::default();
        assert!(presence.has_all(&[1, 2], &[0, 5]), "nobody asks");
        presence.begin(range(0));
        assert!(!presence.has_all(&[1, 2], &[0, 5]));
        presence.note(&[1, 2, 3], &[0, 5, 10]);
        assert!(presence.has_all(&[1, 2], &[0, 5]) && presence.has_all(&[1, 3], &[0, 10]));
        assert!(!presence.has_all(&[3], &[9]) && !presence.has_all(&[2, 3], &[10, 9]));
        assert_eq!(narrowed(&presence, &[1, 2, 3], &[0]), None, "what it had is not known");
        assert_eq!(presence.incomplete(), [range(0)]);
        presence.complete(range(0), &[7, 8].into());
        assert_eq!(narrowed(&presence, &[1, 2, 3, 8], &[0]), Some(vec![1, 2, 8]));
        assert_eq!(narrowed(&presence, &[1], &[0, 10]), None);
        presence.begin(range(10));
        presence.complete(range(10), &[3].into());
        assert_eq!(narrowed(&presence, &[1, 3, 4], &[0, 10]), Some(vec![1, 3]));
        presence.remove(&[1].into());
        assert_eq!(narrowed(&presence, &[1, 2], &[0]), Some(vec![2]));
        presence.keep(|own| own != range(0));
        assert_eq!((presence.lacks(range(0)), presence.lacks(range(10))), (true, false));
        assert!(presence.lacks(TimeRange::new(10, 11)), "a shard of another width");
    }
}
