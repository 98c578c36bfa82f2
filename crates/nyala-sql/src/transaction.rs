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
    /// Whether it ends with its series of statements, because no BEGIN began it.
    pub(crate) is_of_series: bool,
    /// Whether it may not write.
    pub(crate) is_read_only: bool,
    /// Whether it has written anything.
    pub(crate) has_written: bool,
    pub(crate) has_failed: bool,
    /// How many statements have begun to change rows.
    pub(crate) changes: u64,
    /// Savepoints in order, each with how many changes were made before it.
    savepoints: Vec<(String, u64)>,
}

/// The most savepoints of a transaction.
const SAVEPOINTS_MAX: usize = 1024;

impl Transaction {
    /// One that has not begun to read.
    pub(crate) fn begin(is_read_only: bool) -> Self {
        Self { is_read_only, ..Self::default() }
    }

    /// The same for a series of statements.
    pub(crate) fn of_series() -> Self {
        Self { is_of_series: true, ..Self::default() }
    }

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

    /// Makes a savepoint.
    pub(crate) fn save(&mut self, name: &str) -> SqlResult<()> {
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let words = format!("a transaction may have {SAVEPOINTS_MAX} savepoints");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, words));
        }
        self.savepoints.push((name.to_owned(), self.changes));
        Ok(())
    }

    /// Forgets a savepoint and those after it.
    pub(crate) fn release(&mut self, name: &str) -> SqlResult<()> {
        let place = self.savepoint(name)?;
        self.savepoints.truncate(place);
        Ok(())
    }

    /// Goes back to a savepoint. What was written cannot be taken back in parts.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> SqlResult<()> {
        let place = self.savepoint(name)?;
        if self.savepoints[place].1 != self.changes {
            let words = "ROLLBACK TO SAVEPOINT after a change of rows";
            return Err(SqlError::unsupported(words).with_hint("Roll the whole transaction back."));
        }
        self.savepoints.truncate(place + 1);
        self.has_failed = false;
        Ok(())
    }

    fn savepoint(&self, name: &str) -> SqlResult<usize> {
        let place = self.savepoints.iter().rposition(|(own, _)| own == name);
        place.ok_or_else(|| {
            SqlError::new(SqlState::UNKNOWN_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
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
