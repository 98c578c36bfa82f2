//! One keep-alive connection, used by one thread.

use super::response::{Body, Response, ResponseReader};
use super::target::Target;
use crate::error::{BenchError, Result};
use std::io::{IoSlice, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection that is opened when it is needed, and again if the server closed it between requests.
#[derive(Debug)]
pub struct Connection {
    target: Target,
    timeout: Duration,
    stream: Option<TcpStream>,
    reader: ResponseReader,
    head: Vec<u8>,
    /// Header lines of every request.
    accepts: &'static str,
}

impl Connection {
    /// A connection to `target`. No single read or write may take longer than `timeout`.
    pub fn new(target: &Target, timeout: Duration) -> Connection {
        Connection {
            target: target.clone(),
            timeout,
            stream: None,
            reader: ResponseReader::default(),
            head: Vec::new(),
            accepts: "",
        }
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
            Ok(None) if !fresh => self.attempt(request_body, &mut body)?.ok_or_else(closed),
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
        Err(BenchError::Server { status: response.status, message: self.error_text() })
    }

    /// `Ok(None)`: the connection broke before the answer's first byte.
    fn attempt(&mut self, request_body: &[u8], body: &mut Body<'_>) -> Result<Option<Response>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.reader.reset();
                self.target.connect(self.timeout)?
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
            Err(BenchError::Io { source, .. }) if source.kind() == std::io::ErrorKind::ConnectionReset => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn closed() -> BenchError {
    BenchError::Protocol("the server closed the connection without an answer".to_owned())
}

fn send(stream: &mut TcpStream, head: &[u8], body: &[u8]) -> std::io::Result<()> {
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
