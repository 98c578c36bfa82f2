//! Stages: batches that nobody else sees until they are committed.
//!
//! `staged_rows.rs` has the rows, in a version of the store that is the stage's own. `snapshot.rs` reads them. A commit
//! looks for rows that somebody else was first to change (`conflict.rs`, `deleted_ranges.rs`), and writes everything as one
//! batch. What is larger than its share of memory goes to the disk (`spill.rs`), and becomes rowsets of the store
//! (`large_commit.rs`). See `docs/design/transactions.md`.

mod conflict;
mod deleted_ranges;
mod large_commit;
mod load;
mod own_rows;
mod savepoints;
mod snapshot;
mod sorted_load;
mod spill;
mod staged_rows;

use crate::maintenance::Maintenance;
use crate::memory::version::TableVersion;
use crate::reading::snapshot::EngineSnapshot;
use crate::writing::Writer;
use crate::writing::change_journal::JournalPlace;
use crate::writing::claims::Claims;
use crate::writing::conditional_write::{Evaluation, depends_on_rows, evaluate};
use crate::writing::table_locks::LockMode;
use crate::writing::write::{CLAIMED_ROWS_MAX, Work, memory_bytes, rows_of, validate};
use async_trait::async_trait;
use conflict::ConflictCheck;
use load::{SortedRows, loadable};
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{
    Operation, RowPosition, SnapshotRef, Stage, Upsert, WriteBatch, WriteMode, WriteOutcome,
};
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId, before_long_work};
use parking_lot::Mutex;
use savepoints::{Savepoints, held_bytes};
use snapshot::StageSnapshot;
use staged_rows::StagedRows;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// The part of the memory limit that a stage may take.
const SHARE: u64 = 16;
/// A larger stage is not committed through the log, where all that others write would wait behind it.
const LOGGED_BYTES_MAX: u64 = 16 << 20;

/// A stage of the engine.
pub(crate) struct EngineStage {
    /// It has the lock of the directory, which a forgotten stage must not hold.
    maintenance: Weak<Maintenance>,
    place: JournalPlace,
    /// Whoever asks for a snapshot may have to end a run.
    rows: Mutex<StagedRows>,
    /// What the commit writes as one batch, as long as all of it is in memory: every condition holds, and defaults are
    /// filled in. Later what was staged since the rows moved to the disk, if there are savepoints.
    batch: WriteBatch,
    savepoints: Savepoints,
    charge: Charge,
    limit_bytes: u64,
    loaded_rows_min: usize,
}

impl EngineStage {
    /// A stage that starts from everything acknowledged.
    pub(crate) fn open(maintenance: &Arc<Maintenance>) -> Self {
        let writer = &maintenance.writer;
        let (place, opened) = writer.journal.open(|| {
            let snapshot = writer.snapshot();
            let sequence = snapshot.sequence;
            (snapshot, sequence)
        });
        let rows = StagedRows::new(opened);
        Self {
            maintenance: Arc::downgrade(maintenance),
            place,
            savepoints: Savepoints::new(rows.base()),
            rows: Mutex::new(rows),
            batch: WriteBatch::default(),
            charge: writer.budget.charge(Component::Query, 0),
            limit_bytes: maintenance.options.stage_bytes_max.unwrap_or(writer.budget.limit_bytes() / SHARE),
            loaded_rows_min: maintenance.options.loaded_rows_min,
        }
    }

    fn maintenance(&self) -> Result<Arc<Maintenance>> {
        self.place.check()?;
        self.maintenance.upgrade().ok_or_else(|| Error::retry("the store was closed, and the stage is gone"))
    }

    /// What is held in memory.
    fn held_bytes(&mut self) -> u64 {
        self.charge.bytes() + self.rows.get_mut().memory_bytes()
    }

    /// Takes memory for a batch. What was staged before goes to the disk if there is not enough for both.
    async fn make_room(&mut self, maintenance: &Maintenance, batch: &WriteBatch) -> Result<()> {
        let bytes = held_bytes(batch);
        let held_bytes = self.held_bytes();
        let is_full = held_bytes + bytes > self.limit_bytes && held_bytes > 0;
        if is_full || self.charge.try_grow(bytes).is_err() {
            before_long_work().await;
            self.spill(maintenance)?;
            self.rows.get_mut().write_waiting(maintenance, 0)?;
            self.charge.set(0);
            maintenance.writer.admission.take(&mut self.charge, bytes).await?;
        }
        Ok(())
    }

    fn spill(&mut self, maintenance: &Maintenance) -> Result<()> {
        self.spill_pieces(maintenance)?;
        let rows = self.rows.get_mut();
        self.batch.operations.clear();
        self.charge.set(rows.waiting_bytes());
        self.savepoints.begin_with(rows.base());
        // What is being loaded is not in the base.
        self.savepoints.is_complete = rows.loads.is_empty();
        Ok(())
    }

