//! What a session waits for while it computes a function: a lock, or that time passes.
//!
//! Functions are computed without waiting, because others need the thread. One that has to wait notes for what and ends its
//! statement with an error. The statement waits, and begins anew. What the calls before have given is kept, so that nothing
//! is done twice.

mod advisory_locks;

pub use advisory_locks::AdvisoryLocks;
pub(crate) use advisory_locks::{LockKey, LockNumber, Mode, ShownLock};

use crate::error::{SqlError, SqlResult, SqlState};
use advisory_locks::Owner;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    /// Until it is given back, or the session ends.
    Session,
    /// Until the transaction ends; outside of one, the statement.
    Transaction,
}

/// A call of a function that may wait, or that undoes what one has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// Takes a lock, and waits for it if it is asked to.
    Lock { key: LockKey, mode: Mode, span: Span, waits: bool },
    /// Gives a lock back that was taken for the session.
    Unlock { key: LockKey, mode: Mode },
    /// Gives all of them back.
    UnlockAll,
    /// Lets time pass.
    Sleep(Duration),
}

/// The most calls whose results are kept. A statement that has made more of them cannot wait any more.
const KEPT_CALLS_MAX: usize = 1 << 14;

/// What a session waits for, and the locks that it has. They are given back when this is dropped.
pub(crate) struct Waits {
    locks: Arc<AdvisoryLocks>,
    owner: Owner,
    statement: Mutex<StatementCalls>,
}

/// The calls of the statement that runs.
#[derive(Default)]
struct StatementCalls {
    /// How long it waits for a lock; zero means as long as it takes.
    lock_timeout: Duration,
    /// What calls have given, and how many of these results were taken since the statement began anew.
    given: HashMap<Call, (Vec<bool>, usize)>,
    count: usize,
    /// The call that has to wait.
    wanted: Option<Call>,
}

impl Waits {
    /// Those of a new session.
    pub(crate) fn new(locks: &Arc<AdvisoryLocks>) -> Self {
        Self { owner: locks.new_owner(), locks: locks.clone(), statement: Mutex::default() }
    }

    /// Says which number clients know the session by.
    pub(crate) fn identify(&self, session: i32) {
        self.locks.identify(self.owner, session);
    }

    /// Begins a statement. What it locks for a transaction is given back with the value that is returned, if it `is_alone`.
    pub(crate) fn begin(self: &Arc<Self>, lock_timeout: Duration, is_alone: bool) -> TransactionLocks {
        *self.calls() = StatementCalls { lock_timeout, ..StatementCalls::default() };
        TransactionLocks(is_alone.then(|| self.clone()))
    }

    /// Makes a call, unless the statement has made it before it began anew. Returns whether it did what it is asked for.
    ///
    /// # Errors
    /// That the statement must wait: [`Self::wait`] does.
    pub(crate) fn call(&self, call: Call) -> SqlResult<bool> {
        let mut calls = self.calls();
        if let Some((given, taken)) = calls.given.get_mut(&call)
            && let Some(result) = given.get(*taken)
        {
            *taken += 1;
            return Ok(*result);
        }
        let result = match &call {
            Call::Lock { key, mode, span, waits } => {
                let is_taken = self.locks.try_take(self.owner, key, *mode, *span)?;
                if !is_taken && *waits {
                    return Err(calls.must_wait(call));
                }
                is_taken
            }
            Call::Unlock { key, mode } => self.locks.give_back(self.owner, key, *mode),
            Call::UnlockAll => {
                self.locks.give_all_back(self.owner, Span::Session);
                true
            }
            Call::Sleep(Duration::ZERO) => true,
            Call::Sleep(_) => return Err(calls.must_wait(call)),
        };
        calls.keep(call, result);
        Ok(result)
    }

    /// Waits for what a call needs, if one does. Then the statement begins anew. Returns whether there was one.
    ///
    /// # Errors
    /// The lock cannot be had: others wait for this session, or it takes too long.
    pub(crate) async fn wait(&self) -> SqlResult<bool> {
        let (wanted, lock_timeout) = {
            let mut calls = self.calls();
            (calls.wanted.take(), calls.lock_timeout)
        };
        let Some(call) = wanted else { return Ok(false) };
        match &call {
            Call::Sleep(duration) => tokio::time::sleep(*duration).await,
            Call::Lock { key, mode, span, .. } => {
                let taking = self.locks.take(self.owner, key, *mode, *span);
                if lock_timeout.is_zero() {
                    taking.await?;
                } else {
                    let words = "canceling statement due to lock timeout";
                    let too_late = |_| SqlError::new(SqlState::LOCK_NOT_AVAILABLE, words);
                    tokio::time::timeout(lock_timeout, taking).await.map_err(too_late)??;
                }
            }
            Call::Unlock { .. } | Call::UnlockAll => {}
        }
        let mut calls = self.calls();
        calls.keep(call, true);
        calls.given.values_mut().for_each(|(_, taken)| *taken = 0);
        Ok(true)
    }

    /// Gives back everything that was locked for the session.
    pub(crate) fn unlock_all(&self) {
        self.locks.give_all_back(self.owner, Span::Session);
    }

    /// All locks of all sessions.
    pub(crate) fn shown(&self) -> Vec<ShownLock> {
        self.locks.shown()
    }

    fn calls(&self) -> MutexGuard<'_, StatementCalls> {
        self.statement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.locks.forget(self.owner);
    }
}

impl StatementCalls {
    fn keep(&mut self, call: Call, result: bool) {
        if self.count < KEPT_CALLS_MAX {
            self.count += 1;
            let (given, taken) = self.given.entry(call).or_default();
            given.push(result);
            *taken = given.len();
        }
    }

    /// The error of a call that has to wait.
    fn must_wait(&mut self, call: Call) -> SqlError {
        let words = match call {
            Call::Sleep(_) => "pg_sleep() waits only in a query, and before its first rows",
            _ => "a lock that others hold is waited for only in a query, and before its first rows",
        };
        if self.count < KEPT_CALLS_MAX {
            self.wanted = Some(call);
        }
        SqlError::new(SqlState::LOCK_NOT_AVAILABLE, words)
    }
}

/// The locks that a transaction takes: given back when this is dropped.
#[derive(Default)]
pub(crate) struct TransactionLocks(Option<Arc<Waits>>);

impl TransactionLocks {
    /// Those of a transaction of a session.
    pub(crate) fn of(waits: &Arc<Waits>) -> Self {
        Self(Some(waits.clone()))
    }

    /// Notes a savepoint.
    pub(crate) fn save(&self) {
        if let Some(waits) = &self.0 {
            waits.locks.save(waits.owner);
        }
    }

    /// Forgets the savepoints after so many.
    pub(crate) fn release(&self, savepoints: usize) {
        if let Some(waits) = &self.0 {
            waits.locks.release(waits.owner, savepoints);
        }
    }

    /// Gives back what was taken after so many savepoints.
    pub(crate) fn roll_back_to(&self, savepoints: usize) {
        if let Some(waits) = &self.0 {
            waits.locks.roll_back_to(waits.owner, savepoints);
        }
    }
}

impl Drop for TransactionLocks {
    fn drop(&mut self) {
        if let Some(waits) = &self.0 {
            waits.locks.give_all_back(waits.owner, Span::Transaction);
        }
    }
}
