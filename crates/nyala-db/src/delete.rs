//! Deleting points, and the series that have none left.

use crate::catalog::{Catalog, Measurement};
use crate::series::TagFilter;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Delete, Direction, Order, RowSelection, ScanRequest, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

/// Measurements with fewer series ask the store.
const PRESENCE_SERIES_MIN: usize = 1 << 14;

impl Catalog {
    /// Deletes the points of some series of a measurement within a time range. Series that have no point
    /// left afterwards are gone.
    pub async fn delete_points(
        &self,
        measurement: &Measurement,
        tags: &TagFilter,
        time: TimeRange,
    ) -> Result<()> {
        let _owned = measurement.membership().own().await;
        if measurement.membership().has_ended() {
            return Ok(());
        }
        let mut ids = measurement.series().select(tags);
        if time != TimeRange::ALL {
            ids = self.with_rows(measurement, ids, time).await?;
        }
        if ids.is_empty() {
            return Ok(());
        }
        let rows = RowSelection::Series { series: series_set(measurement, &ids), time };
        self.store().delete(Delete { table: measurement.table(), rows, predicates: Vec::new() }).await?;
        self.remove_empty_series(measurement, ids, time).await?;
        self.forget_empty_shards(measurement, time).await
    }

    /// Forgets what types fields have in shards that lost their last row to a deletion: they are free again.
    async fn forget_empty_shards(&self, measurement: &Measurement, deleted: TimeRange) -> Result<()> {
        let partitions = self.store().partitions(measurement.table())?;
        let mut empty = BTreeSet::new();
        for start_ns in measurement.shard_starts_ns() {
            let partition = partitions.iter().find(|partition| partition.range.contains(start_ns));
            let is_empty = match partition {
                None => true,
                Some(partition) if !partition.range.overlaps(deleted) => false,
                Some(partition) => !self.has_rows(measurement, partition.range).await?,
            };
            if is_empty {
                empty.insert(start_ns);
            }
        }
        match measurement.forget_shard_types(|start_ns| empty.contains(&start_ns)) {
            Some(operation) => self.series_records().write(vec![operation]).await,
            None => Ok(()),
        }
    }

    async fn has_rows(&self, measurement: &Measurement, time: TimeRange) -> Result<bool> {
        let rows = RowSelection::Series { series: SeriesSet::All, time };
        let mut request = times_of(measurement, rows);
        request.limit = Some(1);
        let mut rows = self.store().snapshot().scan(request).await?;
        while let Some(batch) = rows.next().await? {
            if batch.rows > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Those of some series that have a point in a range of time.
    async fn with_rows(
        &self,
        measurement: &Measurement,
        ids: RoaringBitmap,
        time: TimeRange,
    ) -> Result<RoaringBitmap> {
        let rows = RowSelection::Series { series: series_set(measurement, &ids), time };
        let mut request = times_of(measurement, rows);
        request.limit_per_prefix = Some(1);
        let mut found = RoaringBitmap::new();
        let mut rows = self.store().snapshot().scan(request).await?;
        while let Some(batch) = rows.next().await? {
            found.extend(batch.series.iter().map(|run| run.series.0));
        }
        Ok(found)
    }

    /// Drops the partitions of a measurement that lie wholly within a range, and the series that have no point left
    /// then; returns how many partitions. The caller keeps writers out.
    pub(crate) async fn drop_range(&self, measurement: &Measurement, range: TimeRange) -> Result<u64> {
        let gone = self.store().drop_partitions(measurement.table(), range).await?;
        if let Some(operation) = measurement.forget_shard_types(|start_ns| range.contains(start_ns)) {
            self.series_records().write(vec![operation]).await?;
        }
        measurement.presence().write().keep(|shard| !range.covers(shard));
        let left = self.store().partitions(measurement.table())?;
        let mut empty = measurement.series().all().clone();
        let mut present = empty.clone();
        if !measurement.presence().read().narrow(&mut present, left.iter().map(|partition| partition.range)) {
            present = self.with_rows(measurement, present, TimeRange::ALL).await?;
        }
        empty -= present;
        self.remove_series(measurement, &empty).await?;
        Ok(gone.len() as u64)
    }

    /// Takes one step towards knowing which series are in which shards, of measurements with many series.
    pub async fn learn_presence(&self) -> Result<()> {
        for measurement in self.loaded_measurements() {
            if measurement.series_count().is_none_or(|count| count < PRESENCE_SERIES_MIN) {
                continue;
            }
            let Ok(partitions) = self.store().partitions(measurement.table()) else { continue };
            let shards = || partitions.iter().map(|partition| partition.range);
            // What writers were about when these sets were begun the store has by now: they were kept out since then, and
            // those that left half-way were done long before the next step. One shard at a time: a scan of a large one
            // takes some seconds.
            let newest = measurement.presence().read().incomplete().pop();
            if let Some(range) = newest {
                let all = measurement.series().all().clone();
                let found = self.with_rows(&measurement, all, range).await?;
                measurement.presence().write().complete(range, &found);
            }
            let is_lacking = |range: &TimeRange| measurement.presence().read().lacks(*range);
            if shards().any(|range| is_lacking(&range)) {
                let _owned = measurement.membership().own().await;
                let lacking: Vec<_> = shards().filter(is_lacking).collect();
                let mut presence = measurement.presence().write();
                presence.keep(|known| shards().any(|range| range == known));
                lacking.into_iter().for_each(|range| presence.begin(range));
            }
        }
        Ok(())
    }

    /// Removes those of some series that have no point, after all that they had in a range of time were deleted. The
    /// caller keeps writers out.
    async fn remove_empty_series(
        &self,
        measurement: &Measurement,
        ids: RoaringBitmap,
        deleted: TimeRange,
    ) -> Result<()> {
        let empty = match deleted == TimeRange::ALL {
            true => ids,
            false => &ids - self.with_rows(measurement, ids.clone(), TimeRange::ALL).await?,
        };
        self.remove_series(measurement, &empty).await
    }

    async fn remove_series(&self, measurement: &Measurement, gone: &RoaringBitmap) -> Result<()> {
        let before = measurement.memory_bytes();
        let removed = measurement.remove_series(gone).await;
        self.give_back_series_memory(before.saturating_sub(measurement.memory_bytes()));
        removed
    }
}

/// A set of series of a measurement, said shortly where it is all of them.
fn series_set(measurement: &Measurement, ids: &RoaringBitmap) -> SeriesSet {
    match *measurement.series().all() == *ids {
        true => SeriesSet::All,
        false => SeriesSet::Ids(ids.iter().map(SeriesId).collect()),
    }
}

/// A scan for what rows there are, without their fields.
fn times_of(measurement: &Measurement, rows: RowSelection) -> ScanRequest {
    ScanRequest {
        table: measurement.table(),
        rows,
        columns: vec![TIME_COLUMN],
        predicates: Vec::new(),
        skip_empty_rows: false,
        order: Order::Key(Direction::Forward),
        ties: [].into(),
        limit: None,
        limit_per_prefix: None,
    }
}
