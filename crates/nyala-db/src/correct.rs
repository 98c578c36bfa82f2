//! Correcting stored points: their fields get other values, or none.
//!
//! Writers of the measurement wait while points are corrected, so that no write is lost between reading a point and
//! writing it again. Other servers of a shared store do not wait: there the store decides, row by row, which of two changes
//! comes last. A field has one type within a shard. A value of another type is refused, before anything is changed.

use crate::catalog::{Catalog, Field, Measurement, add_shards, shard_width_ns, times_of};
use crate::changes::Changed;
use crate::delete::series_set;
use crate::selection::PointSelection;
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::store::{
    CellColumn, DeleteMode, Operation, RowSelection, ScanRequest, Update, Upsert, WriteBatch, WriteMode,
    WriteOutcome,
};
use nyala_core::{Error, Result, TimeRange, Value};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

/// What a selection finds.
#[derive(Debug)]
pub(crate) struct FoundPoints {
    /// How many points.
    pub(crate) points: u64,
    /// The starts of the shards that they are in.
    shards_ns: BTreeSet<i64>,
    /// Their series.
    pub(crate) series: RoaringBitmap,
    /// The range from the first to the last of them.
    pub(crate) time: TimeRange,
}

/// New values of a field, for points that are corrected one by one.
#[derive(Debug)]
pub struct CorrectedField {
    /// The field.
    pub field: Field,
    /// The values, by point; NULL takes the value away.
    pub values: ArrayRef,
}

/// Excludes the writers of a measurement while its points are read and written again.
pub struct CorrectionLock<'a> {
    catalog: &'a Catalog,
    measurement: &'a Measurement,
    _lock: OwnedRwLockWriteGuard<()>,
}

impl Catalog {
    /// How many points are selected.
    pub async fn count_points(&self, measurement: &Measurement, selection: &PointSelection) -> Result<u64> {
        let _pin = self.reload_series(measurement, selection.time, &selection.tags).await?;
        Ok(self.found_points(measurement, selection).await?.points)
    }

    /// Gives fields of the selected points a value, or none.
    ///
    /// # Errors
    /// Conflict if a field has another type in one of the shards. Limit if there are more points than one change may have.
    pub async fn set_fields(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        assignments: Vec<(Field, Option<Value>)>,
    ) -> Result<Changed> {
        let _pin = self.reload_series(measurement, selection.time, &selection.tags).await?;
        let lock = self.lock_for_correction(measurement).await?;
        let found = self.found_points(measurement, selection).await?;
        if found.points == 0 {
            return Ok(Changed::default());
        }
        let with_value = assignments.iter().filter(|(_, value)| value.is_some()).map(|(field, _)| field);
        lock.claim_types(with_value, &found.shards_ns).await?;
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
    pub async fn lock_for_correction<'a>(
        &'a self,
        measurement: &'a Measurement,
    ) -> Result<CorrectionLock<'a>> {
        let lock = measurement.stored().table_lock().lock_exclusive().await;
        match measurement.was_dropped() {
            true => Err(Error::missing(format!("measurement {:?} was dropped", measurement.name()))),
            false => Ok(CorrectionLock { catalog: self, measurement, _lock: lock }),
        }
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

    /// Counts the selected points, whose series are in memory.
    pub(crate) async fn found_points(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
    ) -> Result<FoundPoints> {
        let snapshot = self.snapshot().await?;
        let rows = rows_of(measurement, selection);
        let request = ScanRequest {
            predicates: selection.predicates.clone(),
            ..ScanRequest::by_key(measurement.table(), rows, vec![TIME_COLUMN])
        };
        let mut found = FoundPoints {
            points: 0,
            shards_ns: BTreeSet::new(),
            series: RoaringBitmap::new(),
            time: TimeRange::new(i64::MAX, i64::MIN),
        };
        let Some(mut rows) = measurement.scan(&snapshot, request).await? else { return Ok(found) };
        let width_ns = shard_width_ns(measurement.stored(), &snapshot)?;
        while let Some(batch) = rows.next().await? {
            found.points += batch.rows as u64;
            let times_ns = times_of(&batch);
            add_shards(&mut found.shards_ns, times_ns, width_ns);
            found.series.extend(batch.series.iter().map(|run| run.series.0));
            for time_ns in times_ns {
                found.time.start_ns = found.time.start_ns.min(*time_ns);
                found.time.end_ns = found.time.end_ns.max(time_ns.saturating_add(1));
            }
        }
        Ok(found)
    }
}

