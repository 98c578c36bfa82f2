//! Deleting points, and the series that have none left.

use crate::catalog::{Catalog, Measurement};
use crate::series::TagFilter;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Delete, Direction, Order, RowSelection, ScanRequest, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;

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
        remove_empty_series(self, measurement, ids).await
    }

    /// Drops what has outlived its retention policy.
    pub async fn enforce_retention(&self, now_ns: i64) -> Result<u64> {
        let mut dropped = 0;
        for database in self.databases() {
            for policy in &database.policies {
                let Some(horizon_ns) = policy.horizon_ns(now_ns) else { continue };
                let expired = TimeRange::new(i64::MIN, horizon_ns);
                for measurement in self.measurements(&database.name, &policy.name).await? {
                    let partitions = self.store().partitions(measurement.table())?;
                    if !partitions.iter().any(|partition| expired.covers(partition.range)) {
                        continue;
                    }
                    let _membership = self.own_membership().await;
                    let gone = self.store().drop_partitions(measurement.table(), expired).await?;
                    dropped += gone.len() as u64;
                    if let Some(operation) = measurement.forget_shard_types(expired) {
                        self.series_records().write(vec![operation]).await?;
                    }
                    let all = measurement.series().all().clone();
                    remove_empty_series(self, &measurement, all).await?;
                }
            }
        }
        Ok(dropped)
    }
}

fn series_set(ids: &RoaringBitmap) -> SeriesSet {
    SeriesSet::Ids(ids.iter().map(SeriesId).collect())
}

/// Removes those of some series that have no point. The caller keeps writers out.
async fn remove_empty_series(catalog: &Catalog, measurement: &Measurement, ids: RoaringBitmap) -> Result<()> {
    let request = ScanRequest {
        table: measurement.table(),
        rows: RowSelection::Series { series: series_set(&ids), time: TimeRange::ALL },
        columns: vec![TIME_COLUMN],
        predicates: Vec::new(),
        skip_empty_rows: false,
        order: Order::Key(Direction::Forward),
        limit: None,
        limit_per_prefix: Some(1),
    };
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
