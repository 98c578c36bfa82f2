//! Connections that bring lines. A line may have [`LINE_BYTES_MAX`]; what is longer is left out and counted. When all
//! connections are taken, the one that has waited longest for its client is closed.
//!
//! A browser can be made to send what it likes to a port of its own machine, as the body of an HTTP request. So who reads lines
//! must look whether a connection began like one ([`Received`]).

use super::Input;
use crate::server::audit::LogLimit;
use crate::server::connection_limit::{ActiveRequest, ConnectionLimiter, ConnectionPermit};
use crate::server::connection_threads::until_true;
use crate::server::received::{InputCounts, Reason};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The longest line.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// What is read at once at first.
const READ_BYTES: usize = 4 << 10;
/// How long to wait after a connection could not be accepted: probably too many files are open.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// How much is still read of a connection after the server began to stop: more than the system had received before.
const LAST_BYTES_MAX: usize = 8 << 20;
/// How long a client may read nothing of a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections until the server stops. `serve` serves one.
pub(super) async fn serve<F>(
    listener: std::net::TcpListener,
    connections_max: usize,
    input: &Input,
    mut stopped: watch::Receiver<bool>,
    serve: impl Fn(LineConnection) -> F + Send,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let name = input.counts.input;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, input = name, "cannot listen"),
    };
    let (limiter, warnings) = (ConnectionLimiter::new(name, connections_max), LogLimit::default());
    let mut serving = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = serving.join_next() => continue,
            () = until_true(&mut stopped) => break,
        };
        let (stream, client) = match accepted {
            Ok((stream, client)) => (stream, client.ip()),
            Err(error) => {
                if let Some(left_out) = warnings.next() {
                    tracing::warn!(%error, input = name, left_out, "cannot accept a connection");
                }
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        let permit = tokio::select! {
            permit = limiter.take() => permit,
            () = until_true(&mut stopped) => break,
        };
        let set_task = permit.task_setter();
        let served = serve(LineConnection {
            stream,
            client,
            permit: Arc::new(permit),
            active: None,
            counts: input.counts.clone(),
            stopped: stopped.clone(),
            buffer: Vec::with_capacity(READ_BYTES),
            taken: 0,
            is_first: true,
            is_too_long: false,
            last_bytes: 0,
        });
        set_task(serving.spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection ended");
            }
        }));
    }
    // Each ends by itself when it has read what came.
    while serving.join_next().await.is_some() {}
}

/// A connection that brings lines.
pub(super) struct LineConnection {
    stream: TcpStream,
    pub(super) client: IpAddr,
    permit: Arc<ConnectionPermit>,
    /// While lines are worked on.
    active: Option<ActiveRequest>,
    counts: Arc<InputCounts>,
    stopped: watch::Receiver<bool>,
    /// What was read: first what was returned already.
    buffer: Vec<u8>,
    taken: usize,
    is_first: bool,
    /// Whether the line that is being read is left out.
    is_too_long: bool,
    last_bytes: usize,
}

/// Whole lines of a connection.
pub(super) struct Received<'a> {
    pub(super) text: &'a [u8],
    /// Whether the connection began as an HTTP request does.
    pub(super) is_http: bool,
}

impl LineConnection {
    /// The whole lines that came; `None` at the end.
    pub(super) async fn lines(&mut self) -> io::Result<Option<Received<'_>>> {
        self.buffer.drain(..std::mem::take(&mut self.taken));
        self.active = None;
        loop {
            let read = tokio::select! {
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = until_true(&mut self.stopped) => match self.stream.try_read_buf(&mut self.buffer) {
                    Ok(read) => read,
                    Err(_) => return Ok(None),
                },
            };
            if *self.stopped.borrow() {
                self.last_bytes += read;
            }
            // `None`: the connection is being closed for another.
            let Some(active) = self.permit.begin_request() else { return Ok(None) };
            if read == 0 || self.last_bytes > LAST_BYTES_MAX {
                // InfluxDB leaves out a last line without an end, which may have been cut off. One that is too long was counted.
                let is_cut_off = !self.buffer.is_empty() && !self.is_too_long;
                self.counts.reject(Reason::Unreadable, u64::from(is_cut_off));
                return Ok(None);
            }
            if let Some(last) = memchr::memrchr(b'\n', &self.buffer) {
                let mut start = 0;
                if std::mem::take(&mut self.is_too_long) {
                    start = memchr::memchr(b'\n', &self.buffer).map_or(0, |end| end + 1);
                }
                self.taken = last + 1;
                let text = &self.buffer[start..self.taken];
                let is_http = std::mem::take(&mut self.is_first) && begins_as_http(text);
                if !is_http {
                    self.counts.receive_lines(self.taken, memchr::memchr_iter(b'\n', text).count());
                }
                self.active = Some(active);
                return Ok(Some(Received { text, is_http }));
            }
            if self.buffer.len() >= LINE_BYTES_MAX {
                self.counts.reject(Reason::TooLong, u64::from(!self.is_too_long));
                self.counts.receive_lines(self.buffer.len(), 0);
                if self.is_first {
                    // It may be an HTTP request, whose first line is not looked at.
                    return Ok(None);
                }
                self.is_too_long = true;
                self.buffer.clear();
            }
        }
    }

    /// Answers a client.
    pub(super) async fn reply(&mut self, text: &[u8]) -> io::Result<()> {
        let writing = tokio::time::timeout(REPLY_TIMEOUT, self.stream.write_all(text));
        writing.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// The connection from its beginning, if only its first lines were read, and its permit.
    pub(super) fn into_stream(self) -> (impl AsyncRead + AsyncWrite + Unpin + Send, Arc<ConnectionPermit>) {
        let (reading, writing) = self.stream.into_split();
        (tokio::io::join(io::Cursor::new(self.buffer).chain(reading), writing), self.permit)
    }
}

/// Whether the first line is that of an HTTP request.
fn begins_as_http(lines: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
    memchr::memmem::find(&lines[..end], b" HTTP/").is_some()
}
