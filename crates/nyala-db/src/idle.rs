//! Evicting series that no longer get points, and reloading those that queries need.

pub use crate::catalog::IdleRules;

use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::series::{SeriesPin, TagFilter};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Direction, Order, PartitionInfo, RowSelection, ScanRequest, SeriesSet};
use nyala_core::time::MAX_TIME_NS;
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::HashMap;

/// Series that become idle together are divided into up to this many sets, by the time of their first points, so that a
/// query of a short time reloads few series that it does not need. The second constant bounds the number of series in a
/// set.
const SETS: usize = 8;
const SET_SERIES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 13;
/// Nothing is evicted if fewer than one in this many series are idle.
const IDLE_PART: usize = 16;
/// The number of series per request to the store.
const ASKED_AT_ONCE: usize = 1 << 16;

impl Catalog {
    /// Pins the series of a measurement that may have points in a time range, if all of them are in memory.
    pub fn pin_series(&self, measurement: &Measurement, time: TimeRange) -> Option<SeriesPin> {
        measurement.stored().idle().lock().pin_if_resident(time)
    }

    /// Reloads the series of a measurement that a filter selects and that may have points in a time range. They stay in
    /// memory as long as the pin is held.
    ///
    /// # Errors
    /// If they need more memory than is allowed.
    pub async fn reload_series(
        &self,
        measurement: &Measurement,
        time: TimeRange,
        filter: &TagFilter,
    ) -> Result<SeriesPin> {
        measurement.stored().reload(time, &measurement.within(filter), self).await
    }

    /// The memory that reloaded series may still take.
    pub(crate) fn idle_bytes_left(&self) -> usize {
        self.idle_rules().series_bytes_max.saturating_sub(self.series_memory_bytes())
    }

    /// Evicts idle series, and removes series whose points have expired. A failure in one measurement does not stop the
    /// work on the others; the first error is returned.
    pub async fn evict_idle_series(&self, now_ns: i64) -> Result<()> {
        let mut result = Ok(());
        for table in self.loaded_tables() {
            let step = self.evict_series_of(&table, now_ns).await;
            result = result.and(step.map_err(|error| error.context(table.name())));
        }
        result
    }

    async fn evict_series_of(&self, table: &SeriesTable, now_ns: i64) -> Result<()> {
        if table.has_idle_sets() {
            let before = table.memory_bytes();
            if table.evict().await > 0 {
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
        let inactive = table.inactive_among(all);
        if (inactive.len() as usize) < table.series().len() / IDLE_PART {
            return Ok(());
        }
        let mut times = self.times_of_series(table, &inactive).await?;
        let partitions = self.store().partitions(table.table()).await?;
        let last_partition = |time: &TimeRange| {
            let has_end = |partition: &&PartitionInfo| partition.range.contains(time.end_ns - 1);
            partitions.iter().find(has_end).map(|partition| partition.range.start_ns)
        };
        // Series whose last points are in the same partition go together, because they will expire together; among
        // these, series whose first points came at the same time.
        times.sort_by_cached_key(|(_, time)| (last_partition(time), time.start_ns));
        let count = times.len().div_ceil(SETS).clamp(*SET_SERIES.start(), *SET_SERIES.end());
        let is_one =
            |(_, a): &(u32, TimeRange), (_, b): &(u32, TimeRange)| last_partition(a) == last_partition(b);
        for set in times.chunk_by(is_one).flat_map(|one| one.chunks(count)) {
            let _lock = table.table_lock().lock_exclusive().await;
            if table.table_lock().was_dropped() {
                break;
            }
            // Series that were written since then are no longer inactive.
            let still = table.inactive_among(set.iter().map(|(id, _)| *id).collect());
            let set = || set.iter().filter(|(id, _)| still.contains(*id));
            let starts = set().map(|(_, time)| time.start_ns).min();
            let ends = set().map(|(_, time)| time.end_ns).max();
            if let (Some(start_ns), Some(end_ns)) = (starts, ends) {
                table.make_idle(&still, TimeRange::new(start_ns, end_ns)).await?;
            }
        }
        Ok(())
    }

    async fn save_unsaved_set(&self, table: &SeriesTable) -> Result<()> {
        if !table.has_unsaved_idle_set() {
            return Ok(());
        }
        let _lock = table.table_lock().lock_exclusive().await;
        match table.table_lock().was_dropped() {
            true => Ok(()),
            false => table.save_unsaved_idle_set().await,
        }
    }

    /// The range of times of the points of each series that has any.
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

    /// The time of the first row of each series in a direction.
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
                // A run may continue in the next batch: only its first row counts.
                let of_run = &times[..run.rows as usize];
                times = &times[run.rows as usize..];
                if let Some(time_ns) = of_run.first() {
                    ends.entry(run.series.0).or_insert(*time_ns);
                }
            }
        }
        Ok(ends)
    }

    /// Removes idle sets that have no points left, and the series that are in no other set.
    async fn remove_expired_sets(&self, table: &SeriesTable) -> Result<()> {
        // A table that was dropped meanwhile has no partitions. Its records are removed with it.
        let Ok(left) = self.store().partitions(table.table()).await else { return Ok(()) };
        let left: Vec<TimeRange> = left.iter().map(|partition| partition.range).collect();
        for set in table.expired_idle_sets(&left) {
            let tag_sets = table.tag_sets_of(&set).await?;
            let _lock = table.table_lock().lock_exclusive().await;
            if table.table_lock().was_dropped() {
                break;
            }
            table.remove_idle_set(&set, tag_sets).await?;
        }
        Ok(())
    }

    /// Removes the idle sets of a table whose points lie wholly within a time range, because they were all deleted. The
    /// caller holds the table lock exclusively.
    pub(crate) async fn remove_sets_within(&self, table: &SeriesTable, time: TimeRange) -> Result<()> {
        for set in table.idle_sets_within(time) {
            let tag_sets = table.tag_sets_of(&set).await?;
            table.remove_idle_set(&set, tag_sets).await?;
        }
        Ok(())
    }
}
