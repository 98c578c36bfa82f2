//! Corrections that are staged, and become visible at once.
//!
//! Others write while points are looked for. If one of them changes a point of the correction, the store refuses the
//! commit, and the correction is made once more while writers wait: then nobody can be first again. Points that others
//! write meanwhile are not looked at, as if they had been written after the correction.

use super::found::FoundPoints;
use super::types::FieldShards;
use super::{CorrectedField, key_scan, keys_of};
use crate::catalog::{Catalog, Field, Measurement, ShardStarts, shard_starts};
use crate::changes::Changed;
use crate::selection::PointSelection;
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray, UInt32Array};
use nyala_core::arrays::array_of_values;
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::store::{
    CellColumn, DeleteMode, Feature, Operation, SnapshotRef, Stage, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, Error, ErrorKind, Result, Value, before_long_work};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

/// What others may do while points are corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They write. The commit may be a conflict.
    Write,
    /// They wait until the correction was committed or dropped.
    Wait,
}

/// Points of a measurement that are changed together. What it writes and deletes it has found in its own snapshot.
pub struct Correction<'a> {
    catalog: &'a Catalog,
    measurement: &'a Measurement,
    stage: Box<dyn Stage>,
    excluded: Option<OwnedRwLockWriteGuard<()>>,
    starts: ShardStarts,
    types: FieldShards,
    changed: FoundPoints,
    /// Fields that were changed.
    columns: BTreeSet<ColumnId>,
    deletes: bool,
}

impl Catalog {
    /// Whether [`Self::begin_correction`] is possible.
    pub(super) fn can_stage_corrections(&self) -> bool {
        self.store().capabilities().features.has(Feature::StagedWrites)
    }

    /// Begins to correct points of a measurement. The caller keeps its series in memory.
    ///
    /// # Errors
    /// Missing if the measurement was dropped. Unsupported if the store has no staged writes.
    pub async fn begin_correction<'a>(
        &'a self,
        measurement: &'a Measurement,
        others: Others,
    ) -> Result<Correction<'a>> {
        let excluded = match others {
            Others::Write => None,
            Others::Wait => Some(self.exclude_writers(measurement).await?),
        };
        let stage = self.store().stage().await?;
        let starts = shard_starts(measurement.stored(), &stage.snapshot().await?).await?;
        Ok(Correction {
            catalog: self,
            measurement,
            stage,
            excluded,
            starts,
            types: FieldShards::default(),
            changed: FoundPoints::none(),
            columns: BTreeSet::new(),
            deletes: false,
        })
    }
}

/// What becomes of selected points.
pub(super) enum SelectedChange<'a> {
    /// Fields get a value, or none.
    Set(&'a [(Field, Option<Value>)]),
    Delete,
}

impl Catalog {
    /// Corrects the selected points, whose series are in memory, while others write if that is possible.
    pub(super) async fn correct_selected(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        change: &SelectedChange<'_>,
    ) -> Result<Changed> {
        match self.correct_beside(Others::Write, measurement, selection, change).await {
            Err(error) if is_to_be_repeated(&error) => {
                self.correct_beside(Others::Wait, measurement, selection, change).await
            }
            outcome => outcome,
        }
    }

    async fn correct_beside(
        &self,
        others: Others,
        measurement: &Measurement,
        selection: &PointSelection,
        change: &SelectedChange<'_>,
    ) -> Result<Changed> {
        let mut correction = self.begin_correction(measurement, others).await?;
        let snapshot = correction.snapshot().await?;
        let Some(mut rows) = key_scan(others, &snapshot, measurement, selection).await? else {
            return Ok(Changed::default());
        };
        while let Some(batch) = rows.next().await? {
            let (series, times) = keys_of(&batch);
            match change {
                SelectedChange::Set(assignments) => {
                    let fields = assignments.iter().map(|(field, value)| {
                        let values = vec![value.as_ref(); batch.rows];
                        let values = array_of_values(field.field_type.column_type(), &values)?;
                        Ok(CorrectedField { field: field.clone(), values })
                    });
                    correction.update(series, times, fields.collect::<Result<_>>()?).await?;
                }
                SelectedChange::Delete => correction.delete(series, times).await?,
            }
            // It can be stopped here.
            before_long_work().await;
        }
        correction.commit().await
    }
}

