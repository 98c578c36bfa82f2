//! Deleting points, and the series that have none left.

use crate::catalog::{Catalog, Measurement};
use crate::series::TagFilter;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Delete, Direction, Order, RowSelection, ScanRequest, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

impl Catalog {
    /// Deletes the points of some series of a measurement within a time range. Series that have no point
    /// left afterwards are gone.
    pub async fn delete_points(
        &self,
        measurement: &Measurement,
        tags: &TagFilter,
        time: TimeRange,
    ) -> Result<()> {
        let _membership = self.own_membership().await;
        let ids = measurement.series().select(tags);
        if ids.is_empty() {
            return Ok(());
        }
        let rows = RowSelection::Series { series: series_set(&ids), time };
        self.store().delete(Delete { table: measurement.table(), rows, predicates: Vec::new() }).await?;
        remove_empty_series(self, measurement, ids).await?;
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

    /// Drops the partitions of a measurement that lie wholly within a range; returns how many. The caller keeps writers
    /// out.
    pub(crate) async fn drop_range(&self, measurement: &Measurement, range: TimeRange) -> Result<u64> {
        let gone = self.store().drop_partitions(measurement.table(), range).await?;
        if let Some(operation) = measurement.forget_shard_types(|start_ns| range.contains(start_ns)) {
            self.series_records().write(vec![operation]).await?;
        }
        let all = measurement.series().all().clone();
        remove_empty_series(self, measurement, all).await?;
        Ok(gone.len() as u64)
    }
}

fn series_set(ids: &RoaringBitmap) -> SeriesSet {
    SeriesSet::Ids(ids.iter().map(SeriesId).collect())
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

/// Removes those of some series that have no point. The caller keeps writers out.
async fn remove_empty_series(catalog: &Catalog, measurement: &Measurement, ids: RoaringBitmap) -> Result<()> {
    let rows = RowSelection::Series { series: series_set(&ids), time: TimeRange::ALL };
    let mut request = times_of(measurement, rows);
    request.limit_per_prefix = Some(1);
    let mut empty = ids;
    let mut rows = catalog.store().snapshot().scan(request).await?;
    while let Some(batch) = rows.next().await? {
        for run in &batch.series {
            empty.remove(run.series.0);
        }
    }
    let gone: Vec<SeriesId> = empty.iter().map(SeriesId).collect();
    if gone.is_empty() {
        return Ok(());
    }
    catalog.series_records().write(measurement.removed_series_operations(&gone)).await?;
    let mut series = measurement.series_mut();
    gone.iter().for_each(|id| series.remove(*id));
    Ok(())
}
