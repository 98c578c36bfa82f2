//! The server: one thread and runtime per core for connections, dealt out in turn, and a pool of threads
//! for what takes long or waits for the disk.

pub mod audit;
pub mod format;
pub mod health;
pub mod http;
pub mod metrics;
mod patience;
pub mod report;
pub mod slots;
mod socket;
pub mod stage;
pub mod tls;

use audit::Pace;
use http::Context;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use patience::Patient;
use slots::{Slot, Slots};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tls::Certificates;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};

/// How long a client may take to send the head of a request, once it has begun; the first begins with the connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest head of a request, and what is read of a body at once: the longest URI that hyper takes, about.
const HEAD_MAX_BYTES: usize = 64 << 10;
/// How long a client may take nothing of an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most connections at once, however much memory there is; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 16_384;

/// The part of them that is for the socket in the file system alone: whoever may open it gets in, however many others
/// there are.
const LOCAL_SHARE: usize = 8;

/// The connections there may be at once.
pub struct Connections {
    /// Over the network.
    pub remote: Arc<Slots>,
    /// Through the socket in the file system, if there is one.
    pub local: Option<Arc<Slots>>,
}

impl Connections {
    /// As many as can hold an unfinished head each in half of some memory, and at most `most`.
    pub fn within(memory_bytes: usize, most: usize, has_socket: bool) -> Self {
        let all = (memory_bytes / 2 / HEAD_MAX_BYTES).min(CONNECTIONS_MAX).min(most);
        let local = has_socket.then_some(all / LOCAL_SHARE);
        Self {
            remote: Slots::new("http-bind", all - local.unwrap_or(0)),
            local: local.map(|slots| Slots::new("bind-socket", slots)),
        }
    }
}

/// Bounds on connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// How long one may stay open between two requests.
    pub keep_alive_timeout: Duration,
    /// How long requests may go on after a shutdown has begun.
    pub shutdown_timeout: Duration,
}

/// Threads that serve connections.
pub struct Server {
    address: SocketAddr,
    socket: Option<PathBuf>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Begins to listen and serve, with `cores` threads; with TLS if there are certificates. A socket in the file
    /// system needs none: who may open it is what the system says.
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
        let mut threads = Vec::with_capacity(cores + 1);
        let mut lanes = Vec::with_capacity(cores);
        for number in 0..cores.max(1) {
            let (lane, connections) = mpsc::channel(64);
            lanes.push(lane);
            let (context, stopped, certificates) = (context.clone(), stopped.clone(), certificates.clone());
            let name = format!("connections-{number}");
            threads
                .push(spawn(name, move || serve_lane(connections, context, certificates, limits, stopped))?);
        }
        let remote = (listener, connections.remote.clone());
        threads.push(spawn("accept".into(), move || accept(remote, local, lanes, stopped))?);
        Ok(Self { address, socket: socket.map(Path::to_owned), stop, threads })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops to listen, lets requests end within a bound, and returns when all threads have.
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a connection thread panicked");
            }
        }
        // Gone already is as good.
        self.socket.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body)
}

fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.expect("a runtime needs only file descriptors that were there at the start")
}

type Listening<L> = (L, Arc<Slots>);

