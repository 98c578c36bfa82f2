//! A session of PostgreSQL's protocol, used by one thread.
//!
//! It does what a benchmark needs and no more: no passwords, no TLS, values as text. Like the HTTP client it shares the
//! machine with the server that it measures, so rows are counted where they lie in the buffer.

use crate::error::{BenchError, Result};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 3 << 16;
const USER: &str = "nyala";
/// A length beyond this is taken for a broken stream.
const MESSAGE_LIMIT_BYTES: usize = 1 << 30;
const READ_BYTES: usize = 64 << 10;

/// Rows as text.
#[derive(Debug, Default)]
pub struct SqlAnswer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Their types, as PostgreSQL numbers them.
    pub types: Vec<u32>,
    /// The rows; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// What becomes of the rows of an answer.
pub enum Rows<'a> {
    /// They are counted.
    Count,
    /// They are kept, up to about so many bytes.
    Keep {
        /// Where they go.
        into: &'a mut SqlAnswer,
        /// A larger answer is an error.
        limit_bytes: usize,
    },
}

/// What a statement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that it returned or changed, as the server says.
    pub rows: u64,
    /// Bytes of the rows that it returned.
    pub bytes: u64,
}

/// A statement that was prepared in a session, by its name there.
#[derive(Clone, Debug)]
pub struct Prepared(String);

/// An open session.
#[derive(Debug)]
pub struct SqlConnection {
    stream: TcpStream,
    /// Received bytes; those before `read` are done with.
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    prepared: usize,
}

impl SqlConnection {
    /// Connects to the server at `address` (`host:port`), which must not ask for a password. No single read or write may
    /// take longer than `timeout`.
    pub fn open(address: &str, database: &str, timeout: Duration) -> Result<SqlConnection> {
        let context = || format!("connecting to {address}");
        let connect = || {
            let none = || std::io::Error::other("its name has no address");
            let resolved = address.to_socket_addrs()?.next().ok_or_else(none)?;
            let stream = TcpStream::connect_timeout(&resolved, timeout)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok(stream)
        };
        let stream = connect().map_err(BenchError::io(context()))?;
        let mut connection =
            SqlConnection { stream, input: Vec::new(), read: 0, output: Vec::new(), prepared: 0 };
        let start = connection.begin();
        connection.output.extend_from_slice(&PROTOCOL.to_be_bytes());
        for text in ["user", USER, "database", database, ""] {
            connection.put_text(text);
        }
        connection.end(start);
        connection.finish(&mut Rows::Count)?;
        Ok(connection)
    }

    /// Executes statements as text, by the simple protocol.
    pub fn ask(&mut self, statement: &str, mut rows: Rows<'_>) -> Result<Done> {
        let start = self.begin_message(b'Q');
        self.put_text(statement);
        self.end(start);
        self.finish(&mut rows)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, statement: &str) -> Result<Prepared> {
        self.prepared += 1;
        let name = format!("s{}", self.prepared);
        let start = self.begin_message(b'P');
        self.put_text(&name);
        self.put_text(statement);
        self.put_count(0);
        self.end(start);
        self.put_sync();
        self.finish(&mut Rows::Count)?;
        Ok(Prepared(name))
    }

    /// Executes a prepared statement with these parameters.
    pub fn execute(&mut self, statement: &Prepared, parameters: &[&str]) -> Result<Done> {
        let start = self.begin_message(b'B');
        self.put_text("");
        self.put_text(&statement.0);
        // All parameters and results are text.
        self.put_count(0);
        self.put_count(parameters.len());
        for parameter in parameters {
            self.output.extend_from_slice(&(parameter.len() as i32).to_be_bytes());
            self.output.extend_from_slice(parameter.as_bytes());
        }
        self.put_count(0);
        self.end(start);
        let start = self.begin_message(b'E');
        self.put_text("");
        self.output.extend_from_slice(&0_i32.to_be_bytes());
        self.end(start);
        self.put_sync();
        self.finish(&mut Rows::Count)
    }

    fn begin_message(&mut self, kind: u8) -> usize {
        self.output.push(kind);
        self.begin()
    }

    /// Leaves room for a length, which counts itself.
    fn begin(&mut self) -> usize {
        self.output.extend_from_slice(&[0; 4]);
        self.output.len() - 4
    }

