//! A batch is written: checked, logged, applied, made visible, acknowledged.
//!
//! Batches share the gates of their tables; what must look before it writes holds them alone (see `gate`, `claims`). A
//! batch is applied only after the log has it, so a failed sync leaves nothing to undo. From the moment a batch is
//! submitted to the log it is finished whatever happens to its caller: a future dropped half-way hands what
//! is left to a thread.
//!
//! A panic before the log has the batch is the caller's alone: nothing is stored. After that the batch is in the log and
//! perhaps half in memory. Nobody is shown any of it: the watermark stops before it for good, and with it all writes and
//! flushes, until the next start brings everything from the log.

use super::Writer;
use super::claims::{Claim, ClaimedKey};
use super::conditional_write::{Judged, depends_on_rows, judge};
use super::gate::{Access, TableGates};
use crate::files::catalog::Edit;
use crate::files::log_record::{self, Logged};
use crate::files::wal::Ticket;
use crate::memory::memtable::{PreparedKeys, PreparedUpsert};
use crate::memory::version::{PartitionVersion, TableVersion, Version};
use crate::memory::watermark::{self, lost};
use crate::rows::column_buffer::CellSource;
use crate::rows::tombstone::DeletedRange;
use crate::stats::add;
use crate::write_hook::WriteStep;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{Operation, Upsert, WriteBatch, WriteOutcome, validate_keys};
use nyala_core::time::partition_time;
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId, TableSchema, TimeRange};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Whether memtables had better be frozen before a batch is added.
#[derive(PartialEq, Eq)]
enum MemtableRoom {
    Free,
    Full,
}

/// A conditional batch of more rows holds its tables alone until it is applied, rather than claim that many keys.
const CLAIMED_ROWS_MAX: u64 = 1 << 12;

/// What a batch comes to.
pub(crate) enum Work {
    Batch(WriteBatch),
    DeleteRange { table: TableId, range: DeletedRange },
}

/// What a batch holds while it is under way.
struct Gates {
    _store: OwnedRwLockReadGuard<()>,
    _tables: TableGates,
}

/// A batch submitted to the log.
struct Pending {
    writer: Arc<Writer>,
    inner: Option<PendingInner>,
}

struct PendingInner {
    work: Work,
    ticket: Ticket,
    entry: watermark::Entry,
    gates: Gates,
    claim: Claim,
    /// The record, while the log has it.
    record: Charge,
}

impl Writer {
    /// Writes a batch.
    pub(crate) async fn write(self: &Arc<Self>, batch: WriteBatch) -> Result<WriteOutcome> {
        self.versions.watermark.check()?;
        self.admission.admit(&self.log, || memory_bytes(&batch)).await?;
        loop {
            let (tables, access) = self.enter_for(&batch).await?;
            self.hook.call(WriteStep::Admitted);
            self.validate(&batch)?;
            if access == Access::Shared {
                let affected = rows_of(&batch);
                let sequence = self.log_and_apply(Work::Batch(batch), tables, Vec::new()).await?;
                return Ok(WriteOutcome { sequence, affected, conflicts: Vec::new() });
            }
            let snapshot = self.applied();
            let (batch, conflicts, keys) = match judge(&snapshot, &batch, &self.claims) {
                Ok(Judged::Ready { batch, conflicts, keys }) => (batch, conflicts, keys),
                Ok(Judged::Claimed(sequence)) => {
                    drop(tables);
                    self.wait_for_others(sequence).await?;
                    continue;
                }
                Err(error) => {
                    drop(tables);
                    // Who is told of a conflict can read what there is.
                    self.wait_for_others(snapshot.sequence).await?;
                    return Err(error);
                }
            };
            let (affected, keys) =
                (rows_of(&batch), if access == Access::Claiming { keys } else { Vec::new() });
            let sequence = match batch.operations.is_empty() {
                true => {
                    drop(tables);
                    self.wait_for_others(snapshot.sequence).await?;
                    Sequence(snapshot.sequence)
                }
                false => self.log_and_apply(Work::Batch(batch), tables, keys).await?,
            };
            return Ok(WriteOutcome { sequence, affected, conflicts });
        }
    }

    /// Waits until batches of others are visible, or have failed, for one that is not in the log.
    async fn wait_for_others(&self, sequence: u64) -> Result<()> {
        // What broke off was theirs.
        self.versions
            .watermark
            .reached(sequence)
            .await
            .or_else(|error| self.versions.watermark.check().and(Err(error)))
    }

