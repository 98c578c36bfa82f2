//! What all connections share: settings, surroundings, counts, and what outlives a call.

use crate::error::starting;
use crate::kept::Kept;
use crate::session_tokens::Tokens;
use futures::future::BoxFuture;
use hyper::header::HeaderMap;
use nyala_core::Durations;
use nyala_core::memory::MemoryBudget;
use nyala_db::users::Principal;
use nyala_sql::SqlServer;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::Status;

/// What an operator decides.
pub struct Settings {
    /// The longest message that a client may send.
    pub message_bytes_max: usize,
    /// How long a connection may stay open without a call.
    pub keep_alive_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
}

/// Is told the user and the address of a failed log-in.
pub type LogInFailed = dyn Fn(&str, Option<IpAddr>) + Send + Sync;

/// What the server asks of its surroundings.
pub struct Surroundings {
    /// Is told the user and the address of each failed log-in.
    pub log_in_failed: Box<LogInFailed>,
    /// The server's memory.
    pub memory: Arc<MemoryBudget>,
    /// Where statements are executed.
    pub work: Handle,
    /// Turns true when the server stops.
    pub stopped: watch::Receiver<bool>,
}

/// Why a client is not who it says.
pub struct Refused {
    /// What it is told.
    pub words: String,
    /// The name that it gave.
    pub user: String,
    /// Why.
    pub why: Why,
}

/// Why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is somebody else, or nobody.
    Unknown,
    /// Too many of its log-ins have failed.
    TooOften,
    /// The server could not find out: it may try again.
    NotNow,
}

/// Finds out who sends a call, by its headers and address, as for HTTP.
pub type Authenticate =
    dyn Fn(HeaderMap, Option<IpAddr>) -> BoxFuture<'static, Result<Principal, Refused>> + Send + Sync;

/// What is there when the store is open.
pub struct Ready {
    /// What sessions share.
    pub sql: Arc<SqlServer>,
    /// Whether clients must log in.
    pub needs_log_in: bool,
    /// Finds out who they are.
    pub authenticate: Box<Authenticate>,
}

/// A server that speaks Arrow Flight SQL.
pub struct Server {
    pub(crate) settings: Settings,
    pub(crate) surroundings: Surroundings,
    pub(crate) tokens: Tokens,
    pub(crate) kept: Arc<Kept>,
    ready: OnceLock<Ready>,
    /// How much was done since the start.
    pub counts: Counts,
}

/// How much was done since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls.
    pub calls: AtomicU64,
    /// How long each took until its answer was complete.
    pub durations: Durations,
    /// Log-ins that failed.
    pub failed_log_ins: AtomicU64,
    /// Statements that were executed.
    pub statements: AtomicU64,
    /// Statements that failed.
    pub failed_statements: AtomicU64,
}

impl Counts {
    pub(crate) fn failed(&self) {
        self.failed_statements.fetch_add(1, Ordering::Relaxed);
    }
}

impl Server {
    /// A server that tells clients to wait until it is [`Self::ready`].
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(settings: Settings, surroundings: Surroundings) -> io::Result<Arc<Self>> {
        let server = Arc::new(Self {
            tokens: Tokens::new()?,
            kept: Kept::new(&surroundings.memory),
            settings,
            surroundings,
            ready: OnceLock::new(),
            counts: Counts::default(),
        });
        let sweeper = crate::kept::sweep(Arc::downgrade(&server.kept));
        server.surroundings.work.spawn(sweeper);
        Ok(server)
    }

    /// From now on statements are executed.
    pub fn ready(&self, ready: Ready) {
        // It is called once.
        drop(self.ready.set(ready));
    }

    pub(crate) fn opened(&self) -> Result<&Ready, Status> {
        self.ready.get().ok_or_else(starting)
    }

    /// How many prepared statements and transactions there are.
    pub fn kept(&self) -> (usize, usize) {
        (self.kept.statements.count(), self.kept.transactions.count())
    }
}
