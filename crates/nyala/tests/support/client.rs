//! A blocking HTTP client that sends exactly the bytes a script names.
//!
//! One connection per request and `Connection: close`: the end of the answer is the end of the
//! stream, so a truncated or mis-framed body shows as an error instead of as a wait. Written here
//! because client libraries normalise what these tests are about (header case, chunks, bodies).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than any query of the scripts takes on a busy machine, short enough to end a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An address that nothing listens at, for a server. Its port is none of those that the system gives to whoever asks
/// for any, from 32 768 on: somebody's connection could have it before the server does.
pub(crate) fn free_address() -> SocketAddr {
    const PORTS: std::ops::Range<u32> = 10_000..30_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Far from those of another test's process.
        let number = std::process::id() % 200 * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// What is sent: everything that a script can vary.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What came back, with transfer and content encodings undone.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of the first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Sends one request and reads the whole answer.
pub(crate) fn send(address: SocketAddr, request: &Request) -> Result<Response, String> {
    let raw = exchange(address, request).map_err(|e| format!("{address}: {e}"))?;
    parse(&raw, request.method == "HEAD")
}

fn exchange(address: SocketAddr, request: &Request) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    let has = |name: &str| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !has("Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    if !has("Content-Length") && (!request.body.is_empty() || request.method == "POST") {
        head.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    let mut sent = stream.write_all(head.as_bytes());
    // A server may answer a body that is too large before it has read it: then the write fails and
    // the answer is what counts.
    if sent.is_ok() {
        sent = stream.write_all(&request.body);
    }
    let mut raw = Vec::new();
    match stream.read_to_end(&mut raw) {
        Ok(_) => {}
        Err(_) if !raw.is_empty() => {}
        Err(error) => return Err(sent.err().unwrap_or(error)),
    }
    Ok(raw)
}

fn parse(raw: &[u8], head_only: bool) -> Result<Response, String> {
    let head_end = find(raw, b"\r\n\r\n").ok_or_else(|| {
        format!(
            "no HTTP head in an answer of {} bytes: {:?}",
            raw.len(),
            String::from_utf8_lossy(&raw[..raw.len().min(200)])
        )
    })?;
    let head = String::from_utf8_lossy(&raw[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| format!("not a status line: {status_line:?}"))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut response = Response { status, headers, body: Vec::new() };
    let rest = &raw[head_end + 4..];
    if head_only || status == 204 || status == 304 {
        return match rest {
            [] => Ok(response),
            _ => Err(format!("a body of {} bytes where none may be", rest.len())),
        };
    }
    let framed = match response.header("Transfer-Encoding") {
        Some("chunked") => unchunk(rest)?,
        Some(other) => return Err(format!("unknown transfer encoding {other}")),
        None => match response.header("Content-Length") {
            Some(length) if length.parse() == Ok(rest.len()) => rest.to_vec(),
            Some(length) => {
                return Err(format!("Content-Length {length}, body {}", rest.len()));
            }
            None => rest.to_vec(),
        },
    };
    response.body = match response.header("Content-Encoding") {
        Some("gzip") => gunzip(&framed)?,
        _ => framed,
    };
    Ok(response)
}

fn unchunk(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let line_end = find(rest, b"\r\n").ok_or("the stream of chunks was cut")?;
        let size_text = String::from_utf8_lossy(&rest[..line_end]).into_owned();
        let size = usize::from_str_radix(size_text.trim(), 16)
            .map_err(|_| format!("not a chunk size: {size_text:?}"))?;
        rest = &rest[line_end + 2..];
        if size == 0 {
            return Ok(body);
        }
        if rest.len() < size + 2 {
            return Err("the last chunk was cut".into());
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// Packs a body as clients do that send `Content-Encoding: gzip`.
pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .read_to_end(&mut body)
        .map_err(|e| format!("the gzip body does not unpack: {e}"))?;
    Ok(body)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// Percent-encodes everything but unreserved characters, for URLs and forms.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(byte as char);
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Undoes percent-encoding; a `%` that starts none stays.
pub(crate) fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    decoded
}