    /// Waits for the gates that a batch needs, by the schemas as they are when it has them; says also which the strictest
    /// is.
    async fn enter_for(&self, batch: &WriteBatch) -> Result<(TableGates, Access)> {
        loop {
            let asked = access_for(&self.versions.current(), batch);
            let gates = self.enter_tables(asked.clone()).await?;
            if access_for(&self.versions.current(), batch) == asked {
                let strictest = asked.into_iter().map(|(_, access)| access).max();
                return Ok((gates, strictest.unwrap_or(Access::Shared)));
            }
        }
    }

    /// Logs and applies what was checked; keys are claimed while the log has it.
    pub(crate) async fn log_and_apply(
        self: &Arc<Self>,
        work: Work,
        mut tables: TableGates,
        keys: Vec<ClaimedKey>,
    ) -> Result<Sequence> {
        let mut store = self.gate.clone().read_owned().await;
        let bytes = match &work {
            Work::Batch(batch) => {
                if self.make_partitions(batch, None)? == MemtableRoom::Full {
                    drop(store);
                    let alone = self.gate.clone().write_owned().await;
                    self.versions.freeze_full();
                    store = alone.downgrade();
                }
                let version = self.versions.current();
                log_record::encode_batch(batch, |table| Ok(version.table(table)?.schema.clone()))?
            }
            Work::DeleteRange { table, range } => log_record::encode_delete_range(*table, range),
        };
        self.hook.call(WriteStep::Encoded);
        if self.may_use_reserve(&work) {
            self.reserve.make_room(bytes.len() as u64);
        } else {
            self.reserve.check()?;
        }
        let record = self.budget.charge(Component::InFlight, bytes.len() as u64);
        let entry = self.versions.watermark.begin(self.log.wal().next_sequence())?;
        let ticket = match self.log.wal().submit(vec![Bytes::from(bytes)]) {
            Ok(ticket) => ticket,
            Err(error) => {
                entry.finish(None);
                return Err(error);
            }
        };
        let sequence = ticket.sequence();
        entry.set_sequence(sequence);
        let claim = self.claims.claim(keys, sequence);
        tables.leave_claimed();
        let gates = Gates { _store: store, _tables: tables };
        let inner = PendingInner { work, ticket, entry, gates, claim, record };
        let mut pending = Pending { writer: self.clone(), inner: Some(inner) };
        self.hook.call(WriteStep::Submitted);
        let outcome = (&mut pending.inner.as_mut().expect("just put in").ticket).await;
        let PendingInner { work, entry, gates, claim, record, .. } =
            pending.inner.take().expect("not dropped");
        drop(record);
        let finished = self.finish(&work, entry, claim, sequence, outcome);
        drop(gates);
        finished?;
        self.versions.watermark.reached(sequence).await?;
        Ok(Sequence(sequence))
    }

    /// Whether it is written on a disk that is full, too: what deletes, and tables of other keys, which say what there
    /// is and are small.
    fn may_use_reserve(&self, work: &Work) -> bool {
        let Work::Batch(batch) = work else { return true };
        let version = self.versions.current();
        batch.operations.iter().all(|operation| match operation {
            Operation::DeleteKeys { .. } => true,
            Operation::Upsert(upsert) => {
                version.table(upsert.table).is_ok_and(|table| !table.schema.is_series_keyed())
            }
        })
    }

    /// Applies a batch whose outcome in the log is known.
    fn finish(
        &self,
        work: &Work,
        entry: watermark::Entry,
        claim: Claim,
        sequence: u64,
        outcome: Result<u64>,
    ) -> Result<()> {
        if outcome.is_ok() && catch_unwind(AssertUnwindSafe(|| self.apply(work, sequence))).is_err() {
            // What a panic leaves is lost with the entry, before keys and gates are free for others.
            drop(entry);
            return Err(lost());
        }
        // Who waited for it finds its rows.
        drop(claim);
        entry.finish(Some(sequence));
        outcome.map(drop)
    }

    fn apply(&self, work: &Work, sequence: u64) {
        self.hook.call(WriteStep::Logged);
        match work {
            Work::Batch(batch) => {
                let version = self.versions.current();
                for operation in &batch.operations {
                    apply(&version, operation, sequence, self, false);
                }
            }
            Work::DeleteRange { table, range } => {
                self.versions.add_tombstone(*table, range.clone(), sequence)
            }
        }
        add(&self.counters.batches, 1);
        self.hook.call(WriteStep::Applied);
    }

