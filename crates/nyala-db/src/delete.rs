//! Deleting points, and the series that have no points left.

use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::changes::ChangedPart;
use crate::records::{ChangeLog, Entry};
use crate::selection::PointSelection;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Delete, PartitionInfo, RowSelection, ScanRequest, SeriesSet};
use nyala_core::{ErrorKind, Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

/// The number of series that are searched for a row before all series are.
const WITNESSES_AT_ONCE: usize = 1 << 12;

impl Catalog {
    /// Deletes points of series in memory. The caller holds the table lock exclusively. `is_all`: the tags select the whole
    /// table. Returns what may have been deleted.
    pub(crate) async fn delete_owned(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        is_all: bool,
    ) -> Result<Option<ChangedPart>> {
        let table = measurement.stored();
        let PointSelection { tags, time, predicates } = selection;
        let time = *time;
        let mut ids = measurement.series().select(tags);
        if let Some(log) = table.change_log() {
            self.delete_shared(log, table, ids, selection).await?;
            return Ok(None);
        }
        if time != TimeRange::ALL {
            ids = self.with_rows(table, ids, time).await?;
        }
        if ids.is_empty() && !(is_all && table.has_evicted()) {
            return Ok(None);
        }
        // Before the deletion: the client may disconnect half-way.
        table.forget_witnesses(|id| is_all || ids.contains(id));
        let series = if is_all { SeriesSet::All } else { series_set(table, &ids) };
        let rows = RowSelection::Series { series, time };
        let delete = Delete { table: table.table(), rows, predicates: predicates.clone() };
        let sequence = self.store().delete(delete).await?;
        let mut part = measurement.changed_part(sequence, ids.clone(), time);
        if is_all {
            part.series = None;
        }
        let empty = match selection.is_all_times() {
            true => ids.clone(),
            false => &ids - self.with_rows(table, ids.clone(), TimeRange::ALL).await?,
        };
        self.forget_empty(measurement, time, &empty).await?;
        if is_all {
            self.remove_sets_within(table, time).await?;
        }
        Ok(Some(part))
    }

    /// Removes those of some series that have no points left, after points at times within a range were deleted. The caller
    /// holds the table lock exclusively.
    pub(crate) async fn remove_empty(
        &self,
        measurement: &Measurement,
        series: &RoaringBitmap,
        deleted: TimeRange,
    ) -> Result<()> {
        let table = measurement.stored();
        table.forget_witnesses(|id| series.contains(id));
        let empty = series - self.with_rows(table, series.clone(), TimeRange::ALL).await?;
        self.forget_empty(measurement, deleted, &empty).await
    }

    /// The same for a caller that does not hold the lock. Writers wait only if there is something to remove.
    pub(crate) async fn remove_if_empty(
        &self,
        measurement: &Measurement,
        series: &RoaringBitmap,
        deleted: TimeRange,
    ) -> Result<()> {
        if !self.may_have_emptied(measurement, series, deleted).await? {
            return Ok(());
        }
        let _lock = measurement.stored().table_lock().lock_exclusive().await;
        match measurement.was_dropped() {
            true => Ok(()),
            false => self.remove_empty(measurement, series, deleted).await,
        }
    }

    /// Forgets series that have lost their last point, and the types of fields in shards that have, after points at times
    /// within a range were deleted. The caller holds the table lock exclusively.
    pub(crate) async fn forget_empty(
        &self,
        measurement: &Measurement,
        time: TimeRange,
        empty: &RoaringBitmap,
    ) -> Result<()> {
        let table = measurement.stored();
        match measurement.is_member() {
            // Types of shared fields are kept: finding empty shards would mean looking at all members.
            true => self.free_types_of_member(measurement, time, empty).await?,
            false => {
                let free = self.empty_shards(table, time, empty).await?;
                table.forget_shard_types(|start_ns| free.contains(&start_ns));
            }
        }
        self.remove_series(table, empty).await
    }

    /// Deletes points of series that other servers may be writing to. Series without points are hidden. The types of
    /// fields stay.
    async fn delete_shared(
        &self,
        log: &ChangeLog,
        table: &SeriesTable,
        ids: RoaringBitmap,
        selection: &PointSelection,
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let series = SeriesSet::Ids(ids.iter().map(SeriesId).collect());
        let rows = RowSelection::Series { series, time: selection.time };
        let predicates = selection.predicates.clone();
        match self.store().delete(Delete { table: table.table(), rows, predicates }).await {
            Err(error) if error.kind() == ErrorKind::Missing => {
                // Another server may have dropped the table, or only a shard, while others are not deleted yet.
                return match self.snapshot().await?.schema(table.table()) {
                    Err(gone) if gone.kind() == ErrorKind::Missing => Ok(()),
                    _ => Err(error),
                };
            }
            deleted => deleted.map(drop)?,
        }
        // Afterwards: if the deletion fails, the series are still there to be deleted again.
        self.hide_empty(log, table, ids).await
    }

    /// Hides those of some series that have no points.
    async fn hide_empty(&self, log: &ChangeLog, table: &SeriesTable, ids: RoaringBitmap) -> Result<()> {
        let empty = &ids - self.with_rows(table, ids.clone(), TimeRange::ALL).await?;
        if empty.is_empty() {
            return Ok(());
        }
        let doubt = table.doubt_series(log, &empty).await?;
        // Somebody may have written to them meanwhile.
        let empty = &empty - self.with_rows(table, empty.clone(), TimeRange::ALL).await?;
        let before = table.memory_bytes();
        table.hide_doubted(log, &empty, doubt).await?;
        self.give_back_series_memory(before.saturating_sub(table.memory_bytes()));
        Ok(())
    }

    /// The shards (by their starts) that lost their last row to a deletion. Their fields can get new types.
    async fn empty_shards(
        &self,
        table: &SeriesTable,
        deleted: TimeRange,
        gone: &RoaringBitmap,
    ) -> Result<BTreeSet<i64>> {
        let partitions = self.store().partitions(table.table()).await?;
        let mut empty = BTreeSet::new();
        for start_ns in table.shard_starts_ns() {
            let partition = partitions.iter().find(|partition| partition.range.contains(start_ns));
            let is_empty = match partition {
                None => true,
                Some(partition) if !partition.range.overlaps(deleted) => false,
                // One series that still has rows in the shard is enough.
                Some(_) if table.has_witness(start_ns) => false,
                Some(partition) => {
                    let witness = self.first_series(table, partition.range, gone).await?;
                    table.set_witness(start_ns, witness);
                    witness.is_none()
                }
            };
            if is_empty {
                empty.insert(start_ns);
            }
        }
        Ok(empty)
    }

    /// Forgets the types of fields that only one member of a group has, in shards where it lost its last row.
    async fn free_types_of_member(
        &self,
        member: &Measurement,
        deleted: TimeRange,
        gone: &RoaringBitmap,
    ) -> Result<()> {
        let table = member.stored();
        let starts_ns = table.shard_starts_of_member_ns(member.name());
        if starts_ns.is_empty() {
            return Ok(());
        }
        let partitions = self.store().partitions(table.table()).await?;
        let left = member.series().all().as_ref() - gone;
        let mut empty = BTreeSet::new();
        for start_ns in starts_ns {
            let Some(partition) = partitions.iter().find(|partition| partition.range.contains(start_ns))
            else {
                continue;
            };
            let overlaps = partition.range.overlaps(deleted);
            if overlaps && self.with_rows(table, left.clone(), partition.range).await?.is_empty() {
                empty.insert(start_ns);
            }
        }
        table.forget_member_types(member.name(), |start_ns| empty.contains(&start_ns));
        Ok(())
    }

    /// Whether, after points at times within a range were deleted, one of their series or of the shards may have no points
    /// left. Others may write meanwhile.
    async fn may_have_emptied(
        &self,
        measurement: &Measurement,
        series: &RoaringBitmap,
        deleted: TimeRange,
    ) -> Result<bool> {
        let table = measurement.stored();
        if measurement.is_member() || self.with_rows(table, series.clone(), TimeRange::ALL).await? != *series
        {
            return Ok(true);
        }
        let partitions = self.store().partitions(table.table()).await?;
        let starts_ns = table.shard_starts_ns();
        let is_touched = |partition: &&PartitionInfo| {
            partition.range.overlaps(deleted)
                && starts_ns.iter().any(|start_ns| partition.range.contains(*start_ns))
        };
        for partition in partitions.iter().filter(is_touched) {
            if self.first_series(table, partition.range, &RoaringBitmap::new()).await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A series that has rows in a time range and is not among the removed ones.
    async fn first_series(
        &self,
        table: &SeriesTable,
        time: TimeRange,
        gone: &RoaringBitmap,
    ) -> Result<Option<u32>> {
        // Rows of removed series are hidden by deletions. They need not be scanned if some other series has rows.
        let mut others = table.series().all() - gone;
        table.presence().read().narrow(&mut others, std::iter::once(time));
        let some = SeriesSet::Ids(others.iter().take(WITNESSES_AT_ONCE).map(SeriesId).collect());
        for series in [some, SeriesSet::All] {
            let rows = RowSelection::Series { series, time };
            let mut request = ScanRequest::by_key(table.table(), rows, vec![TIME_COLUMN]);
            request.limit = Some(1);
            let mut rows = self.snapshot().await?.scan(request).await?;
            while let Some(batch) = rows.next().await? {
                if let Some(run) = batch.series.first().filter(|_| batch.rows > 0) {
                    return Ok(Some(run.series.0));
                }
            }
        }
        Ok(None)
    }

    /// Those of some series that have points in a time range.
    pub(crate) async fn with_rows(
        &self,
        table: &SeriesTable,
        ids: RoaringBitmap,
        time: TimeRange,
    ) -> Result<RoaringBitmap> {
        table.series_with_points(&self.snapshot().await?, series_set(table, &ids), time).await
    }

    /// Drops the partitions of a table that lie wholly within a range, and the series that then have no points left.
    /// Returns the number of partitions. The caller holds the table lock exclusively.
    pub(crate) async fn drop_range(&self, table: &SeriesTable, range: TimeRange) -> Result<u64> {
        let before = table.note_dropping(range);
        let dropped = self.store().drop_partitions(table.table(), range).await;
        let dropped = self.forget_dropped(table, before, dropped.map(Some)).await?;
        Ok(dropped.unwrap_or_default())
    }

    /// The same, unless the table was altered since the store's tables had a version: `None`.
    pub(crate) async fn drop_judged_range(
        &self,
        table: &SeriesTable,
        range: TimeRange,
        tables_version: u64,
    ) -> Result<Option<u64>> {
        let before = table.note_dropping(range);
        let dropped = self.store().drop_judged_partitions(table.table(), range, tables_version).await;
        self.forget_dropped(table, before, dropped).await
    }

    /// Forgets what was known of partitions that were dropped. If that failed, some of them may be gone all the same.
    /// `before`: the times of those that were dropped before and are not forgotten yet.
    async fn forget_dropped(
        &self,
        table: &SeriesTable,
        before: Option<TimeRange>,
        dropped: Result<Option<Vec<PartitionInfo>>>,
    ) -> Result<Option<u64>> {
        let is_any = match &dropped {
            Ok(None) => {
                table.set_dropping(before);
                return Ok(None);
            }
            Ok(Some(gone)) => before.is_some() || !gone.is_empty(),
            Err(_) => true,
        };
        let forgotten = self.forget_rest(table, is_any).await;
        let count = dropped?.map(|gone| gone.len() as u64);
        forgotten.map(|()| count)
    }

    /// Forgets what is known of partitions that were dropped, if that has failed. The caller holds the table lock exclusively.
    pub(crate) async fn forget_rest(&self, table: &SeriesTable, is_any: bool) -> Result<()> {
        let Some(range) = table.dropping() else { return Ok(()) };
        self.forget_range(table, range, is_any).await?;
        table.set_dropping(None);
        Ok(())
    }

    /// Forgets what was known of partitions within a range that are there no longer. `is_any`: whether there may be some.
    async fn forget_range(&self, table: &SeriesTable, range: TimeRange, is_any: bool) -> Result<()> {
        table.forget_shard_starts();
        let left = self.store().partitions(table.table()).await?;
        let left: Vec<TimeRange> = left.iter().map(|partition| partition.range).collect();
        // A shard that begins in the range and ends behind it stays.
        let is_gone = |start_ns| range.contains(start_ns) && !left.iter().any(|left| left.contains(start_ns));
        if let Some(log) = table.change_log() {
            let types = table.take_shard_types(is_gone);
            if !types.is_empty() {
                let remove = table.records().remove(types.iter().map(Vec::as_slice));
                table.records().write(vec![remove]).await?;
                log.append(&Entry::names(table.table()), |_| ()).await?;
            }
            if is_any {
                let all = table.series().all().clone();
                self.hide_empty(log, table, all).await?;
            }
            return Ok(());
        }
        table.presence().write().keep(|shard| !range.covers(shard));
        let _pin = table.reload_for_drop(range, &left).await?;
        let mut empty = table.series().all().clone();
        let mut present = empty.clone();
        if !table.presence().read().narrow(&mut present, left.iter().copied()) {
            present = self.with_rows(table, present, TimeRange::ALL).await?;
        }
        empty -= present;
        table.forget_shard_types(is_gone);
        self.remove_series(table, &empty).await
    }

    /// Learns, one step at a time, which series are in which shards, for measurements with many series. A failure in
    /// one measurement does not stop the work on the others; the first error is returned.
    pub async fn learn_presence(&self) -> Result<()> {
        let mut learned = Ok(());
        // What other servers write is not known.
        let tables = if self.is_shared() { Vec::new() } else { self.loaded_tables() };
        for table in tables {
            if table.count_series() >= self.idle_rules().series_min {
                let step = self.learn_presence_of(&table).await;
                learned = learned.and(step.map_err(|error| error.context(table.name())));
            }
        }
        learned
    }

    async fn learn_presence_of(&self, table: &SeriesTable) -> Result<()> {
        // A table that was dropped meanwhile has no partitions.
        let partitions = table.partitions().await?;
        let shards = || partitions.iter().map(|partition| partition.range);
        // The store has everything that writers were writing when these sets were begun: writers were locked out then,
        // and writers that were cancelled have finished long before the next step. One shard per step, because scanning
        // a large one takes some seconds.
        let newest = table.presence().read().incomplete().pop();
        if let Some(range) = newest {
            let all = table.series().all().clone();
            let found = self.with_rows(table, all, range).await?;
            table.presence().write().complete(range, &found);
        }
        let is_lacking = |range: &TimeRange| table.presence().read().lacks(*range);
        if shards().any(|range| is_lacking(&range)) {
            let _lock = table.table_lock().lock_exclusive().await;
            let lacking: Vec<_> = shards().filter(is_lacking).collect();
            let mut presence = table.presence().write();
            presence.keep(|known| shards().any(|range| range == known));
            lacking.into_iter().for_each(|range| presence.begin(range));
        }
        Ok(())
    }

    /// Removes series that have no points. The caller holds the table lock exclusively.
    pub(crate) async fn remove_series(&self, table: &SeriesTable, gone: &RoaringBitmap) -> Result<()> {
        let before = table.memory_bytes();
        let removed = table.remove_series(gone).await;
        self.give_back_series_memory(before.saturating_sub(table.memory_bytes()));
        removed
    }
}

/// A set of series of a table, in a short form if it is all of them and none is evicted.
pub(crate) fn series_set(table: &SeriesTable, ids: &RoaringBitmap) -> SeriesSet {
    // The series cannot change while the index is locked.
    let series = table.series();
    match !table.has_evicted() && *series.all() == *ids {
        true => SeriesSet::All,
        false => SeriesSet::Ids(ids.iter().map(SeriesId).collect()),
    }
}
