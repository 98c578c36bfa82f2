//! Keeping the series in memory that get points, and those that queries need: the others rest on disk.

use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::series::{Stay, TagFilter};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Direction, Order, PartitionInfo, RowSelection, ScanRequest, SeriesSet};
use nyala_core::time::MAX_TIME_NS;
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::HashMap;

/// When series leave memory.
#[derive(Debug, Clone, Copy)]
pub struct IdleRules {
    /// Series without a new point for this long are idle, at the latest after twice as long; 0: none ever is.
    pub after_ns: i64,
    /// Measurements with fewer series keep all in memory, and ask the store which of them a shard has.
    pub series_min: usize,
    /// The most bytes that all series take once some are read back.
    pub series_bytes_max: usize,
}

impl Default for IdleRules {
    fn default() -> Self {
        Self { after_ns: 0, series_min: 1 << 14, series_bytes_max: usize::MAX }
    }
}

/// Idle series rest together that had their first points at about the same time, so that a query of a short time reads
/// few that it does not need: those that became idle together are cut in so many sets, of so many series.
const SETS: usize = 8;
const SET_SERIES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 13;
/// Nothing is done for a smaller part of the series.
const IDLE_PART: usize = 16;
/// Series of which the store is asked at once.
const ASKED_AT_ONCE: usize = 1 << 16;

impl Catalog {
    /// Keeps the series of a measurement in memory that may have points in a range of times, if they all are.
    pub fn stay(&self, measurement: &Measurement, time: TimeRange) -> Option<Stay> {
        measurement.stored().idle().lock().stay_if_here(time)
    }

    /// Makes sure that all series of a measurement are in memory that a filter selects and that may have points in a range of
    /// times, as long as the stay is held.
    ///
    /// # Errors
    /// Where they take more memory than there may be.
    pub async fn recall(
        &self,
        measurement: &Measurement,
        time: TimeRange,
        filter: &TagFilter,
    ) -> Result<Stay> {
        measurement.stored().recall(time, &measurement.within(filter), self).await
    }

    /// What series that are read back may take.
    pub(crate) fn idle_room_bytes(&self) -> usize {
        self.idle_rules().series_bytes_max.saturating_sub(self.series_memory_bytes())
    }

    /// Lets series leave memory that are idle, and removes those whose points are gone. What fails for one measurement keeps
    /// no other; the first error tells of it.
    pub async fn rest_idle_series(&self, now_ns: i64) -> Result<()> {
        let mut rested = Ok(());
        for table in self.loaded_tables() {
            let step = self.rest_series_of(&table, now_ns).await;
            rested = rested.and(step.map_err(|error| error.context(table.name())));
        }
        rested
    }

    async fn rest_series_of(&self, table: &SeriesTable, now_ns: i64) -> Result<()> {
        if table.has_idle_sets() {
            let before = table.memory_bytes();
            if table.leave().await > 0 {
                self.give_back_series_memory(before.saturating_sub(table.memory_bytes()));
            }
            let saved = self.save_unsaved_set(table).await;
            self.remove_expired_sets(table).await?;
            saved?;
        }
        let rules = self.idle_rules();
        if rules.after_ns <= 0 || table.count_series() < rules.series_min {
            table.activity().write().end();
            return Ok(());
        }
        if !table.activity().write().advance(now_ns, rules.after_ns) {
            return Ok(());
        }
        let all = table.series().all().clone();
        let silent = table.silent_among(all);
        if (silent.len() as usize) < table.series().len() / IDLE_PART {
            return Ok(());
        }
        let mut times = self.times_of_series(table, &silent).await?;
        let partitions = self.store().partitions(table.table()).await?;
        let last_partition = |time: &TimeRange| {
            let has_end = |partition: &&PartitionInfo| partition.range.contains(time.end_ns - 1);
            partitions.iter().find(has_end).map(|partition| partition.range.start_ns)
        };
        // Whose last points are dropped together goes together; of these who came at the same time.
        times.sort_by_cached_key(|(_, time)| (last_partition(time), time.start_ns));
        let count = times.len().div_ceil(SETS).clamp(*SET_SERIES.start(), *SET_SERIES.end());
        let is_one =
            |(_, a): &(u32, TimeRange), (_, b): &(u32, TimeRange)| last_partition(a) == last_partition(b);
        for set in times.chunk_by(is_one).flat_map(|one| one.chunks(count)) {
            let _owned = table.membership().own().await;
            if table.membership().has_ended() {
                break;
            }
            // Whoever has written since then was noted.
            let still = table.silent_among(set.iter().map(|(id, _)| *id).collect());
            let set = || set.iter().filter(|(id, _)| still.contains(*id));
            let starts = set().map(|(_, time)| time.start_ns).min();
            let ends = set().map(|(_, time)| time.end_ns).max();
            if let (Some(start_ns), Some(end_ns)) = (starts, ends) {
                table.rest(&still, TimeRange::new(start_ns, end_ns)).await?;
            }
        }
        Ok(())
    }

