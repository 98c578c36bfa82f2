//! A blocking HTTP client that sends exactly the bytes a script names.
//!
//! Each request has its own connection with `Connection: close`, so that a truncated or wrongly framed body is an error
//! and not a wait. Client libraries are no use here, because they normalise what these tests check (header case,
//! chunks, bodies).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than any request of the tests takes on a slow and busy machine, short enough to end a hang.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A free address for a server. Its port is below the range from 32 768 on that the system assigns to connections,
/// because one of those could take it before the server does.
pub(crate) fn free_address() -> SocketAddr {
    const PORTS: std::ops::Range<u32> = 10_000..30_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Other test processes begin at other numbers.
        let number = std::process::id() % 200 * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A request: everything that a script can vary.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer, after transfer and content encodings were decoded.
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

/// Compresses a body as clients do that send `Content-Encoding: gzip`.
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
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Decodes percent-encoding; a `%` that begins no escape stays.
pub(crate) fn percent_decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}
