//! Savepoints of a stage.
//!
//! Rows cannot be taken out of a memtable again. So a stage keeps its *base*, which is how it was when it had nothing in
//! memory, and the operations that were staged since, which a commit needs anyway. To go back it begins with the base, and
//! stages again what was there before the savepoint: that costs something, and savepoints do not.
//!
//! When rows move to the disk, every savepoint since the base becomes a base of its own: the rows before it become other
//! rowsets than those behind it.

use super::EngineStage;
use super::staged_rows::{StagedBase, StagedRows};
use crate::maintenance::Maintenance;
use crate::writing::write::memory_bytes;
use nyala_core::store::{Operation, WriteBatch};
use nyala_core::{Error, Result, before_long_work};
use std::sync::Arc;

/// So many savepoints since the base can still be gone back to when rows move to the disk: the newest ones. Each of them
/// costs files.
const PIECES_MAX: usize = 16;

pub(super) struct Savepoints {
    base: Arc<StagedBase>,
    /// Whether the stage has all operations since the base, and not only their rows.
    pub(super) is_complete: bool,
    all: Vec<Savepoint>,
}

#[derive(Clone)]
struct Savepoint {
    /// Nothing if it cannot be gone back to any more.
    base: Option<Arc<StagedBase>>,
    /// How many operations since then were staged before it.
    operations: usize,
}

impl Savepoints {
    pub(super) fn new(base: StagedBase) -> Self {
        Self { base: Arc::new(base), is_complete: true, all: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Begins anew with a stage that has nothing in memory.
    pub(super) fn begin_with(&mut self, base: StagedBase) {
        self.base = Arc::new(base);
        self.is_complete = true;
    }

    /// Those since the base, each with how many operations were staged before it.
    fn since_base(&mut self) -> impl DoubleEndedIterator<Item = &mut Savepoint> {
        let base = &self.base;
        let is_since = |savepoint: &&mut Savepoint| {
            savepoint.operations > 0 && savepoint.base.as_ref().is_some_and(|own| Arc::ptr_eq(own, base))
        };
        self.all.iter_mut().filter(is_since)
    }

    /// After how many operations there are savepoints, in ascending order. Of too many the older ones are given up.
    fn places(&mut self) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for savepoint in self.since_base().rev() {
            match places.last() {
                Some(last) if *last == savepoint.operations => {}
                _ if places.len() < PIECES_MAX => places.push(savepoint.operations),
                _ => savepoint.base = None,
            }
        }
        places.reverse();
        places
    }

    /// Gives the savepoints after so many operations a base of their own.
    fn put_base(&mut self, place: usize, base: StagedBase) {
        let base = Arc::new(base);
        for savepoint in self.since_base().filter(|savepoint| savepoint.operations == place) {
            *savepoint = Savepoint { base: Some(base.clone()), operations: 0 };
        }
    }
}

impl EngineStage {
    /// Marks what was staged so far.
    pub(super) async fn add_savepoint(&mut self, maintenance: &Maintenance) -> Result<usize> {
        let rows = self.rows.get_mut();
        rows.check()?;
        if !self.savepoints.is_complete {
            before_long_work().await;
            rows.end_loads(maintenance, |_| true)?;
            self.spill(maintenance)?;
        }
        let (base, operations) = (Some(self.savepoints.base.clone()), self.batch.operations.len());
        self.savepoints.all.push(Savepoint { base, operations });
        Ok(self.savepoints.all.len() - 1)
    }

    pub(super) fn forget_savepoints(&mut self, first: usize) {
        self.savepoints.all.truncate(first);
    }

    /// Takes back what was staged since a savepoint.
    pub(super) async fn return_to(&mut self, savepoint: usize) -> Result<()> {
        let Some(Savepoint { base, operations }) = self.savepoints.all.get(savepoint).cloned() else {
            return Err(Error::missing(format!("the stage has no savepoint {savepoint}")));
        };
        let Some(base) = base else {
            let words = "rows from before and after the savepoint were moved to the disk together";
            return Err(Error::limit(format!("{words}: there were more than {PIECES_MAX} savepoints since")));
        };
        if operations > 0 {
            before_long_work().await;
        }
        let rows = self.rows.get_mut();
        self.batch.operations.truncate(operations);
        // Until it has succeeded.
        rows.has_failed = true;
        rows.begin_again(&base)?;
        rows.stage_again(&self.batch.operations)?;
        rows.has_failed = false;
        self.savepoints.all.truncate(savepoint + 1);
        (self.savepoints.base, self.savepoints.is_complete) = (base, true);
        self.charge.set(held_bytes(&self.batch));
        Ok(())
    }

    /// Moves everything to the disk that was staged since the base, in pieces that end at savepoints.
    pub(super) fn spill_pieces(&mut self, maintenance: &Maintenance) -> Result<()> {
        let rows = self.rows.get_mut();
        let places = self.savepoints.places();
        if places.is_empty() {
            return rows.spill(maintenance);
        }
        let operations = std::mem::take(&mut self.batch.operations);
        // Until it has succeeded.
        rows.has_failed = true;
        rows.begin_again(&self.savepoints.base)?;
        let mut begin = 0;
        for place in places {
            rows.stage_again(&operations[begin..place])?;
            rows.spill(maintenance)?;
            self.savepoints.put_base(place, rows.base());
            begin = place;
        }
        rows.stage_again(&operations[begin..])?;
        rows.spill(maintenance)?;
        rows.has_failed = false;
        Ok(())
    }
}

impl StagedRows {
    /// Stages operations whose conditions hold.
    fn stage_again(&mut self, operations: &[Operation]) -> Result<()> {
        operations.iter().map(std::slice::from_ref).try_for_each(|operation| self.add(operation))
    }
}

/// What a batch takes in memory.
pub(super) fn held_bytes(batch: &WriteBatch) -> u64 {
    /// What an operation costs besides its cells, about: arrays of a few rows are mostly overhead.
    const OPERATION_BYTES: u64 = 1024;
    memory_bytes(batch) + batch.operations.len() as u64 * OPERATION_BYTES
}
