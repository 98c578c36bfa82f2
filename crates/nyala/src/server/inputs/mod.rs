//! Inputs beside HTTP: what other programs send by their own protocols. All are off by default.
//!
//! Sockets are bound first, so that a wrong address ends the start; they are read once the databases are open. One thread
//! receives and parses ([`nyala_inputs`] knows the protocols); batches are written by the thread pool (`batch`), with what
//! `server/received` has for them. At the stop nothing new is received, and what was is written.

mod batch;
mod collectd;
mod connections;
mod datagrams;
mod graphite;
mod opentsdb;
mod udp;

use super::connection_threads::{runtime, spawn};
use super::http::Context;
use super::metric::Metric;
use super::received::{self, Destination, InputCounts, Writer};
use batch::Batcher;
use collectd::{Collectd, PasswordFile};
pub use connections::LINE_BYTES_MAX;
use graphite::Graphite;
use nyala_core::{Error, Result};
use nyala_db::ingest::Precision;
use nyala_inputs::Refused;
use nyala_inputs::collectd::{Protection, Reader};
use nyala_inputs::graphite::Parser;
use opentsdb::Opentsdb;
use std::future::Future;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Which inputs there are.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Line protocol by UDP.
    pub udp: Option<UdpSettings>,
    /// Lines of Graphite.
    pub graphite: Option<GraphiteSettings>,
    /// Points of OpenTSDB's senders.
    pub opentsdb: Option<OpentsdbSettings>,
    /// Packets of collectd.
    pub collectd: Option<CollectdSettings>,
    /// Where metrics of OpenTelemetry are written, which come by HTTP.
    pub otlp: Option<Destination>,
    /// The most connections of each input that has connections.
    pub connections_max: usize,
}

/// The settings of OpenTSDB.
#[derive(Debug, Clone)]
pub struct OpentsdbSettings {
    /// Where it listens, for lines and HTTP.
    pub bind: SocketAddr,
    /// Where it writes.
    pub destination: Destination,
    /// How long a connection may stay open between two requests.
    pub keep_alive_timeout: Duration,
}

/// The settings of collectd's packets.
#[derive(Debug, Clone)]
pub struct CollectdSettings {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Where it writes.
    pub destination: Destination,
    /// `types.db`, or a folder of such files.
    pub types_db: PathBuf,
    /// The least protection of values that are taken.
    pub protection_min: Protection,
    /// Users and passwords.
    pub auth_file: Option<PathBuf>,
    /// Whether values that were sent together are fields of one point.
    pub joins_values: bool,
}

/// The settings of Graphite's lines.
#[derive(Debug, Clone)]
pub struct GraphiteSettings {
    /// Where it listens, by TCP and UDP.
    pub bind: SocketAddr,
    /// Where it writes.
    pub destination: Destination,
    /// Reads its lines by templates.
    pub parser: Parser,
}

/// The settings of line protocol by UDP.
#[derive(Debug, Clone)]
pub struct UdpSettings {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Where it writes.
    pub destination: Destination,
    /// The unit of its times.
    pub precision: Precision,
}

/// The sockets of all inputs that are on; nothing is read from them yet.
pub struct BoundInputs {
    settings: Settings,
    udp: Option<(UdpSocket, Input)>,
    graphite: Option<(TcpListener, UdpSocket, Input)>,
    opentsdb: Option<(TcpListener, Input)>,
    collectd: Option<(UdpSocket, Reader, Option<PasswordFile>, Input)>,
    otlp: Option<Writer>,
}

/// An input.
#[derive(Clone)]
struct Input {
    counts: Arc<InputCounts>,
}

impl Input {
    fn new(name: &'static str) -> Self {
        Self { counts: InputCounts::new(name) }
    }
}