impl CorrectionLock<'_> {
    /// What writes fields of points that exist. A point that another server has deleted meanwhile stays deleted.
    ///
    /// # Errors
    /// Conflict if a field has another type in one of the shards.
    pub async fn update(
        &self,
        series: UInt32Array,
        times: TimestampNanosecondArray,
        fields: Vec<CorrectedField>,
    ) -> Result<Operation> {
        let Self { catalog, measurement, .. } = self;
        let width_ns = shard_width_ns(measurement.stored(), &catalog.snapshot().await?)?;
        for CorrectedField { field, values } in &fields {
            let mut shards_ns = BTreeSet::new();
            let with_value = (0..times.len()).filter(|row| values.is_valid(*row));
            let times_ns: Vec<i64> = with_value.map(|row| times.value(row)).collect();
            add_shards(&mut shards_ns, &times_ns, width_ns);
            self.claim_types(std::iter::once(field), &shards_ns).await?;
        }
        let keys = [(SERIES_COLUMN, Arc::new(series) as ArrayRef), (TIME_COLUMN, Arc::new(times))];
        let keys = keys.into_iter().map(|(column, values)| CellColumn { column, values, null_cells: None });
        let fields = fields.into_iter().map(|CorrectedField { field, values }| CellColumn {
            column: field.column,
            null_cells: values
                .nulls()
                .map(|nulls| BooleanBuffer::collect_bool(nulls.len(), |row| nulls.is_null(row))),
            values,
        });
        let mut columns: Vec<CellColumn> = keys.chain(fields).collect();
        columns.sort_by_key(|cells| cells.column);
        Ok(Operation::Upsert(Upsert { table: measurement.table(), mode: WriteMode::UpdateIgnore, columns }))
    }

    /// What deletes points.
    pub fn delete(&self, series: UInt32Array, times: TimestampNanosecondArray) -> Operation {
        let keys: Vec<ArrayRef> = vec![Arc::new(series), Arc::new(times)];
        Operation::DeleteKeys { table: self.measurement.table(), mode: DeleteMode::DeleteIgnore, keys }
    }

    /// Removes those of some series that have no points left, after points at times within a range were deleted.
    pub async fn remove_empty(&self, series: &RoaringBitmap, deleted: TimeRange) -> Result<()> {
        self.catalog.remove_empty(self.measurement, series, deleted).await
    }

    /// Gives fields their types in shards that do not have them yet.
    async fn claim_types<'f>(
        &self,
        fields: impl Iterator<Item = &'f Field> + Clone,
        shards_ns: &BTreeSet<i64>,
    ) -> Result<()> {
        let measurement = self.measurement;
        for field in fields.clone() {
            for start_ns in shards_ns {
                let known = measurement.shard_type(*start_ns, &field.name);
                if let Some(known) = known.filter(|known| *known != field.field_type) {
                    return Err(Error::conflict(format!(
                        "field {:?} of {:?} has the type {} in the shard that begins at {start_ns} ns, not {}: \
                         nothing was changed",
                        field.name,
                        measurement.name(),
                        known.name(),
                        field.field_type.name()
                    )));
                }
            }
        }
        for field in fields {
            for start_ns in shards_ns {
                measurement.claim_shard_type(*start_ns, &field.name, field.field_type);
            }
        }
        self.save_names().await
    }

    /// Makes new types durable before the values that have them.
    async fn save_names(&self) -> Result<()> {
        let Self { catalog, measurement, .. } = self;
        let table = measurement.stored();
        if let Some(log) = table.change_log() {
            return match table.register_names(log).await? {
                true => Ok(()),
                false => {
                    Err(Error::conflict("another server has given a field another type: nothing was changed"))
                }
            };
        }
        let records = table.unsaved_records(std::iter::empty());
        let operations = records.operations(catalog.series_records());
        if !operations.is_empty() {
            catalog.store().write(WriteBatch { operations }).await?;
            table.saved(&records);
        }
        Ok(())
    }
}

fn rows_of(measurement: &Measurement, selection: &PointSelection) -> RowSelection {
    let ids = measurement.series().select(&selection.tags);
    RowSelection::Series { series: series_set(measurement.stored(), &ids), time: selection.time }
}
