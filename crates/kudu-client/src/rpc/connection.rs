//! One negotiated connection with any number of calls in flight.
//!
//! Two tasks serve it: one writes queued requests, the other reads answers and hands each to its waiting call. A call
//! that is dropped (cancelled, or past its deadline) is removed from the table of waiting calls. If its request was not
//! written yet it is not sent, and an answer that arrives later is discarded. When the connection breaks, every waiting
//! call fails and the pool replaces the connection. An idle connection is closed: servers close idle connections too,
//! and closing first avoids sending a request just when they do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::frame::{Response, encode_request, read_response};
use super::negotiation::Transport;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::pb::rpc::{ErrorStatus, RemoteMethod, RequestHeader, RequestId};

/// The most requests waiting for the socket; further callers wait for room in the queue.
const QUEUE_LENGTH: usize = 64;

/// Large columns bypass this buffer and are read straight into their own buffers.
const READ_BUFFER_BYTES: usize = 32 << 10;
const WRITE_BUFFER_BYTES: usize = 16 << 10;

/// What a call has besides its message.
#[derive(Clone, Debug)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Instant,
    pub(crate) features: Vec<u32>,
    pub(crate) request_id: Option<RequestId>,
}

impl CallOptions {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { deadline, features: Vec::new(), request_id: None }
    }
}

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_message_bytes: usize,
    pub(crate) idle_timeout: Duration,
}

/// A connection ready for calls. Dropping it fails the calls still waiting.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    server: String,
    metrics: Arc<Metrics>,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    next_id: i32,
    waiting: HashMap<i32, oneshot::Sender<Result<Response>>>,
    broken: Option<Error>,
}

#[derive(Debug)]
struct Request {
    call_id: i32,
    frame: Bytes,
}

impl Connection {
    pub(crate) fn start(
        transport: Transport<TcpStream>,
        server: String,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        match transport {
            Transport::Plain(socket) => {
                let (read, write) = socket.into_split();
                Self::start_on(read, write, server, limits, metrics)
            }
            Transport::Tls(stream) => {
                let (read, write) = tokio::io::split(*stream);
                Self::start_on(read, write, server, limits, metrics)
            }
        }
    }

    pub(crate) fn start_on<R, W>(
        read: R,
        write: W,
        server: String,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared { server, metrics, calls: Mutex::default() });
        let (requests, queue) = mpsc::channel(QUEUE_LENGTH);
        let writer = tokio::spawn(write_requests(shared.clone(), queue, write));
        let (reading, end_of_writer) = (shared.clone(), writer.abort_handle());
        let reader = tokio::spawn(async move {
            read_responses(reading, read, limits).await;
            // The connection closes when both halves are dropped, and the pool may keep this value for long.
            end_of_writer.abort();
        });
        let tasks = [writer, reader];
        Self { shared, requests, tasks }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.shared.calls.lock().broken.is_some()
    }

    /// Sends a request and waits for its answer, until the deadline.
    pub(crate) async fn call(
        &self,
        service: &'static str,
        method: &'static str,
        message: &impl Message,
        options: &CallOptions,
    ) -> Result<Response> {
        let now = Instant::now();
        let budget = options.deadline.saturating_duration_since(now);
        if budget.is_zero() {
            return Err(Error::timed_out(format!("{method}: the deadline had passed before it was sent")));
        }
        let (answer, waiting) = oneshot::channel();
        let call_id = self.shared.register(answer)?;
        let _guard = Unregister { shared: &self.shared, call_id };

        let header = RequestHeader {
            call_id,
            remote_method: Some(RemoteMethod { service_name: service.into(), method_name: method.into() }),
            timeout_millis: Some(u32::try_from(budget.as_millis()).unwrap_or(u32::MAX).max(1)),
            required_feature_flags: options.features.clone(),
            request_id: options.request_id.clone(),
        };
        let frame = encode_request(&header, message);
        let sent_bytes = frame.len() as u64;
        let exchange = async {
            // The writer only ends when the connection breaks; then the answer has the reason.
            let _ = self.requests.send(Request { call_id, frame }).await;
            waiting.await.unwrap_or_else(|_| Err(self.shared.broken_error()))
        };
        Metrics::count(&self.shared.metrics.calls);
        Metrics::add(&self.shared.metrics.bytes_sent, sent_bytes);
        let response = match timeout_at(options.deadline, exchange).await {
            Ok(response) => response?,
            Err(_) => return Err(Error::timed_out(format!("{method}: no answer within {budget:?}"))),
        };
        if !response.is_error {
            return Ok(response);
        }
        let status = ErrorStatus::decode(response.body)?;
        let error = Error::from_rpc(&status);
        // Codes from 10 to 16 and 18 announce the end of the connection.
        if matches!(status.code, Some(10..=16 | 18)) && error.kind() != ErrorKind::NotAuthorized {
            self.shared.break_with(error.clone());
        }
        Err(error)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    fn register(&self, answer: oneshot::Sender<Result<Response>>) -> Result<i32> {
        let mut calls = self.calls.lock();
        if let Some(error) = &calls.broken {
            return Err(error.clone());
        }
        if calls.next_id == i32::MAX {
            // Ids must rise; a new connection starts again from zero.
            let error = Error::new(ErrorKind::Network, "the connection has used up its call ids");
            calls.broken = Some(error.clone());
            return Err(error);
        }
        let call_id = calls.next_id;
        calls.next_id += 1;
        calls.waiting.insert(call_id, answer);
        Ok(call_id)
    }

    fn is_waiting(&self, call_id: i32) -> bool {
        self.calls.lock().waiting.contains_key(&call_id)
    }

    fn broken_error(&self) -> Error {
        self.calls
            .lock()
            .broken
            .clone()
            .unwrap_or_else(|| Error::new(ErrorKind::Network, "the connection ended"))
    }

    fn break_with(&self, error: Error) {
        let waiting = {
            let mut calls = self.calls.lock();
            calls.broken.get_or_insert_with(|| error.clone());
            std::mem::take(&mut calls.waiting)
        };
        if !waiting.is_empty() {
            tracing::debug!(server = self.server, calls = waiting.len(), %error, "connection lost");
        }
        for answer in waiting.into_values() {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Marks the connection as ended, unless a call has been registered meanwhile.
    fn end_if_idle(&self) -> bool {
        let mut calls = self.calls.lock();
        if !calls.waiting.is_empty() {
            return false;
        }
        calls
            .broken
            .get_or_insert_with(|| Error::new(ErrorKind::Network, "the connection was idle and was closed"));
        true
    }
}

struct Unregister<'a> {
    shared: &'a Shared,
    call_id: i32,
}

impl Drop for Unregister<'_> {
    fn drop(&mut self) {
        self.shared.calls.lock().waiting.remove(&self.call_id);
    }
}

