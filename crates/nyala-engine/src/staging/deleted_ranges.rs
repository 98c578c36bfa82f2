//! Ranges of a table that others deleted since a stage was opened, and the keys of the stage that lie in them.
//!
//! All ranges are looked at together: of its own rows a commit reads the groups around them, once, however many ranges there
//! are. Mostly no rows lie there, which the bounds of the files tell without a look into them.

use crate::files::rowset::Rowset;
use crate::files::rowset::reader::Use;
use crate::memory::key_layers::KeyLayers;
use crate::memory::memtable::Memtable;
use crate::memory::version::TableVersion;
use crate::reading::scan::key_merge::KeyMerge;
use crate::reading::scan::lookup::time_of;
use crate::reading::scan::partition::{PartitionReader, Segment};
use crate::rows::deleted_series::DeletedSeries;
use crate::rows::key::{KeyRange, SeriesKeys};
use crate::rows::projection::Projection;
use crate::rows::series_lookup::{SeriesLookup, SeriesMembers};
use crate::rows::tombstone::DeletedRange;
use crate::writing::conditional_write::RowKey;
use nyala_core::{Result, SeriesId, TimeRange};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows that are read from a memtable at once.
pub(super) const CHUNK_ROWS: usize = 1024;

pub(super) enum DeletedRanges {
    /// Of a series-keyed table.
    Series(SeriesRanges),
    /// Of any other table, ascending and apart.
    Keys(Vec<KeyRange>),
}

#[derive(Default)]
pub(super) struct SeriesRanges {
    /// Times that were deleted of every series, ascending and apart.
    of_all: Vec<TimeRange>,
    of_some: Vec<SomeSeries>,
}

/// What was deleted of some series.
enum SomeSeries {
    Times(DeletedSeries, TimeRange),
    Between(SeriesKeys),
}

