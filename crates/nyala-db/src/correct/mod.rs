//! Correcting stored points: their fields get other values, or none, or they are deleted.
//!
//! Where the store has staged writes, points are looked for while others write (`staged.rs`). Elsewhere the store changes
//! them itself, and writers of the measurement wait. Other servers of a shared store do not wait: there the store decides,
//! row by row, which of two changes comes last. A field has one type within a shard. A value of another type is refused,
//! before anything is changed (`types.rs`).

mod deletion;
mod found;
mod staged;
mod types;

use found::FoundPoints;
use staged::SelectedChange;
pub use staged::{Correction, Others};

use crate::catalog::{Catalog, Field, Measurement, shard_starts, times_of};
use crate::changes::Changed;
use crate::delete::series_set;
use crate::selection::PointSelection;
use arrow_array::{ArrayRef, TimestampNanosecondArray, UInt32Array};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Batch, RowSelection, RowStream, ScanRequest, SnapshotRef, Update, WriteOutcome};
use nyala_core::{Result, Value};
use tokio::sync::OwnedRwLockWriteGuard;
use types::FieldShards;

/// New values of a field, for points that are corrected one by one.
#[derive(Debug)]
pub struct CorrectedField {
    /// The field.
    pub field: Field,
    /// The values, by point; NULL takes the value away.
    pub values: ArrayRef,
}

impl Catalog {
    /// How many points are selected.
    pub async fn count_points(&self, measurement: &Measurement, selection: &PointSelection) -> Result<u64> {
        let _pin = self.reload_series(measurement, selection.time, &selection.tags).await?;
        Ok(self.found_points(Others::Write, measurement, selection).await?.points)
    }

    /// Gives fields of the selected points a value, or none.
    ///
    /// # Errors
    /// Conflict if a field has another type in one of the shards. Limit if the store changes them itself, and there are more
    /// points than one change may have.
    pub async fn set_fields(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        assignments: Vec<(Field, Option<Value>)>,
    ) -> Result<Changed> {
        let _pin = self.reload_series(measurement, selection.time, &selection.tags).await?;
        if !self.can_stage_corrections() {
            return self.set_fields_in_store(measurement, selection, assignments).await;
        }
        self.correct_selected(measurement, selection, &SelectedChange::Set(&assignments)).await
    }

    async fn set_fields_in_store(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        assignments: Vec<(Field, Option<Value>)>,
    ) -> Result<Changed> {
        let _excluded = self.exclude_writers(measurement).await?;
        let snapshot = self.snapshot().await?;
        let starts = shard_starts(measurement.stored(), &snapshot).await?;
        let mut types = FieldShards::default();
        let found = found_in(Others::Wait, &snapshot, measurement, selection, |times_ns| {
            let with_value = assignments.iter().filter(|(_, value)| value.is_some());
            with_value.for_each(|(field, _)| types.add(field, times_ns, &starts));
        });
        let found = found.await?;
        if found.points == 0 {
            return Ok(Changed::default());
        }
        self.claim_types(measurement, &types).await?;
        let update = Update {
            table: measurement.table(),
            rows: rows_of(measurement, selection),
            predicates: selection.predicates.clone(),
            assignments: assignments.into_iter().map(|(field, value)| (field.column, value)).collect(),
        };
        let columns = update.assignments.iter().map(|(column, _)| *column).collect();
        let WriteOutcome { sequence, affected, .. } = self.store().update(update).await?;
        let part = measurement.changed_part(sequence, found.series, found.time).of_columns(columns);
        Ok(Changed { points: affected, part: (affected > 0).then_some(part) })
    }

    /// Excludes the writers of a measurement, as long as the lock is held.
    ///
    /// # Errors
    /// Missing if the measurement was dropped.
    pub(crate) async fn exclude_writers(
        &self,
        measurement: &Measurement,
    ) -> Result<OwnedRwLockWriteGuard<()>> {
        let lock = measurement.stored().table_lock().lock_exclusive().await;
        measurement.check_not_dropped()?;
        Ok(lock)
    }

    /// Counts the selected points, whose series are in memory.
    async fn found_points(
        &self,
        others: Others,
        measurement: &Measurement,
        selection: &PointSelection,
    ) -> Result<FoundPoints> {
        found_in(others, &self.snapshot().await?, measurement, selection, |_| ()).await
    }
}

async fn found_in(
    others: Others,
    snapshot: &SnapshotRef,
    measurement: &Measurement,
    selection: &PointSelection,
    mut visit: impl FnMut(&[i64]),
) -> Result<FoundPoints> {
    let mut found = FoundPoints::none();
    let Some(mut rows) = key_scan(others, snapshot, measurement, selection).await? else { return Ok(found) };
    while let Some(batch) = rows.next().await? {
        let times_ns = times_of(&batch);
        found.add(batch.series.iter().map(|run| run.series.0), times_ns);
        visit(times_ns);
    }
    Ok(found)
}

/// Scans the keys of the selected points; `None` if there is nothing to scan. Others come first unless they wait for it.
async fn key_scan(
    others: Others,
    snapshot: &SnapshotRef,
    measurement: &Measurement,
    selection: &PointSelection,
) -> Result<Option<Box<dyn RowStream>>> {
    let rows = rows_of(measurement, selection);
    let request = ScanRequest {
        predicates: selection.predicates.clone(),
        in_background: others == Others::Write,
        ..ScanRequest::by_key(measurement.table(), rows, vec![TIME_COLUMN])
    };
    measurement.scan(snapshot, request).await
}

/// The keys of the rows of such a scan.
fn keys_of(batch: &Batch) -> (UInt32Array, TimestampNanosecondArray) {
    let runs = batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
    (UInt32Array::from_iter_values(runs), TimestampNanosecondArray::from(times_of(batch).to_vec()))
}

fn rows_of(measurement: &Measurement, selection: &PointSelection) -> RowSelection {
    let ids = measurement.series().select(&selection.tags);
    RowSelection::Series { series: series_set(measurement.stored(), &ids), time: selection.time }
}
