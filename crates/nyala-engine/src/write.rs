//! A batch is written: checked, logged, applied, made visible, acknowledged.
//!
//! Plain batches share the gate; what must look before it writes (conditional upserts, deletes and
//! updates by predicate) holds it alone, so that nothing changes between the look and the write. A batch is
//! applied only after the log has it, so a failed sync leaves nothing to undo. From the moment a batch is
//! submitted to the log it is finished whatever happens to its caller: a future dropped half-way hands what
//! is left to a thread.

use crate::catalog::Edit;
use crate::cells::CellSource;
use crate::memtable::{PreparedKeys, PreparedUpsert};
use crate::record::{self, Logged};
use crate::shared::Shared;
use crate::stats::add;
use crate::tombstone::{DeletedRange, Tombstone};
use crate::version::{PartitionVersion, TableVersion, Version};
use crate::wal::Ticket;
use crate::watermark;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{Operation, Upsert, WriteBatch, WriteMode};
use nyala_core::{Error, Result, Sequence, TableId, TableSchema, TimeRange};
use std::sync::Arc;

/// The gate, held while a batch is under way.
pub(crate) enum Gate {
    Shared(#[expect(dead_code, reason = "held for its drop")] tokio::sync::OwnedRwLockReadGuard<()>),
    Alone(#[expect(dead_code, reason = "held for its drop")] tokio::sync::OwnedRwLockWriteGuard<()>),
}

/// What a batch comes to.
pub(crate) enum Work {
    Batch(WriteBatch),
    DeleteRange { table: TableId, range: DeletedRange },
}

/// A batch submitted to the log.
struct Pending {
    shared: Arc<Shared>,
    inner: Option<PendingInner>,
}

struct PendingInner {
    work: Work,
    ticket: Ticket,
    entry: watermark::Entry,
    gate: Gate,
    /// The record, while the log has it.
    record: Charge,
}

impl Shared {
    /// Writes a batch.
    pub(crate) async fn write(self: &Arc<Self>, batch: WriteBatch) -> Result<Sequence> {
        self.admit(|| memory_bytes(&batch)).await?;
        let conditional = batch.operations.iter().any(
            |operation| matches!(operation, Operation::Upsert(upsert) if upsert.mode != WriteMode::Upsert),
        );
        let gate = if conditional {
            Gate::Alone(self.gate.clone().write_owned().await)
        } else {
            Gate::Shared(self.gate.clone().read_owned().await)
        };
        self.validate(&batch)?;
        if conditional {
            crate::demand::check(&self.snapshot(), &batch)?;
        }
        self.log_and_apply(Work::Batch(batch), gate).await
    }

    /// Logs and applies what was checked.
    pub(crate) async fn log_and_apply(self: &Arc<Self>, work: Work, gate: Gate) -> Result<Sequence> {
        let bytes = match &work {
            Work::Batch(batch) => {
                self.make_partitions(batch)?;
                let version = self.version();
                record::encode_batch(batch, |table| Ok(version.table(table)?.schema.clone()))?
            }
            Work::DeleteRange { table, range } => record::encode_delete_range(*table, range),
        };
        let record = self.budget.charge(Component::InFlight, bytes.len() as u64);
        let entry = self.watermark.begin(self.wal().next_sequence());
        let ticket = match self.wal().submit(vec![Bytes::from(bytes)]) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.watermark.finish(entry, None);
                return Err(error);
            }
        };
        let sequence = ticket.sequence();
        self.watermark.set_sequence(&entry, sequence);
        let inner = PendingInner { work, ticket, entry, gate, record };
        let mut pending = Pending { shared: self.clone(), inner: Some(inner) };
        let outcome = (&mut pending.inner.as_mut().expect("just put in").ticket).await;
        let PendingInner { work, entry, gate, record, .. } = pending.inner.take().expect("not dropped");
        drop(record);
        self.finish(&work, entry, sequence, &outcome);
        drop(gate);
        outcome?;
        self.watermark.reached(sequence).await;
        Ok(Sequence(sequence))
    }

    fn finish(&self, work: &Work, entry: watermark::Entry, sequence: u64, outcome: &Result<u64>) {
        if outcome.is_ok() {
            match work {
                Work::Batch(batch) => {
                    let version = self.version();
                    for operation in &batch.operations {
                        apply(&version, operation, sequence, self);
                    }
                }
                Work::DeleteRange { table, range } => self.add_tombstone(*table, range.clone(), sequence),
            }
            add(&self.counters.batches, 1);
        }
        self.watermark.finish(entry, Some(sequence));
    }

    /// Makes a deleted range visible.
    pub(crate) fn add_tombstone(&self, table: TableId, range: DeletedRange, sequence: u64) {
        let _catalog = self.catalog.lock();
        let version = self.version();
        if let Ok(found) = version.table(table) {
            let mut changed = TableVersion::clone(found);
            changed.tombstones.push(Arc::new(Tombstone { sequence, range }));
            changed.tombstones.sort_by_key(|tombstone| tombstone.sequence);
            self.publish(version.with_table(changed));
        }
    }

