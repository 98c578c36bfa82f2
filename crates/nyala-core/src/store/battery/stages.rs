//! Stages next to everything else: opened, written to, read, committed or dropped, while others change the same tables.
//!
//! What a stage shows and answers must equal plain writes to a copy of the state it started from. A commit must change
//! exactly what differs between that copy and that state, unless somebody else was first.

use super::super::memory::MemoryStore;
use super::super::{
    DeleteMode, Freshness, Operation, Snapshot, SnapshotRef, Stage, Store, WriteBatch, WriteOutcome,
};
use super::compare::{Outcome, compare_scan, compare_snapshots, contents};
use super::follower::{Follower, NO_TABLE};
use super::generate::Generator;
use super::step::{Step, rename_tables};
use crate::error::{ErrorKind, Result};
use crate::ids::TableId;
use std::collections::BTreeSet;

const STAGES_MAX: usize = 3;

/// Stages of both stores that were opened at the same moment.
struct OpenStage {
    subject: Box<dyn Stage>,
    model: Box<dyn Stage>,
    /// The naive store at that moment.
    opened: SnapshotRef,
    /// A copy of it, which receives what is staged.
    plain: Follower,
    /// That copy as it was at each savepoint.
    savepoints: Vec<MemoryStore>,
}

/// The open stages.
#[derive(Default)]
pub(super) struct Stages {
    open: Vec<OpenStage>,
}

impl Stages {
    /// Drops all stages.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Does something with a stage. Returns whether the stores may have changed.
    pub(super) async fn step(
        &mut self,
        generator: &mut Generator,
        subject: &dyn Store,
        model: &MemoryStore,
    ) -> std::result::Result<bool, String> {
        if self.open.is_empty() || (self.open.len() < STAGES_MAX && generator.chance(4)) {
            let stage = OpenStage::open(generator, subject, model).await;
            self.open.push(stage.map_err(|error| error.to_string())?);
        }
        let at = generator.below(self.open.len() as u64) as usize;
        match generator.below(20) {
            0 => drop(self.open.swap_remove(at)),
            1..4 => {
                return self.open.swap_remove(at).commit(generator, subject, model).await;
            }
            4..7 => self.open[at].read(generator).await?,
            7..10 => self.open[at].change_savepoints(generator).await?,
            _ => {
                let Some(mut batch) = generator.batch() else { return Ok(false) };
                if generator.chance(6) {
                    batch = deletion_of(generator, batch);
                }
                let before = model.latest();
                self.open[at].write(generator, batch.clone()).await?;
                if generator.chance(4) {
                    // The subject is compared with the model after every step anyway.
                    let tables = generator.table_ids().into_iter();
                    let pairs: Vec<_> = tables.map(|(_, model)| (model, model)).collect();
                    compare_snapshots(&*model.latest(), &*before, &pairs).await?;
                }
                if generator.chance(5) {
                    // Another stage, or a plain write, writes the same rows.
                    let other = generator.below(self.open.len() as u64) as usize;
                    if other != at {
                        self.open[other].write(generator, batch).await?;
                        return Ok(false);
                    }
                    if generator.chance(2) {
                        batch = deletion_of(generator, batch);
                    }
                    return Step::Write(batch).apply_to_both(generator, subject, model).await;
                }
            }
        }
        Ok(false)
    }
}

/// A batch that deletes what another batch writes.
fn deletion_of(generator: &Generator, mut batch: WriteBatch) -> WriteBatch {
    for operation in &mut batch.operations {
        let Operation::Upsert(upsert) = operation else { continue };
        let known = generator.tables.iter().find(|table| table.model == upsert.table);
        let key = &known.expect("batches are for tables that are there").schema.key;
        let keys = key.iter().filter_map(|id| upsert.column(*id)).map(|cells| cells.values.clone());
        *operation =
            Operation::DeleteKeys { table: upsert.table, mode: DeleteMode::Blind, keys: keys.collect() };
    }
    batch
}

impl OpenStage {
    async fn open(generator: &Generator, subject: &dyn Store, model: &MemoryStore) -> Result<Self> {
        let opened = model.latest();
        let plain = MemoryStore::with_capabilities(model.capabilities());
        let tables = generator.table_ids().into_iter().map(|(_, model)| model);
        let plain = Follower::begin(plain, &*opened, tables).await?;
        let (subject, model) = (subject.stage().await?, model.stage().await?);
        Ok(Self { subject, model, opened, plain, savepoints: Vec::new() })
    }

    /// The batch with the tables of the model.
    async fn write(&mut self, generator: &Generator, batch: WriteBatch) -> Outcome {
        let tables = generator.table_ids();
        let known = |model: TableId| tables.iter().find(|pair| pair.1 == model);
        let renamed = |rename: &dyn Fn(TableId) -> TableId| {
            let mut batch = batch.clone();
            rename_tables(&mut batch, rename);
            batch
        };
        let found = renamed(&|table| known(table).map_or(NO_TABLE, |pair| pair.0));
        let found = self.subject.write(found).await;
        let plain = self.plain.copy.write(renamed(&|table| self.plain.id_of(table))).await;
        let model = self.model.write(batch.clone()).await;
        let answer = |outcome: Result<WriteOutcome>| {
            let answer = outcome.map(|outcome| (outcome.affected, outcome.conflicts));
            answer.map_err(|error| error.kind())
        };
        let (found, plain, model) = (answer(found), answer(plain), answer(model));
        match found == plain && model == plain {
            true => Ok(()),
            false => Err(format!("answered {found:?}, the model {model:?}, not {plain:?}, to {batch:?}")),
        }
    }

