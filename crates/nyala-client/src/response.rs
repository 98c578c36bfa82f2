//! Reads HTTP/1.1 answers from a stream: `Content-Length`, chunked, or until the connection closes.
//!
//! Servers are not trusted: heads, lines and collected bodies are bounded, and bytes that are not HTTP give an error,
//! never a panic. Bodies are counted and dropped unless they are collected, which keeps the client cheap.

use crate::error::{ClientError, Result};
use std::io::{ErrorKind, Read};

/// The longest head (status line and headers) accepted.
const HEAD_LIMIT_BYTES: usize = 64 << 10;
/// The longest line with a chunk's size accepted, extensions included.
const CHUNK_LINE_LIMIT_BYTES: usize = 1 << 10;
/// Read from the connection at once.
const BUFFER_BYTES: usize = 128 << 10;
/// How a server of TLS begins its answer to what is not TLS: an alert, of any version of TLS.
const TLS_ALERT: [u8; 2] = [21, 3];

/// An answer that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Bytes of body, as transferred.
    pub body_bytes: u64,
    /// Seconds of `Retry-After`, if given.
    pub retry_after_seconds: Option<u64>,
    /// How many points of a refused write are stored all the same (`X-Nyala-Points-Written`), if the server says so.
    pub points_written: Option<u64>,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
}

/// What to do with a body.
pub enum Body<'a> {
    /// Count its bytes. The beginning of an error's body is kept, so that it can be reported.
    Drop,
    /// Append it; a body above the limit is an error.
    Collect {
        /// The buffer to append to.
        into: &'a mut Vec<u8>,
        /// The limit.
        limit_bytes: usize,
    },
    /// Hand on its pieces, unless it is that of an error (status 400 and above).
    HandOn(&'a mut dyn FnMut(&[u8]) -> Result<()>),
}

/// Reads consecutive answers of one connection through a buffer.
#[derive(Debug)]
pub struct ResponseReader {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    error_text: Vec<u8>,
}

