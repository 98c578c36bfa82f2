//! Deletions and updates by condition, done by scans and writes by key.
//!
//! If batches are atomic, the whole change is one batch. Otherwise each batch of keys is written as it is read. A row
//! that others change between the scan and the write may be changed although it no longer meets the conditions.

use super::super::{
    Atomicity, Batch, Delete, DeleteMode, Feature, Operation, Predicate, RowSelection, ScanRequest, Snapshot,
    Store, Update, WriteBatch, WriteMode, WriteOutcome,
};
use super::EmulatedSnapshot;
use crate::error::Result;
use crate::ids::{Sequence, TableId};
use crate::schema::TableSchema;
use arrow_array::{ArrayRef, UInt32Array};
use std::sync::Arc;

/// Deletes rows; returns the sequence of the last batch.
pub(super) async fn delete(
    store: &dyn Store,
    snapshot: &EmulatedSnapshot,
    delete: Delete,
) -> Result<Sequence> {
    let schema = snapshot.schema(delete.table)?;
    let (table, mode) = (delete.table, DeleteMode::Blind);
    let operation = |keys: Vec<ArrayRef>, _| Ok(Operation::DeleteKeys { table, mode, keys });
    change(store, snapshot, &schema, (table, delete.rows, delete.predicates), operation)
        .await
        .map(|(last, _)| last)
}

/// Sets columns of rows. The outcome counts these rows.
pub(super) async fn update(
    store: &dyn Store,
    snapshot: &EmulatedSnapshot,
    update: Update,
) -> Result<WriteOutcome> {
    let schema = snapshot.schema(update.table)?;
    update.validate(&schema)?;
    // If the store has conditional writes, a row that was deleted meanwhile is not created again.
    let mode = match store.capabilities().features.has(Feature::ConditionalRows) {
        true => WriteMode::UpdateIgnore,
        false => WriteMode::Upsert,
    };
    // Without conditional writes the update could create a row, which would need values for all required columns.
    if mode == WriteMode::Upsert && schema.columns_of_new_rows().next().is_some() {
        store.capabilities().need(Feature::ConditionalRows)?;
    }
    let operation =
        |keys: Vec<ArrayRef>, rows: usize| update.of_keys(&schema, keys, rows, mode).map(Operation::Upsert);
    let selected = (update.table, update.rows.clone(), update.predicates.clone());
    let (sequence, affected) = change(store, snapshot, &schema, selected, operation).await?;
    Ok(WriteOutcome { sequence, affected, conflicts: Vec::new() })
}

/// Writes an operation for the keys of each batch of rows. Returns the last sequence and the number of rows.
async fn change(
    store: &dyn Store,
    snapshot: &EmulatedSnapshot,
    schema: &TableSchema,
    (table, rows, predicates): (TableId, RowSelection, Vec<Predicate>),
    operation: impl Fn(Vec<ArrayRef>, usize) -> Result<Operation>,
) -> Result<(Sequence, u64)> {
    let by_series = schema.is_series_keyed();
    let columns = if by_series { vec![schema.key[1]] } else { schema.key.clone() };
    let request = ScanRequest { predicates, ..ScanRequest::by_key(table, rows, columns) };
    let is_atomic = store.capabilities().atomicity == Atomicity::Batch;
    let mut stream = snapshot.scan(request).await?;
    let (mut operations, mut changed, mut last) = (Vec::new(), 0, snapshot.sequence());
    while let Some(Batch { rows, series, columns }) = stream.next().await? {
        let mut keys = columns;
        if by_series {
            let ids = series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            keys.insert(0, Arc::new(UInt32Array::from_iter_values(ids)));
        }
        operations.push(operation(keys, rows)?);
        if !is_atomic {
            let operations = std::mem::take(&mut operations);
            let written = store.write(WriteBatch { operations }).await?;
            (last, changed) = (written.sequence, changed + written.affected);
        }
    }
    if !operations.is_empty() {
        let written = store.write(WriteBatch { operations }).await?;
        (last, changed) = (written.sequence, changed + written.affected);
    }
    Ok((last, changed))
}