    fn validate(&self, batch: &WriteBatch) -> Result<()> {
        let version = self.versions.current();
        for operation in &batch.operations {
            match operation {
                Operation::Upsert(upsert) => {
                    let schema = &version.table(upsert.table)?.schema;
                    upsert.validate(schema)?;
                    upsert.check_times(schema)?;
                    upsert.columns.iter().try_for_each(|cells| check_strings(&cells.values))?;
                }
                Operation::DeleteKeys { table, keys, .. } => {
                    check_keys(&version.table(*table)?.schema, keys)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the partitions that a batch needs, durably, before anything is logged for them; says whether there is room
    /// in the memtables of those that are there. A batch that is `replayed` brings no partitions back that were dropped
    /// after it.
    fn make_partitions(&self, batch: &WriteBatch, replayed: Option<u64>) -> Result<MemtableRoom> {
        let (version, sequence) = (self.versions.current(), self.versions.watermark.get());
        let mut missing: BTreeMap<TableId, Vec<i64>> = BTreeMap::new();
        let mut is_full = false;
        for operation in &batch.operations {
            let upsert = match operation {
                Operation::Upsert(upsert) => upsert,
                // Deleting keys where there is no partition does nothing.
                Operation::DeleteKeys { table, .. } => {
                    let mut partitions = version.table(*table)?.partitions.iter();
                    is_full |= partitions.any(|partition| partition.is_full(sequence));
                    continue;
                }
            };
            let table = version.table(upsert.table)?;
            for_each_partition_time(table, upsert, |time_ns| match table.partition_at(time_ns) {
                Some(position) => is_full |= table.partitions[position].is_full(sequence),
                None if replayed.is_some_and(|sequence| table.is_dropped(sequence, time_ns)) => {}
                None => missing.entry(table.id).or_default().push(time_ns),
            });
        }
        let room = if is_full { MemtableRoom::Full } else { MemtableRoom::Free };
        if missing.is_empty() {
            return Ok(room);
        }
        let mut catalog = self.versions.catalog.lock();
        let mut version = Version::clone(&self.versions.current());
        let mut edits = Vec::new();
        let mut next_partition = catalog.state.next_partition;
        for (table, times_ns) in missing {
            let mut changed = TableVersion::clone(version.table(table)?);
            changed.add_partitions(times_ns, |range| {
                let id = next_partition;
                edits.push(Edit::PutPartition { table, id, range });
                next_partition += 1;
                PartitionVersion::new(id, range)
            });
            version.put_table(changed);
        }
        if !edits.is_empty() {
            catalog.commit(edits)?;
            self.versions.publish(version);
        }
        Ok(room)
    }

    /// Applies a record of the log at recovery.
    pub(crate) fn replay(&self, sequence: u64, payload: &[u8]) -> Result<()> {
        // Everything before was applied: memtables that are made count from here on.
        self.versions.watermark.begin(sequence)?.finish(Some(sequence - 1));
        let replayed = catch_unwind(AssertUnwindSafe(|| self.replay_record(sequence, payload)));
        replayed
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "it cannot be applied: its applying panicked")))
    }

    fn replay_record(&self, sequence: u64, payload: &[u8]) -> Result<()> {
        for logged in log_record::decode(payload)? {
            match logged {
                Logged::Operation(Operation::Upsert(upsert)) => {
                    let version = self.versions.current();
                    let Ok(table) = version.table(upsert.table) else { continue };
                    let Some(upsert) = log_record::known_columns(upsert, &table.schema) else { continue };
                    upsert.validate_shape(&table.schema)?;
                    let batch = WriteBatch { operations: vec![Operation::Upsert(upsert)] };
                    if self.make_partitions(&batch, Some(sequence))? == MemtableRoom::Full {
                        self.versions.freeze_full();
                    }
                    apply(&self.versions.current(), &batch.operations[0], sequence, self, true);
                }
                Logged::Operation(operation) => {
                    let version = self.versions.current();
                    if let Operation::DeleteKeys { table, keys, .. } = &operation
                        && let Ok(table) = version.table(*table)
                    {
                        check_keys(&table.schema, keys)?;
                        apply(&version, &operation, sequence, self, true);
                    }
                }
                Logged::DeleteRange { table, range } => self.versions.add_tombstone(table, range, sequence),
            }
        }
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        let (inner, writer) = (Arc::new(Mutex::new(Some(inner))), self.writer.clone());
        let finish = {
            let inner = inner.clone();
            move || {
                let Some(inner) = inner.lock().take() else { return };
                let PendingInner { work, ticket, entry, gates, claim, record } = inner;
                let sequence = ticket.sequence();
                let outcome = ticket.wait();
                drop(record);
                // Nobody waits for it any more.
                let _ = writer.finish(&work, entry, claim, sequence, outcome);
                drop(gates);
            }
        };
        // The caller went away while the log was busy: rare enough for a thread of its own.
        let spawned = std::thread::Builder::new().name("nyala-finish".to_owned()).spawn(finish.clone());
        if spawned.is_err() {
            finish();
        }
    }
}

/// How a batch needs its tables: not with others where it must know which rows there are.
fn access_for(version: &Version, batch: &WriteBatch) -> Vec<(TableId, Access)> {
    // Of a table that does not exist nothing has to be known.
    let depends = |operation: &Operation| {
        version.table(operation.table()).is_ok_and(|table| depends_on_rows(operation, &table.schema))
    };
    let strict = if rows_of(batch) > CLAIMED_ROWS_MAX { Access::Alone } else { Access::Claiming };
    let access =
        |operation: &Operation| (operation.table(), if depends(operation) { strict } else { Access::Shared });
    batch.operations.iter().map(access).collect()
}

fn rows_of(batch: &WriteBatch) -> u64 {
    batch.operations.iter().map(|operation| operation.rows() as u64).sum()
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

/// A string longer than this does not fit into a block, or a reader's memory.
pub(crate) const STRING_BYTES_MAX: usize = 32 << 20;

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
    validate_keys(schema, keys)?;
    keys.iter().try_for_each(check_strings)
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
        if seen.is_none_or(|seen| !seen.contains(partition_time(*time_ns))) {
            visit(*time_ns);
            seen = table.partition_at(*time_ns).map(|position| table.partitions[position].range);
        }
    }
}