impl Default for ResponseReader {
    fn default() -> ResponseReader {
        ResponseReader {
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            error_text: Vec::new(),
        }
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

struct Head {
    status: u16,
    framing: Framing,
    keep_alive: bool,
    retry_after_seconds: Option<u64>,
    points_written: Option<u64>,
}

fn malformed(what: &str) -> ClientError {
    ClientError::Protocol(what.to_owned())
}

impl ResponseReader {
    /// Discards what was read from an earlier connection.
    pub fn reset(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// The beginning of the last error's body (status 400 and above).
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.error_text).into_owned()
    }

    /// Reads one answer to its end. `Ok(None)`: the connection was closed before its first byte.
    pub fn read(&mut self, stream: &mut impl Read, body: &mut Body<'_>) -> Result<Option<Response>> {
        self.error_text.clear();
        let head = loop {
            let Some(head) = self.read_head(stream)? else { return Ok(None) };
            // 1xx announces another head.
            if head.status >= 200 {
                break head;
            }
        };
        let mut sink = Sink { body, errors: (head.status >= 400).then_some(&mut self.error_text), bytes: 0 };
        let mut input =
            Input { buffer: &mut self.buffer, start: &mut self.start, end: &mut self.end, stream };
        match head.framing {
            Framing::None => {}
            Framing::Length(length) => input.copy_exactly(length, &mut sink)?,
            Framing::Chunked => input.copy_chunks(&mut sink)?,
            Framing::UntilClose => input.copy_until_close(&mut sink)?,
        }
        Ok(Some(Response {
            status: head.status,
            body_bytes: sink.bytes,
            retry_after_seconds: head.retry_after_seconds,
            points_written: head.points_written,
            keep_alive: head.keep_alive && head.framing != Framing::UntilClose,
        }))
    }

    fn read_head(&mut self, stream: &mut impl Read) -> Result<Option<Head>> {
        let mut searched = self.start;
        loop {
            let unread = &self.buffer[self.start..self.end];
            let from = searched.saturating_sub(3).max(self.start) - self.start;
            if let Some(at) = unread[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                let head = parse_head(&unread[..from + at])?;
                self.start += from + at + 4;
                return Ok(Some(head));
            }
            if unread.len() >= HEAD_LIMIT_BYTES {
                return Err(malformed("the head of the answer does not end"));
            }
            let nothing_yet = unread.is_empty();
            searched = self.end - self.start;
            let mut input =
                Input { buffer: &mut self.buffer, start: &mut self.start, end: &mut self.end, stream };
            if !input.fill()? {
                let unread = &self.buffer[self.start..self.end];
                return match nothing_yet {
                    true => Ok(None),
                    false if unread.starts_with(&TLS_ALERT) => {
                        Err(malformed("it speaks TLS: its address begins with https://"))
                    }
                    false => Err(malformed("the answer ends within its head")),
                };
            }
            // `fill` may have moved the unread bytes to the front.
            searched += self.start;
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Head> {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = lines.next().unwrap_or_default();
    let version_one = status_line.starts_with(b"HTTP/1.1 ") || status_line.starts_with(b"HTTP/1.0 ");
    let status = status_line.get(9..12).and_then(parse_decimal).filter(|_| version_one);
    let Some(status @ 100..=599) = status else {
        return Err(malformed("no HTTP/1 status line"));
    };
    let mut head = Head {
        status: status as u16,
        framing: Framing::UntilClose,
        keep_alive: status_line.starts_with(b"HTTP/1.1 "),
        retry_after_seconds: None,
        points_written: None,
    };
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return Err(malformed("a header without a colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length =
                parse_decimal(value).ok_or_else(|| malformed("a Content-Length that is no number"))?;
            if head.framing == Framing::UntilClose {
                head.framing = Framing::Length(length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(malformed("a Transfer-Encoding other than chunked"));
            }
            head.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case(b"connection") {
            head.keep_alive = !value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case(b"retry-after") {
            head.retry_after_seconds = parse_decimal(value);
        } else if name.eq_ignore_ascii_case(b"x-nyala-points-written") {
            head.points_written = parse_decimal(value);
        }
    }
    if status < 200 || status == 204 || status == 304 {
        head.framing = Framing::None;
    }
    Ok(head)
}

/// Digits only, below 10^18.
fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

struct Sink<'a, 'b> {
    body: &'a mut Body<'b>,
    errors: Option<&'a mut Vec<u8>>,
    bytes: u64,
}

/// How much of an error's body is kept. A message quotes the statement, or a name of a few KiB.
const ERROR_TEXT_LIMIT_BYTES: usize = 64 << 10;

impl Sink<'_, '_> {
    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if let Some(errors) = &mut self.errors {
            let room = ERROR_TEXT_LIMIT_BYTES - errors.len();
            errors.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        match self.body {
            Body::Drop => Ok(()),
            Body::Collect { into, limit_bytes } => {
                if into.len() + bytes.len() > *limit_bytes {
                    return Err(ClientError::Protocol(format!("an answer of more than {limit_bytes} bytes")));
                }
                into.extend_from_slice(bytes);
                Ok(())
            }
            Body::HandOn(_) if self.errors.is_some() => Ok(()),
            Body::HandOn(take) => take(bytes),
        }
    }
}

struct Input<'a, R> {
    buffer: &'a mut [u8],
    start: &'a mut usize,
    end: &'a mut usize,
    stream: &'a mut R,
}

impl<R: Read> Input<'_, R> {
    /// Reads more; false at the end of the stream. Unread bytes are kept; callers leave fewer than the buffer holds.
    fn fill(&mut self) -> Result<bool> {
        if *self.start == *self.end {
            (*self.start, *self.end) = (0, 0);
        } else if *self.end == self.buffer.len() {
            self.buffer.copy_within(*self.start..*self.end, 0);
            (*self.start, *self.end) = (0, *self.end - *self.start);
        }
        assert!(*self.end < self.buffer.len(), "callers bound what they leave unread");
        loop {
            match self.stream.read(&mut self.buffer[*self.end..]) {
                Ok(count) => {
                    *self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(ClientError::Io {
                        context: "reading the server's answer".to_owned(),
                        source,
                    });
                }
            }
        }
    }

    fn copy_exactly(&mut self, mut length: u64, sink: &mut Sink<'_, '_>) -> Result<()> {
        while length > 0 {
            if *self.start == *self.end && !self.fill()? {
                return Err(malformed("the answer ends within its body"));
            }
            let unread = &self.buffer[*self.start..*self.end];
            let part = unread.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            sink.take(&unread[..part])?;
            *self.start += part;
            length -= part as u64;
        }
        Ok(())
    }

    fn copy_until_close(&mut self, sink: &mut Sink<'_, '_>) -> Result<()> {
        loop {
            sink.take(&self.buffer[*self.start..*self.end])?;
            *self.start = *self.end;
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    fn copy_chunks(&mut self, sink: &mut Sink<'_, '_>) -> Result<()> {
        loop {
            let size = self.line(|line| {
                let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
                parse_hexadecimal(digits).ok_or_else(|| malformed("a chunk without a size"))
            })?;
            if size == 0 {
                break;
            }
            self.copy_exactly(size, sink)?;
            self.line(
                |line| {
                    if line.is_empty() { Ok(()) } else { Err(malformed("a chunk longer than its size")) }
                },
            )?;
        }
        // Trailers up to an empty line, bounded like a head.
        let mut trailers_bytes = 0;
        while !self.line(|line| {
            trailers_bytes += line.len();
            Ok(line.is_empty())
        })? {
            if trailers_bytes > HEAD_LIMIT_BYTES {
                return Err(malformed("the trailers of the answer do not end"));
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    fn line<T>(&mut self, use_line: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        loop {
            let unread = &self.buffer[*self.start..*self.end];
            if let Some(at) = unread.iter().take(CHUNK_LINE_LIMIT_BYTES).position(|&byte| byte == b'\n') {
                let line = unread[..at].strip_suffix(b"\r").unwrap_or(&unread[..at]);
                let value = use_line(line)?;
                *self.start += at + 1;
                return Ok(value);
            }
            if unread.len() >= CHUNK_LINE_LIMIT_BYTES {
                return Err(malformed("the line of a chunk's size does not end"));
            }
            if !self.fill()? {
                return Err(malformed("the answer ends within its body"));
            }
        }
    }
}

/// At most 15 digits, so that sums of sizes stay far from overflow.
fn parse_hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    text.iter().try_fold(0, |sum, &byte| Some(sum * 16 + u64::from(char::from(byte).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Returns its bytes in pieces of `step`.
    struct Trickle<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = self.bytes.len().min(self.step).min(out.len());
            out[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    fn read_all(bytes: &[u8], step: usize) -> Result<Vec<(u16, String)>> {
        let (mut reader, mut stream) = (ResponseReader::default(), Trickle { bytes, step });
        let mut answers = Vec::new();
        loop {
            let mut into = Vec::new();
            let mut body = Body::Collect { into: &mut into, limit_bytes: 1 << 20 };
            let Some(response) = reader.read(&mut stream, &mut body)? else { return Ok(answers) };
            assert_eq!(response.body_bytes, into.len() as u64);
            answers.push((response.status, String::from_utf8_lossy(&into).into_owned()));
        }
    }

    const THREE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n\
        HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\n\
        HTTP/1.0 400 Bad\r\n\r\nuntil the end";

    #[test]
    fn answers_are_read_in_pieces_of_any_size() {
        let expected = [(200, "hello"), (204, ""), (200, "abc0123456789"), (400, "until the end")]
            .map(|(status, text)| (status, text.to_owned()));
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(read_all(THREE, step).unwrap(), expected, "step {step}");
        }
    }

    #[test]
    fn every_truncation_ends_in_an_answer_or_an_error() {
        for length in 0..THREE.len() {
            // The last answer is delimited by the end, so that some prefixes are whole.
            let _ = read_all(&THREE[..length], 5);
        }
        assert!(read_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 9).is_err());
        assert!(read_all(b"HTTP/1.1 200 OK\r\nContent-Le", 9).is_err());
        let of_tls = read_all(&[21, 3, 3, 0, 2, 2, 22], 9).unwrap_err().to_string();
        assert!(of_tls.contains("https://"), "{of_tls}");
        assert!(read_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 9).is_err());
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for bytes in [
            b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(),
            b"HTTP/1.1 99999 OK\r\n\r\n".to_vec()[..12].to_vec(),
            b"HTTP/1.1 abc\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n".to_vec(),
            [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &[b'0'; 5000]].concat(),
            [&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'y'; 200_000]].concat(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n".repeat(40_000),
        ] {
            for step in [1, 4096] {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
                assert!(read_all(&bytes, step).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn mutated_answers_never_panic() {
        let mut random = SmallRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut bytes = THREE.to_vec();
            for _ in 0..=random.random_range(0..4) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            let _ = read_all(&bytes, random.random_range(1..=64));
        }
    }

    #[test]
    fn the_text_of_an_error_is_kept_and_bounded() {
        let mut bytes = b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nConnection: close\r\n\r\n".to_vec();
        bytes.resize(100_000, b'e');
        let mut reader = ResponseReader::default();
        let response = reader.read(&mut &bytes[..], &mut Body::Drop).unwrap().unwrap();
        assert_eq!(
            (response.status, response.retry_after_seconds, response.keep_alive),
            (503, Some(3), false)
        );
        assert_eq!(reader.error_text().len(), ERROR_TEXT_LIMIT_BYTES);
    }
}
