//! Writes that are collected first and become visible at once: a statement or a transaction larger than memory.

use super::{SnapshotRef, WriteBatch, WriteOutcome};
use crate::error::Result;
use crate::ids::{Sequence, TableId};
use async_trait::async_trait;

/// Batches that nobody else sees until they are committed. Their conditions are checked against the store as it was
/// when the stage was opened. If the stage is dropped, or the store stops, nothing of it remains.
///
/// **First committer wins.** A commit is rejected as a conflict, and stores nothing, if since the opening of the stage
/// somebody else
/// - wrote a row that the stage writes or deletes, even with the same values, or removed it in any way. A key that had
///   no row then and has none now was not changed;
/// - dropped the table of such a row, or altered it in any way other than adding nullable columns without a default;
/// - wrote or removed any row of a table that the stage claims ([`Stage::claim_table`]).
///
/// Rows that were only read, or left out because their mode ignores them, may have changed. A caller that needs them
/// unchanged writes them.
///
/// A stage has no deletions and updates by condition. Callers scan the stage's snapshot and write the keys that they
/// find.
#[async_trait]
pub trait Stage: Send + Sync {
    /// Stages a batch, as [`super::Store::write`] would write it to the state that [`Stage::snapshot`] shows.
    /// Conditions, defaults and the outcome are determined at once; later writes of others do not change them. If
    /// batches are atomic, an error leaves the stage as it was, and it can be used further. Limit if there is no room
    /// for the batch. Retry if the store has given up a stage that was open for too long, so that nobody can tell any more who
    /// was first: every further call fails. After an error of the disk a store may give the stage up, too.
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome>;

    /// The error of every further call, if the store has given the stage up.
    fn check(&self) -> Result<()>;

    /// The store as it was when the stage was opened, plus everything staged so far. Its sequence is that of the
    /// opening.
    async fn snapshot(&self) -> Result<SnapshotRef>;

    /// Adds a table that was created since the stage was opened, so that it can be written to and read. Nobody else may know
    /// of it yet. Missing if there is no such table.
    async fn add_table(&mut self, table: TableId) -> Result<()>;

    /// Says that the rows of a table, as the stage sees them, are being replaced: none of others may come in between. The table
    /// itself may be altered, and what the stage has written to it does not matter any more. Called before the commit.
    fn claim_table(&mut self, table: TableId);

    /// Marks what was staged so far, to go back to it. Returns the number of the savepoint: how many there were before.
    async fn savepoint(&mut self) -> Result<usize>;

    /// Forgets a savepoint and all later ones. What was staged since stays.
    fn release(&mut self, savepoint: usize);

    /// Takes back what was staged since a savepoint, as if it had never been: its rows are in conflict with nobody's. Later
    /// savepoints are forgotten. Snapshots that were taken stay as they are. Missing if there is no such savepoint; Limit
    /// if too much was staged since for it to be kept, which leaves the stage as it was.
    async fn roll_back_to(&mut self, savepoint: usize) -> Result<()>;

    /// Makes everything durable and visible at once, even if [`super::Atomicity`] of batches is by row. Returns the
    /// sequence of the snapshots that show it.
    async fn commit(self: Box<Self>) -> Result<Sequence>;
}