impl BoundInputs {
    /// Binds the sockets.
    pub fn bind(settings: Settings) -> Result<Self> {
        let udp = settings
            .udp
            .as_ref()
            .map(|udp| Ok::<_, Error>((bind_udp("udp-bind", udp.bind)?, Input::new("udp"))));
        let graphite = settings.graphite.as_ref().map(|graphite| {
            let setting = "graphite-bind";
            let listener = bind_tcp(setting, graphite.bind)?;
            let socket = bind_udp(setting, graphite.bind)?;
            Ok::<_, Error>((listener, socket, Input::new("graphite")))
        });
        let opentsdb = settings.opentsdb.as_ref().map(|opentsdb| {
            Ok::<_, Error>((bind_tcp("opentsdb-bind", opentsdb.bind)?, Input::new("opentsdb")))
        });
        let collectd = settings.collectd.as_ref().map(|collectd| {
            let reader = Reader {
                types: collectd::types(&collectd.types_db)?,
                protection_min: collectd.protection_min,
                joins_values: collectd.joins_values,
            };
            let passwords = collectd.auth_file.as_deref().map(PasswordFile::open).transpose()?;
            let socket = bind_udp("collectd-bind", collectd.bind)?;
            Ok::<_, Error>((socket, reader, passwords, Input::new("collectd")))
        });
        let counts = || InputCounts::new("otlp");
        let otlp = settings.otlp.clone().map(|destination| Writer { counts: counts(), destination });
        Ok(Self {
            udp: udp.transpose()?,
            graphite: graphite.transpose()?,
            opentsdb: opentsdb.transpose()?,
            collectd: collectd.transpose()?,
            otlp,
            settings,
        })
    }

    /// What `/metrics` shows of them.
    pub fn metrics(&self) -> impl Fn() -> Vec<Metric> + Send + Sync + use<> {
        let all = [
            self.udp.as_ref().map(|(_, input)| input.counts.clone()),
            self.graphite.as_ref().map(|(_, _, input)| input.counts.clone()),
            self.opentsdb.as_ref().map(|(_, input)| input.counts.clone()),
            self.collectd.as_ref().map(|(_, _, _, input)| input.counts.clone()),
            self.otlp.as_ref().map(|writer| writer.counts.clone()),
        ];
        let all: Vec<Arc<InputCounts>> = all.into_iter().flatten().collect();
        move || received::metrics(&all)
    }

    /// What the HTTP server writes metrics of OpenTelemetry with, if they are taken.
    pub fn otlp(&self) -> Option<Writer> {
        self.otlp.clone()
    }

    /// Begins to receive. The databases are open.
    pub fn serve(self, context: &Arc<Context>) -> Result<Inputs> {
        let (stop, stopped) = watch::channel(false);
        let mut serving = Serving {
            context: context.clone(),
            batchers: Vec::new(),
            writing: Vec::new(),
            tasks: Vec::new(),
        };
        if let (Some(settings), Some((socket, input))) = (self.settings.udp, self.udp) {
            let batcher = serving.batcher(&input, settings.destination, udp::BATCH_POINTS)?;
            let clock = context.clock.clone();
            serving.tasks.push(Box::pin(udp::serve(
                socket,
                settings.precision,
                input,
                batcher,
                clock,
                stopped.clone(),
            )));
        }
        if let (Some(settings), Some((listener, socket, input))) = (self.settings.graphite, self.graphite) {
            let parser = settings.parser;
            let batcher = serving.batcher(&input, settings.destination, graphite::BATCH_POINTS)?;
            let graphite = Arc::new(Graphite { parser, input, batcher, clock: context.clock.clone() });
            serving.tasks.push(Box::pin(graphite.clone().datagrams(socket, stopped.clone())));
            let most = self.settings.connections_max;
            serving.tasks.push(Box::pin(graphite.connections(listener, most, stopped.clone())));
        }
        if let (Some(settings), Some((listener, input))) = (self.settings.opentsdb, self.opentsdb) {
            let writer = Writer { counts: input.counts.clone(), destination: settings.destination.clone() };
            let batcher = serving.batcher(&input, settings.destination, opentsdb::BATCH_POINTS)?;
            let (context, keep_alive_timeout) = (context.clone(), settings.keep_alive_timeout);
            let opentsdb = Arc::new(Opentsdb { context, input, batcher, writer, keep_alive_timeout });
            let most = self.settings.connections_max;
            serving.tasks.push(Box::pin(opentsdb.connections(listener, most, stopped.clone())));
        }
        if let (Some(settings), Some((socket, reader, passwords, input))) =
            (self.settings.collectd, self.collectd)
        {
            let batcher = serving.batcher(&input, settings.destination, collectd::BATCH_POINTS)?;
            let clock = context.clock.clone();
            let collectd = Collectd { reader, passwords, input, batcher, clock };
            serving.tasks.push(Box::pin(collectd.datagrams(socket, stopped)));
        }
        serving.start(stop)
    }
}