async fn write_requests<W>(shared: Arc<Shared>, mut queue: mpsc::Receiver<Request>, write: W)
where
    W: AsyncWrite + Unpin,
{
    let mut writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, write);
    while let Some(request) = queue.recv().await {
        let mut result = match shared.is_waiting(request.call_id) {
            true => writer.write_all(&request.frame).await,
            false => Ok(()),
        };
        // Also behind a request that was not written: those before it may still be in the buffer.
        if result.is_ok() && queue.is_empty() {
            result = writer.flush().await;
        }
        if let Err(error) = result {
            shared.break_with(error.into());
            return;
        }
    }
}

async fn read_responses<R>(shared: Arc<Shared>, read: R, limits: Limits)
where
    R: AsyncRead + Unpin,
{
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, read);
    loop {
        // Waiting for a first byte can be interrupted at any time; a message that has begun is read to its end.
        let first = tokio::io::AsyncBufReadExt::fill_buf(&mut reader);
        match timeout(limits.idle_timeout, first).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return shared.break_with(error.into()),
            Err(_) if shared.end_if_idle() => return,
            Err(_) => continue,
        }
        match read_response(&mut reader, limits.max_message_bytes).await {
            Ok(Some(response)) => {
                let bytes = response.body.len() + response.sidecars.iter().map(Vec::len).sum::<usize>();
                Metrics::add(&shared.metrics.bytes_received, bytes as u64);
                let answer = shared.calls.lock().waiting.remove(&response.call_id);
                if let Some(answer) = answer {
                    let _ = answer.send(Ok(response));
                }
            }
            Ok(None) => {
                return shared.break_with(Error::new(ErrorKind::Network, "the server closed the connection"));
            }
            Err(error) => return shared.break_with(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::rpc::{Empty, ResponseHeader};
    use crate::rpc::frame::tests::encode_response;
    use prost::encoding::decode_varint;
    use tokio::io::{AsyncReadExt, DuplexStream};

    async fn next_call(server: &mut DuplexStream) -> RequestHeader {
        let length = server.read_u32().await.unwrap();
        let mut frame = vec![0; length as usize];
        server.read_exact(&mut frame).await.unwrap();
        let mut rest = &frame[..];
        let header_len = decode_varint(&mut rest).unwrap() as usize;
        RequestHeader::decode(&rest[..header_len]).unwrap()
    }

    fn connect() -> (Connection, DuplexStream) {
        connect_for(Duration::from_secs(50))
    }

    fn connect_for(idle_timeout: Duration) -> (Connection, DuplexStream) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(client);
        let limits = Limits { max_message_bytes: 1 << 20, idle_timeout };
        (Connection::start_on(read, write, "test".into(), limits, Arc::default()), server)
    }

    fn in_ms(milliseconds: u64) -> CallOptions {
        CallOptions::until(Instant::now() + Duration::from_millis(milliseconds))
    }

    #[tokio::test]
    async fn answers_reach_their_calls_in_any_order() {
        let (connection, mut server) = connect();
        let options = in_ms(60_000);
        let one = connection.call("s", "one", &Empty {}, &options);
        let two = connection.call("s", "two", &Empty {}, &options);
        let serve = async {
            let first = next_call(&mut server).await;
            let second = next_call(&mut server).await;
            assert!(first.call_id < second.call_id);
            for call in [second, first] {
                let header = ResponseHeader { call_id: call.call_id, ..Default::default() };
                let body = call.remote_method.unwrap().method_name;
                server.write_all(&encode_response(&header, body.as_bytes())).await.unwrap();
            }
        };
        let (one, two, ()) = tokio::join!(one, two, serve);
        assert_eq!(&one.unwrap().body[..], b"one");
        assert_eq!(&two.unwrap().body[..], b"two");
    }

    #[tokio::test]
    async fn a_deadline_frees_the_call_and_a_late_answer_is_discarded() {
        let (connection, mut server) = connect();
        // A call whose deadline passes before it is sent would not reach the server.
        let error = connection.call("s", "slow", &Empty {}, &in_ms(1_000)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(connection.shared.calls.lock().waiting.is_empty());
        let late = next_call(&mut server).await;
        let header = ResponseHeader { call_id: late.call_id, ..Default::default() };
        server.write_all(&encode_response(&header, b"late")).await.unwrap();

        let options = in_ms(60_000);
        let serve = async {
            let call = next_call(&mut server).await;
            let header = ResponseHeader { call_id: call.call_id, ..Default::default() };
            server.write_all(&encode_response(&header, b"fresh")).await.unwrap();
        };
        let (answer, ()) = tokio::join!(connection.call("s", "next", &Empty {}, &options), serve);
        assert_eq!(&answer.unwrap().body[..], b"fresh");
    }

    #[tokio::test]
    async fn a_cancelled_call_is_not_sent_and_leaves_nothing() {
        let (connection, mut server) = connect();
        let options = in_ms(60_000);
        {
            // Queued, but the writer did not run yet.
            let mut call = std::pin::pin!(connection.call("s", "cancelled", &Empty {}, &options));
            assert!(futures::poll!(&mut call).is_pending());
        }
        assert!(connection.shared.calls.lock().waiting.is_empty());
        let serve = async {
            let call = next_call(&mut server).await;
            assert_eq!(call.remote_method.unwrap().method_name, "next");
            let header = ResponseHeader { call_id: call.call_id, ..Default::default() };
            server.write_all(&encode_response(&header, b"fresh")).await.unwrap();
        };
        let (answer, ()) = tokio::join!(connection.call("s", "next", &Empty {}, &options), serve);
        assert_eq!(&answer.unwrap().body[..], b"fresh");
    }

    #[tokio::test]
    async fn a_call_is_sent_although_the_one_behind_it_was_cancelled() {
        let (connection, mut server) = connect();
        let options = in_ms(60_000);
        let mut one = std::pin::pin!(connection.call("s", "one", &Empty {}, &options));
        assert!(futures::poll!(&mut one).is_pending());
        {
            // Both are queued before the writer runs.
            let mut two = std::pin::pin!(connection.call("s", "cancelled", &Empty {}, &options));
            assert!(futures::poll!(&mut two).is_pending());
        }
        let serve = async {
            let call = next_call(&mut server).await;
            assert_eq!(call.remote_method.unwrap().method_name, "one");
            let header = ResponseHeader { call_id: call.call_id, ..Default::default() };
            server.write_all(&encode_response(&header, b"one")).await.unwrap();
        };
        let both = async { tokio::join!(one, serve) };
        let (answer, ()) = timeout(Duration::from_secs(60), both).await.expect("the request arrives");
        assert_eq!(&answer.unwrap().body[..], b"one");
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer() {
        let (connection, mut server) = connect_for(Duration::from_millis(20));
        let options = in_ms(60_000);
        let serve = async {
            let call = next_call(&mut server).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let header = ResponseHeader { call_id: call.call_id, ..Default::default() };
            server.write_all(&encode_response(&header, b"slow")).await.unwrap();
        };
        let (answer, ()) = tokio::join!(connection.call("s", "slow", &Empty {}, &options), serve);
        assert_eq!(&answer.unwrap().body[..], b"slow");
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "the client closes");
        assert!(connection.is_broken());
    }

    #[tokio::test]
    async fn a_lost_connection_fails_every_waiting_call() {
        let (connection, server) = connect();
        let options = in_ms(60_000);
        let drop_server = async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(server);
        };
        let (one, two, ()) = tokio::join!(
            connection.call("s", "one", &Empty {}, &options),
            connection.call("s", "two", &Empty {}, &options),
            drop_server
        );
        assert_eq!(one.unwrap_err().kind(), ErrorKind::Network);
        assert_eq!(two.unwrap_err().kind(), ErrorKind::Network);
        assert!(connection.is_broken());
    }
}