/// Whether a correction that failed while others wrote is to be made once more while they wait: somebody else was first, or
/// has written so much that the store cannot tell.
fn is_to_be_repeated(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Retry)
}

impl Correction<'_> {
    /// What there was at the beginning, and what was changed since.
    pub async fn snapshot(&self) -> Result<SnapshotRef> {
        self.stage.snapshot().await
    }

    /// Gives fields of points values, by point.
    pub async fn update(
        &mut self,
        series: UInt32Array,
        times: TimestampNanosecondArray,
        fields: Vec<CorrectedField>,
    ) -> Result<()> {
        self.changed.add(series.values().iter().copied(), times.values());
        for CorrectedField { field, values } in &fields {
            let with_value = (0..times.len()).filter(|row| values.is_valid(*row));
            let times_ns: Vec<i64> = with_value.map(|row| times.value(row)).collect();
            self.note(field, &times_ns);
        }
        let keys = [(SERIES_COLUMN, Arc::new(series) as ArrayRef), (TIME_COLUMN, Arc::new(times))];
        let fields = fields.into_iter().map(|CorrectedField { field, values }| (field.column, values));
        let cells = keys.into_iter().chain(fields);
        let mut columns: Vec<CellColumn> = cells.map(|(id, values)| CellColumn::whole(id, values)).collect();
        columns.sort_by_key(|cells| cells.column);
        // The points are there, so no condition need be checked.
        let upsert = Upsert { table: self.measurement.table(), mode: WriteMode::Upsert, columns };
        self.stage(Operation::Upsert(upsert)).await
    }

    /// Deletes points.
    pub async fn delete(&mut self, series: UInt32Array, times: TimestampNanosecondArray) -> Result<()> {
        self.deletes = true;
        self.changed.add(series.values().iter().copied(), times.values());
        let keys: Vec<ArrayRef> = vec![Arc::new(series), Arc::new(times)];
        self.stage(Operation::DeleteKeys { table: self.measurement.table(), mode: DeleteMode::Blind, keys })
            .await
    }

    fn note(&mut self, field: &Field, with_value_ns: &[i64]) {
        self.columns.insert(field.column);
        self.types.add(field, with_value_ns, &self.starts);
    }

    async fn stage(&mut self, operation: Operation) -> Result<()> {
        self.stage.write(WriteBatch { operations: vec![operation] }).await.map(drop)
    }

    /// Makes everything durable and visible at once. Series that have no points left are removed.
    ///
    /// # Errors
    /// Conflict if somebody else has changed one of the points, or if a field has another type in one
    /// of the shards. Missing if the measurement was dropped.
    pub async fn commit(self) -> Result<Changed> {
        let Self { catalog, measurement, stage, excluded, types, changed, columns, deletes, .. } = self;
        let FoundPoints { points, series, time } = changed;
        if points == 0 {
            return Ok(Changed::default());
        }
        let table = measurement.stored();
        // Types are not forgotten, nor witnesses found, before the commit.
        let shared = match &excluded {
            Some(_) => None,
            None => Some(table.table_lock().lock_shared().await),
        };
        measurement.check_not_dropped()?;
        catalog.claim_types(measurement, &types).await?;
        if deletes {
            table.forget_witnesses(|id| series.contains(id));
        }
        let sequence = stage.commit().await?;
        drop(shared);
        if deletes {
            match excluded {
                Some(_) => catalog.remove_empty(measurement, &series, time).await?,
                None => catalog.remove_if_empty(measurement, &series, time).await?,
            }
        }
        let part = measurement.changed_part(sequence, series, time);
        let part = match deletes {
            true => part,
            false => part.of_columns(columns.into_iter().collect()),
        };
        Ok(Changed { points, part: Some(part) })
    }
}
