//! Sends spans to a collector, from a thread of its own, in batches.
//!
//! Who ends a span never waits: if the queue is full, the span is lost and counted. A batch that the collector does not take
//! is lost, too: traces are not worth memory without end, and the next batch tries again.

use super::message::{
    ExportTraceServiceRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, Value,
};
use crate::server::statistics::hostname;
use nyala_client::{Body, Connection, Target};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Spans that wait at most: some megabytes.
const QUEUE_SPANS_MAX: usize = 8192;
/// Spans of a batch.
const BATCH_SPANS: usize = 512;
/// A batch waits so long for more spans.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// The collector must answer within this time, …
const TIMEOUT: Duration = Duration::from_secs(5);
/// … and the end of the process waits so long for what is left.
const FINISH_WAIT: Duration = Duration::from_secs(2);
/// That a collector fails is logged at most so often.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);
/// The path of OTLP where an address has none.
const DEFAULT_PATH: &str = "/v1/traces";

/// What was sent, and what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Spans that the collector has taken.
    pub(crate) sent: u64,
    /// Spans that the queue had no room for, or that the collector did not take.
    pub(crate) lost: u64,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    lost: AtomicU64,
}

enum Entry {
    Span(Box<Span>),
    /// Send what there is, and say so.
    Finish(SyncSender<()>),
}

/// Where spans go that have ended.
#[derive(Clone)]
pub(crate) struct Queue {
    sender: SyncSender<Entry>,
    counters: Arc<Counters>,
}

impl Queue {
    /// Adds a span, or counts it as lost.
    pub(super) fn add(&self, span: Span) {
        if self.sender.try_send(Entry::Span(Box::new(span))).is_err() {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The thread, from outside.
pub(crate) struct Exporter {
    queue: Queue,
}

impl Exporter {
    /// Starts the thread, which posts to a URL.
    pub(crate) fn start(url: &str) -> Result<Self, String> {
        check_endpoint(url)?;
        let (server, path) = split(url);
        let (sender, received) = sync_channel(QUEUE_SPANS_MAX);
        let counters = Arc::<Counters>::default();
        let mut sink = Sink {
            server: server.to_owned(),
            connection: None,
            path: path.to_owned(),
            counters: counters.clone(),
            last_failure: None,
        };
        std::thread::Builder::new()
            .name("nyala-traces".to_owned())
            .spawn(move || sink.run(&received))
            .map_err(|error| format!("traces-endpoint: no thread can be started: {error}"))?;
        Ok(Self { queue: Queue { sender, counters } })
    }

    /// Where spans go.
    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// What was sent and lost since the start.
    pub(crate) fn counts(&self) -> Counts {
        let Counters { sent, lost } = &*self.queue.counters;
        Counts { sent: sent.load(Ordering::Relaxed), lost: lost.load(Ordering::Relaxed) }
    }

    /// Sends what waits, within bounds of time.
    pub(crate) fn finish(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.sender.try_send(Entry::Finish(done)).is_ok() {
            let _ = wait.recv_timeout(FINISH_WAIT);
        }
    }
}

/// Whether spans can be sent to a URL, as far as that can be read in it.
pub(crate) fn check_endpoint(url: &str) -> Result<(), String> {
    Target::check(split(url).0).map_err(|error| format!("traces-endpoint: {error}"))
}

/// Server and path of a URL.
fn split(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    match url[authority..].find('/').map(|path| authority + path) {
        Some(path) if path + 1 < url.len() => url.split_at(path),
        Some(path) => (&url[..path], DEFAULT_PATH),
        None => (url, DEFAULT_PATH),
    }
}

struct Sink {
    server: String,
    /// `None`: its name had no address so far. A collector may come up after the server, and nobody waits for it.
    connection: Option<Connection>,
    path: String,
    counters: Arc<Counters>,
    last_failure: Option<Instant>,
}

impl Sink {
    fn run(&mut self, received: &Receiver<Entry>) {
        // Until nobody can send any more.
        while let Ok(first) = received.recv() {
            let until = Instant::now() + BATCH_WAIT;
            let (mut batch, mut finished) = (Vec::new(), None);
            let mut next = Some(first);
            while let Some(entry) = next {
                match entry {
                    Entry::Span(span) => batch.push(*span),
                    Entry::Finish(done) => finished = Some(done),
                }
                if finished.is_some() || batch.len() == BATCH_SPANS {
                    break;
                }
                next = received.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
            }
            if !batch.is_empty() {
                self.send(batch);
            }
            if let Some(done) = finished {
                let _ = done.send(());
            }
        }
    }

    fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let Err(failure) = self.post(&request(spans).encode_to_vec()) else {
            self.counters.sent.fetch_add(count, Ordering::Relaxed);
            return;
        };
        self.counters.lost.fetch_add(count, Ordering::Relaxed);
        if self.last_failure.is_none_or(|last| last.elapsed() >= FAILURE_PAUSE) {
            self.last_failure = Some(Instant::now());
            tracing::warn!(
                error = failure,
                spans = count,
                "traces could not be sent to traces-endpoint; they are lost"
            );
        }
    }

    fn post(&mut self, body: &[u8]) -> Result<(), String> {
        if self.connection.is_none() {
            let target = Target::parse(&self.server).map_err(|error| error.to_string())?;
            self.connection = Some(Connection::new(&target, TIMEOUT));
        }
        let connection = self.connection.as_mut().expect("it was just made");
        let headers = "Content-Type: application/x-protobuf\r\n";
        let answer = connection.request("POST", &self.path, headers, body, Body::Drop);
        match answer.map_err(|error| error.to_string())?.status {
            200..300 => Ok(()),
            status => Err(format!("status {status}: {}", connection.error_text())),
        }
    }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let text = |text: &str| Value::Text(text.to_owned());
    let attributes = vec![
        KeyValue::new("service.name", text("nyala")),
        KeyValue::new("service.version", text(env!("CARGO_PKG_VERSION"))),
        KeyValue::new("service.instance.id", Value::Text(format!("{}:{}", hostname(), std::process::id()))),
        KeyValue::new("host.name", Value::Text(hostname())),
        KeyValue::new("process.pid", Value::Integer(std::process::id().into())),
    ];
    let scope = Scope { name: "nyala".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }];
    ExportTraceServiceRequest { resource_spans }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_means_that_of_otlp() {
        assert_eq!(split("http://c:4318"), ("http://c:4318", "/v1/traces"));
        assert_eq!(split("http://c:4318/"), ("http://c:4318", "/v1/traces"));
        assert_eq!(split("https://c/v1/traces"), ("https://c", "/v1/traces"));
        assert_eq!(split("http://c:1/a/b?x=1"), ("http://c:1", "/a/b?x=1"));
    }
}
