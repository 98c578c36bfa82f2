//! A transaction of a session: one snapshot for all that it reads, and what it has written.
//!
//! It is a stage of the store: its reads see the store as it was when the first statement began, and its own writes. The
//! first to commit wins. In a store without stages a transaction only reads.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::Settings;
use crate::uncommitted_tables::UncommittedTables;
use crate::waits::TransactionLocks;
use chrono::{DateTime, Utc};
use nyala_core::store::{Freshness, SnapshotRef, Stage, StoreRef};
use nyala_core::{Error, ErrorKind, TableId};
use nyala_db::catalog::Catalog;
use nyala_db::relations::UncommittedRelations;
use std::sync::Arc;
use tokio::sync::{Mutex, OnceCell, OwnedRwLockWriteGuard};

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

/// The settings of the session of a transaction that has changed some.
#[derive(Clone)]
pub(crate) struct ChangedSettings {
    /// What they were before.
    pub(crate) before: Settings,
    /// What they are after COMMIT: without those that were set LOCAL.
    pub(crate) kept: Settings,
}

/// A transaction that was begun.
#[derive(Default)]
pub(crate) struct Transaction {
    /// When it was begun.
    pub(crate) began: DateTime<Utc>,
    pub(crate) settings: Option<Box<ChangedSettings>>,
    /// What it shows; taken by its first statement, and again after each of its writes.
    pub(crate) snapshot: Arc<OnceCell<SnapshotRef>>,
    /// Where it writes, if the store can collect writes.
    pub(crate) stage: Option<Arc<Mutex<Box<dyn Stage>>>>,
    /// Whether it ends with its series of statements, because no BEGIN began it.
    pub(crate) is_of_series: bool,
    /// Whether it may not write.
    pub(crate) is_read_only: bool,
    /// Whether it has read or written rows.
    pub(crate) has_looked: bool,
    /// Whether it has executed anything but settings.
    pub(crate) has_begun: bool,
    /// Whether it has written anything.
    pub(crate) has_written: bool,
    pub(crate) has_failed: bool,
    /// What it has defined, and what was temporary before it.
    pub(crate) relations: Arc<UncommittedRelations>,
    /// The tables of the store that it has created.
    tables: UncommittedTables,
    /// By their numbers in the stage.
    savepoints: Vec<Savepoint>,
    /// What it has locked.
    locks: TransactionLocks,
}

/// Whether the relations that a commit changes are locked.
pub(crate) enum Locked {
    /// They are not. Whether the transaction has read or written rows.
    Not { has_looked: bool },
    /// The caller has the lock of the only one that there was.
    Alone(OwnedRwLockWriteGuard<()>),
}

struct Savepoint {
    name: String,
    /// Its number among those of its session.
    number: u64,
    /// What the settings were at it, once some were changed.
    settings: Option<SavedSettings>,
    /// What the transaction had defined before it.
    relations: Arc<UncommittedRelations>,
}

/// What settings a session and its transaction had.
#[derive(Clone)]
pub(crate) struct SavedSettings {
    pub(crate) session: Settings,
    pub(crate) changed: Option<Box<ChangedSettings>>,
}

/// The most savepoints of a transaction. There are drivers that make one before each statement.
const SAVEPOINTS_MAX: usize = 1 << 16;

impl Transaction {
    /// One that has not begun to read. `temporary` are the relations of its session.
    pub(crate) fn begin(
        is_read_only: bool,
        locks: TransactionLocks,
        temporary: Arc<UncommittedRelations>,
    ) -> Self {
        Self { began: Utc::now(), is_read_only, locks, relations: temporary, ..Self::default() }
    }

    /// Says whether it may write.
    ///
    /// # Errors
    /// It was to read only, and has begun to do so.
    pub(crate) fn set_read_only(&mut self, is_read_only: bool) -> SqlResult<()> {
        let words = match self.is_read_only && !is_read_only {
            true if !self.savepoints.is_empty() => {
                "cannot set transaction read-write mode inside a read-only transaction"
            }
            true if self.has_begun => "transaction read-write mode must be set before any query",
            _ => {
                self.is_read_only = is_read_only;
                return Ok(());
            }
        };
        Err(SqlError::new(SqlState::ACTIVE_TRANSACTION, words))
    }

