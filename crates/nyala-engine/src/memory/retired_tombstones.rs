//! Which deleted ranges are not needed any more, because they hide no row of a file.
//!
//! A flush asks this of all ranges of a table. They may be thousands, as its rowsets may be. So of each partition it is noted once from
//! which sequence on a range can hide rows of it, and only its rowsets at the times of a range are looked at.

use super::version::{PartitionVersion, TableVersion};
use crate::files::rowset::Rowset;
use crate::rows::tombstone::{DeletedRange, Tombstone};
use std::sync::Arc;

impl TableVersion {
    /// Drops those of some tombstones that hide nothing any more when everything up to `flushed` is in rowsets; or keeps them
    /// for reading the past.
    pub(crate) fn retire_tombstones(
        &mut self,
        flushed: u64,
        keeps_past: bool,
        is_asked: impl Fn(&Tombstone) -> bool,
    ) {
        let all = std::mem::take(&mut self.tombstones).into_iter();
        let is_needed = needed_by(&self.partitions, flushed);
        let is_kept = |tombstone: &Arc<Tombstone>| !is_asked(tombstone) || is_needed(tombstone);
        let (needed, retired): (Vec<_>, Vec<_>) = all.partition(is_kept);
        self.tombstones = needed;
        if keeps_past && !retired.is_empty() {
            self.past_tombstones.extend(retired);
            self.past_tombstones.sort_by_key(|tombstone| tombstone.sequence);
        }
    }

    /// Whether there are such tombstones.
    pub(crate) fn has_unneeded_tombstones(&self, flushed: u64) -> bool {
        if self.tombstones.is_empty() {
            return false;
        }
        let is_needed = needed_by(&self.partitions, flushed);
        !self.tombstones.iter().all(|tombstone| is_needed(tombstone))
    }
}

/// Says whether a tombstone may hide rows of the log, or of the rowsets of some partitions, which are in order of time.
fn needed_by(partitions: &[Arc<PartitionVersion>], flushed: u64) -> impl Fn(&Tombstone) -> bool {
    let hidden_from =
        |partition: &PartitionVersion| partition.rowsets.iter().map(|rowset| rowset.hidden_from()).min();
    let with_rows: Vec<(u64, &Arc<PartitionVersion>)> =
        partitions.iter().filter_map(|partition| Some((hidden_from(partition)?, partition))).collect();
    move |tombstone: &Tombstone| {
        if tombstone.sequence > flushed {
            return true;
        }
        if matches!(tombstone.range, DeletedRange::Times(_)) {
            // Rowsets of dropped partitions are gone.
            return false;
        }
        let within = match tombstone.times() {
            None => &with_rows[..],
            Some(time) => {
                let begin = with_rows.partition_point(|(_, each)| each.range.end_ns <= time.start_ns);
                let behind = &with_rows[begin..];
                &behind[..behind.partition_point(|(_, each)| each.range.start_ns < time.end_ns)]
            }
        };
        let may_be_hidden = |rowset: &Arc<Rowset>| rowset.may_be_hidden_by(tombstone);
        within
            .iter()
            .filter(|(from, _)| *from <= tombstone.sequence)
            .any(|(_, partition)| partition.rowsets.iter().any(may_be_hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::files::rowset::{RowsetMeta, RowsetSource};
    use crate::rows::deleted_series::DeletedSeries;
    use crate::rows::key::KeyRange;
    use nyala_core::TimeRange;
    use nyala_core::memory::MemoryBudget;
    use proptest::prelude::*;
    use std::path::PathBuf;

    proptest! {
        #[test]
        fn it_finds_what_asking_each_rowset_finds(
            // Its partition, its newest sequence, its times in there, and up to where it is known to have nothing hidden.
            rowsets in prop::collection::vec((0_u64..8, 1_u64..9, 0_i64..10, 0_i64..10, 0_u64..9), 0..12),
            deleted in prop::collection::vec((0_u64..10, prop::option::of((-5_i64..85, -5_i64..85))), 1..12),
        ) {
            let source = RowsetSource::new(
                Arc::new(SimulatedFs::new()),
                PathBuf::from("/data"),
                MemoryBudget::new(64 << 20),
            );
            let partitions: Vec<Arc<PartitionVersion>> = (0..8)
                .map(|id| {
                    let range = TimeRange::new(10 * id as i64, 10 * (id as i64 + 1));
                    let of_partition = rowsets.iter().filter(|each| each.0 == id);
                    let made = of_partition.map(|(_, max_sequence, one, other, clean_to)| {
                        let meta = RowsetMeta {
                            max_sequence: *max_sequence,
                            min_time_ns: range.start_ns + one.min(other),
                            max_time_ns: range.start_ns + one.max(other),
                            ..RowsetMeta::unknown(1, 0)
                        };
                        let rowset = Rowset::new(meta, source.clone());
                        rowset.set_clean_to(*clean_to);
                        rowset
                    });
                    Arc::new(PartitionVersion::new(id, range).on_disk(made.collect()))
                })
                .collect();
            let is_needed = needed_by(&partitions, u64::MAX);
            for (sequence, times) in deleted {
                let range = match times {
                    None => DeletedRange::Keys(KeyRange::all()),
                    Some((start_ns, end_ns)) => DeletedRange::Series {
                        series: DeletedSeries::All,
                        time: TimeRange::new(start_ns, end_ns),
                    },
                };
                let tombstone = Tombstone::new(sequence, range);
                let mut all = partitions.iter().flat_map(|partition| &partition.rowsets);
                prop_assert_eq!(is_needed(&tombstone), all.any(|rowset| rowset.may_be_hidden_by(&tombstone)));
            }
        }
    }
}
