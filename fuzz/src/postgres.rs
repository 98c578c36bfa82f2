//! A server that speaks PostgreSQL's protocol over a store in memory, and conversations with it.
//!
//! `crates/nyala-postgres/tests/hostile_messages.rs` uses it as well, so that it is tried on each change.

use nyala_core::env::SystemClock;
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::StoreRef;
use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::Catalog;
use nyala_db::write::LineWriter;
use nyala_exec::QueryMemory;
use nyala_exec::running::{QueryLimits, RunningQueries};
use nyala_postgres::{Server, Settings, Surroundings};
use nyala_sql::spill::SpillSpace;
use nyala_sql::{
    InfluxqlColumns, InfluxqlFrames, InfluxqlQueries, InfluxqlQuery, PlanCache, SqlError, SqlResult,
    SqlServer, SqlState,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// What the server may have, so that an input that asks for much is refused soon.
const MEMORY_BYTES: u64 = 64 << 20;
const STATEMENT_BYTES: usize = 4 << 20;
const STATEMENT_TIME: Duration = Duration::from_secs(2);
const MESSAGE_BYTES: usize = 1 << 20;
/// When a client leaves that the server waits for: longer than any statement runs.
const TIMEOUT: Duration = Duration::from_secs(4);
/// A conversation that takes longer hangs.
const CONVERSATION_TIME: Duration = Duration::from_secs(60);

/// A server without log-ins, with a table `t` and a measurement `m`.
pub struct Peer {
    runtime: Runtime,
    server: Arc<Server>,
    running: Arc<RunningQueries>,
    memory: Arc<MemoryBudget>,
    _stop: watch::Sender<bool>,
}

impl Default for Peer {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a thread can be started");
        let memory = MemoryBudget::new(MEMORY_BYTES);
        let limits = QueryLimits { timeout: STATEMENT_TIME, ..QueryLimits::default() };
        let running = Arc::new(RunningQueries::new(limits));
        let sql = runtime.block_on(sql_server(memory.clone(), running.clone()));
        let (stop, stopped) = watch::channel(false);
        let settings =
            Settings { needs_log_in: false, message_bytes_max: MESSAGE_BYTES, connections_max: 16 };
        let surroundings = Surroundings {
            tls: None,
            logged_in: Box::new(|_, _| {}),
            log_in_failed: Box::new(|_, _| {}),
            memory: memory.clone(),
            work: runtime.handle().clone(),
            stopped,
        };
        let server = Server::new(settings, surroundings);
        server.ready(sql);
        let peer = Self { runtime, server, running, memory, _stop: stop };
        let table = "CREATE TABLE t (a int PRIMARY KEY, b text); \
                     INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, 'three'), (4, '')";
        peer.converse(&[b"Q", &(table.len() as u16).to_be_bytes()[..], table.as_bytes()].concat());
        peer
    }
}

async fn sql_server(memory: Arc<MemoryBudget>, running: Arc<RunningQueries>) -> Arc<SqlServer> {
    let store: StoreRef = Arc::new(MemoryStore::default());
    let catalog = Arc::new(Catalog::open(store).await.expect("an empty store"));
    catalog.create_database("d", None).await.expect("it is free");
    let writer = Arc::new(LineWriter::new(catalog.clone(), memory.clone(), 1 << 20));
    Arc::new(SqlServer {
        catalog,
        writer,
        running,
        memory,
        statement_bytes: STATEMENT_BYTES,
        spill: Arc::new(SpillSpace::none()),
        clock: Arc::new(SystemClock),
        influxql: Arc::new(NoInfluxql),
        plans: PlanCache::default(),
        advisory_locks: Arc::default(),
        sessions: Arc::default(),
        files: nyala_files::Folders::default(),
        started_ns: 0,
        changed: Arc::new(|_, _| {}),
        audited: None,
        denied: Arc::new(|_, _| {}),
    })
}

