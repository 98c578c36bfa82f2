//! Listens for clients of Arrow Flight SQL, and hands their connections to `nyala-flight`.
//!
//! As for HTTP, a thread per core serves connections; calls are worked on in the thread pool. When there are too many
//! connections, the one that has waited longest for its client is closed.

use super::audit::Audit;
use super::connection_limit::{ConnectionLimiter, ConnectionPermit};
use super::http::Context;
use super::http::access::{self, Access};
use super::listener::{BoundListener, Listener, Names};
use super::metric::Metric;
use super::timeouts::TimeoutStream;
use super::tls::{self, Certificates};
use super::{HEADER_TIMEOUT, WRITE_TIMEOUT};
use futures::FutureExt;
use hyper::StatusCode;
use nyala_core::memory::MemoryBudget;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_flight::{BeginCall, Ready, Refused, Server, Settings, Surroundings, Why};
use nyala_sql::SqlServer;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// All connections together may hold this fraction (1/8) of the memory.
const MEMORY_SHARE: usize = 8;
/// What a connection may hold that nobody charges: what it has received and not read, and what it has not sent.
const CONNECTION_BYTES: usize = 512 << 10;
/// The most connections, however much memory there is.
const CONNECTIONS_MAX: usize = 1024;

/// The most connections of clients of Flight, of `most` that there may be of all clients: an eighth of them.
pub fn connections_max(memory_bytes: usize, most: usize) -> usize {
    (memory_bytes / MEMORY_SHARE / CONNECTION_BYTES).min(CONNECTIONS_MAX).min(most / 8)
}

/// What the listener needs.
pub struct Options {
    /// Where it listens.
    pub bind: SocketAddr,
    /// The longest message.
    pub message_bytes_max: usize,
    /// The most connections.
    pub connections_max: usize,
    /// How many threads serve connections.
    pub cores: usize,
    /// How long a connection may stay open without a call.
    pub keep_alive_timeout: Duration,
    /// How long calls may continue after a shutdown began.
    pub shutdown_timeout: Duration,
    /// The certificate, if there is one.
    pub certificates: Option<Arc<Certificates>>,
    /// Where failed log-ins are written.
    pub audit: Arc<Audit>,
    /// The server's memory.
    pub memory: Arc<MemoryBudget>,
}

/// A listener for clients of Arrow Flight SQL.
pub struct Flight {
    server: Arc<Server>,
    limiter: Arc<ConnectionLimiter>,
    listener: Listener,
}

/// A connection that may be served.
type Admitted = (std::net::TcpStream, ConnectionPermit);

