//! Stages: batches that nobody else sees until they are committed.
//!
//! `staged_rows.rs` has the rows, in a version of the store that is the stage's own. `snapshot.rs` reads them. A commit
//! looks for rows that somebody else was first to change (`conflict.rs`), and writes everything as one batch.

mod conflict;
mod own_rows;
mod snapshot;
mod staged_rows;

use crate::reading::snapshot::EngineSnapshot;
use crate::writing::Writer;
use crate::writing::change_journal::JournalPlace;
use crate::writing::claims::Claims;
use crate::writing::conditional_write::{Evaluation, depends_on_rows, evaluate};
use crate::writing::table_locks::{LockMode, TableLocks};
use crate::writing::write::{CLAIMED_ROWS_MAX, Work, memory_bytes, rows_of, validate};
use async_trait::async_trait;
use conflict::ConflictCheck;
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{RowPosition, SnapshotRef, Stage, WriteBatch, WriteOutcome};
use nyala_core::{Error, ErrorKind, Result, Sequence};
use snapshot::StageSnapshot;
use staged_rows::StagedRows;
use std::sync::{Arc, Weak};

/// The part of the memory limit that the batches of a stage may take.
const SHARE: u64 = 16;
/// What an operation costs besides its cells, about: arrays of a few rows are mostly overhead.
const OPERATION_BYTES: u64 = 1024;

/// A stage of the engine.
pub(crate) struct EngineStage {
    /// The writer has the lock of the directory, which a forgotten stage must not hold.
    writer: Weak<Writer>,
    place: JournalPlace,
    rows: StagedRows,
    /// What the commit writes: every condition holds, and defaults are filled in.
    batch: WriteBatch,
    charge: Charge,
    limit_bytes: u64,
}

impl EngineStage {
    /// A stage that starts from everything acknowledged.
    pub(crate) fn open(writer: &Arc<Writer>) -> Self {
        let (place, opened) = writer.journal.open(|| {
            let snapshot = writer.snapshot();
            let sequence = snapshot.sequence;
            (snapshot, sequence)
        });
        Self {
            writer: Arc::downgrade(writer),
            place,
            rows: StagedRows::new(opened),
            batch: WriteBatch::default(),
            charge: writer.budget.charge(Component::Query, 0),
            limit_bytes: writer.budget.limit_bytes() / SHARE,
        }
    }

    fn writer(&self) -> Result<Arc<Writer>> {
        self.place.check()?;
        self.writer.upgrade().ok_or_else(|| Error::retry("the store was closed, and the stage is gone"))
    }

    /// Takes memory for a batch.
    fn charge_for(&mut self, batch: &WriteBatch) -> Result<()> {
        let bytes = memory_bytes(batch) + batch.operations.len() as u64 * OPERATION_BYTES;
        if self.charge.bytes() + bytes > self.limit_bytes {
            return Err(Error::limit(format!(
                "a stage takes at most {} MiB, and this batch does not fit into the rest",
                self.limit_bytes >> 20
            )));
        }
        self.charge.try_grow(bytes).map_err(|error| Error::limit(error.to_string()))
    }
}

#[async_trait]
impl Stage for EngineStage {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.writer()?;
        let sequence = Sequence(self.rows.opened.sequence);
        validate(&self.rows.opened.version, &batch)?;
        self.rows.add_tables(&batch)?;
        let (batch, conflicts) = evaluated(&self.rows.snapshot(), batch)?;
        let affected = rows_of(&batch);
        if affected > 0 {
            self.charge_for(&batch)?;
            self.rows.add(&batch)?;
            let written = batch.operations.into_iter().filter(|operation| operation.rows() > 0);
            self.batch.operations.extend(written);
        }
        Ok(WriteOutcome { sequence, affected, conflicts })
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        self.place.check()?;
        Ok(Arc::new(StageSnapshot::new(self.rows.opened.clone(), self.rows.snapshot())))
    }

    async fn commit(self: Box<Self>) -> Result<Sequence> {
        let writer = self.writer()?;
        if self.batch.operations.is_empty() {
            return Ok(Sequence(writer.versions.watermark.get()));
        }
        writer.versions.watermark.check()?;
        writer.admission.admit(&writer.log, || self.charge.bytes()).await?;
        let mode = match rows_of(&self.batch) > CLAIMED_ROWS_MAX {
            true => LockMode::Exclusive,
            false => LockMode::Claiming,
        };
        let keys = if mode == LockMode::Claiming { self.rows.keys(&self.batch)? } else { Vec::new() };
        let mut check = ConflictCheck::new(&self.rows, &self.place);
        // Most of the work is done before others have to wait.
        check.run(&writer.applied())?;
        loop {
            let tables = self.lock(&writer, mode).await?;
            let now = writer.applied();
            if let Err(error) = check.run(&now) {
                drop(tables);
                // A client that is told of a conflict can then read the rows that caused it.
                writer.wait_for_others(now.sequence).await?;
                return Err(error);
            }
            if let Some(sequence) = keys.iter().find_map(|key| writer.claims.find(key)) {
                drop(tables);
                writer.wait_for_others(sequence).await?;
                continue;
            }
            return writer.log_and_apply(Work::Batch(self.batch), tables, keys).await.map_err(dropped);
        }
    }
}

impl EngineStage {
    async fn lock(&self, writer: &Writer, mode: LockMode) -> Result<TableLocks> {
        let tables = self.rows.written.iter().map(|table| (*table, mode)).collect();
        writer.lock_tables(tables).await.map_err(dropped)
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
