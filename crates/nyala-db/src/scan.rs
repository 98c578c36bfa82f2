//! The points of a measurement by tags and times: which series they are of, and how their rows are read.
//!
//! What every reader has to do in this order: series that are not in memory come back and stay as long as they are needed,
//! the filter selects, and where there are many, those are left that may have points in the shards of these times.

use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::series::{SeriesPin, TagFilter};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{RowSelection, RowStream, ScanRequest, SeriesSet, SnapshotRef};
use nyala_core::{ColumnId, Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Points of some series in a range of times.
pub struct Points {
    measurement: Arc<Measurement>,
    series: RoaringBitmap,
    time: TimeRange,
    _pin: SeriesPin,
}

impl Catalog {
    /// The points of a measurement whose tags a filter selects, in a range of times.
    ///
    /// # Errors
    /// Where their series take more memory than there may be.
    pub async fn points(
        &self,
        measurement: &Arc<Measurement>,
        tags: &TagFilter,
        time: TimeRange,
    ) -> Result<Points> {
        let pin = self.reload_series(measurement, time, tags).await?;
        let shards = measurement.shards_within(time).await;
        let mut series = measurement.series().select(tags);
        measurement.narrow(&mut series, shards.as_deref());
        Ok(Points { measurement: measurement.clone(), series, time, _pin: pin })
    }
}

impl Points {
    /// The series that may have some.
    pub fn series(&self) -> &RoaringBitmap {
        &self.series
    }

    /// The request that reads columns of all of them by series, then time.
    pub fn request(&self, columns: Vec<ColumnId>) -> ScanRequest {
        let series = SeriesSet::Ids(self.series.iter().map(SeriesId).collect());
        let rows = RowSelection::Series { series, time: self.time };
        ScanRequest::by_key(self.measurement.table(), rows, columns)
    }

    /// Reads columns of them by series, then time, without rows that have none of these; `None`: there are none.
    pub async fn scan(
        &self,
        snapshot: &SnapshotRef,
        columns: Vec<ColumnId>,
    ) -> Result<Option<Box<dyn RowStream>>> {
        if self.series.is_empty() {
            return Ok(None);
        }
        let mut request = self.request(columns);
        request.skip_empty_rows = request.columns.iter().any(|id| *id != TIME_COLUMN);
        self.measurement.scan(snapshot, request).await
    }
}

impl Measurement {
    /// The series among some that have a point in a range of times.
    pub async fn series_with_points(
        &self,
        snapshot: &SnapshotRef,
        series: SeriesSet,
        time: TimeRange,
    ) -> Result<RoaringBitmap> {
        self.stored().series_with_points(snapshot, series, time).await
    }
}

impl SeriesTable {
    pub(crate) async fn series_with_points(
        &self,
        snapshot: &SnapshotRef,
        series: SeriesSet,
        time: TimeRange,
    ) -> Result<RoaringBitmap> {
        let rows = RowSelection::Series { series, time };
        let mut request = ScanRequest::by_key(self.table(), rows, vec![TIME_COLUMN]);
        request.limit_per_prefix = Some(1);
        let mut found = RoaringBitmap::new();
        let Some(mut rows) = self.scan(snapshot, request).await? else { return Ok(found) };
        while let Some(batch) = rows.next().await? {
            found.extend(batch.series.iter().map(|run| run.series.0));
        }
        Ok(found)
    }
}
