//! The sessions that calls use: one of its own for each, or that of a transaction.

use nyala_sql::{CancelHandle, Session, TransactionStatus};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Status;

/// A transaction that was begun and has not ended.
pub(crate) struct OpenTransaction {
    session: Arc<Mutex<Session>>,
    cancel: CancelHandle,
    /// A statement was broken off in the middle, so that nobody knows what it has done: the transaction has failed.
    is_broken: AtomicBool,
}

impl OpenTransaction {
    /// The session of a transaction that has just begun.
    pub(crate) fn begun(session: Session) -> Self {
        let cancel = session.cancel_handle();
        Self { session: Arc::new(Mutex::new(session)), cancel, is_broken: AtomicBool::new(false) }
    }

    /// Says that a statement of it has failed outside the session: while its rows were sent.
    pub(crate) fn fail(&self) {
        self.is_broken.store(true, Ordering::Release);
    }
}

/// The session that a call uses.
#[derive(Clone)]
pub(crate) struct Using {
    session: Arc<Mutex<Session>>,
    cancel: CancelHandle,
    /// The transaction whose session it is.
    pub(crate) transaction: Option<Arc<OpenTransaction>>,
}

/// A session that nobody else uses meanwhile.
pub(crate) struct Locked {
    session: OwnedMutexGuard<Session>,
    transaction: Option<Arc<OpenTransaction>>,
    is_done: bool,
}

impl Using {
    /// A session for one call.
    pub(crate) fn own(session: Session) -> Self {
        let cancel = session.cancel_handle();
        Self { session: Arc::new(Mutex::new(session)), cancel, transaction: None }
    }

    /// The session of a transaction.
    pub(crate) fn of_transaction(transaction: Arc<OpenTransaction>) -> Self {
        let (session, cancel) = (transaction.session.clone(), transaction.cancel.clone());
        Self { session, cancel, transaction: Some(transaction) }
    }

    /// What cancels the statement that it executes.
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits until no other call uses the session.
    pub(crate) async fn lock(&self) -> Result<Locked, Status> {
        let mut session = self.session.clone().lock_owned().await;
        if let Some(transaction) = &self.transaction {
            if transaction.is_broken.swap(false, Ordering::AcqRel) {
                session.fail_transaction();
            }
            if session.transaction() == TransactionStatus::Idle {
                return Err(has_ended());
            }
        }
        Ok(Locked { session, transaction: self.transaction.clone(), is_done: false })
    }
}

impl Locked {
    /// Whether the session is that of a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Ends its use. If it is dropped without that, its transaction has failed, and a series of statements is taken back.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Deref for Locked {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if let Some(transaction) = &self.transaction {
            transaction.fail();
        } else {
            // A prepared statement keeps its session: what the next call writes must not come with this.
            self.session.abandon_series();
        }
    }
}

impl Using {
    /// The session even if the transaction has failed: going back to a savepoint heals it.
    pub(crate) async fn lock_failed_or_not(&self) -> OwnedMutexGuard<Session> {
        let mut session = self.session.clone().lock_owned().await;
        if let Some(transaction) = &self.transaction
            && transaction.is_broken.swap(false, Ordering::AcqRel)
        {
            session.fail_transaction();
        }
        session
    }
}

/// What a client is told of a transaction that has ended.
pub(crate) fn has_ended() -> Status {
    Status::failed_precondition(
        "the transaction has ended: a statement that was prepared in it must be prepared again",
    )
}
