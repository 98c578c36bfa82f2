//! A listener of its own for clients of one protocol: threads that serve its connections, and one that accepts them.

use super::connection_threads::{ConnectionThreads, ServingPeriod, distribute, runtime, spawn, until_true};
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What a listener is called.
pub(super) struct Names {
    /// Its threads.
    pub(super) threads: &'static str,
    /// The setting that it is bound by.
    pub(super) setting: &'static str,
    /// Those who connect.
    pub(super) clients: &'static str,
}

/// A listener that accepts nobody yet: clients wait.
pub(super) struct BoundListener {
    listener: std::net::TcpListener,
    address: SocketAddr,
    stop: watch::Sender<bool>,
}

/// A listener whose connections are served.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    clients: &'static str,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl BoundListener {
    /// Takes an address.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, stop: watch::channel(false).0 })
    }

    /// Turns true when the listener stops.
    pub(super) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Serves connections by `count` threads. `admit` may wait until there is room for one more, and `serve` adds what serves one
    /// to a set of tasks, which may go on for `shutdown_timeout` after the listener began to stop.
    pub(super) fn serve<C: Send + 'static>(
        self,
        names: Names,
        count: usize,
        shutdown_timeout: Duration,
        admit: impl AsyncFn(std::net::TcpStream) -> C + Send + 'static,
        serve: impl Fn(C, &mut JoinSet<()>) + Clone + Send + 'static,
    ) -> io::Result<Listener> {
        let Names { threads: name, setting, clients } = names;
        let period = ServingPeriod { stopped: self.stopped(), shutdown_timeout };
        let ConnectionThreads { senders, mut threads } =
            ConnectionThreads::start(name, count.max(1), &period, serve)?;
        let Self { listener, address, stop } = self;
        let (runtime, stopped) = (runtime()?, period.stopped);
        // Futures of `admit` are made in the thread that runs them.
        let accept =
            move || runtime.block_on(accept_all(listener, (setting, clients), admit, senders, stopped));
        threads.push(spawn(format!("{name}-accept"), accept)?);
        Ok(Listener { address, clients, stop, threads })
    }
}

impl Listener {
    /// Stops listening, and lets what is going on come to its end.
    pub(super) fn stopping(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until all of it has ended, at most for the shutdown timeout, and closes all connections.
    pub(super) fn stop(self) {
        self.stopping();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of {} panicked", self.clients);
            }
        }
    }
}

/// Accepts connections, and distributes them among the threads in turn.
async fn accept_all<C>(
    listener: std::net::TcpListener,
    (setting, clients): (&'static str, &'static str),
    admit: impl AsyncFn(std::net::TcpStream) -> C,
    threads: Vec<mpsc::Sender<C>>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen for {clients}"),
    };
    let accept = async || listener.accept().await?.0.into_std();
    tokio::select! {
        () = distribute(setting, accept, admit, &threads) => {}
        () = until_true(&mut stopped) => {}
    }
}