/// Adds the rows of an operation to the memtables of their partitions; of one that is `replayed` those that no rowset of
/// their partition has.
fn apply(version: &Version, operation: &Operation, sequence: u64, writer: &Writer, replayed: bool) {
    // A table dropped while the batch was logged takes its rows with it.
    let Ok(table) = version.table(operation.table()) else { return };
    // What is still to be applied is behind the watermark.
    let base_sequence = || writer.versions.watermark.get() + 1;
    let newest =
        |partition: &PartitionVersion| partition.rowsets.last().map_or(0, |rowset| rowset.meta.max_sequence);
    let is_flushed = |partition: &PartitionVersion| replayed && sequence <= newest(partition);
    match operation {
        Operation::Upsert(upsert) => {
            let prepared = PreparedUpsert::new(upsert, &table.schema);
            add(&writer.counters.rows_written, prepared.keys.rows as u64);
            by_partition(table, &prepared.keys, sequence, |partition, rows| {
                if is_flushed(partition) {
                    return;
                }
                let memtable = partition.active(&table.schema, &writer.budget, base_sequence);
                memtable.upsert(&prepared, rows, sequence);
                writer.hook.call(WriteStep::Applying);
            });
        }
        Operation::DeleteKeys { keys, .. } => {
            let prepared = PreparedKeys::of_delete(keys, &table.schema);
            by_partition(table, &prepared, sequence, |partition, rows| {
                if is_flushed(partition) {
                    return;
                }
                let memtable = partition.active(&table.schema, &writer.budget, base_sequence);
                memtable.delete(&prepared, rows, sequence);
                writer.hook.call(WriteStep::Applying);
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
    let dropped = |time_ns: i64| table.is_dropped(sequence, time_ns);
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
    // No row is there, so a deletion has nothing to say of it.
    let beyond = |time_ns: i64| time_ns == i64::MAX && table.schema.is_series_keyed();
    if let (false, Some(position)) = (any_dropped || beyond(last), table.partition_at(first))
        && table.partitions[position].range.contains(partition_time(last))
    {
        return visit(&table.partitions[position], None);
    }
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); table.partitions.len()];
    let mut position: Option<usize> = None;
    for (row, time_ns) in times.iter().enumerate() {
        let holds = |position: usize| table.partitions[position].range.contains(partition_time(*time_ns));
        if position.is_none_or(|position| !holds(position)) {
            position = table.partition_at(*time_ns);
        }
        if let Some(position) = position
            && !(any_dropped && dropped(*time_ns))
            && !beyond(*time_ns)
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