impl Peer {
    /// Holds a conversation: its messages stand one after the other, each as a letter, the length of its body in two bytes,
    /// and the body. If the first byte is 0, what follows is sent as it is, and the client leaves. Returns what the server has
    /// answered.
    ///
    /// # Panics
    /// If the server hangs, answers half a message, or does not end what it has begun.
    pub fn converse(&self, input: &[u8]) -> Vec<u8> {
        let (sent, is_raw) = (bytes_of(input), input.first() == Some(&0));
        let answered = self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(4 << 10);
            let serving = tokio::spawn(self.server.clone().serve(server, None));
            let (mut reader, mut writer) = tokio::io::split(client);
            let writing = tokio::spawn(async move {
                // The server may end the connection before all of it was sent.
                let _ = writer.write_all(&sent).await;
                if !is_raw {
                    // A statement whose client leaves ends. It has left when it was told to.
                    let _ = writer.write_all(b"S\0\0\0\x04X\0\0\0\x04").await;
                    tokio::time::sleep(TIMEOUT).await;
                }
                let _ = writer.shutdown().await;
            });
            let mut answered = Vec::new();
            let reading = reader.read_to_end(&mut answered);
            let read = tokio::time::timeout(CONVERSATION_TIME, reading).await;
            read.expect("the server ends the connection").expect("nothing breaks in memory");
            let served = tokio::time::timeout(CONVERSATION_TIME, serving).await;
            if let Err(error) = served.expect("the server ends the connection").expect("no panic") {
                // It may be that the client has left, or what a panic in the thread pool has become.
                assert!(!error.to_string().contains("panic"), "{error}");
            }
            writing.abort();
            answered
        });
        if !is_raw {
            check_messages(&answered);
        }
        assert!(self.running.all().is_empty(), "a statement runs on without its client");
        assert_eq!(self.server.open(), 0);
        answered
    }

    /// The memory that statements hold now.
    pub fn held_bytes(&self) -> u64 {
        self.memory.used_bytes(Component::Query)
    }
}

/// The bytes of a client that logs in and sends the messages of an input.
fn bytes_of(input: &[u8]) -> Vec<u8> {
    if let Some((0, raw)) = input.split_first() {
        return raw.to_vec();
    }
    let parameters = b"\0\x03\0\0user\0me\0database\0d\0\0";
    let mut sent = Vec::from((parameters.len() as u32 + 4).to_be_bytes());
    sent.extend_from_slice(parameters);
    let mut left = input;
    while let Some((letter, rest)) = left.split_first() {
        let (length, rest) = rest.split_at(rest.len().min(2));
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let (body, rest) = rest.split_at(length.min(rest.len()));
        // A text ends with a zero.
        let end: &[u8] = if *letter == b'Q' && body.last() != Some(&0) { &[0] } else { &[] };
        sent.push(*letter);
        sent.extend_from_slice(&((body.len() + end.len()) as u32 + 4).to_be_bytes());
        sent.extend_from_slice(body);
        sent.extend_from_slice(end);
        left = rest;
    }
    sent
}

/// Fails if an answer is no series of whole messages.
fn check_messages(answered: &[u8]) {
    let mut left = answered;
    while let [letter, rest @ ..] = left {
        let (length, body) = rest.split_at(rest.len().min(4));
        let length = u32::from_be_bytes(length.try_into().expect("a message has a length")) as usize - 4;
        assert!(letter.is_ascii_graphic() && length <= body.len(), "half a message {letter}");
        left = &body[length..];
    }
}

/// There is no other language.
struct NoInfluxql;

fn refused<T>() -> SqlResult<T> {
    Err(SqlError::new(SqlState::UNSUPPORTED, "there is no InfluxQL here"))
}

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl InfluxqlQueries for NoInfluxql {
    fn columns<'a>(&'a self, _: &'a InfluxqlQuery) -> Later<'a, SqlResult<InfluxqlColumns>> {
        Box::pin(async { refused() })
    }

    fn frames<'a>(
        &'a self,
        _: &'a InfluxqlQuery,
        _: nyala_core::store::SnapshotRef,
        _: QueryMemory,
    ) -> Later<'a, SqlResult<InfluxqlFrames>> {
        Box::pin(async { refused() })
    }
}
