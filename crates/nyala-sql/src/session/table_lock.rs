//! Waiting for the lock of a table. Whoever waits is in the list of running queries, so that a timeout, its client and others can
//! end it.

use super::Session;
use crate::error::SqlResult;
use crate::waits::lock_timed_out;
use nyala_db::users::Principal;
use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::sleep;

impl Session {
    /// Takes the lock of a table together with others: for a statement that changes rows, whose text is `shown`.
    ///
    /// # Errors
    /// The statement was ended while it waited.
    pub(super) async fn share_table(
        &self,
        lock: &Arc<RwLock<()>>,
        shown: impl Fn() -> String + Send + Sync + 'static,
    ) -> SqlResult<OwnedRwLockReadGuard<()>> {
        match lock.clone().try_read_owned() {
            Ok(shared) => Ok(shared),
            Err(_) => self.wait_for_table(lock.clone().read_owned(), shown).await,
        }
    }

    /// Takes the lock of a table alone.
    ///
    /// # Errors
    /// The statement was ended while it waited.
    pub(super) async fn hold_table(
        &self,
        lock: &Arc<RwLock<()>>,
        shown: impl Fn() -> String + Send + Sync + 'static,
    ) -> SqlResult<OwnedRwLockWriteGuard<()>> {
        match lock.clone().try_write_owned() {
            Ok(alone) => Ok(alone),
            Err(_) => self.wait_for_table(lock.clone().write_owned(), shown).await,
        }
    }

    async fn wait_for_table<T>(
        &self,
        taking: impl Future<Output = T>,
        shown: impl Fn() -> String + Send + Sync + 'static,
    ) -> SqlResult<T> {
        let timeout = self.settings.statement_timeout();
        // The statement counts for the quota of its user when it runs.
        let guard = self.server.running.enter_within(timeout, shown, &self.database, &Principal::Open)?;
        let query = guard.query();
        self.running.note(query.number());
        let lock_timeout = self.settings.lock_timeout();
        tokio::select! {
            biased;
            error = query.stopped() => Err(error.into()),
            taken = taking => Ok(taken),
            () = sleep(lock_timeout), if !lock_timeout.is_zero() => Err(lock_timed_out()),
        }
    }
}
