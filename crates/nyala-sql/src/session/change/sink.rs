//! Where a change is written: into the store at once, or into a stage.

use nyala_core::Result;
use nyala_core::store::{Freshness, SnapshotRef, Stage, StoreRef, WriteBatch, WriteOutcome};

pub(super) enum Sink {
    /// One batch, which is visible when it is written.
    Store(StoreRef),
    /// Batches that become visible together.
    Stage(Box<dyn Stage>),
}

impl Sink {
    pub(super) async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        match self {
            Sink::Store(store) => store.write(batch).await,
            Sink::Stage(stage) => stage.write(batch).await,
        }
    }

    /// What the next batch is written to.
    pub(super) async fn snapshot(&self) -> Result<SnapshotRef> {
        match self {
            Sink::Store(store) => store.snapshot(Freshness::Latest).await,
            Sink::Stage(stage) => stage.snapshot().await,
        }
    }
}
