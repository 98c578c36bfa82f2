//! Where a change is written: into the store at once, or into a stage.

use nyala_core::store::{Freshness, SnapshotRef, Stage, StoreRef, WriteBatch, WriteOutcome};
use nyala_core::{ErrorKind, Result, before_long_work};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// How long a statement waits, or begins anew, while memory is full, which a flush ends: as long as a batch of line protocol
/// waits.
pub(super) const FULL_MAX: Duration = Duration::from_secs(10);
/// How long a statement that can begin anew waits for memory, and holds what it has.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) enum Sink {
    /// One batch, which is visible when it is written.
    Store(StoreRef),
    /// Batches that become visible together.
    Stage(StageSink),
}

/// A stage that a statement writes to.
pub(super) struct StageSink {
    pub(super) stage: HeldStage,
    /// Whether it has more than its statement can write again: the rows before it in a transaction, or those that a client has
    /// sent. Then a batch waits for memory, and holds what the stage has.
    is_kept: bool,
    /// Whether the statement has written anything.
    has_written: bool,
}

/// Who has a stage besides.
pub(super) enum HeldStage {
    Own(Box<dyn Stage>),
    /// A transaction, which has it again when the statement has ended in any way.
    OfTransaction(OwnedMutexGuard<Box<dyn Stage>>),
}

impl Deref for HeldStage {
    type Target = Box<dyn Stage>;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(stage) => stage,
            Self::OfTransaction(stage) => stage,
        }
    }
}

impl DerefMut for HeldStage {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Own(stage) => stage,
            Self::OfTransaction(stage) => stage,
        }
    }
}

impl Sink {
    /// A stage of a statement that can begin anew.
    pub(super) fn of_statement(stage: Box<dyn Stage>) -> Self {
        Self::Stage(StageSink { stage: HeldStage::Own(stage), is_kept: false, has_written: false })
    }

    /// A stage of a statement that cannot.
    pub(super) fn kept(stage: Box<dyn Stage>) -> Self {
        Self::Stage(StageSink { stage: HeldStage::Own(stage), is_kept: true, has_written: false })
    }

    /// The stage of a transaction.
    pub(super) fn of_transaction(stage: OwnedMutexGuard<Box<dyn Stage>>) -> Self {
        Self::Stage(StageSink { stage: HeldStage::OfTransaction(stage), is_kept: true, has_written: false })
    }

    /// The stage whose rows a query of the statement reads; otherwise it reads what its run shows. That of a transaction is what
    /// its earlier statements have left, and of the parts of one statement what was there before the first.
    pub(super) fn read_by_statement(&self) -> Option<&dyn Stage> {
        match self {
            Self::Stage(StageSink { stage: HeldStage::Own(stage), .. }) => Some(&**stage),
            Self::Stage(_) | Self::Store(_) => None,
        }
    }

    /// Makes visible what a statement has written, if it is no part of a transaction.
    pub(super) async fn commit(self) -> Result<()> {
        match self {
            Self::Stage(StageSink { stage: HeldStage::Own(stage), .. }) => stage.commit().await.map(drop),
            Self::Stage(_) | Self::Store(_) => Ok(()),
        }
    }

    /// Whether the statement can still begin anew.
    pub(super) fn is_untouched(&self) -> bool {
        matches!(self, Self::Stage(own) if !own.has_written)
    }

    /// How long the query of a statement waits for memory, and holds what it has.
    pub(super) fn wait_max(&self) -> Duration {
        match self {
            Self::Stage(own) if own.is_kept => FULL_MAX,
            _ => WAIT_MAX,
        }
    }

    pub(super) async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        match self {
            Sink::Store(store) => store.write(batch).await,
            Sink::Stage(own) => own.write(batch).await,
        }
    }

    /// What the next batch is written to.
    pub(super) async fn snapshot(&self) -> Result<SnapshotRef> {
        match self {
            Sink::Store(store) => store.snapshot(Freshness::Latest).await,
            Sink::Stage(own) => own.stage.snapshot().await,
        }
    }
}

impl StageSink {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        let until = Instant::now() + FULL_MAX;
        loop {
            match self.stage.write(batch.clone()).await {
                // The stage is as it was, unless it was given up.
                Err(error)
                    if self.is_kept
                        && error.kind() == ErrorKind::Retry
                        && Instant::now() < until
                        && self.stage.check().is_ok() =>
                {
                    before_long_work().await;
                    tokio::time::sleep(PAUSE).await;
                }
                written => {
                    self.has_written |= written.is_ok();
                    return written;
                }
            }
        }
    }
}