    /// Takes a large batch past the memtables; false if it is of another kind.
    async fn load(&mut self, maintenance: &Maintenance, batch: &WriteBatch) -> Result<bool> {
        let [operation] = &batch.operations[..] else { return Ok(false) };
        let bytes = memory_bytes(batch);
        let is_large = self.held_bytes() + bytes > LOGGED_BYTES_MAX.min(self.limit_bytes);
        let rows = self.rows.get_mut();
        let table = rows.version.table(operation.table())?.clone();
        let Some(upsert) = loadable(&table, batch, bytes) else { return Ok(false) };
        let is_begun = rows.load_of(table.id).is_some();
        if !is_begun && !((is_large || rows.is_spilled()) && upsert.rows() >= self.loaded_rows_min) {
            return Ok(false);
        }
        before_long_work().await;
        if !is_begun {
            self.begin_load(maintenance, &table)?;
        }
        self.savepoints.is_complete = false;
        let rows = self.rows.get_mut();
        if self.charge.try_grow(bytes).is_err() {
            rows.write_waiting(maintenance, 0)?;
            self.charge.set(0);
            maintenance.writer.admission.take(&mut self.charge, bytes).await?;
        }
        let rows = self.rows.get_mut();
        let outcome = SortedRows::of(&table.schema, upsert).and_then(|sorted| {
            rows.end_load_before(maintenance, table.id, &sorted)?;
            if upsert.mode.condition().is_some() {
                rows.check_new(table.id, &sorted)?;
            }
            rows.load(maintenance, operation, sorted, self.limit_bytes)
        });
        self.charge.set(rows.waiting_bytes());
        outcome.map(|()| true)
    }

    /// Moves what was staged to the disk, before a table is loaded: to the beginning of the load, if it is all that the
    /// stage has in this table.
    fn begin_load(&mut self, maintenance: &Maintenance, table: &TableVersion) -> Result<()> {
        let rows = self.rows.get_mut();
        let of_table = self.batch.operations.iter().filter(|operation| operation.table() == table.id);
        let staged: Option<Vec<(Operation, Upsert)>> = of_table
            .map(|operation| match operation {
                Operation::Upsert(upsert) => Some((operation.clone(), upsert.clone())),
                Operation::DeleteKeys { .. } => None,
            })
            .collect();
        let is_movable = !rows.is_spilled() && self.savepoints.is_empty();
        let Some(staged) = staged.filter(|staged| !staged.is_empty() && is_movable) else {
            return self.spill(maintenance);
        };
        rows.forget_staged(table.id)?;
        let outcome = self.spill(maintenance).and_then(|()| self.load_again(maintenance, table, staged));
        // What was forgotten is lost.
        self.rows.get_mut().has_failed |= outcome.is_err();
        outcome
    }

