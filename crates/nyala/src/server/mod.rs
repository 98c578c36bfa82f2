//! The server: one thread with its own runtime per core serves connections, which are distributed in turn. A thread
//! pool does what takes long or waits for the disk.

pub mod audit;
pub mod certificate;
pub mod connection_limit;
pub(crate) mod connection_threads;
pub mod copies;
#[cfg(feature = "sql")]
pub mod flight;
pub mod format;
pub mod health;
pub mod http;
#[cfg(feature = "sql")]
pub mod influxql_tables;
pub mod inputs;
pub mod lifecycle;
#[cfg(feature = "sql")]
mod listener;
pub mod metric;
pub mod metrics;
#[cfg(feature = "sql")]
pub mod postgres;
pub mod received;
pub mod request_metrics;
pub mod slow_queries;
mod socket;
pub mod statistics;
mod timeouts;
pub mod tls;

use connection_limit::{ConnectionLimiter, ConnectionPermit};
use connection_threads::{ConnectionThreads, ServingPeriod, distribute, runtime, spawn, until_true};
use http::{Context, TrackedBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use metric::Metric;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use timeouts::TimeoutStream;
use tls::Certificates;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The version that clients are told: the one whose behaviour they get.
pub const INFLUXDB_VERSION: &str = "1.8.10";

/// How long a client may take to send a request header once it began; the first header begins with the connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest request header, and the most that is read of a body at once: about the longest URI that hyper accepts.
pub(crate) const HEAD_MAX_BYTES: usize = 64 << 10;
/// How long a client may read nothing of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The most connections at once, however much memory there is; further ones wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;

/// One of so many connections is reserved for the Unix socket, so that its clients get in however many others there are.
const LOCAL_SHARE: usize = 8;

/// The limits on open connections.
pub struct Connections {
    /// Over the network.
    pub remote: Arc<ConnectionLimiter>,
    /// Through the Unix socket, if there is one.
    pub local: Option<Arc<ConnectionLimiter>>,
}

impl Connections {
    /// As many connections as can hold an unfinished header each in half of `memory_bytes`, and at most `most`.
    pub fn within(memory_bytes: usize, most: usize, has_socket: bool) -> Self {
        let all = (memory_bytes / 2 / HEAD_MAX_BYTES).min(CONNECTIONS_MAX).min(most);
        let local = has_socket.then_some(all / LOCAL_SHARE);
        Self {
            remote: ConnectionLimiter::new("http-bind", all - local.unwrap_or(0)),
            local: local.map(|most| ConnectionLimiter::new("bind-socket", most)),
        }
    }

    /// Open connections, their limit, and how many were closed for others, by listener.
    pub fn metrics(&self) -> Vec<Metric> {
        let listeners = [("http-bind", Some(&self.remote)), ("bind-socket", self.local.as_ref())];
        let by_listener = |value: fn(&ConnectionLimiter) -> u64| {
            let limiters =
                listeners.iter().filter_map(|(listener, limiter)| Some((listener, limiter.as_ref()?)));
            limiters
                .map(|(listener, limiter)| (format!("listener=\"{listener}\""), value(limiter)))
                .collect::<Vec<_>>()
        };
        let closed = "Connections that waited for their clients and were closed for others.";
        vec![
            Metric::gauge("nyala_connections", "Open connections.", 0)
                .by_labels(by_listener(|limiter| limiter.open() as u64)),
            Metric::gauge("nyala_connections_max", "The most connections at once.", 0)
                .by_labels(by_listener(|limiter| limiter.connections_max as u64)),
            Metric::counter("nyala_connections_closed_for_others_total", closed, 0)
                .by_labels(by_listener(ConnectionLimiter::closed)),
        ]
    }
}

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// How long a connection may stay open between two requests.
    pub keep_alive_timeout: Duration,
    /// How long requests may continue after a shutdown began.
    pub shutdown_timeout: Duration,
}

/// Threads that serve connections.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    socket: Option<PathBuf>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Begins to listen and serve with `cores` threads, and with TLS if there are certificates. The Unix socket needs
    /// no TLS: the file's permissions decide who may connect.
    pub fn start(
        bind: SocketAddr,
        socket: Option<&Path>,
        cores: usize,
        connections: &Connections,
        limits: ConnectionLimits,
        context: Arc<Context>,
        certificates: Option<Arc<Certificates>>,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(bind)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let local = socket.map(socket::listen).transpose()?.zip(connections.local.clone());
        let (stop, stopped) = watch::channel(false);
        let period = ServingPeriod { stopped: stopped.clone(), shutdown_timeout: limits.shutdown_timeout };
        let serving = Serving { context, certificates, limits, stopped: stopped.clone() };
        let serve = move |(stream, permit): Admitted, tasks: &mut JoinSet<()>| {
            let (serving, set_task) = (serving.clone(), permit.task_setter());
            set_task(tasks.spawn(async move {
                if let Err(error) = serving.secure_and_serve(stream, Arc::new(permit)).await {
                    tracing::debug!(%error, "connection ended");
                }
            }));
        };
        let started = ConnectionThreads::start("connections", cores.max(1), &period, serve)?;
        let ConnectionThreads { senders, mut threads } = started;
        let remote = (listener, connections.remote.clone());
        let runtime = runtime()?;
        threads.push(spawn("accept".into(), move || {
            runtime.block_on(accept(remote, local, senders, stopped));
        })?);
        Ok(Self { address, socket: socket.map(Path::to_owned), stop, threads })
    }

    /// Stops listening, lets requests end within the shutdown timeout, and waits for all threads.
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a connection thread panicked");
            }
        }
        // It may be gone already.
        self.socket.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// A listener and its limit.
