//! A batch is written: checked, logged, applied, made visible, acknowledged.
//!
//! Ordinary batches share the locks of their tables. A batch that must look before it writes holds them exclusively
//! (see `table_locks.rs` and `claims.rs`). A batch is applied only after the log has it, so a failed sync leaves
//! nothing to undo. A batch that was submitted to the log is always finished, even when its caller goes away: a future
//! that is dropped half-way hands the rest to a thread.
//!
//! A panic before the log has the batch fails only its caller: nothing is stored. After that, the batch is in the log
//! and perhaps half in memory. No reader sees any of it: the watermark stays before it, and writes and flushes stop,
//! until the next start replays the batch from the log.

use super::Writer;
use super::claims::{Claim, ClaimedKey};
use super::conditional_write::{Evaluation, depends_on_rows, evaluate};
use super::table_locks::{LockMode, TableLocks};
use crate::files::log_record::{self, Logged};
use crate::files::wal::Ticket;
use crate::memory::memtable::{PreparedKeys, PreparedUpsert};
use crate::memory::publisher::UNFLUSHED_TOMBSTONES_MAX;
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
use nyala_core::arrays::value_bytes;
use nyala_core::memory::{Charge, Component};
use nyala_core::span;
use nyala_core::span::Instrument;
use nyala_core::store::{Operation, WriteBatch, WriteOutcome, validate_keys};
use nyala_core::time::partition_time;
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId, TableSchema, TimeRange, short_wait};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Whether memtables should be frozen before a batch is added.
#[derive(PartialEq, Eq)]
enum MemtableRoom {
    Free,
    Full,
}

/// A conditional batch of more rows holds its tables exclusively until it is applied, instead of claiming that many
/// keys.
pub(crate) const CLAIMED_ROWS_MAX: u64 = 1 << 12;

/// A batch with such a record is applied in less than a millisecond, by the thread that waits for the log.
const SMALL_RECORD_BYTES: usize = 256 << 10;

/// What is logged and applied.
pub(crate) enum Work {
    Batch(WriteBatch),
    DeleteRange { table: TableId, range: DeletedRange },
}

impl Work {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Batch(batch) => memory_bytes(batch),
            Self::DeleteRange { range, .. } => range.memory_bytes(),
        }
    }
}

/// The locks that a batch holds while it is under way.
struct HeldLocks {
    _store: OwnedRwLockReadGuard<()>,
    _tables: TableLocks,
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
    locks: HeldLocks,
    claim: Claim,
    /// The record, while the log has it.
    record: Charge,
}

