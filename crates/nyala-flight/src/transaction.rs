//! Transactions that a client begins and ends by calls of their own.
//!
//! A call without a transaction has a session of its own, which ends with it. A transaction is a session that is kept.

use crate::caller::Caller;
use crate::error::status_of;
use crate::registry::Id;
use crate::sessions::{OpenTransaction, Using, has_ended};
use crate::shared::Server;
use crate::statement::one;
use arrow_flight::sql::{ActionEndSavepointRequest, ActionEndTransactionRequest, EndTransaction};
use nyala_sql::{Outcome, Session, TransactionStatus, quoted_name};
use tonic::Status;

/// The memory that a transaction is charged with, beside what it writes.
const TRANSACTION_BYTES: usize = 4 << 10;
/// The longest name of a savepoint.
const NAME_BYTES_MAX: usize = 256;

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
        Ok(Using::of_transaction(transaction))
    }

    /// Begins a transaction.
    pub(crate) async fn begin_transaction(&self, caller: &Caller) -> Result<Id, Status> {
        let mut session = caller.session(self)?;
        execute(&mut session, "BEGIN").await?;
        let transaction = OpenTransaction::begun(session);
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
        self.execute_in(caller, transaction, &format!("SAVEPOINT {}", quoted_name(name))).await?;
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
            1 => format!("RELEASE SAVEPOINT {}", quoted_name(name)),
            2 => format!("ROLLBACK TO SAVEPOINT {}", quoted_name(name)),
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

/// Executes a statement of transactions; what was done.
async fn execute(session: &mut Session, text: &str) -> Result<&'static str, Status> {
    let prepared = session.prepare(one(text)?, &[]).await.map_err(|error| status_of(&error))?;
    match session.execute(&prepared, Vec::new()).await.map_err(|error| status_of(&error))? {
        Outcome::Done(tag) => Ok(tag.command),
        _ => Err(Status::internal("a statement of transactions gives rows")),
    }
}