    fn validate(&self, batch: &WriteBatch) -> Result<()> {
        let version = self.version();
        for operation in &batch.operations {
            match operation {
                Operation::Upsert(upsert) => {
                    upsert.validate(&version.table(upsert.table)?.schema)?;
                    upsert.columns.iter().try_for_each(|cells| check_strings(&cells.values))?;
                }
                Operation::DeleteKeys { table, keys } => {
                    check_keys(&version.table(*table)?.schema, keys)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the partitions that a batch needs, durably, before anything is logged for them.
    fn make_partitions(&self, batch: &WriteBatch) -> Result<()> {
        let version = self.version();
        let mut missing: Vec<(TableId, i64)> = Vec::new();
        for operation in &batch.operations {
            // Deleting keys where there is no partition does nothing.
            let Operation::Upsert(upsert) = operation else { continue };
            let table = version.table(upsert.table)?;
            for_each_partition_time(table, upsert, |time_ns| {
                if table.partition_at(time_ns).is_none() {
                    missing.push((table.id, time_ns));
                }
            });
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut catalog = self.catalog.lock();
        let mut version = Version::clone(&self.version());
        let mut edits = Vec::new();
        let mut next_partition = catalog.state.next_partition;
        for (id, time_ns) in missing {
            let table = version.table(id)?;
            if table.partition_at(time_ns).is_some() {
                continue;
            }
            let range = table.new_partition_range(time_ns);
            // Nothing newer than what was given out is in a new partition.
            let base = self.watermark.get() + 1;
            let partition = PartitionVersion::new(next_partition, range, base);
            edits.push(Edit::PutPartition { table: id, id: next_partition, range });
            next_partition += 1;
            let changed = table.with_partition(partition.id, Some(partition));
            version = version.with_table(changed);
        }
        if !edits.is_empty() {
            catalog.commit(edits)?;
            self.publish(version);
        }
        Ok(())
    }

    /// Applies a record of the log at recovery.
    pub(crate) fn replay(&self, sequence: u64, payload: &[u8]) -> Result<()> {
        for logged in record::decode(payload)? {
            match logged {
                Logged::Operation(Operation::Upsert(upsert)) => {
                    let version = self.version();
                    let Ok(table) = version.table(upsert.table) else { continue };
                    let Some(upsert) = known_columns(upsert, &table.schema) else { continue };
                    upsert.validate(&table.schema)?;
                    let batch = WriteBatch { operations: vec![Operation::Upsert(upsert)] };
                    self.make_partitions(&batch)?;
                    apply(&self.version(), &batch.operations[0], sequence, self);
                }
                Logged::Operation(operation) => {
                    let version = self.version();
                    if let Operation::DeleteKeys { table, keys } = &operation
                        && let Ok(table) = version.table(*table)
                    {
                        check_keys(&table.schema, keys)?;
                        apply(&version, &operation, sequence, self);
                    }
                }
                Logged::DeleteRange { table, range } => self.add_tombstone(table, range, sequence),
            }
        }
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(PendingInner { work, ticket, entry, gate, record }) = self.inner.take() else { return };
        let shared = self.shared.clone();
        // The caller went away while the log was busy: rare enough for a thread of its own.
        let finish = move || {
            let sequence = ticket.sequence();
            let outcome = ticket.wait();
            drop(record);
            shared.finish(&work, entry, sequence, &outcome);
            drop(gate);
        };
        std::thread::Builder::new()
            .name("nyala-finish".to_owned())
            .spawn(finish)
            .expect("the system has a thread left: without it a logged batch would stay invisible");
    }
}

/// What the cells of a batch take, about.
fn memory_bytes(batch: &WriteBatch) -> u64 {
    let bytes = |array: &ArrayRef| array.get_buffer_memory_size() as u64;
    let of_operation = |operation: &Operation| -> u64 {
        match operation {
            Operation::Upsert(upsert) => upsert.columns.iter().map(|cells| bytes(&cells.values)).sum(),
            Operation::DeleteKeys { keys, .. } => keys.iter().map(bytes).sum(),
        }
    };
    batch.operations.iter().map(of_operation).sum()
}

/// The columns of a logged upsert that the table still has; nothing if one of its key is gone.
pub(crate) fn known_columns(mut upsert: Upsert, schema: &TableSchema) -> Option<Upsert> {
    upsert.columns.retain(|cells| {
        schema.column(cells.column).is_some_and(|c| c.column_type.data_type() == *cells.values.data_type())
    });
    schema.key.iter().all(|id| upsert.column(*id).is_some()).then_some(upsert)
}

/// A string longer than this does not fit into a block, or a reader's memory.
const STRING_BYTES_MAX: usize = 32 << 20;

fn check_strings(array: &ArrayRef) -> Result<()> {
    let longest = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().offsets().lengths().max(),
        DataType::Binary => array.as_binary::<i32>().offsets().lengths().max(),
        _ => None,
    };
    match longest.filter(|length| *length > STRING_BYTES_MAX) {
        Some(length) => Err(Error::limit(format!("a string of {length} bytes"))),
        None => Ok(()),
    }
}

fn check_keys(schema: &TableSchema, keys: &[ArrayRef]) -> Result<()> {
    let fail = |words: &str| Err(Error::invalid(format!("table {:?}: keys to delete {words}", schema.name)));
    if keys.len() != schema.key.len() {
        return fail("do not have the key's columns");
    }
    let rows = keys[0].len();
    keys.iter().try_for_each(check_strings)?;
    for (id, array) in schema.key.iter().zip(keys) {
        let column_type = schema.column(*id).expect("schemas are validated").column_type;
        if array.data_type() != &column_type.data_type() {
            return fail("have other types");
        }
        if array.len() != rows || array.null_count() > 0 {
            return fail("are not whole");
        }
    }
    Ok(())
}

/// The times that decide the partitions of rows; `None`: all are in one.
fn partition_times<'a>(table: &TableVersion, keys: &PreparedKeys<'a>) -> Option<&'a [i64]> {
    let position = table.time_key()?;
    match keys.columns[position].0 {
        CellSource::Int64(times) => Some(times),
        _ => unreachable!("times are 64-bit"),
    }
}

/// Calls `visit` with a time in every partition that an upsert touches, at least once each.
fn for_each_partition_time(table: &TableVersion, upsert: &Upsert, mut visit: impl FnMut(i64)) {
    let prepared = PreparedUpsert::new(upsert, &table.schema);
    if prepared.keys.rows == 0 {
        return;
    }
    let Some(times) = partition_times(table, &prepared.keys) else { return visit(0) };
    let mut seen: Option<TimeRange> = None;
    for time_ns in times {
        if seen.is_none_or(|seen| !seen.contains(*time_ns)) {
            visit(*time_ns);
            seen = table.partition_at(*time_ns).map(|position| table.partitions[position].range);
        }
    }
}

/// Adds the rows of an operation to the memtables of their partitions.
fn apply(version: &Version, operation: &Operation, sequence: u64, shared: &Shared) {
    let (Operation::Upsert(Upsert { table, .. }) | Operation::DeleteKeys { table, .. }) = operation;
    // A table dropped while the batch was logged takes its rows with it.
    let Ok(table) = version.table(*table) else { return };
    match operation {
        Operation::Upsert(upsert) => {
            let prepared = PreparedUpsert::new(upsert, &table.schema);
            add(&shared.counters.rows_written, prepared.keys.rows as u64);
            by_partition(table, &prepared.keys, sequence, |partition, rows| {
                partition.active(&table.schema, &shared.budget).upsert(&prepared, rows, sequence);
            });
        }
        Operation::DeleteKeys { keys, .. } => {
            let columns = table.schema.key.iter().zip(keys).map(|(id, array)| {
                let column_type = table.schema.column(*id).expect("schemas are validated").column_type;
                (CellSource::of(array, column_type), column_type)
            });
            let rows = keys.first().map_or(0, |array| array.len());
            let prepared = PreparedKeys { columns: columns.collect(), rows };
            by_partition(table, &prepared, sequence, |partition, rows| {
                partition.active(&table.schema, &shared.budget).delete(&prepared, rows, sequence);
            });
        }
    }
}

/// Calls `visit` with each partition and its rows (`None`: all).
fn by_partition(
    table: &TableVersion,
    keys: &PreparedKeys<'_>,
    sequence: u64,
    mut visit: impl FnMut(&PartitionVersion, Option<&[u32]>),
) {
    if keys.rows == 0 {
        return;
    }
    let dropped = |time_ns: i64| {
        table.tombstones.iter().any(|tombstone| match &tombstone.range {
            DeletedRange::Times(range) => sequence <= tombstone.sequence && range.contains(time_ns),
            _ => false,
        })
    };
    let Some(times) = partition_times(table, keys) else {
        if let Some(position) = table.partition_at(0).filter(|_| !dropped(0)) {
            visit(&table.partitions[position], None);
        }
        return;
    };
    let (first, last) = times.iter().fold((i64::MAX, i64::MIN), |(a, b), time| (a.min(*time), b.max(*time)));
    // Rows of partitions dropped later only come up again at recovery.
    let any_dropped = table
        .tombstones
        .iter()
        .any(|tombstone| sequence <= tombstone.sequence && matches!(tombstone.range, DeletedRange::Times(_)));
    if let (false, Some(position)) = (any_dropped, table.partition_at(first))
        && table.partitions[position].range.contains(last)
    {
        return visit(&table.partitions[position], None);
    }
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); table.partitions.len()];
    let mut position: Option<usize> = None;
    for (row, time_ns) in times.iter().enumerate() {
        if position.is_none_or(|position| !table.partitions[position].range.contains(*time_ns)) {
            position = table.partition_at(*time_ns);
        }
        if let Some(position) = position
            && !(any_dropped && dropped(*time_ns))
        {
            rows_of[position].push(row as u32);
        }
    }
    for (partition, rows) in table.partitions.iter().zip(&rows_of) {
        if !rows.is_empty() {
            visit(partition, Some(rows));
        }
    }
}
