//! Transactions that a client begins and ends by calls of their own, and the sessions that calls use.
//!
//! A call without a transaction has a session of its own, which ends with it. A transaction is a session that is kept.

use crate::caller::Caller;
use crate::error::status_of;
use crate::kept::Id;
use crate::shared::Server;
use crate::statement::one;
use arrow_flight::sql::{ActionEndSavepointRequest, ActionEndTransactionRequest, EndTransaction};
use nyala_sql::{CancelHandle, Outcome, Session, TransactionStatus};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Status;

/// The memory that a transaction is charged with, beside what it writes.
const TRANSACTION_BYTES: usize = 4 << 10;
/// The longest name of a savepoint.
const NAME_BYTES_MAX: usize = 256;

/// A transaction that was begun and has not ended.
pub(crate) struct OpenTransaction {
    session: Arc<Mutex<Session>>,
    cancel: CancelHandle,
    /// A statement was broken off in the middle, so that nobody knows what it has done: the transaction has failed.
    is_broken: AtomicBool,
}

impl OpenTransaction {
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

    /// Ends its use. If it is dropped without that, its transaction has failed.
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
        if let Some(transaction) = self.transaction.as_ref().filter(|_| !self.is_done) {
            transaction.fail();
        }
    }
}

impl Server {
    /// The session of a transaction, or one for the call.
    pub(crate) fn using(&self, caller: &Caller, transaction: Option<&[u8]>) -> Result<Using, Status> {
        match transaction.filter(|id| !id.is_empty()) {
            None => Ok(Using::own(caller.session(self)?)),
            Some(id) => self.using_transaction(caller, id),
        }
    }

    fn using_transaction(&self, caller: &Caller, id: &[u8]) -> Result<Using, Status> {
        let transaction = self.kept.transactions.get(id, caller.owner())?;
        let (session, cancel) = (transaction.session.clone(), transaction.cancel.clone());
        Ok(Using { session, cancel, transaction: Some(transaction) })
    }

    /// Begins a transaction.
    pub(crate) async fn begin_transaction(&self, caller: &Caller) -> Result<Id, Status> {
        let mut session = caller.session(self)?;
        execute(&mut session, "BEGIN").await?;
        let cancel = session.cancel_handle();
        let session = Arc::new(Mutex::new(session));
        let transaction = OpenTransaction { session, cancel, is_broken: AtomicBool::new(false) };
        self.kept.transactions.insert(caller.owner(), transaction, TRANSACTION_BYTES)
    }

    /// Commits a transaction, or takes it back.
    pub(crate) async fn end_transaction(
        &self,
        caller: &Caller,
        request: &ActionEndTransactionRequest,
    ) -> Result<(), Status> {
        let statement = match EndTransaction::try_from(request.action) {
            Ok(EndTransaction::Commit) => "COMMIT",
            Ok(EndTransaction::Rollback) => "ROLLBACK",
            _ => return Err(Status::invalid_argument("a transaction ends by COMMIT or by ROLLBACK")),
        };
        let using = self.using_transaction(caller, &request.transaction_id)?;
        let mut session = using.lock_failed_or_not().await;
        let forget = || self.kept.transactions.remove(&request.transaction_id, caller.owner()).map(drop);
        if session.transaction() == TransactionStatus::Idle {
            // Drivers take a transaction back whose COMMIT has failed.
            return match statement {
                "ROLLBACK" => forget(),
                _ => Err(has_ended()),
            };
        }
        if execute(&mut session, statement).await? != statement {
            let words = "a statement of the transaction had failed, so it was rolled back (SQLSTATE 25P02)";
            return Err(Status::aborted(words));
        }
        forget()
    }

    /// Makes a savepoint. Its handle is the transaction's, and its name.
    pub(crate) async fn begin_savepoint(
        &self,
        caller: &Caller,
        transaction: &[u8],
        name: &str,
    ) -> Result<Vec<u8>, Status> {
        Id::of(transaction)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let words = format!("the name of a savepoint has 1 to {NAME_BYTES_MAX} bytes");
            return Err(Status::invalid_argument(words));
        }
        self.execute_in(caller, transaction, &format!("SAVEPOINT {}", quoted(name))).await?;
        Ok([transaction, name.as_bytes()].concat())
    }

    /// Forgets a savepoint, or goes back to it.
    pub(crate) async fn end_savepoint(
        &self,
        caller: &Caller,
        request: &ActionEndSavepointRequest,
    ) -> Result<(), Status> {
        let split = request.savepoint_id.split_at_checked(Id::BYTES);
        let split = split.and_then(|(id, name)| Some((id, std::str::from_utf8(name).ok()?)));
        let (transaction, name) =
            split.ok_or_else(|| Status::invalid_argument("the savepoint is not of this server"))?;
        // The protocol's numbers: 1 is RELEASE, 2 is ROLLBACK.
        let statement = match request.action {
            1 => format!("RELEASE SAVEPOINT {}", quoted(name)),
            2 => format!("ROLLBACK TO SAVEPOINT {}", quoted(name)),
            _ => return Err(Status::invalid_argument("a savepoint ends by RELEASE or by ROLLBACK")),
        };
        self.execute_in(caller, transaction, &statement).await
    }

    async fn execute_in(&self, caller: &Caller, transaction: &[u8], text: &str) -> Result<(), Status> {
        let using = self.using_transaction(caller, transaction)?;
        let mut session = using.lock_failed_or_not().await;
        execute(&mut session, text).await.map(drop)
    }
}

impl Using {
    /// The session even if the transaction has failed: going back to a savepoint heals it.
    async fn lock_failed_or_not(&self) -> OwnedMutexGuard<Session> {
        let mut session = self.session.clone().lock_owned().await;
        if let Some(transaction) = &self.transaction
            && transaction.is_broken.swap(false, Ordering::AcqRel)
        {
            session.fail_transaction();
        }
        session
    }
}

fn has_ended() -> Status {
    Status::failed_precondition(
        "the transaction has ended: a statement that was prepared in it must be prepared again",
    )
}

/// Executes a statement of transactions; what was done.
async fn execute(session: &mut Session, text: &str) -> Result<&'static str, Status> {
    let prepared = session.prepare(one(text)?, &[]).await.map_err(|error| status_of(&error))?;
    match session.execute(&prepared, Vec::new()).await.map_err(|error| status_of(&error))? {
        Outcome::Done(tag) => Ok(tag.command),
        _ => Err(Status::internal("a statement of transactions gives rows")),
    }
}

/// A name as SQL has it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
