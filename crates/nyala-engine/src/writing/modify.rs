//! Deletes and updates by selection and predicate.
//!
//! A delete without predicates is one tombstone, however many rows it hides. Everything else holds the lock of its
//! table exclusively, so that it changes exactly the rows that it finds, and becomes an ordinary batch of keys. The
//! keys are charged while they are collected: a statement whose keys do not fit into its share of memory is refused,
//! and nothing is changed.

use super::Writer;
use super::table_locks::LockMode;
use super::write::{STRING_BYTES_MAX, Work};
use crate::files::wal::MAX_PAYLOAD_BYTES;
use crate::reading::snapshot::EngineSnapshot;
use crate::rows::deleted_series::DeletedSeries;
use crate::rows::key::{KeyRange, SeriesKeys};
use crate::rows::tombstone::DeletedRange;
use arrow_array::{Array, ArrayRef, UInt32Array};
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{
    Batch, Delete, DeleteMode, Operation, Predicate, RowSelection, ScanRequest, Snapshot, Update, WriteBatch,
    WriteMode, WriteOutcome,
};
use nyala_core::{ColumnId, Error, Result, Sequence, TableId, TableSchema, TimeRange, Value};
use std::sync::Arc;

/// The part of the memory limit that a statement's keys may take.
const SHARE: u64 = 8;
/// Bytes of assigned values in one operation, about.
const ASSIGNED_BYTES: usize = 4 << 20;

/// The keys that a statement changes.
struct ChangedKeys {
    charge: Charge,
    rows: u64,
    limit_bytes: u64,
}

impl Writer {
    /// Deletes rows.
    pub(crate) async fn delete(self: &Arc<Self>, delete: Delete) -> Result<Sequence> {
        self.versions.watermark.check()?;
        self.admission.admit(&self.log, || true, || 0).await?;
        let mode = if delete.predicates.is_empty() { LockMode::Shared } else { LockMode::Exclusive };
        let tables = self.lock_tables(vec![(delete.table, mode)]).await?;
        let (mut held, mut room) = (self.no_keys(), None);
        let snapshot = self.snapshot();
        let schema = snapshot.schema(delete.table)?;
        let request = key_request(delete.table, &schema, &delete.rows, &delete.predicates);
        request.validate(&schema)?;
        let work = if delete.predicates.is_empty() {
            let range = deleted_range(&delete.rows, &schema)?;
            // Once it is applied it is charged as a deleted range, whatever is left then.
            room = Some(self.budget.try_charge(Component::RowsetIndex, range.memory_bytes())?);
            Work::DeleteRange { table: delete.table, range }
        } else {
            let mut operations = Vec::new();
            for_each_key_batch(&snapshot, request, &schema, |keys, rows| {
                held.take(rows, &keys, 0)?;
                operations.push(Operation::DeleteKeys { table: delete.table, mode: DeleteMode::Blind, keys });
                Ok(())
            })
            .await?;
            Work::Batch(WriteBatch { operations })
        };
        let deleted = self.log_and_apply(work, tables, Vec::new()).await;
        drop(room);
        deleted
    }

    /// Sets columns of rows.
    pub(crate) async fn update(self: &Arc<Self>, update: Update) -> Result<WriteOutcome> {
        self.versions.watermark.check()?;
        self.admission.admit(&self.log, || false, || 0).await?;
        let tables = self.lock_tables(vec![(update.table, LockMode::Exclusive)]).await?;
        let mut held = self.no_keys();
        let snapshot = self.snapshot();
        let schema = snapshot.schema(update.table)?;
        update.validate(&schema)?;
        let request = key_request(update.table, &schema, &update.rows, &update.predicates);
        request.validate(&schema)?;
        let widths = || update.assignments.iter().map(|(_, value)| width_of(value.as_ref()));
        if let Some(width) = widths().find(|width| *width > STRING_BYTES_MAX) {
            return Err(Error::limit(format!("a string of {width} bytes")));
        }
        let width = widths().sum::<usize>();
        let rows_at_once = (ASSIGNED_BYTES / width.max(1)).max(1);
        let mut operations = Vec::new();
        for_each_key_batch(&snapshot, request, &schema, |keys, rows| {
            held.take(rows, &keys, width)?;
            for begin in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - begin);
                let keys = keys.iter().map(|values| values.slice(begin, count));
                let upsert = update.of_keys(&schema, keys, count, WriteMode::Upsert)?;
                operations.push(Operation::Upsert(upsert));
            }
            Ok(())
        })
        .await?;
        let sequence = match held.rows > 0 {
            true => self.log_and_apply(Work::Batch(WriteBatch { operations }), tables, Vec::new()).await?,
            false => Sequence(snapshot.sequence),
        };
        Ok(WriteOutcome { sequence, affected: held.rows, conflicts: Vec::new() })
    }

    fn no_keys(&self) -> ChangedKeys {
        ChangedKeys {
            charge: self.budget.charge(Component::Query, 0),
            rows: 0,
            // More would not fit into a record of the log either.
            limit_bytes: (self.budget.limit_bytes() / SHARE).min(MAX_PAYLOAD_BYTES),
        }
    }
}

impl ChangedKeys {
    /// Charges the keys of some rows, and `width` bytes of values for each.
    fn take(&mut self, rows: usize, keys: &[ArrayRef], width: usize) -> Result<()> {
        let bytes = keys.iter().map(|values| values.get_array_memory_size() as u64).sum::<u64>();
        let bytes = bytes + (rows * width) as u64;
        if self.charge.bytes() + bytes > self.limit_bytes {
            return Err(Error::limit(format!(
                "the statement changes more rows than fit into its {} MiB of memory, {} at least; nothing was changed: \
                 restrict it to a range of time or key, and repeat it for the others",
                self.limit_bytes >> 20,
                self.rows + rows as u64
            )));
        }
        self.charge.try_grow(bytes)?;
        self.rows += rows as u64;
        Ok(())
    }
}

/// The bytes of a cell that is set to a value.
fn width_of(value: Option<&Value>) -> usize {
    match value {
        Some(Value::String(text)) => text.len() + 8,
        Some(Value::Binary(bytes)) => bytes.len() + 8,
        _ => 16,
    }
}

fn deleted_range(rows: &RowSelection, schema: &TableSchema) -> Result<DeletedRange> {
    if !schema.is_series_keyed() {
        return Ok(DeletedRange::Keys(KeyRange::of(rows, schema)?));
    }
    Ok(match rows {
        RowSelection::All => DeletedRange::Series { series: DeletedSeries::All, time: TimeRange::ALL },
        RowSelection::Keys { start, end } => DeletedRange::SeriesKeys(SeriesKeys::of(start, end)?),
        RowSelection::Series { series, time } => {
            DeletedRange::Series { series: DeletedSeries::of(series), time: *time }
        }
    })
}

/// A scan of the keys of rows. In a series-keyed table the series come as runs.
fn key_request(
    table: TableId,
    schema: &TableSchema,
    rows: &RowSelection,
    predicates: &[Predicate],
) -> ScanRequest {
    let columns: Vec<ColumnId> =
        if schema.is_series_keyed() { vec![schema.key[1]] } else { schema.key.clone() };
    ScanRequest { predicates: predicates.to_vec(), ..ScanRequest::by_key(table, rows.clone(), columns) }
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
