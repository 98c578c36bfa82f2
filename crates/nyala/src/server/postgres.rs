//! Listens for clients of PostgreSQL, and hands their connections to `nyala-postgres`.
//!
//! As for HTTP, a thread per core serves connections, and executes statements that are light; others are executed in the
//! thread pool. So a request to cancel a statement, which is a connection, does not wait for statements.

use super::HEAD_MAX_BYTES;
use super::audit::Audit;
use super::listener::{BoundListener, Listener, Names};
use super::metric::Metric;
use super::tls::Certificates;
use nyala_core::memory::MemoryBudget;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_postgres::{Server, Settings, Surroundings};
use nyala_sql::SqlServer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// All connections together may fill their buffers with this fraction (1/8) of the memory.
const MEMORY_SHARE: usize = 8;
/// The most connections, however much memory there is.
const CONNECTIONS_MAX: usize = 4096;

/// The most connections of clients of PostgreSQL, of `most` that there may be of all clients: a quarter of them.
pub fn connections_max(memory_bytes: usize, most: usize) -> usize {
    (memory_bytes / MEMORY_SHARE / HEAD_MAX_BYTES).min(CONNECTIONS_MAX).min(most / 4)
}

/// What the listener needs.
pub struct Options {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Whether clients must log in.
    pub needs_log_in: bool,
    /// The longest message.
    pub message_bytes_max: usize,
    /// The most connections.
    pub connections_max: usize,
    /// How many threads serve connections.
    pub cores: usize,
    /// How long statements may continue after a shutdown began.
    pub shutdown_timeout: Duration,
    /// The certificate, if there is one.
    pub certificates: Option<Arc<Certificates>>,
    /// Where failed log-ins are written.
    pub audit: Arc<Audit>,
    /// The server's memory.
    pub memory: Arc<MemoryBudget>,
}

/// A listener for clients of PostgreSQL.
pub struct Postgres {
    server: Arc<Server>,
    listener: Listener,
}

impl Postgres {
    /// Begins to listen. Clients are told to wait until the server is [`Self::ready`].
    pub fn start(options: Options, work: &Handle) -> io::Result<Self> {
        let listener = BoundListener::bind(options.bind)?;
        let settings = Settings {
            needs_log_in: options.needs_log_in,
            message_bytes_max: options.message_bytes_max,
            connections_max: options.connections_max,
        };
        let (audit, certificates) = (options.audit, options.certificates);
        let succeeded = audit.clone();
        let surroundings = Surroundings {
            tls: certificates.map(|own| Box::new(move || own.postgres_acceptor()) as _),
            logged_in: Box::new(move |user, client| {
                succeeded.logged_in(user, RemoteClient::of(client, ClientProtocol::Postgres))
            }),
            log_in_failed: Box::new(move |user, client| {
                audit.log_in_failed(user, RemoteClient::of(client, ClientProtocol::Postgres))
            }),
            memory: options.memory,
            work: work.clone(),
            stopped: listener.stopped(),
        };
        let server = Server::new(settings, surroundings);
        let serving = server.clone();
        let serve = move |stream, tasks: &mut JoinSet<()>| {
            let server = serving.clone();
            tasks.spawn(async move {
                if let Err(error) = serve(stream, server).await {
                    tracing::debug!(%error, "a connection of PostgreSQL's protocol ended");
                }
            });
        };
        let names = Names { threads: "postgres", setting: "postgres-bind", clients: "PostgreSQL's clients" };
        let (cores, shutdown_timeout) = (options.cores, options.shutdown_timeout);
        let listener = listener.serve(names, cores, shutdown_timeout, async |stream| stream, serve)?;
        Ok(Self { server, listener })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// From now on statements are executed.
    pub fn ready(&self, sql: Arc<SqlServer>) {
        self.server.ready(sql);
    }

    /// What `/metrics` shows of it.
    pub fn metrics(&self) -> impl Fn() -> Vec<Metric> + Send + Sync + use<> {
        let server = self.server.clone();
        move || metrics(&server)
    }

    /// Stops listening, and lets statements that run come to their end.
    pub fn stopping(&self) {
        self.listener.stopping();
    }

    /// Waits until all statements have ended, at most for the shutdown timeout, and closes all connections.
    pub fn stop(self) {
        self.listener.stop();
    }
}

fn metrics(server: &Server) -> Vec<Metric> {
    let counts = &server.counts;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (of_statements, seconds, up_to) = counts.durations.counts();
    let refused = "Connections of PostgreSQL's clients that were refused because there were too many.";
    let failed = "Statements of PostgreSQL's clients that failed.";
    vec![
        Metric::gauge(
            "nyala_postgres_connections",
            "Open connections of PostgreSQL's clients.",
            server.open() as u64,
        ),
        Metric::gauge(
            "nyala_postgres_connections_max",
            "The most connections of PostgreSQL's clients at once.",
            server.connections_max() as u64,
        ),
        Metric::counter("nyala_postgres_connections_refused_total", refused, count(&counts.refused)),
        Metric::counter(
            "nyala_postgres_failed_log_ins_total",
            "Log-ins of PostgreSQL's clients that failed.",
            count(&counts.failed_log_ins),
        ),
        Metric::counter(
            "nyala_postgres_statements_total",
            "Statements that PostgreSQL's clients executed.",
            count(&counts.statements),
        ),
        Metric::counter("nyala_postgres_failed_statements_total", failed, count(&counts.failed_statements)),
        Metric::histogram(
            "nyala_postgres_statement_duration_seconds",
            "Time from a message of PostgreSQL's clients that executes statements until its answer is complete.",
            of_statements,
            seconds,
            up_to,
        ),
    ]
}

async fn serve(stream: std::net::TcpStream, server: Arc<Server>) -> io::Result<()> {
    let stream = TcpStream::from_std(stream)?;
    // Answers are sent when they are complete, so waiting for more of them only delays.
    stream.set_nodelay(true)?;
    // A client that has left already has no address, and needs no answer.
    let client = stream.peer_addr()?.ip();
    server.serve(stream, Some(client)).await
}
