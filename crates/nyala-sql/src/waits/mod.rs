//! What a session waits for while it computes a function: a lock, that time passes, or that a sequence is changed.
//!
//! SQL functions must not block their thread. A call that must wait (lock, `pg_sleep`, sequence) records what for and fails.
//! The session waits, and restarts the statement, which replays the results of earlier calls, so that nothing is done twice.

mod advisory_locks;
mod apart;
mod kept;

pub use advisory_locks::AdvisoryLocks;
pub(crate) use advisory_locks::{LockKey, LockNumber, Mode, ShownLock};

pub(crate) use apart::{SequenceCall, apart};

use crate::error::{SqlError, SqlResult, SqlState};
use advisory_locks::Owner;
use apart::Awaited;
use kept::Kept;
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

impl Call {
    /// Whether it takes a lock that its statement gives back if it begins anew.
    fn is_of_transaction(&self) -> bool {
        matches!(self, Self::Lock { span: Span::Transaction, .. })
    }
}

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
    /// What calls about locks and pauses have given.
    given: Kept<Call, bool>,
    /// What calls about sequences have given.
    of_sequences: Kept<SequenceCall, Option<i64>>,
    /// What it has to wait for.
    wanted: Option<Wanted>,
    /// Whether it can begin anew: no row of it was shown or written.
    can_begin_anew: bool,
    /// Whether what begins next is the same statement anew.
    begins_anew: bool,
}

/// What a statement has to wait for.
enum Wanted {
    Call(Call),
    /// What a thread of its own does for it.
    OfSequence(Awaited),
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

    /// Begins a statement. If it is outside of a transaction (`is_alone`), dropping the returned value gives back the locks
    /// that it takes for a transaction.
    pub(crate) fn begin(self: &Arc<Self>, lock_timeout: Duration, is_alone: bool) -> TransactionLocks {
        let mut calls = self.calls();
        let before = std::mem::take(&mut *calls);
        *calls = StatementCalls { lock_timeout, can_begin_anew: before.can_begin_anew, ..Default::default() };
        if before.begins_anew {
            (calls.given, calls.of_sequences) = (before.given, before.of_sequences);
            calls.given.forget(Call::is_of_transaction);
            calls.given.rewind();
            calls.of_sequences.rewind();
        }
        TransactionLocks(is_alone.then(|| self.clone()))
    }

    /// Says that what runs can begin anew, for as long as the returned value is held.
    pub(crate) fn can_begin_anew(self: &Arc<Self>) -> CanBeginAnew {
        let mut calls = self.calls();
        let is_inner = std::mem::replace(&mut calls.can_begin_anew, true);
        if !is_inner {
            calls.of_sequences = Kept::default();
        }
        CanBeginAnew { waits: self.clone(), is_inner }
    }

    /// Makes a call, unless the statement has made it before it began anew. Returns whether it did what it is asked for.
    ///
    /// # Errors
    /// That the statement must wait: [`CanBeginAnew`] does.
    pub(crate) fn call(&self, call: Call) -> SqlResult<bool> {
        let mut calls = self.calls();
        if let Some(result) = calls.given.again(&call) {
            return Ok(result);
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
        calls.given.keep(call, result);
        Ok(result)
    }

    /// Waits for what a call needs, if one does. Returns whether there was one.
    async fn wait(&self) -> SqlResult<bool> {
        let (wanted, lock_timeout) = {
            let mut calls = self.calls();
            (calls.wanted.take(), calls.lock_timeout)
        };
        match wanted {
            None => return Ok(false),
            Some(Wanted::Call(call)) => {
                self.wait_for(&call, lock_timeout).await?;
                self.calls().given.keep(call, true);
            }
            Some(Wanted::OfSequence(awaited)) => {
                if let Some((call, result)) = awaited.done().await? {
                    self.calls().of_sequences.keep(call, result);
                }
            }
        }
        Ok(true)
    }

    fn wants_sequence(&self) -> bool {
        matches!(self.calls().wanted, Some(Wanted::OfSequence(_)))
    }

    async fn wait_for(&self, call: &Call, lock_timeout: Duration) -> SqlResult<()> {
        match call {
            Call::Sleep(duration) => tokio::time::sleep(*duration).await,
            Call::Lock { key, mode, span, .. } => {
                let taking = self.locks.take(self.owner, key, *mode, *span);
                if lock_timeout.is_zero() {
                    taking.await?;
                } else {
                    tokio::time::timeout(lock_timeout, taking).await.map_err(|_| lock_timed_out())??;
                }
            }
            Call::Unlock { .. } | Call::UnlockAll => unreachable!("giving back never waits"),
        }
        Ok(())
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

/// The error of a statement that has waited for a lock for as long as `lock_timeout` says.
pub(crate) fn lock_timed_out() -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.locks.forget(self.owner);
    }
}

impl StatementCalls {
    /// The error of a call that has to wait.
    fn must_wait(&mut self, call: Call) -> SqlError {
        if !self.keep_all() {
            let words = "a statement cannot wait after many thousand calls of functions that may have to";
            return SqlError::new(SqlState::LOCK_NOT_AVAILABLE, words);
        }
        let words = match call {
            Call::Sleep(_) => "pg_sleep() waits only in a query, and before its first rows",
            _ => "a lock that others hold is waited for only in a query, and before its first rows",
        };
        self.wanted = Some(Wanted::Call(call));
        SqlError::new(SqlState::LOCK_NOT_AVAILABLE, words)
    }

    /// Whether all that the calls have given is kept, so that none is made twice if the statement begins anew.
    fn keep_all(&self) -> bool {
        !self.given.is_full() && !self.of_sequences.is_full()
    }
}

/// What runs can begin anew while this is held: a query, or a whole statement.
pub(crate) struct CanBeginAnew {
    waits: Arc<Waits>,
    /// Whether it is a part of something that can begin anew.
    is_inner: bool,
}

impl CanBeginAnew {
    /// Waits for what a call of a query needs, if one does. Returns whether there was one. Then the query restarts; it may
    /// also restart for another reason. Either way its calls replay their results.
    ///
    /// # Errors
    /// The lock cannot be had: others wait for this session, or it takes too long. The sequence gives no numbers.
    pub(crate) async fn wait_in_query(&self) -> SqlResult<bool> {
        // Numbers that the statement has taken before its query are not the query's: the whole statement begins anew.
        if self.is_inner && self.waits.wants_sequence() {
            return Ok(false);
        }
        let has_waited = self.waits.wait().await?;
        let mut calls = self.waits.calls();
        calls.given.rewind();
        if !self.is_inner {
            calls.of_sequences.rewind();
        }
        Ok(has_waited)
    }

    /// Waits for the sequence that a statement needs, if it does: it is to be begun by [`Waits::begin`] once more.
    ///
    /// # Errors
    /// The sequence gives no numbers.
    pub(crate) async fn wait_in_statement(&self) -> SqlResult<bool> {
        let has_waited = self.waits.wants_sequence() && self.waits.wait().await?;
        self.waits.calls().begins_anew = has_waited;
        Ok(has_waited)
    }
}

impl Drop for CanBeginAnew {
    fn drop(&mut self) {
        if !self.is_inner {
            let mut calls = self.waits.calls();
            (calls.can_begin_anew, calls.begins_anew) = (false, false);
            calls.of_sequences = Kept::default();
        }
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