    fn load_again(
        &mut self,
        maintenance: &Maintenance,
        table: &TableVersion,
        staged: Vec<(Operation, Upsert)>,
    ) -> Result<()> {
        let rows = self.rows.get_mut();
        for (operation, mut upsert) in staged {
            // Its condition held, and defaults are filled in.
            upsert.mode = WriteMode::Upsert;
            let sorted = SortedRows::of(&table.schema, &upsert)?;
            rows.end_load_before(maintenance, table.id, &sorted)?;
            rows.load(maintenance, &operation, sorted, self.limit_bytes)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Stage for EngineStage {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        let maintenance = self.maintenance()?;
        let rows = self.rows.get_mut();
        rows.check()?;
        let sequence = Sequence(rows.opened.sequence);
        validate(&rows.opened.version, &batch)?;
        rows.add_tables(&batch.operations)?;
        if self.load(&maintenance, &batch).await? {
            return Ok(WriteOutcome { sequence, affected: rows_of(&batch), conflicts: Vec::new() });
        }
        let rows = self.rows.get_mut();
        let is_changed = |table| batch.operations.iter().any(|each| each.table() == table);
        if rows.loads.iter().any(|load| is_changed(load.run.table().id)) {
            before_long_work().await;
            rows.end_loads(&maintenance, is_changed)?;
        }
        let (batch, conflicts) = evaluated(&rows.snapshot(), batch)?;
        let affected = rows_of(&batch);
        if affected > 0 {
            self.make_room(&maintenance, &batch).await?;
            let rows = self.rows.get_mut();
            rows.add(&batch.operations)?;
            let can_return = !self.savepoints.is_empty() && self.savepoints.is_complete;
            if !rows.is_spilled() || can_return {
                let written = batch.operations.into_iter().filter(|operation| operation.rows() > 0);
                self.batch.operations.extend(written);
            } else {
                self.savepoints.is_complete = false;
                self.batch.operations.clear();
                self.charge.set(rows.waiting_bytes());
            }
        }
        Ok(WriteOutcome { sequence, affected, conflicts })
    }

    fn check(&self) -> Result<()> {
        self.place.check()
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        self.place.check()?;
        let is_loading = !self.rows.lock().loads.is_empty();
        if is_loading {
            before_long_work().await;
        }
        let mut rows = self.rows.lock();
        rows.check()?;
        if is_loading {
            rows.end_loads(&*self.maintenance()?, |_| true)?;
        }
        Ok(Arc::new(StageSnapshot::new(rows.opened.clone(), rows.snapshot())))
    }

    async fn add_table(&mut self, table: TableId) -> Result<()> {
        let maintenance = self.maintenance()?;
        let now = maintenance.writer.applied();
        self.rows.get_mut().add_created(now.version.table(table)?.clone());
        Ok(())
    }

    fn claim_table(&mut self, table: TableId) {
        self.rows.get_mut().claimed.insert(table);
    }

    async fn savepoint(&mut self) -> Result<usize> {
        let maintenance = self.maintenance()?;
        self.add_savepoint(&maintenance).await
    }

    fn release(&mut self, savepoint: usize) {
        self.forget_savepoints(savepoint);
    }

    async fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        self.place.check()?;
        self.return_to(savepoint).await
    }

    async fn commit(mut self: Box<Self>) -> Result<Sequence> {
        let maintenance = self.maintenance()?;
        let versions = &maintenance.writer.versions;
        let rows = self.rows.get_mut();
        rows.check()?;
        if rows.written.is_empty() {
            return Ok(Sequence(versions.watermark.get()));
        }
        versions.watermark.check()?;
        match rows.is_spilled() || self.charge.bytes() > LOGGED_BYTES_MAX {
            true => self.commit_rowsets(maintenance).await,
            false => self.commit_batch(&maintenance.writer).await,
        }
    }
}

impl EngineStage {
    /// Commits what is in memory as one batch.
    async fn commit_batch(self: Box<Self>, writer: &Arc<Writer>) -> Result<Sequence> {
        let may_use_reserve = || writer.batch_may_use_reserve(&self.batch);
        writer.admission.admit(&writer.log, may_use_reserve, || self.charge.bytes()).await?;
        let mode = match rows_of(&self.batch) > CLAIMED_ROWS_MAX {
            true => LockMode::Exclusive,
            false => LockMode::Claiming,
        };
        // What the batch takes is held until it is written.
        let Self { rows, place, batch, charge: _held, .. } = *self;
        let rows = rows.into_inner();
        let keys = if mode == LockMode::Claiming { rows.keys(&batch)? } else { Vec::new() };
        let mut check = ConflictCheck::new(&rows, &place);
        // Most of the work is done before others have to wait.
        check.run_early(writer, None)?;
        loop {
            let tables = rows.locked_with(mode);
            let tables = writer.lock_tables(tables).await.map_err(dropped)?;
            // Before the journal is looked at: a claim is given up after its batch is in there.
            if let Some(sequence) = writer.claims.find_any(&keys) {
                drop(tables);
                writer.wait_for_others(sequence).await?;
                continue;
            }
            let now = writer.applied();
            if let Err(error) = check.run(&now, None) {
                drop(tables);
                // A client that is told of a conflict can then read the rows that caused it.
                writer.wait_for_others(now.sequence).await?;
                return Err(error);
            }
            return writer.log_and_apply(Work::Batch(batch), tables, keys).await.map_err(dropped);
        }
    }

    /// Commits what is on the disk, in a thread of its own: it flushes, and waits for writers.
    async fn commit_rowsets(self: Box<Self>, maintenance: Arc<Maintenance>) -> Result<Sequence> {
        let (done, outcome) = oneshot::channel();
        let Self { place, rows, charge, .. } = *self;
        let commit = move || {
            let outcome = large_commit::commit(rows.into_inner(), &place, &maintenance);
            // Who is told may close the store at once.
            drop((place, charge, maintenance));
            // Nobody waits for the outcome if the caller went away.
            let _ = done.send(outcome);
        };
        std::thread::Builder::new()
            .name("nyala-commit".to_owned())
            .spawn(commit)
            .map_err(|error| Error::retry(format!("cannot start a thread for the commit: {error}")))?;
        outcome.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unknown, "the commit panicked")))
    }
}

/// The error of a commit whose table is not there any more.
fn dropped(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Missing => Error::conflict(format!("{error}: it was dropped since")),
        _ => error,
    }
}

/// A batch without the rows that its modes leave out, and with the defaults of new rows.
fn evaluated(snapshot: &EngineSnapshot, batch: WriteBatch) -> Result<(WriteBatch, Vec<RowPosition>)> {
    let mut depends = false;
    for operation in &batch.operations {
        depends |= depends_on_rows(operation, &snapshot.version.table(operation.table())?.schema);
    }
    if !depends {
        return Ok((batch, Vec::new()));
    }
    // What others have claimed is no concern of a stage.
    match evaluate(snapshot, &batch, &Claims::default())? {
        Evaluation::Ready { batch, conflicts, .. } => Ok((batch, conflicts)),
        Evaluation::Claimed(_) => unreachable!("there are no claims"),
    }
}