/// The lines of a text that are not blank.
fn lines_of(text: &[u8]) -> impl Iterator<Item = std::result::Result<&str, Refused>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| std::str::from_utf8(line).map_err(|_| Refused::Invalid("a line is not UTF-8")))
}

/// Binds a socket for connections.
fn bind_tcp(setting: &str, address: SocketAddr) -> Result<TcpListener> {
    let bound =
        TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|error| Error::from(error).context(format!("listening on {address} ({setting})")))
}

/// Binds a socket for datagrams.
fn bind_udp(setting: &str, address: SocketAddr) -> Result<UdpSocket> {
    let bound = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|error| Error::from(error).context(format!("listening on {address} ({setting})")))
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is put together before the thread of inputs starts.
struct Serving {
    context: Arc<Context>,
    batchers: Vec<Arc<Batcher>>,
    writing: Vec<tokio::task::JoinHandle<()>>,
    tasks: Vec<Task>,
}

impl Serving {
    fn batcher(&mut self, input: &Input, destination: Destination, points_max: u64) -> Result<Arc<Batcher>> {
        let databases = self.context.databases.get();
        let memory = &databases.ok_or_else(|| Error::retry("the server is starting"))?.memory;
        let counts = input.counts.clone();
        let (batcher, writing) = Batcher::new(&self.context, memory, counts, destination, points_max);
        self.writing.push(self.context.work.spawn(writing));
        self.batchers.push(batcher.clone());
        Ok(batcher)
    }

    fn start(self, stop: watch::Sender<bool>) -> Result<Inputs> {
        let Self { context, batchers, writing, tasks } = self;
        let work = context.work.clone();
        if tasks.is_empty() {
            return Ok(Inputs { stop, thread: None, writing, work });
        }
        let runtime = runtime()?;
        let thread = spawn("inputs".to_owned(), move || runtime.block_on(run(tasks, batchers)))?;
        Ok(Inputs { stop, thread: Some(thread), writing, work })
    }
}

/// Runs the tasks of all inputs to their end, and passes on what they have gathered.
async fn run(tasks: Vec<Task>, batchers: Vec<Arc<Batcher>>) {
    let mut ticking = JoinSet::new();
    batchers.iter().for_each(|batcher| drop(ticking.spawn(batcher.clone().tick())));
    let mut serving: JoinSet<()> = tasks.into_iter().collect();
    while serving.join_next().await.is_some() {}
    ticking.shutdown().await;
    for batcher in batchers {
        batcher.finish().await;
    }
}

/// Inputs that are served.
pub struct Inputs {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    writing: Vec<tokio::task::JoinHandle<()>>,
    work: Handle,
}

impl Inputs {
    /// Stops receiving.
    pub fn stopping(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until what was received is written, or `timeout` is over.
    pub fn stop(mut self, timeout: Duration) {
        self.stopping();
        let Some(thread) = self.thread.take() else { return };
        let written = self.work.block_on(async {
            let all = async {
                for writing in &mut self.writing {
                    drop(writing.await);
                }
            };
            tokio::time::timeout(timeout, all).await
        });
        if written.is_err() {
            // The thread waits for writes that do not end.
            return tracing::warn!("points of inputs were not written within {timeout:?} (shutdown-timeout)");
        }
        if thread.join().is_err() {
            tracing::error!("the thread of inputs panicked");
        }
    }
}