    async fn save_unsaved_set(&self, table: &SeriesTable) -> Result<()> {
        if !table.has_unsaved_idle_set() {
            return Ok(());
        }
        let _owned = table.membership().own().await;
        match table.membership().has_ended() {
            true => Ok(()),
            false => table.save_unsaved_idle_set().await,
        }
    }

    /// Of each series that has points the times between which they lie.
    async fn times_of_series(
        &self,
        table: &SeriesTable,
        ids: &RoaringBitmap,
    ) -> Result<Vec<(u32, TimeRange)>> {
        let all: Vec<SeriesId> = ids.iter().map(SeriesId).collect();
        let mut times = Vec::with_capacity(all.len());
        for some in all.chunks(ASKED_AT_ONCE) {
            let first = self.ends_of_series(table, some, Direction::Forward).await?;
            let last = self.ends_of_series(table, some, Direction::Backward).await?;
            times.extend(first.into_iter().filter_map(|(id, first_ns)| {
                let end_ns = last.get(&id)?.min(&MAX_TIME_NS) + 1;
                Some((id, TimeRange::new(first_ns, end_ns)))
            }));
        }
        Ok(times)
    }

    /// The time of each series' first row in a direction.
    async fn ends_of_series(
        &self,
        table: &SeriesTable,
        ids: &[SeriesId],
        direction: Direction,
    ) -> Result<HashMap<u32, i64>> {
        let rows = RowSelection::Series { series: SeriesSet::Ids(ids.into()), time: TimeRange::ALL };
        let mut request = ScanRequest::by_key(table.table(), rows, vec![TIME_COLUMN]);
        request.order = Order::Key(direction);
        request.limit_per_prefix = Some(1);
        let mut ends = HashMap::with_capacity(ids.len());
        let mut rows = self.snapshot().await?.scan(request).await?;
        while let Some(batch) = rows.next().await? {
            let mut times = &batch.columns[0].as_primitive::<TimestampNanosecondType>().values()[..];
            for run in &batch.series {
                // A run may go on in the next batch: the first counts.
                let of_run = &times[..run.rows as usize];
                times = &times[run.rows as usize..];
                if let Some(time_ns) = of_run.first() {
                    ends.entry(run.series.0).or_insert(*time_ns);
                }
            }
        }
        Ok(ends)
    }

    /// Removes idle sets without points, and with them the series that have none elsewhere.
    async fn remove_expired_sets(&self, table: &SeriesTable) -> Result<()> {
        // One that was dropped meanwhile has no partitions, and its records go with it.
        let Ok(left) = self.store().partitions(table.table()).await else { return Ok(()) };
        let left: Vec<TimeRange> = left.iter().map(|partition| partition.range).collect();
        for set in table.expired_idle_sets(&left) {
            let tag_sets = table.tag_sets_of(&set).await?;
            let _owned = table.membership().own().await;
            if table.membership().has_ended() {
                break;
            }
            table.remove_idle_set(&set, tag_sets).await?;
        }
        Ok(())
    }

    /// Removes the idle sets of a measurement of which all points were deleted, with a range of times. The caller owns the
    /// membership.
    pub(crate) async fn remove_sets_within(&self, table: &SeriesTable, time: TimeRange) -> Result<()> {
        for set in table.idle_sets_within(time) {
            let tag_sets = table.tag_sets_of(&set).await?;
            table.remove_idle_set(&set, tag_sets).await?;
        }
        Ok(())
    }
}
