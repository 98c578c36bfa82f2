//! Threads that serve connections: one per core, each with a runtime of its own, so that a light request wakes nobody else.
//! Connections are distributed among them in turn.

use super::audit::LogLimit;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The stack of a thread that may execute statements, of which only what is used takes memory. Statements of SQL that are
/// nested as deeply as they may be need some megabytes.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// How long to wait after a connection could not be accepted: probably too many files are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The connections that wait for a thread.
const WAITING_MAX: usize = 64;

/// Threads that serve connections `C`.
pub(super) struct ConnectionThreads<C> {
    /// Where each takes its connections from.
    pub(super) senders: Vec<mpsc::Sender<C>>,
    /// The threads, which end some time after the server began to stop.
    pub(super) threads: Vec<JoinHandle<()>>,
}

/// How long connections are served.
#[derive(Clone)]
pub(super) struct ServingPeriod {
    /// Turns true when the server stops.
    pub(super) stopped: watch::Receiver<bool>,
    /// How long requests may continue after that.
    pub(super) shutdown_timeout: Duration,
}

impl<C: Send + 'static> ConnectionThreads<C> {
    /// Starts `count` threads with numbered names. `serve` adds what serves a connection to a set of tasks.
    pub(super) fn start(
        name: &str,
        count: usize,
        period: &ServingPeriod,
        serve: impl Fn(C, &mut JoinSet<()>) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let (mut senders, mut threads) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
        for number in 0..count {
            let (sender, connections) = mpsc::channel(WAITING_MAX);
            senders.push(sender);
            let (serve, period, runtime) = (serve.clone(), period.clone(), runtime()?);
            threads.push(spawn(format!("{name}-{number}"), move || {
                runtime.block_on(serve_all(connections, period, serve));
            })?);
        }
        Ok(Self { senders, threads })
    }
}

/// Accepts connections and distributes them among threads in turn. `admit` may wait until there is room for one more.
pub(super) async fn distribute<S, C>(
    clients: &'static str,
    accept: impl AsyncFn() -> io::Result<S>,
    admit: impl AsyncFn(S) -> C,
    threads: &[mpsc::Sender<C>],
) {
    let warnings = LogLimit::default();
    for thread in threads.iter().cycle() {
        let stream = loop {
            match accept().await {
                Ok(stream) => break stream,
                Err(error) => {
                    if let Some(left_out) = warnings.next() {
                        tracing::warn!(%error, clients, left_out, "cannot accept a connection");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        };
        if thread.send(admit(stream).await).await.is_err() {
            return;
        }
    }
}

/// A runtime of one thread.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts a thread. Short statements of SQL are executed by threads of connections, too.
pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(body)
}

async fn serve_all<C>(
    mut connections: mpsc::Receiver<C>,
    mut period: ServingPeriod,
    serve: impl Fn(C, &mut JoinSet<()>),
) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            connection = connections.recv() => {
                let Some(connection) = connection else { break };
                serve(connection, &mut serving);
            }
            Some(_) = serving.join_next() => {}
            () = until_true(&mut period.stopped) => break,
        }
    }
    let all = async { while serving.join_next().await.is_some() {} };
    let timeout = period.shutdown_timeout;
    if tokio::time::timeout(timeout, all).await.is_err() {
        tracing::warn!("some requests were aborted {timeout:?} after the shutdown began (shutdown-timeout)");
    }
}

/// Waits until the server stops. What `wait_for` returns must not be held while connections are handled.
pub(super) async fn until_true(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}