    /// Begins to show what was acknowledged so far, unless a statement has done so.
    pub(crate) async fn open(&mut self, store: &StoreRef, freshness: Freshness) -> SqlResult<()> {
        if self.snapshot.initialized() {
            return Ok(());
        }
        let snapshot = match store.stage().await {
            Ok(mut stage) => {
                for _ in &self.savepoints {
                    stage.savepoint().await?;
                }
                let snapshot = stage.snapshot().await?;
                self.stage = Some(Arc::new(Mutex::new(stage)));
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
            let snapshot = stage.lock().await.snapshot().await?;
            self.snapshot = Arc::new(OnceCell::new_with(Some(snapshot)));
            self.has_written = true;
        }
        Ok(())
    }

    /// Adds a table that it has created.
    pub(crate) async fn add_table(&mut self, catalog: &Catalog, table: TableId) -> SqlResult<()> {
        self.tables.add(catalog.store(), table);
        if let Some(stage) = &self.stage {
            stage.lock().await.add_table(table).await?;
        }
        self.refresh().await
    }

    /// How many savepoints there are.
    pub(crate) fn depth(&self) -> usize {
        self.savepoints.len()
    }

    /// The number of the last savepoint.
    pub(crate) fn last_savepoint(&self) -> Option<u64> {
        self.savepoints.last().map(|own| own.number)
    }

    /// Makes a savepoint, the one with that number of its session.
    pub(crate) async fn save(&mut self, name: &str, number: u64) -> SqlResult<()> {
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let words = format!("a transaction may have {SAVEPOINTS_MAX} savepoints");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, words));
        }
        if let Some(stage) = &self.stage {
            stage.lock().await.savepoint().await?;
        }
        let relations = self.relations.clone();
        self.savepoints.push(Savepoint { name: name.to_owned(), number, settings: None, relations });
        self.locks.save();
        Ok(())
    }

    /// Forgets a savepoint and those after it. Returns how many remain.
    pub(crate) async fn release(&mut self, name: &str) -> SqlResult<usize> {
        let place = self.savepoint(name)?;
        if let Some(stage) = &self.stage {
            stage.lock().await.release(place);
        }
        self.savepoints.truncate(place);
        self.locks.release(place);
        Ok(place)
    }

    /// Notes what the settings of its session were, before some are changed.
    pub(crate) fn save_settings(&mut self, session: &Settings) {
        let saved = SavedSettings { session: session.clone(), changed: self.settings.clone() };
        for savepoint in self.savepoints.iter_mut().rev().take_while(|own| own.settings.is_none()) {
            savepoint.settings = Some(saved.clone());
        }
    }

    /// Goes back to a savepoint. Returns how many there are before it, and what settings its session had if they have changed.
    pub(crate) async fn roll_back_to(&mut self, name: &str) -> SqlResult<(usize, Option<Settings>)> {
        let place = self.savepoint(name)?;
        if let Some(stage) = &self.stage {
            stage.lock().await.roll_back_to(place).await.map_err(|error| match error.kind() {
                ErrorKind::Limit => {
                    SqlError::from(error).with_hint("Roll back to a later one, or all of it.")
                }
                _ => error.into(),
            })?;
        }
        self.refresh().await?;
        self.relations = self.savepoints[place].relations.clone();
        self.savepoints.truncate(place + 1);
        self.locks.roll_back_to(place);
        self.has_failed = false;
        let settings = self.savepoints[place].settings.take().map(|SavedSettings { session, changed }| {
            self.settings = changed;
            session
        });
        Ok((place, settings))
    }

    fn savepoint(&self, name: &str) -> SqlResult<usize> {
        let place = self.savepoints.iter().rposition(|own| own.name == name);
        place.ok_or_else(|| {
            SqlError::new(SqlState::UNKNOWN_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Makes what it has written and defined durable and visible.
    pub(crate) async fn commit(self, catalog: &Arc<Catalog>) -> SqlResult<()> {
        let is_needed = self.has_written || self.relations.are_shared();
        let Some(stage) = self.stage.filter(|_| is_needed) else { return Ok(()) };
        let Some(stage) = Arc::into_inner(stage) else {
            return Err(SqlError::new(SqlState::INTERNAL, "a statement of the transaction has not ended"));
        };
        let stage = stage.into_inner();
        if self.relations.is_empty() {
            return stage.commit().await.map(drop).map_err(of_commit);
        }
        let locked = Locked::Not { has_looked: self.has_looked };
        committed(catalog.clone(), self.relations, self.tables, stage, locked).await.map_err(of_commit)
    }
}

/// Commits definitions and rows, in a task of its own: what was begun is ended, although the client may go away, so that it
/// is known what became of the tables. Those that belong to nobody then are dropped.
pub(crate) async fn committed(
    catalog: Arc<Catalog>,
    relations: Arc<UncommittedRelations>,
    mut tables: UncommittedTables,
    stage: Box<dyn Stage>,
    locked: Locked,
) -> Result<(), Error> {
    let committing = tokio::spawn(async move {
        // Until it is known that nothing was committed, each of them may belong to somebody, which otherwise a start finds
        // out.
        let created = tables.forget();
        let committed = match locked {
            // Temporary ones concern nobody else.
            _ if !relations.are_shared() => stage.commit().await.map(drop),
            Locked::Not { has_looked } => catalog.commit_relations(&relations, stage, has_looked).await,
            Locked::Alone(_alone) => catalog.commit_locked_relations(&relations, stage).await,
        };
        match &committed {
            Ok(()) => tables.put_back(created.into_iter().filter(|table| !relations.has_table(*table))),
            Err(error) if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Io | ErrorKind::Corrupt) => {
            }
            Err(_) => tables.put_back(created),
        }
        committed
    });
    committing.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unknown, "the commit panicked")))
}

/// Why a commit failed.
pub(crate) fn of_commit(error: Error) -> SqlError {
    match error.kind() {
        ErrorKind::Conflict => {
            let words = "could not serialize access due to concurrent update";
            SqlError::new(SqlState::SERIALIZATION_FAILURE, words).with_detail(error.to_string())
        }
        _ => error.into(),
    }
}
