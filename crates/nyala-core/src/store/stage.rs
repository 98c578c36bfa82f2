//! Writes that are gathered for a while and then there at once: a statement or a transaction larger than memory.

use super::{SnapshotRef, WriteBatch, WriteOutcome};
use crate::error::Result;
use crate::ids::Sequence;
use async_trait::async_trait;

/// Batches that nobody sees until they are committed, judged by the store as it was when the stage was opened. A stage
/// that is dropped, or that the store does not outlive, leaves nothing.
///
/// **First committer wins.** A commit is refused as a conflict, and stores nothing, if since the stage was opened somebody
/// else
/// - wrote a row that the stage writes or deletes, also the same again, or removed it in whatever way. A key that had no
///   row then and has none now was not changed;
/// - dropped the table of such a row, or altered it in any way but by columns that rows may lack and have no default.
///
/// What was only read, or left out because a mode ignores it, may have changed: who needs that it has not writes it.
///
/// There are no deletions and updates by condition here: they are a scan of the stage's snapshot and writes of the keys it
/// finds.
#[async_trait]
pub trait Stage: Send + Sync {
    /// Stages a batch, as [`super::Store::write`] would write it to what [`Stage::snapshot`] shows: demands, defaults and
    /// outcomes are judged at once, and do not change by what others do. After an error the stage is as before, where
    /// batches are atomic, and goes on. Limit if there is no room for it, or if the store gave up a stage that was open for
    /// too long.
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome>;

    /// The store as it was when the stage was opened, with all that was staged so far. It has the sequence of that opening.
    async fn snapshot(&self) -> Result<SnapshotRef>;

    /// Makes everything durable and visible, all at once whatever [`super::Atomicity`] batches have, and returns the
    /// sequence of the snapshots that show it.
    async fn commit(self: Box<Self>) -> Result<Sequence>;
}
