//! One keep-alive connection, used by one thread.

use crate::error::{ClientError, Result};
use crate::response::{Body, Response, ResponseReader};
use crate::target::Target;
use crate::tls::Stream;
use std::io::{IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A connection that is opened when it is needed, and again if the server closed it between requests.
#[derive(Debug)]
pub struct Connection {
    target: Target,
    timeout: Duration,
    /// Whether an answer may take longer than that to begin or to go on.
    patient: bool,
    stream: Option<Stream>,
    reader: ResponseReader,
    head: Vec<u8>,
    /// Header lines of every request.
    accepts: &'static str,
    canceller: Canceller,
}

impl Connection {
    /// A connection to `target`. No single read or write may take longer than `timeout`.
    pub fn new(target: &Target, timeout: Duration) -> Connection {
        Connection {
            target: target.clone(),
            timeout,
            patient: false,
            stream: None,
            reader: ResponseReader::default(),
            head: Vec::new(),
            accepts: "",
            canceller: Canceller::default(),
        }
    }

    /// Waits for answers without end; another thread can end that.
    #[must_use]
    pub fn patient(mut self) -> Connection {
        self.patient = true;
        self
    }

    /// What ends a request from another thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// With `gzip`, allows compressed answers. They are returned as received, not decompressed.
    #[must_use]
    pub fn accepting(mut self, gzip: bool) -> Connection {
        self.accepts = if gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        self
    }

    /// Sends a request (`path` with its query string, `headers` as whole lines) and reads its answer.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        request_body: &[u8],
        mut body: Body<'_>,
    ) -> Result<Response> {
        self.head.clear();
        let length = request_body.len();
        write!(
            self.head,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n{}{headers}\r\n",
            self.target.authority, self.accepts
        )
        .expect("a vector takes any bytes");
        let fresh = self.stream.is_none();
        match self.attempt(request_body, &mut body) {
            Ok(Some(response)) => Ok(response),
            // That the server closed an idle connection only shows when it is used.
            Ok(None) if !fresh && !self.canceller.is_cancelled() => {
                self.attempt(request_body, &mut body)?.ok_or_else(closed)
            }
            Ok(None) => Err(closed()),
            Err(error) => Err(error),
        }
    }

    /// The beginning of the body of the last error.
    pub fn error_text(&self) -> String {
        self.reader.error_text()
    }

    /// Like [`Connection::request`], and a status other than 2xx is an error.
    pub fn expect_success(
        &mut self,
        method: &str,
        path: &str,
        request_body: &[u8],
        body: Body<'_>,
    ) -> Result<Response> {
        let response = self.request(method, path, "", request_body, body)?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        Err(ClientError::Server { status: response.status, message: self.error_text() })
    }

    /// `Ok(None)`: the connection broke before the answer's first byte.
    fn attempt(&mut self, request_body: &[u8], body: &mut Body<'_>) -> Result<Option<Response>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.reader.reset();
                let stream = self.target.connect(self.timeout, (!self.patient).then_some(self.timeout))?;
                self.canceller.watch(stream.socket())?;
                stream
            }
        };
        // A server may refuse before it has read everything, so its answer counts, not the failed write.
        let sent = send(&mut stream, &self.head, request_body);
        match self.reader.read(&mut stream, body) {
            Ok(Some(response)) => {
                if response.keep_alive && sent.is_ok() {
                    self.stream = Some(stream);
                }
                Ok(Some(response))
            }
            Ok(None) => Ok(None),
            Err(ClientError::Io { source, .. }) if source.kind() == std::io::ErrorKind::ConnectionReset => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Ends requests of a connection from another thread: the server sees that its client has left.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Mutex<Cancelled>>);

#[derive(Debug, Default)]
struct Cancelled {
    is_cancelled: bool,
    socket: Option<TcpStream>,
}

impl Canceller {
    /// Closes the connection. What reads from it fails, now and later.
    pub fn cancel(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_cancelled = true;
        if let Some(socket) = &state.socket {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_cancelled
    }

    fn watch(&self, socket: &TcpStream) -> Result<()> {
        let socket = socket.try_clone().map_err(ClientError::io("opening a connection"))?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_cancelled {
            let _ = socket.shutdown(Shutdown::Both);
        }
        state.socket = Some(socket);
        Ok(())
    }
}

fn closed() -> ClientError {
    ClientError::Protocol("the server closed the connection without an answer".to_owned())
}

fn send(stream: &mut Stream, head: &[u8], body: &[u8]) -> std::io::Result<()> {
    if body.is_empty() {
        return stream.write_all(head);
    }
    let sent = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
    if sent < head.len() {
        stream.write_all(&head[sent..])?;
        return stream.write_all(body);
    }
    stream.write_all(&body[sent - head.len()..])
}
