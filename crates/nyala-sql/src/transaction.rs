//! A transaction of a session: one snapshot for all that it reads, and what it has written.
//!
//! It is a stage of the store: its reads see the store as it was when the first statement began, and its own writes. The
//! first to commit wins. In a store without stages a transaction only reads.

use crate::error::{SqlError, SqlResult, SqlState};
use nyala_core::ErrorKind;
use nyala_core::store::{Freshness, SnapshotRef, Stage, StoreRef};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Whether a session is in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// It is in none: each statement is a transaction of its own.
    Idle,
    /// It is in one.
    Active,
    /// A statement of it failed: all others fail until it is rolled back.
    Failed,
}

/// A transaction that was begun.
#[derive(Default)]
pub(crate) struct Transaction {
    /// What it shows; taken by its first statement, and again after each of its writes.
    pub(crate) snapshot: Arc<OnceCell<SnapshotRef>>,
    /// Where it writes, if the store can collect writes.
    pub(crate) stage: Option<Box<dyn Stage>>,
    /// Whether it has written anything.
    pub(crate) has_written: bool,
    pub(crate) has_failed: bool,
}

impl Transaction {
    /// Begins to show what was acknowledged so far, unless a statement has done so.
    pub(crate) async fn open(&mut self, store: &StoreRef, freshness: Freshness) -> SqlResult<()> {
        if self.snapshot.initialized() {
            return Ok(());
        }
        let snapshot = match store.stage().await {
            Ok(stage) => {
                let snapshot = stage.snapshot().await?;
                self.stage = Some(stage);
                snapshot
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => store.snapshot(freshness).await?,
            Err(error) => return Err(error.into()),
        };
        self.snapshot = Arc::new(OnceCell::new_with(Some(snapshot)));
        Ok(())
    }

    /// Shows what it has written meanwhile.
    pub(crate) async fn refresh(&mut self) -> SqlResult<()> {
        if let Some(stage) = &self.stage {
            self.snapshot = Arc::new(OnceCell::new_with(Some(stage.snapshot().await?)));
            self.has_written = true;
        }
        Ok(())
    }

    /// Makes what it has written durable and visible.
    pub(crate) async fn commit(self) -> SqlResult<()> {
        match self.stage.filter(|_| self.has_written) {
            Some(stage) => stage.commit().await.map(drop).map_err(of_commit),
            None => Ok(()),
        }
    }
}

fn of_commit(error: nyala_core::Error) -> SqlError {
    match error.kind() {
        ErrorKind::Conflict => {
            let words = "could not serialize access due to concurrent update";
            SqlError::new(SqlState::SERIALIZATION_FAILURE, words).with_detail(error.to_string())
        }
        _ => error.into(),
    }
}