impl DeletedRanges {
    /// Ranges of a table, joined where they overlap.
    pub(super) fn of<'a>(table: &TableVersion, ranges: impl Iterator<Item = &'a DeletedRange>) -> Self {
        match table.schema.is_series_keyed() {
            true => Self::Series(SeriesRanges::of(ranges)),
            false => Self::Keys(joined_keys(ranges)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Series(SeriesRanges { of_all, of_some }) => of_all.is_empty() && of_some.is_empty(),
            Self::Keys(ranges) => ranges.is_empty(),
        }
    }

    /// Whether some of the keys of a rowset may lie in them.
    pub(super) fn may_hold_keys_of(&self, rowset: &Rowset) -> Result<bool> {
        match self {
            Self::Series(ranges) => ranges.may_hold_keys_of(rowset),
            Self::Keys(ranges) => {
                let (first, last) = rowset.key_bounds()?;
                let ends_before = |range: &KeyRange| range.end.as_ref().is_some_and(|end| end <= first);
                let next = ranges.get(ranges.partition_point(ends_before));
                Ok(next.is_some_and(|range| range.start <= *last))
            }
        }
    }

    /// Visits the keys in rowsets and a memtable of a stage that lie in them, in order.
    pub(super) fn for_each_key(
        &self,
        table: &TableVersion,
        rowsets: &[Arc<Rowset>],
        memtable: Option<&Arc<Memtable>>,
        visit: &mut dyn FnMut(&RowKey<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Series(ranges) => ranges.for_each_key(rowsets, memtable, visit),
            Self::Keys(ranges) => {
                let layers = Arc::new(KeyLayers::of(rowsets)?);
                // Ranges that lie side by side are in the same groups.
                let use_of = if ranges.len() == 1 { Use::Once } else { Use::Again };
                for range in ranges {
                    let (schema, projection) = (table.schema.clone(), Projection::keys_only());
                    let (everything, range) = ((&[][..], u64::MAX), range.clone());
                    let mut merge = KeyMerge::new(schema, everything, projection, range, false, use_of);
                    merge.add(&layers, memtable.into_iter(), CHUNK_ROWS)?;
                    while let Some(batch) = merge.next_batch()? {
                        for row in 0..batch.rows() {
                            let key = batch.keys.get(row);
                            visit(&RowKey::Encoded { key, time_ns: time_of(table, key) })?;
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

impl SeriesRanges {
    fn of<'a>(ranges: impl Iterator<Item = &'a DeletedRange>) -> Self {
        let mut found = Self::default();
        for range in ranges {
            match range {
                DeletedRange::Series { series: DeletedSeries::All, time } | DeletedRange::Times(time) => {
                    found.of_all.push(*time);
                }
                DeletedRange::Series { series, time } => {
                    found.of_some.push(SomeSeries::Times(series.clone(), *time));
                }
                DeletedRange::SeriesKeys(keys) => found.of_some.push(SomeSeries::Between(*keys)),
                // It has no rows of a series-keyed table.
                DeletedRange::Keys(_) => {}
            }
        }
        found.of_all = joined(found.of_all);
        found
    }

    /// Finds which of `of_some` have a series.
    fn lookup(&self) -> SeriesLookup {
        SeriesLookup::new(self.of_some.iter().map(SomeSeries::members).collect())
    }

    fn may_hold_keys_of(&self, rowset: &Rowset) -> Result<bool> {
        let time = rowset.meta.time();
        if overlap(&self.of_all, time) {
            return Ok(true);
        }
        if self.of_some.is_empty() {
            return Ok(false);
        }
        let (first, last) = rowset.key_bounds()?;
        let id = |key: &[u8]| key.first_chunk().map(|id| u32::from_be_bytes(*id));
        // A rowset without rows has no keys.
        let (Some(first), Some(last)) = (id(first), id(last)) else { return Ok(false) };
        let may_hold = |some: &SomeSeries| {
            let is_in_time = match some {
                SomeSeries::Times(_, times) => times.overlaps(time),
                SomeSeries::Between(_) => true,
            };
            is_in_time && some.members().first_from(first).is_some_and(|series| series <= last)
        };
        Ok(self.of_some.iter().any(may_hold))
    }

    fn for_each_key(
        &self,
        rowsets: &[Arc<Rowset>],
        memtable: Option<&Arc<Memtable>>,
        visit: &mut dyn FnMut(&RowKey<'_>) -> Result<()>,
    ) -> Result<()> {
        let (memtables, projection) = (memtable.into_iter(), Projection::keys_only());
        let mut reader = PartitionReader::of(rowsets, memtables, &[], u64::MAX, TimeRange::ALL, projection)?;
        let (mut least, mut lookup) = (Some(0), self.lookup());
        while let Some(wanted) = least.and_then(|least| self.next_series(least, &mut lookup))
            && let Some(series) = reader.next_series(wanted)?
        {
            let times = self.times_of(series, &mut lookup);
            if let (Some(first), Some(last)) = (times.first(), times.last()) {
                let series = SeriesId(series);
                for segment in reader.segments(series, first.around(*last))? {
                    if bounds_of(&segment).is_some_and(|bounds| !overlap(&times, bounds)) {
                        continue;
                    }
                    let keys = reader.read_with_deletes(series, segment)?.keys;
                    for time_ns in keys.into_iter().filter(|time_ns| has_time(&times, *time_ns)) {
                        visit(&RowKey::Point { series, time_ns })?;
                    }
                }
            }
            least = series.checked_add(1);
        }
        Ok(())
    }

    /// The first series that is not below `least` of which something was deleted.
    fn next_series(&self, least: u32, lookup: &mut SeriesLookup) -> Option<u32> {
        if self.of_all.is_empty() { lookup.first_from(least) } else { Some(least) }
    }

    /// The times of a series, ascending and apart.
    fn times_of(&self, series: u32, lookup: &mut SeriesLookup) -> Cow<'_, [TimeRange]> {
        let of_series = lookup.sets_of(series).iter().map(|(_, place)| &self.of_some[*place as usize]);
        let mut times: Vec<TimeRange> = of_series.filter_map(|some| some.times_of(series)).collect();
        if times.is_empty() {
            return Cow::Borrowed(&self.of_all);
        }
        times.extend(&self.of_all);
        Cow::Owned(joined(times))
    }
}

impl SomeSeries {
    fn members(&self) -> SeriesMembers {
        match self {
            Self::Times(DeletedSeries::Some(set), _) => SeriesMembers::Some(set.clone()),
            Self::Times(DeletedSeries::All, _) => SeriesMembers::Between(0, u32::MAX),
            Self::Between(keys) => SeriesMembers::Between(keys.start.0, keys.end.0),
        }
    }

    /// The times of one of its series.
    fn times_of(&self, series: u32) -> Option<TimeRange> {
        match self {
            Self::Times(_, times) => Some(*times),
            Self::Between(keys) => keys.times_of(series),
        }
    }
}

/// Times between which the rows of a segment lie that were not read yet.
fn bounds_of(segment: &Segment) -> Option<TimeRange> {
    match segment {
        Segment::Single { part, time, .. } => Some(time.intersect(part.time())),
        Segment::Overlaid { time, .. } | Segment::Merged(time) => Some(*time),
        _ => None,
    }
}

/// Ranges of times in order, those that overlap as one.
fn joined(mut times: Vec<TimeRange>) -> Vec<TimeRange> {
    times.retain(|range| !range.is_empty());
    times.sort_unstable_by_key(|range| range.start_ns);
    times.dedup_by(|next, last| {
        let is_joined = next.start_ns <= last.end_ns;
        if is_joined {
            last.end_ns = last.end_ns.max(next.end_ns);
        }
        is_joined
    });
    times
}

/// Whether one of some joined ranges has a time in common with another one.
fn overlap(times: &[TimeRange], other: TimeRange) -> bool {
    let next = times.get(times.partition_point(|range| range.end_ns <= other.start_ns));
    next.is_some_and(|range| range.overlaps(other))
}

/// Whether a time is in one of some joined ranges.
fn has_time(times: &[TimeRange], time_ns: i64) -> bool {
    let next = times.get(times.partition_point(|range| range.end_ns <= time_ns));
    next.is_some_and(|range| range.contains(time_ns))
}

/// Ranges of keys in order, those that overlap as one.
fn joined_keys<'a>(ranges: impl Iterator<Item = &'a DeletedRange>) -> Vec<KeyRange> {
    let keys = ranges.filter_map(|range| match range {
        DeletedRange::Keys(keys) => Some(keys),
        _ => None,
    });
    let mut keys: Vec<KeyRange> = keys.filter(|keys| !keys.is_empty()).cloned().collect();
    keys.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    keys.dedup_by(|next, last| {
        let is_joined = last.end.as_ref().is_none_or(|end| next.start <= *end);
        if is_joined {
            // No end is behind all keys.
            last.end = last.end.take().zip(next.end.take()).map(|(a, b)| a.max(b));
        }
        is_joined
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::SeriesSet;
    use proptest::prelude::*;

    fn key(value: u8) -> Vec<u8> {
        vec![value, value]
    }

    fn of_keys(start: u8, end: u8) -> DeletedRange {
        // The last one has no end.
        DeletedRange::Keys(KeyRange { start: key(start), end: (end < 60).then(|| key(end)) })
    }

    proptest! {
        #[test]
        fn joined_ranges_hold_the_same_keys(
            bounds in prop::collection::vec((0_u8..62, 0_u8..62), 0..12),
            sets in prop::collection::vec((prop::collection::btree_set(0_u32..8, 0..4), 0_i64..20, 0_i64..20), 0..8),
            between in prop::collection::vec(((0_u32..8, 0_i64..20), (0_u32..8, 0_i64..20)), 0..3),
        ) {
            let ranges: Vec<DeletedRange> = bounds.iter().map(|(start, end)| of_keys(*start, *end)).collect();
            let joined = joined_keys(ranges.iter());
            for value in 0..64 {
                let is_deleted = ranges.iter().any(|range| match range {
                    DeletedRange::Keys(keys) => keys.contains(&key(value)),
                    _ => false,
                });
                prop_assert_eq!(joined.iter().any(|keys| keys.contains(&key(value))), is_deleted);
            }
            prop_assert!(joined.windows(2).all(|pair| pair[0].end.as_ref().is_some_and(|end| *end < pair[1].start)));

            let sets = sets.into_iter().map(|(ids, start_ns, end_ns)| {
                // A set without a series stands for all of them.
                let ids: Vec<SeriesId> = ids.into_iter().map(SeriesId).collect();
                let series = if ids.is_empty() { SeriesSet::All } else { SeriesSet::Ids(ids.into()) };
                DeletedRange::Series { series: DeletedSeries::of(&series), time: TimeRange::new(start_ns, end_ns) }
            });
            let between = between.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
            let between = between.map(|(start, end)| DeletedRange::SeriesKeys(SeriesKeys { start, end }));
            let ranges: Vec<DeletedRange> = sets.chain(between).collect();
            let joined = SeriesRanges::of(ranges.iter());
            let is_deleted = |series: u32, time_ns: i64| ranges.iter().any(|range| {
                let tombstone = crate::rows::tombstone::Tombstone::new(1, range.clone());
                tombstone.times_of(SeriesId(series)).is_some_and(|times| times.contains(time_ns))
            });
            let mut lookup = joined.lookup();
            for series in 0..10 {
                let times = joined.times_of(series, &mut lookup);
                for time_ns in -1..22 {
                    prop_assert_eq!(has_time(&times, time_ns), is_deleted(series, time_ns));
                    let at = TimeRange::new(time_ns, time_ns + 3);
                    let any = (time_ns..time_ns + 3).any(|time_ns| is_deleted(series, time_ns));
                    prop_assert_eq!(overlap(&times, at), any);
                }
                let next = (series..10).find(|series| (-1..22).any(|time_ns| is_deleted(*series, time_ns)));
                let found = joined.next_series(series, &mut lookup);
                prop_assert!(next.is_none_or(|next| found.is_some_and(|found| found <= next)));
            }
        }
    }
}