    /// Makes a savepoint, forgets some, or goes back to one.
    async fn change_savepoints(&mut self, generator: &mut Generator) -> Outcome {
        let count = self.savepoints.len();
        if count == 0 || generator.chance(2) {
            let (found, expected) = (self.subject.savepoint().await, self.model.savepoint().await);
            self.savepoints.push(self.plain.copy.copied());
            return match (found, expected) {
                (Ok(found), Ok(expected)) if found == count && expected == count => Ok(()),
                answers => Err(format!("savepoint {count} is {answers:?}")),
            };
        }
        let at = generator.below(count as u64) as usize;
        if generator.chance(4) {
            self.subject.release(at);
            self.model.release(at);
            self.savepoints.truncate(at);
            return Ok(());
        }
        for stage in [&mut self.subject, &mut self.model] {
            stage.roll_back_to(at).await.map_err(|error| format!("to savepoint {at}: {error}"))?;
            let beyond = stage.roll_back_to(count).await.map_err(|error| error.kind());
            if beyond != Err(ErrorKind::Missing) {
                return Err(format!("going back to savepoint {count} answered {beyond:?}"));
            }
        }
        self.savepoints.truncate(at + 1);
        self.plain.copy = self.savepoints[at].copied();
        self.read(generator).await
    }

    async fn read(&self, generator: &mut Generator) -> Outcome {
        let error = |error: crate::Error| error.to_string();
        let found = self.subject.snapshot().await.map_err(error)?;
        let plain = self.plain.copy.latest();
        let tables = generator.table_ids().into_iter();
        let pairs: Vec<_> = tables.map(|(subject, model)| (subject, self.plain.id_of(model))).collect();
        compare_snapshots(&*found, &*plain, &pairs).await?;
        let Some(table) = generator.any_table() else { return Ok(()) };
        for _ in 0..3 {
            let request = generator.scan(&table);
            compare_scan(&*found, &*plain, self.plain.id_of(table.model), &request).await?;
        }
        Ok(())
    }

    /// Returns whether the commit succeeded.
    async fn commit(
        self,
        generator: &Generator,
        subject: &dyn Store,
        model: &MemoryStore,
    ) -> std::result::Result<bool, String> {
        let before = model.latest();
        let tables = generator.table_ids();
        let (found, expected) = (self.subject.commit().await, self.model.commit().await);
        let after = model.latest();
        match (found, expected) {
            (Ok(sequence), Ok(_)) => {
                let snapshot = subject.snapshot(Freshness::AtLeast(sequence)).await;
                let snapshot = snapshot.map_err(|error| error.to_string())?;
                compare_snapshots(&*snapshot, &*after, &tables).await?;
                for (_, table) in tables {
                    let staged = (self.plain.copy.latest(), self.plain.id_of(table));
                    check_commit(&*self.opened, &*before, &*after, table, staged).await?;
                }
                Ok(true)
            }
            (Err(found), Err(expected)) if [found.kind(), expected.kind()] == [ErrorKind::Conflict; 2] => {
                if before.sequence() == self.opened.sequence() {
                    return Err(format!("{expected}, where nobody else changed anything"));
                }
                let pairs: Vec<_> = tables.iter().map(|(_, model)| (*model, *model)).collect();
                compare_snapshots(&*after, &*before, &pairs).await?;
                Ok(false)
            }
            (found, expected) => Err(format!("a commit answered {found:?}, not {expected:?}")),
        }
    }
}

/// Checks that what was staged is there, that nothing else changed, and that nobody else had changed the same rows.
async fn check_commit(
    opened: &dyn Snapshot,
    before: &dyn Snapshot,
    after: &dyn Snapshot,
    table: TableId,
    (staged, staged_table): (SnapshotRef, TableId),
) -> Outcome {
    let error = |error: crate::Error| error.to_string();
    let opened = contents(opened, table).await.map_err(error)?;
    let before = contents(before, table).await.map_err(error)?;
    let after = contents(after, table).await.map_err(error)?;
    let staged = contents(&*staged, staged_table).await.map_err(error)?;
    let keys: BTreeSet<_> =
        [&opened, &before, &after, &staged].into_iter().flat_map(|rows| rows.keys()).collect();
    for key in keys {
        let is_staged = staged.get(key) != opened.get(key);
        if is_staged && before.get(key) != opened.get(key) {
            return Err(format!("a change of {key:?} in table {table} was lost"));
        }
        let expected = if is_staged { staged.get(key) } else { before.get(key) };
        if after.get(key) != expected {
            return Err(format!("{key:?} of table {table} is {:?}, not {expected:?}", after.get(key)));
        }
    }
    Ok(())
}
