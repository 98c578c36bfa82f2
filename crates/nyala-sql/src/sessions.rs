//! The sessions of PostgreSQL's clients: who is connected, and how a statement or a whole session is ended from another one.
//!
//! What a session executes is in the list of running queries. Here it says only what it is while it executes nothing, so that a
//! statement costs nothing more.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::transaction::TransactionStatus;
use nyala_db::users::Principal;
use nyala_exec::running::{Query, RunningQueries};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Cancels the running statement of a session, from anywhere.
#[derive(Clone, Default)]
pub struct CancelHandle {
    /// The number of the statement that runs, or of the last one; 0 if there was none.
    number: Arc<AtomicU64>,
    running: Arc<RunningQueries>,
}

/// All sessions whose clients know a number for them.
#[derive(Default)]
pub struct Sessions {
    open: Mutex<BTreeMap<i32, Arc<OpenSession>>>,
}

/// A session as others see it.
pub(crate) struct OpenSession {
    /// What its client knows it by.
    pub(crate) number: i32,
    /// What the client calls itself.
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) client: Option<IpAddr>,
    /// When it began, ns since 1970.
    pub(crate) begun_ns: i64,
    /// The user who has logged in; nobody where that is not asked for.
    logged_in: Option<String>,
    is_admin: bool,
    application: Mutex<String>,
    transaction: AtomicU8,
    running: CancelHandle,
    is_ended: AtomicBool,
    ended: Notify,
}

/// Keeps a session in the list until it is dropped.
pub(crate) struct ListedSession {
    list: Arc<Sessions>,
    own: Arc<OpenSession>,
}

/// What a new session says of itself.
pub(crate) struct Introduction<'a> {
    pub(crate) number: i32,
    pub(crate) user: &'a str,
    pub(crate) principal: &'a Principal,
    pub(crate) database: &'a str,
    pub(crate) client: Option<IpAddr>,
    pub(crate) begun_ns: i64,
    pub(crate) running: CancelHandle,
}

/// How somebody ends what a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The statement that it executes now.
    Statement,
    Session,
}

impl CancelHandle {
    /// That of a session whose statements are in a list.
    pub fn new(running: &Arc<RunningQueries>) -> Self {
        Self { number: Arc::default(), running: running.clone() }
    }

    /// Notes the number of the statement that runs now.
    pub(crate) fn note(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// Asks the statement that runs now to stop. Nothing happens if none runs.
    pub fn cancel(&self) {
        // It may have ended meanwhile.
        drop(self.running.kill(self.number.load(Ordering::Acquire)));
    }

    /// The statement that runs now.
    fn query(&self) -> Option<Arc<Query>> {
        self.running.find(self.number.load(Ordering::Acquire))
    }
}

impl Sessions {
    pub(crate) fn enter(self: &Arc<Self>, of: Introduction<'_>) -> ListedSession {
        let own = Arc::new(OpenSession {
            number: of.number,
            user: of.user.to_owned(),
            database: of.database.to_owned(),
            client: of.client,
            begun_ns: of.begun_ns,
            logged_in: of.principal.user_name().map(str::to_owned),
            is_admin: of.principal.is_admin(),
            application: Mutex::default(),
            transaction: AtomicU8::new(TransactionStatus::Idle as u8),
            running: of.running,
            is_ended: AtomicBool::new(false),
            ended: Notify::new(),
        });
        self.open().insert(own.number, own.clone());
        ListedSession { list: self.clone(), own }
    }

    /// The sessions that somebody may see: all of them if it is an administrator, else its own.
    pub(crate) fn seen_by(&self, principal: &Principal) -> Vec<Arc<OpenSession>> {
        self.open().values().filter(|own| own.is_of(principal)).cloned().collect()
    }

    /// Ends a session, or what it executes. Returns whether there is such a session.
    ///
    /// # Errors
    /// It is somebody else's, and no administrator asks.
    pub(crate) fn end(&self, number: i32, what: End, principal: &Principal) -> SqlResult<bool> {
        let Some(session) = self.open().get(&number).cloned() else { return Ok(false) };
        if !session.is_of(principal) {
            let (action, doing) = match what {
                End::Statement => ("cancel", "query is being canceled"),
                End::Session => ("terminate", "process is being terminated"),
            };
            let words = match session.is_admin {
                true => format!("must be a superuser to {action} superuser {}", what.of()),
                false => format!("must be a member of the role whose {doing} or member of pg_signal_backend"),
            };
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, words));
        }
        if what == End::Session {
            session.is_ended.store(true, Ordering::Release);
            session.ended.notify_waiters();
        }
        session.running.cancel();
        Ok(true)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<OpenSession>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End {
    fn of(self) -> &'static str {
        match self {
            End::Statement => "query",
            End::Session => "process",
        }
    }
}

impl OpenSession {
    fn is_of(&self, principal: &Principal) -> bool {
        principal.is_admin()
            || principal.user_name().is_some_and(|name| self.logged_in.as_deref() == Some(name))
    }

    /// What the client calls its program.
    pub(crate) fn application(&self) -> String {
        self.application.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it executes now, if it executes anything.
    pub(crate) fn query(&self) -> Option<Arc<Query>> {
        self.running.query()
    }

    /// What PostgreSQL calls a session that executes nothing.
    pub(crate) fn idle_state(&self) -> &'static str {
        let status = self.transaction.load(Ordering::Acquire);
        match status {
            _ if status == TransactionStatus::Active as u8 => "idle in transaction",
            _ if status == TransactionStatus::Failed as u8 => "idle in transaction (aborted)",
            _ => "idle",
        }
    }
}

impl ListedSession {
    pub(crate) fn note_application(&self, name: &str) {
        name.clone_into(&mut self.own.application.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn note_transaction(&self, status: TransactionStatus) {
        self.own.transaction.store(status as u8, Ordering::Release);
    }

    /// Waits until somebody ends the session. Never returns otherwise.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let own = self.own.clone();
        async move {
            let mut ended = std::pin::pin!(own.ended.notified());
            // From here on no notification is missed.
            ended.as_mut().enable();
            if !own.is_ended.load(Ordering::Acquire) {
                ended.await;
            }
        }
    }
}

impl Drop for ListedSession {
    fn drop(&mut self) {
        self.list.open().remove(&self.own.number);
    }
}