    fn end(&mut self, start: usize) {
        let length = (self.output.len() - start) as i32;
        self.output[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn put_text(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
        self.output.push(0);
    }

    fn put_count(&mut self, count: usize) {
        self.output.extend_from_slice(&(count as u16).to_be_bytes());
    }

    fn put_sync(&mut self) {
        let start = self.begin_message(b'S');
        self.end(start);
    }

    /// Sends what was put and reads messages until the server is ready for the next.
    fn finish(&mut self, rows: &mut Rows<'_>) -> Result<Done> {
        self.stream.write_all(&self.output).map_err(BenchError::io("sending a statement"))?;
        self.output.clear();
        let (mut done, mut failure) = (Done::default(), None);
        loop {
            // A server that lets nobody in says why, and closes.
            let message = next_message(&mut self.stream, &mut self.input, &mut self.read);
            let (kind, body) = match message {
                Ok(message) => message,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            match kind {
                b'D' => {
                    done.bytes += body.len() as u64;
                    if let Rows::Keep { into, limit_bytes } = rows {
                        if done.bytes > *limit_bytes as u64 {
                            return Err(BenchError::Protocol(format!(
                                "an answer of more than {limit_bytes} bytes"
                            )));
                        }
                        into.rows.push(read_row(body).ok_or_else(cut_off)?);
                    }
                }
                b'T' => {
                    if let Rows::Keep { into, .. } = rows {
                        (into.columns, into.types) = read_columns(body).ok_or_else(cut_off)?;
                    }
                }
                b'C' => {
                    let tag = String::from_utf8_lossy(body);
                    let count = tag.trim_end_matches('\0').rsplit(' ').next().map(str::parse);
                    done.rows = count.and_then(std::result::Result::ok).unwrap_or(0);
                }
                b'E' => failure = Some(read_error(body)),
                b'R' if body != 0_i32.to_be_bytes() => {
                    return Err(BenchError::Invalid(
                        "the server asks for a password of PostgreSQL's protocol: let the user nyala in without".to_owned(),
                    ));
                }
                b'Z' => break,
                _ => {}
            }
        }
        failure.map_or(Ok(done), Err)
    }
}

/// The next message: its kind and its body.
fn next_message<'a>(
    stream: &mut TcpStream,
    input: &'a mut Vec<u8>,
    read: &mut usize,
) -> Result<(u8, &'a [u8])> {
    receive(stream, input, read, 5)?;
    let head = &input[*read..];
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..MESSAGE_LIMIT_BYTES).contains(&length) {
        return Err(BenchError::Protocol(format!("a message of {length} bytes")));
    }
    receive(stream, input, read, 1 + length)?;
    let message = &input[*read..*read + 1 + length];
    *read += 1 + length;
    Ok((message[0], &message[5..]))
}

/// Receives until so many unread bytes are there.
fn receive(stream: &mut TcpStream, input: &mut Vec<u8>, read: &mut usize, bytes: usize) -> Result<()> {
    while input.len() - *read < bytes {
        input.drain(..*read);
        *read = 0;
        let filled = input.len();
        input.resize(filled + READ_BYTES.max(bytes - filled), 0);
        let received = stream.read(&mut input[filled..]).map_err(BenchError::io("reading an answer"))?;
        input.truncate(filled + received);
        if received == 0 {
            return Err(BenchError::Protocol("the server closed the session".to_owned()));
        }
    }
    Ok(())
}

fn cut_off() -> BenchError {
    BenchError::Protocol("a message that ends too early".to_owned())
}

fn take<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(*head)
}

fn read_row(mut body: &[u8]) -> Option<Vec<Option<String>>> {
    let cells = u16::from_be_bytes(take(&mut body)?);
    let mut cell = || {
        let length = i32::from_be_bytes(take(&mut body)?);
        let Ok(length) = usize::try_from(length) else { return Some(None) };
        Some(Some(String::from_utf8_lossy(body.split_off(..length)?).into_owned()))
    };
    (0..cells).map(|_| cell()).collect()
}

fn read_columns(mut body: &[u8]) -> Option<(Vec<String>, Vec<u32>)> {
    /// The table and the number of the column there, before its type.
    const BEFORE_TYPE_BYTES: usize = 6;
    /// Size, modifier and format, behind it.
    const AFTER_TYPE_BYTES: usize = 8;
    let columns = u16::from_be_bytes(take(&mut body)?);
    let mut column = || {
        let end = body.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(body.split_off(..end)?).into_owned();
        body.split_off(..1 + BEFORE_TYPE_BYTES)?;
        let number = u32::from_be_bytes(take(&mut body)?);
        body.split_off(..AFTER_TYPE_BYTES)?;
        Some((name, number))
    };
    (0..columns).map(|_| column()).collect()
}

/// The code and message among the fields of an error.
fn read_error(body: &[u8]) -> BenchError {
    let field = |wanted: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find_map(|field| field.split_first().filter(|(kind, _)| **kind == wanted));
        found.map_or_else(String::new, |(_, text)| String::from_utf8_lossy(text).into_owned())
    };
    BenchError::Sql { code: field(b'C'), message: field(b'M') }
}
