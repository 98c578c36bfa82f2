//! What all connections share: settings, surroundings, counts.

use crate::cancels::Cancels;
use crate::error::Failure;
use nyala_core::Durations;
use nyala_core::memory::MemoryBudget;
use nyala_sql::SqlServer;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// There may be so many connections, however little memory there is.
const CONNECTIONS_MIN: usize = 8;

/// What an operator decides.
pub struct Settings {
    /// Whether clients must log in.
    pub needs_log_in: bool,
    /// The longest message.
    pub message_bytes_max: usize,
    /// The most connections at once.
    pub connections_max: usize,
}

/// Is told the user and the address of a log-in.
pub type LogIn = dyn Fn(&str, Option<IpAddr>) + Send + Sync;

/// What the server asks of its surroundings.
pub struct Surroundings {
    /// Gives the certificate that is in use now, if there is one.
    pub tls: Option<Box<dyn Fn() -> TlsAcceptor + Send + Sync>>,
    /// Is told the user and the address of each log-in.
    pub logged_in: Box<LogIn>,
    /// Is told the user and the address of each log-in that failed.
    pub log_in_failed: Box<LogIn>,
    /// The server's memory.
    pub memory: Arc<MemoryBudget>,
    /// Where statements are executed that are not light.
    pub work: Handle,
    /// Turns true when the server stops.
    pub stopped: watch::Receiver<bool>,
}

/// A server that speaks PostgreSQL's protocol.
pub struct Server {
    pub(crate) settings: Settings,
    pub(crate) surroundings: Surroundings,
    pub(crate) cancels: Arc<Cancels>,
    sql: OnceLock<Arc<SqlServer>>,
    pub(crate) open: AtomicUsize,
    /// How much was done since the start.
    pub counts: Counts,
}

/// How much was done since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that were refused because there were too many.
    pub refused: AtomicU64,
    /// Log-ins that failed.
    pub failed_log_ins: AtomicU64,
    /// Statements that were executed.
    pub statements: AtomicU64,
    /// Statements that failed.
    pub failed_statements: AtomicU64,
    /// How long messages took that execute statements, until their answers were complete.
    pub durations: Durations,
}

impl Server {
    /// A server that tells clients to wait until it is [`Self::ready`].
    pub fn new(settings: Settings, surroundings: Surroundings) -> Arc<Self> {
        let settings =
            Settings { connections_max: settings.connections_max.max(CONNECTIONS_MIN), ..settings };
        let (cancels, sql) = (Arc::default(), OnceLock::new());
        let (open, counts) = (AtomicUsize::new(0), Counts::default());
        Arc::new(Self { settings, surroundings, cancels, sql, open, counts })
    }

    /// From now on statements are executed.
    pub fn ready(&self, sql: Arc<SqlServer>) {
        // It is called once.
        let _ = self.sql.set(sql);
    }

    pub(crate) fn sql(&self) -> Result<&Arc<SqlServer>, Failure> {
        self.sql.get().ok_or_else(|| Failure::new("57P03", "the database system is starting up"))
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The most connections at once.
    pub fn connections_max(&self) -> usize {
        self.settings.connections_max
    }
}