impl Writer {
    /// Writes a batch.
    pub(crate) async fn write(self: &Arc<Self>, batch: WriteBatch) -> Result<WriteOutcome> {
        self.versions.watermark.check()?;
        self.admission
            .admit(&self.log, || self.batch_may_use_reserve(&batch), || memory_bytes(&batch))
            .instrument(span!("wait for memory"))
            .await?;
        loop {
            let (tables, mode) = self.lock_for(&batch).instrument(span!("wait for locks")).await?;
            self.hook.call(WriteStep::Admitted);
            validate(&self.versions.current(), &batch)?;
            if mode == LockMode::Shared {
                let affected = rows_of(&batch);
                let sequence = self.log_and_apply(Work::Batch(batch), tables, Vec::new()).await?;
                return Ok(WriteOutcome { sequence, affected, conflicts: Vec::new() });
            }
            let snapshot = self.applied();
            let (batch, conflicts, keys) = match evaluate(&snapshot, &batch, &self.claims) {
                Ok(Evaluation::Ready { batch, conflicts, keys }) => (batch, conflicts, keys),
                Ok(Evaluation::Claimed(sequence)) => {
                    drop(tables);
                    self.wait_for_others(sequence).await?;
                    continue;
                }
                Err(error) => {
                    drop(tables);
                    // A client that is told of a conflict can then read the rows that caused it.
                    self.wait_for_others(snapshot.sequence).await?;
                    return Err(error);
                }
            };
            let (affected, keys) =
                (rows_of(&batch), if mode == LockMode::Claiming { keys } else { Vec::new() });
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

    /// Waits until the batches of others up to a sequence are visible or have failed. For batches that are not in the
    /// log.
    pub(crate) async fn wait_for_others(&self, sequence: u64) -> Result<()> {
        // The batch that broke off was another client's.
        self.versions
            .watermark
            .reached(sequence)
            .await
            .or_else(|error| self.versions.watermark.check().and(Err(error)))
    }

    /// Waits for the locks that a batch needs by the schemas at that moment; returns them and the strictest mode.
    async fn lock_for(&self, batch: &WriteBatch) -> Result<(TableLocks, LockMode)> {
        loop {
            let requested = lock_modes_for(&self.versions.current(), batch);
            let locks = self.lock_tables(requested.clone()).await?;
            if lock_modes_for(&self.versions.current(), batch) == requested {
                let strictest = requested.into_iter().map(|(_, mode)| mode).max();
                return Ok((locks, strictest.unwrap_or(LockMode::Shared)));
            }
        }
    }

    /// Logs and applies what was checked. `keys` are claimed until it is applied.
    pub(crate) async fn log_and_apply(
        self: &Arc<Self>,
        work: Work,
        mut tables: TableLocks,
        keys: Vec<ClaimedKey>,
    ) -> Result<Sequence> {
        let may_use_reserve = self.may_use_reserve(&work);
        if !may_use_reserve {
            // Before partitions are made, which take space in the manifest.
            self.reserve.check()?;
        }
        let mut store = self.store_lock.clone().read_owned().await;
        let mut bytes = match &work {
            Work::Batch(batch) => {
                if self.make_partitions(batch, None)? == MemtableRoom::Full {
                    drop(store);
                    let alone = self.store_lock.clone().write_owned().await;
                    self.versions.freeze_full();
                    store = alone.downgrade();
                }
                let version = self.versions.current();
                log_record::encode_batch(batch, |table| Ok(version.table(table)?.schema.clone()))?
            }
            Work::DeleteRange { table, range } => log_record::encode_delete_range(*table, range),
        };
        let time_ns = self.history.as_ref().map(|history| history.now_ns());
        time_ns.inspect(|time_ns| log_record::put_time(&mut bytes, *time_ns));
        self.hook.call(WriteStep::Encoded);
        if may_use_reserve {
            self.reserve.make_room(bytes.len() as u64);
        }
        let is_small = bytes.len() <= SMALL_RECORD_BYTES;
        let record = self.budget.charge(Component::InFlight, bytes.len() as u64);
        let entry = self.versions.watermark.begin(self.log.wal().next_sequence())?;
        let note_time = |sequence| self.note_time(time_ns, sequence);
        let ticket = match self.log.wal().submit_numbered(vec![Bytes::from(bytes)], note_time) {
            Ok(ticket) => ticket,
            Err(error) => {
                entry.finish(None);
                return Err(error);
            }
        };
        let sequence = ticket.sequence();
        entry.set_sequence(sequence);
        let claim = self.claims.claim(keys, sequence);
        tables.release_claimed();
        let locks = HeldLocks { _store: store, _tables: tables };
        let inner = PendingInner { work, ticket, entry, locks, claim, record };
        let mut pending = Pending { writer: self.clone(), inner: Some(inner) };
        self.hook.call(WriteStep::Submitted);
        let ticket = &mut pending.inner.as_mut().expect("just put in").ticket;
        let logged = ticket.instrument(span!("log"));
        let outcome = if is_small { short_wait(logged).await } else { logged.await };
        let PendingInner { work, entry, locks, claim, record, .. } =
            pending.inner.take().expect("not dropped");
        drop(record);
        let finished = span!("apply").in_scope(|| self.finish(&work, entry, claim, sequence, outcome));
        drop(locks);
        finished?;
        let visible = self.versions.watermark.reached(sequence);
        if is_small { short_wait(visible).await } else { visible.await }?;
        Ok(Sequence(sequence))
    }

    pub(super) fn note_time(&self, time_ns: Option<i64>, sequence: u64) {
        if let (Some(history), Some(time_ns)) = (&self.history, time_ns) {
            history.note(time_ns, sequence);
        }
    }

    /// Whether it may be written on a full disk: deletes, and tables that describe others, which are small.
    fn may_use_reserve(&self, work: &Work) -> bool {
        match work {
            Work::Batch(batch) => self.batch_may_use_reserve(batch),
            Work::DeleteRange { .. } => true,
        }
    }

    /// The same of a batch.
    pub(crate) fn batch_may_use_reserve(&self, batch: &WriteBatch) -> bool {
        let version = self.versions.current();
        batch.operations.iter().all(|operation| match operation {
            Operation::DeleteKeys { .. } => true,
            Operation::Upsert(upsert) => {
                version.table(upsert.table).is_ok_and(|table| (self.describes_others)(&table.schema))
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
            // The entry is dropped, which marks the batch as lost, before its keys and locks are free for others.
            drop(entry);
            return Err(lost());
        }
        // Those who waited for the claim find its rows.
        drop(claim);
        entry.finish(Some(sequence));
        self.journal.seen_up_to(self.versions.watermark.get());
        outcome.map(drop)
    }

    fn apply(&self, work: &Work, sequence: u64) {
        self.hook.call(WriteStep::Logged);
        let version = self.versions.current();
        self.journal.note(work, sequence, &version);
        match work {
            Work::Batch(batch) => {
                for operation in &batch.operations {
                    apply(&version, operation, sequence, self, false);
                }
            }
            Work::DeleteRange { table, range } => {
                let unflushed = self.versions.add_tombstone(*table, range.clone(), sequence);
                if unflushed > 0 && unflushed.is_multiple_of(UNFLUSHED_TOMBSTONES_MAX) {
                    self.admission.wake();
                }
            }
        }
        add(&self.counters.batches, 1);
        self.hook.call(WriteStep::Applied);
    }

    /// Makes the partitions that a batch needs, durably, before anything is logged for them. Returns whether the
    /// memtables of the existing partitions have room. A batch that is `replayed` does not bring back partitions that
    /// were dropped after it.
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
            let prepared = PreparedUpsert::new(upsert, &table.schema);
            for_each_partition_time(table, &prepared.keys, |time_ns| match table.partition_at(time_ns) {
                Some(position) => is_full |= table.partitions[position].is_full(sequence),
                None if replayed.is_some_and(|sequence| table.is_dropped(sequence, time_ns)) => {}
                None => missing.entry(table.id).or_default().push(time_ns),
            });
        }
        let room = if is_full { MemtableRoom::Full } else { MemtableRoom::Free };
        self.versions.make_partitions(missing)?;
        Ok(room)
    }

    /// Applies a record of the log at recovery.
    pub(crate) fn replay(&self, sequence: u64, payload: &[u8]) -> Result<()> {
        // Everything before was applied: sequences of new memtables are counted from here.
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
                Logged::Time(time_ns) => self.note_time(Some(time_ns), sequence),
                Logged::DeleteRange { table, range } => {
                    self.versions.add_tombstone(table, range, sequence);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        let writer = self.writer.clone();
        // Whoever was charged for its rows went away.
        let rows = writer.budget.charge(Component::InFlight, inner.work.memory_bytes());
        self.writer.abandoned.finish(move || {
            let PendingInner { work, ticket, entry, locks, claim, record } = inner;
            let sequence = ticket.sequence();
            let outcome = ticket.wait();
            drop(record);
            // No one waits for the outcome.
            let _ = writer.finish(&work, entry, claim, sequence, outcome);
            drop((locks, work, rows));
        });
    }
}

/// The lock modes that a batch needs: stricter ones where it must know which rows there are.
fn lock_modes_for(version: &Version, batch: &WriteBatch) -> Vec<(TableId, LockMode)> {
    // Nothing has to be known of a table that does not exist.
    let depends = |operation: &Operation| {
        version.table(operation.table()).is_ok_and(|table| depends_on_rows(operation, &table.schema))
    };
    let strict = if rows_of(batch) > CLAIMED_ROWS_MAX { LockMode::Exclusive } else { LockMode::Claiming };
    let mode = |operation: &Operation| {
        (operation.table(), if depends(operation) { strict } else { LockMode::Shared })
    };
    batch.operations.iter().map(mode).collect()
}

/// Checks a batch against the schemas of its tables.
pub(crate) fn validate(version: &Version, batch: &WriteBatch) -> Result<()> {
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

pub(crate) fn rows_of(batch: &WriteBatch) -> u64 {
    batch.operations.iter().map(|operation| operation.rows() as u64).sum()
}

/// About how many bytes the cells of a batch take.
pub(crate) fn memory_bytes(batch: &WriteBatch) -> u64 {
    let bytes = |array: &ArrayRef| value_bytes(array) as u64;
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

/// The times by which rows are partitioned; `None` when all rows are in one partition.
fn partition_times<'a>(table: &TableVersion, keys: &PreparedKeys<'a>) -> Option<&'a [i64]> {
    let position = table.schema.time_key()?;
    match keys.columns[position].0 {
        CellSource::Int64(times) => Some(times),
        _ => unreachable!("times are 64-bit"),
    }
}

/// Calls `visit` with a time in every partition that some keys are in, at least once each.
pub(crate) fn for_each_partition_time(
    table: &TableVersion,
    keys: &PreparedKeys<'_>,
    mut visit: impl FnMut(i64),
) {
    if keys.rows == 0 {
        return;
    }
    let Some(times) = partition_times(table, keys) else { return visit(0) };
    let mut seen: Option<TimeRange> = None;
    for time_ns in times {
        if seen.is_none_or(|seen| !seen.contains(partition_time(*time_ns))) {
            visit(*time_ns);
            seen = table.partition_at(*time_ns).map(|position| table.partitions[position].range);
        }
    }
}

/// Adds the rows of an operation to the memtables of their partitions. When it is `replayed`, rows that a rowset of
/// their partition has are left out.
fn apply(version: &Version, operation: &Operation, sequence: u64, writer: &Writer, replayed: bool) {
    // When the table was dropped while the batch was logged, its rows are dropped too.
    let Ok(table) = version.table(operation.table()) else { return };
    // Every batch that is not applied yet has a sequence above the watermark.
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
pub(crate) fn by_partition(
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
    // Only recovery meets rows of partitions that were dropped later.
    let any_dropped = table.dropped_after(sequence).next().is_some();
    // No row has this time, so there is nothing to delete.
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