impl Flight {
    /// Begins to listen. Clients are told to wait until the server is [`Self::ready`].
    pub fn start(options: Options, work: &Handle) -> io::Result<Self> {
        let listener = BoundListener::bind(options.bind)?;
        let settings = Settings {
            message_bytes_max: options.message_bytes_max,
            keep_alive_timeout: options.keep_alive_timeout,
            write_timeout: WRITE_TIMEOUT,
        };
        let audit = options.audit;
        let surroundings = Surroundings {
            log_in_failed: Box::new(move |user, client| {
                audit.log_in_failed(user, RemoteClient::of(client, ClientProtocol::Flight))
            }),
            memory: options.memory,
            work: work.clone(),
            stopped: listener.stopped(),
        };
        let server = Server::new(settings, surroundings)?;
        let (certificates, stopped) = (options.certificates, listener.stopped());
        let serving = Serving { server: server.clone(), certificates, stopped };
        let serve = move |(stream, permit): Admitted, tasks: &mut JoinSet<()>| {
            let (serving, set_task) = (serving.clone(), permit.task_setter());
            set_task(tasks.spawn(async move {
                if let Err(error) = serving.secure_and_serve(stream, Arc::new(permit)).await {
                    tracing::debug!(%error, "a connection of Arrow Flight ended");
                }
            }));
        };
        let names = Names { threads: "flight", setting: "flight-bind", clients: "Arrow Flight's clients" };
        let limiter = ConnectionLimiter::new(names.setting, options.connections_max.max(1));
        let own = limiter.clone();
        let admit = async move |stream| (stream, own.take().await);
        let listener = listener.serve(names, options.cores, options.shutdown_timeout, admit, serve)?;
        Ok(Self { server, limiter, listener })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// From now on calls are answered.
    pub fn ready(&self, sql: Arc<SqlServer>, context: Arc<Context>) {
        let needs_log_in = matches!(context.access, Access::Users { .. });
        let known = sql.clone();
        let authenticate = Box::new(move |headers: hyper::HeaderMap, client: Option<IpAddr>| {
            let (context, sql) = (context.clone(), known.clone());
            async move {
                let found = access::authenticate_call(&context, sql.catalog.users(), &headers, client).await;
                found.map_err(|refusal| Refused {
                    words: refusal.words,
                    user: access::claimed_by_call(&headers).unwrap_or_default(),
                    why: match refusal.status {
                        StatusCode::UNAUTHORIZED => Why::Unknown,
                        StatusCode::TOO_MANY_REQUESTS => Why::TooOften,
                        _ => Why::NotNow,
                    },
                })
            }
            .boxed()
        });
        self.server.ready(Ready { sql, needs_log_in, authenticate });
    }

    /// What `/metrics` shows of it.
    pub fn metrics(&self) -> impl Fn() -> Vec<Metric> + Send + Sync + use<> {
        let (server, limiter) = (self.server.clone(), self.limiter.clone());
        move || metrics(&server, &limiter)
    }

    /// Stops listening, and lets calls come to their end.
    pub fn stopping(&self) {
        self.listener.stopping();
    }

    /// Waits until all calls have ended, at most for the shutdown timeout, and closes all connections.
    pub fn stop(self) {
        self.listener.stop();
    }
}

fn metrics(server: &Server, limiter: &ConnectionLimiter) -> Vec<Metric> {
    let counts = &server.counts;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let closed =
        "Connections of Arrow Flight's clients that waited for their clients and were closed for others.";
    let (statements, transactions) = server.kept();
    let (of_calls, seconds, up_to) = counts.durations.counts();
    vec![
        Metric::gauge(
            "nyala_flight_connections",
            "Open connections of Arrow Flight's clients.",
            limiter.open() as u64,
        ),
        Metric::gauge(
            "nyala_flight_connections_max",
            "The most connections of Arrow Flight's clients at once.",
            limiter.connections_max as u64,
        ),
        Metric::counter("nyala_flight_connections_closed_for_others_total", closed, limiter.closed()),
        Metric::counter("nyala_flight_calls_total", "Calls of Arrow Flight's clients.", count(&counts.calls)),
        Metric::counter(
            "nyala_flight_failed_log_ins_total",
            "Calls of Arrow Flight's clients whose sender was not who it said.",
            count(&counts.failed_log_ins),
        ),
        Metric::counter(
            "nyala_flight_statements_total",
            "Statements that Arrow Flight's clients executed.",
            count(&counts.statements),
        ),
        Metric::counter(
            "nyala_flight_failed_statements_total",
            "Statements of Arrow Flight's clients that failed.",
            count(&counts.failed_statements),
        ),
        Metric::histogram(
            "nyala_flight_call_duration_seconds",
            "Time from the header of a call of Arrow Flight's clients until its answer is sent.",
            of_calls,
            seconds,
            up_to,
        ),
        Metric::gauge(
            "nyala_flight_prepared_statements",
            "Prepared statements that Arrow Flight's clients keep.",
            statements as u64,
        ),
        Metric::gauge(
            "nyala_flight_transactions",
            "Open transactions of Arrow Flight's clients.",
            transactions as u64,
        ),
    ]
}

/// What connections are served with.
#[derive(Clone)]
struct Serving {
    server: Arc<Server>,
    certificates: Option<Arc<Certificates>>,
    /// Turns true when the server stops.
    stopped: watch::Receiver<bool>,
}

impl Serving {
    /// Serves a connection, after the TLS handshake if there has to be one.
    async fn secure_and_serve(
        self,
        stream: std::net::TcpStream,
        permit: Arc<ConnectionPermit>,
    ) -> io::Result<()> {
        let stream = TcpStream::from_std(stream)?;
        // Answers are sent when they are complete, so waiting for more of them only delays.
        stream.set_nodelay(true)?;
        // A client that has left already has no address, and needs no answer.
        let client = Some(stream.peer_addr()?.ip());
        let Some(certificates) = &self.certificates else { return self.serve(stream, client, permit).await };
        let secured = tls::secured(certificates.flight_acceptor(), stream, self.stopped.clone()).await?;
        match secured {
            Some(stream) => self.serve(stream, client, permit).await,
            None => Ok(()),
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        client: Option<IpAddr>,
        permit: Arc<ConnectionPermit>,
    ) -> io::Result<()> {
        let stream = TimeoutStream::new(stream, WRITE_TIMEOUT, HEADER_TIMEOUT);
        let answering = stream.answering.clone();
        let begin: BeginCall = Arc::new(move || {
            // What is read from the first call on belongs to many calls at once: pings find out whether the client is there.
            answering.store(true, Ordering::Relaxed);
            permit.begin_request().map(|active| Box::new(active) as _)
        });
        self.server.serve(stream, client, begin).await
    }
}