fn accept(
    remote: Listening<std::net::TcpListener>,
    local: Option<Listening<std::os::unix::net::UnixListener>>,
    lanes: Vec<mpsc::Sender<(Accepted, Slot)>>,
    mut stopped: watch::Receiver<bool>,
) {
    runtime().block_on(async move {
        let listening = || -> io::Result<_> {
            let local =
                local.map(|(listener, slots)| Ok::<_, io::Error>((UnixListener::from_std(listener)?, slots)));
            Ok(((TcpListener::from_std(remote.0)?, remote.1), local.transpose()?))
        };
        let ((remote, remote_slots), local) = match listening() {
            Ok(listening) => listening,
            Err(error) => return tracing::error!(%error, "cannot listen"),
        };
        let accept_remote = async || remote.accept().await?.0.into_std().map(Accepted::Tcp);
        let accept_local = async || match &local {
            Some((local, _)) => local.accept().await?.0.into_std().map(Accepted::Local),
            None => std::future::pending().await,
        };
        let local_slots = local.as_ref().map_or(&remote_slots, |(_, slots)| slots);
        tokio::select! {
            () = deal(accept_remote, &remote_slots, &lanes) => {}
            () = deal(accept_local, local_slots, &lanes) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
}

/// Deals out connections in turn, each when there is a slot for it.
async fn deal(
    accept: impl AsyncFn() -> io::Result<Accepted>,
    slots: &Arc<Slots>,
    lanes: &[mpsc::Sender<(Accepted, Slot)>],
) {
    let warnings = Pace::default();
    for lane in lanes.iter().cycle() {
        let stream = loop {
            match accept().await {
                Ok(stream) => break stream,
                Err(error) => {
                    // Too many open files: wait for some to close.
                    if let Some(left_out) = warnings.next() {
                        tracing::warn!(%error, left_out, "cannot accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        if lane.send((stream, slots.take().await)).await.is_err() {
            return;
        }
    }
}

/// A connection that belongs to no runtime yet.
enum Accepted {
    Tcp(std::net::TcpStream),
    Local(std::os::unix::net::UnixStream),
}

fn serve_lane(
    mut connections: mpsc::Receiver<(Accepted, Slot)>,
    context: Arc<Context>,
    certificates: Option<Arc<Certificates>>,
    limits: ConnectionLimits,
    mut stopped: watch::Receiver<bool>,
) {
    let runtime = runtime();
    runtime.block_on(async move {
        let mut serving = tokio::task::JoinSet::new();
        let handed_on = stopped.clone();
        loop {
            tokio::select! {
                connection = connections.recv() => {
                    let Some((stream, slot)) = connection else { break };
                    let (context, stopped) = (context.clone(), handed_on.clone());
                    let certificates = certificates.clone();
                    let serves = slot.serves();
                    serves(serving.spawn(async move {
                        let ended = greet(stream, Arc::new(slot), context, certificates, limits, stopped).await;
                        if let Err(error) = ended {
                            tracing::debug!(%error, "connection ended");
                        }
                    }));
                }
                Some(_) = serving.join_next() => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        let all = async { while serving.join_next().await.is_some() {} };
        let timeout = limits.shutdown_timeout;
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::warn!(
                "some requests were broken off {timeout:?} after the stop began (shutdown-timeout)"
            );
        }
    });
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Serves a connection, once it is secured where it has to be.
async fn greet(
    stream: Accepted,
    slot: Arc<Slot>,
    context: Arc<Context>,
    certificates: Option<Arc<Certificates>>,
    limits: ConnectionLimits,
    stopped: watch::Receiver<bool>,
) -> Ended {
    let stream = match stream {
        Accepted::Tcp(stream) => TcpStream::from_std(stream)?,
        Accepted::Local(stream) => {
            return serve(UnixStream::from_std(stream)?, None, slot, context, limits, stopped).await;
        }
    };
    stream.set_nodelay(true)?;
    // One that has left already has no address, and waits for no answer.
    let client = Some(stream.peer_addr()?.ip());
    let Some(certificates) = certificates else {
        return serve(stream, client, slot, context, limits, stopped).await;
    };
    let secured = tokio::time::timeout(HEADER_TIMEOUT, certificates.acceptor().accept(stream)).await??;
    serve(secured, client, slot, context, limits, stopped).await
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    client: Option<IpAddr>,
    slot: Arc<Slot>,
    context: Arc<Context>,
    limits: ConnectionLimits,
    mut stopped: watch::Receiver<bool>,
) -> Ended {
    let patient = Patient::new(stream, PATIENCE, HEADER_TIMEOUT);
    let answering = patient.answering();
    let service = service_fn(move |request| {
        let (context, answering, slot) = (context.clone(), answering.clone(), slot.clone());
        async move {
            answering.store(true, Ordering::Relaxed);
            let answer = http::answer(context, request, client, slot).await;
            answering.store(false, Ordering::Relaxed);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It begins where the request before ends.
        .header_read_timeout(limits.keep_alive_timeout)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(patient), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}