type Listening<L> = (L, Arc<ConnectionLimiter>);
/// A connection that may be served.
type Admitted = (Accepted, ConnectionPermit);

async fn accept(
    remote: Listening<std::net::TcpListener>,
    local: Option<Listening<std::os::unix::net::UnixListener>>,
    threads: Vec<mpsc::Sender<Admitted>>,
    mut stopped: watch::Receiver<bool>,
) {
    let listening = || -> io::Result<_> {
        let local =
            local.map(|(listener, limiter)| Ok::<_, io::Error>((UnixListener::from_std(listener)?, limiter)));
        Ok(((TcpListener::from_std(remote.0)?, remote.1), local.transpose()?))
    };
    let ((remote, remote_limiter), local) = match listening() {
        Ok(listening) => listening,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let accept_remote = async || remote.accept().await?.0.into_std().map(Accepted::Tcp);
    let accept_local = async || match &local {
        Some((local, _)) => local.accept().await?.0.into_std().map(Accepted::Local),
        None => std::future::pending().await,
    };
    let local_limiter = local.as_ref().map_or(&remote_limiter, |(_, limiter)| limiter);
    let admit_remote = async |stream| (stream, remote_limiter.take().await);
    let admit_local = async |stream| (stream, local_limiter.take().await);
    tokio::select! {
        () = distribute("http-bind", accept_remote, admit_remote, &threads) => {}
        () = distribute("bind-socket", accept_local, admit_local, &threads) => {}
        () = until_true(&mut stopped) => {}
    }
}

/// A connection that belongs to no runtime yet.
enum Accepted {
    Tcp(std::net::TcpStream),
    Local(std::os::unix::net::UnixStream),
}

type ServeResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What connections are served with.
#[derive(Clone)]
struct Serving {
    context: Arc<Context>,
    certificates: Option<Arc<Certificates>>,
    limits: ConnectionLimits,
    stopped: watch::Receiver<bool>,
}

impl Serving {
    /// Serves a connection, after the TLS handshake if there has to be one.
    async fn secure_and_serve(self, stream: Accepted, permit: Arc<ConnectionPermit>) -> ServeResult {
        let stream = match stream {
            Accepted::Tcp(stream) => TcpStream::from_std(stream)?,
            Accepted::Local(stream) => return self.serve(UnixStream::from_std(stream)?, None, permit).await,
        };
        stream.set_nodelay(true)?;
        // A client that has left already has no address, and needs no answer.
        let client = Some(stream.peer_addr()?.ip());
        let Some(certificates) = &self.certificates else { return self.serve(stream, client, permit).await };
        let secured = tls::secured(certificates.acceptor(), stream, self.stopped.clone()).await?;
        match secured {
            Some(stream) => self.serve(stream, client, permit).await,
            None => Ok(()),
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        client: Option<IpAddr>,
        permit: Arc<ConnectionPermit>,
    ) -> ServeResult {
        let Self { context, limits, stopped, .. } = self;
        let answer = move |request| http::answer(context.clone(), request, client, permit.clone());
        serve_requests(stream, limits.keep_alive_timeout, stopped, answer).await
    }
}

/// Answers the requests of a connection until its client has left, or the server stops.
async fn serve_requests<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    keep_alive_timeout: Duration,
    mut stopped: watch::Receiver<bool>,
    answer: impl Fn(Request<Incoming>) -> F,
) -> ServeResult
where
    F: Future<Output = Result<Response<TrackedBody>, Infallible>>,
{
    let stream = TimeoutStream::new(stream, WRITE_TIMEOUT, HEADER_TIMEOUT);
    let answering = stream.answering.clone();
    let service = service_fn(move |request| {
        let (answering, answered) = (answering.clone(), answer(request));
        async move {
            answering.store(true, Ordering::Relaxed);
            let answer = answered.await;
            answering.store(false, Ordering::Relaxed);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // For hyper this time begins when the previous request ends.
        .header_read_timeout(keep_alive_timeout)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = until_true(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}
