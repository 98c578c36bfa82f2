//! Deletes and updates by selection and predicate.
//!
//! They hold the gate alone: what they find is what they change. A delete without predicates is one
//! tombstone, whatever it hides; everything else becomes an ordinary batch of keys.

use crate::key::{KeyRange, SeriesKeys};
use crate::shared::Shared;
use crate::snapshot::EngineSnapshot;
use crate::tombstone::DeletedRange;
use crate::write::{Gate, Work};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::BooleanBuffer;
use nyala_core::store::convert::array_of_values;
use nyala_core::store::{
    Batch, CellColumn, Delete, Direction, Operation, Order, Predicate, RowSelection, ScanRequest, SeriesSet,
    Snapshot, Update, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, Result, Sequence, TableId, TableSchema, TimeRange};
use std::sync::Arc;

impl Shared {
    /// Deletes rows.
    pub(crate) async fn delete(self: &Arc<Self>, delete: Delete) -> Result<Sequence> {
        self.admit(|| 0).await?;
        let gate = Gate::Alone(self.gate.clone().write_owned().await);
        let snapshot = self.snapshot();
        let schema = snapshot.schema(delete.table)?;
        let request = key_request(delete.table, &schema, &delete.rows, &delete.predicates);
        request.validate(&schema)?;
        let work = if delete.predicates.is_empty() {
            Work::DeleteRange { table: delete.table, range: deleted_range(&delete.rows, &schema)? }
        } else {
            let mut operations = Vec::new();
            for_each_key_batch(&snapshot, request, &schema, |keys, _| {
                operations.push(Operation::DeleteKeys { table: delete.table, keys });
                Ok(())
            })
            .await?;
            Work::Batch(WriteBatch { operations })
        };
        self.log_and_apply(work, gate).await
    }

    /// Sets columns of rows; returns how many rows.
    pub(crate) async fn update(self: &Arc<Self>, update: Update) -> Result<u64> {
        self.admit(|| 0).await?;
        let gate = Gate::Alone(self.gate.clone().write_owned().await);
        let snapshot = self.snapshot();
        let schema = snapshot.schema(update.table)?;
        update.validate(&schema)?;
        let request = key_request(update.table, &schema, &update.rows, &update.predicates);
        request.validate(&schema)?;
        let (mut operations, mut updated) = (Vec::new(), 0);
        for_each_key_batch(&snapshot, request, &schema, |keys, rows| {
            let key_columns = schema.key.iter().zip(keys).map(|(column, values)| CellColumn {
                column: *column,
                values,
                null_cells: None,
            });
            let mut columns: Vec<_> = key_columns.collect();
            for (column, value) in &update.assignments {
                let column_type = schema.column(*column).expect("updates are validated").column_type;
                let values = array_of_values(column_type, &vec![value.as_ref(); rows])?;
                let null_cells = value.is_none().then(|| BooleanBuffer::new_set(rows));
                // Of several assignments to one column the last counts.
                columns.retain(|cells| cells.column != *column);
                columns.push(CellColumn { column: *column, values, null_cells });
            }
            updated += rows as u64;
            operations.push(Operation::Upsert(Upsert {
                table: update.table,
                mode: WriteMode::Upsert,
                columns,
            }));
            Ok(())
        })
        .await?;
        if updated > 0 {
            self.log_and_apply(Work::Batch(WriteBatch { operations }), gate).await?;
        }
        Ok(updated)
    }
}

fn deleted_range(rows: &RowSelection, schema: &TableSchema) -> Result<DeletedRange> {
    if !schema.is_series_keyed() {
        return Ok(DeletedRange::Keys(KeyRange::of(rows, schema)?));
    }
    Ok(match rows {
        RowSelection::All => DeletedRange::Series { series: SeriesSet::All, time: TimeRange::ALL },
        RowSelection::Keys { start, end } => DeletedRange::SeriesKeys(SeriesKeys::of(start, end)?),
        RowSelection::Series { series, time } => DeletedRange::Series { series: series.clone(), time: *time },
    })
}

/// A scan of the keys of rows; of a series-keyed table the series comes as runs.
fn key_request(
    table: TableId,
    schema: &TableSchema,
    rows: &RowSelection,
    predicates: &[Predicate],
) -> ScanRequest {
    let columns: Vec<ColumnId> =
        if schema.is_series_keyed() { vec![schema.key[1]] } else { schema.key.clone() };
    ScanRequest {
        table,
        rows: rows.clone(),
        columns,
        predicates: predicates.to_vec(),
        skip_empty_rows: false,
        order: Order::Key(Direction::Forward),
        ties: [].into(),
        limit: None,
        limit_per_prefix: None,
    }
}

async fn for_each_key_batch(
    snapshot: &EngineSnapshot,
    request: ScanRequest,
    schema: &TableSchema,
    mut visit: impl FnMut(Vec<ArrayRef>, usize) -> Result<()>,
) -> Result<()> {
    let mut stream = snapshot.scan(request).await?;
    while let Some(Batch { rows, series, columns }) = stream.next().await? {
        let mut keys = columns;
        if schema.is_series_keyed() {
            let runs = series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            keys.insert(0, Arc::new(UInt32Array::from_iter_values(runs)));
        }
        visit(keys, rows)?;
    }
    Ok(())
}
