//! A session of PostgreSQL's protocol that says exactly what a server has answered: types by their numbers, values as texts,
//! errors by their codes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any statement takes on a busy machine, short enough to end a hang.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A parameter: the number of its type (0 if the server finds it), and its text.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) oid: u32,
    pub(crate) text: Option<String>,
}

/// What a server has answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Rows { types: Vec<u32>, rows: Vec<Vec<Option<String>>> },
    Error { code: String, message: String },
}

pub(crate) struct Session(TcpStream);

impl Session {
    pub(crate) fn open(address: SocketAddr, user: &str, database: &str) -> io::Result<Session> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut session = Session(stream);
        let parameters = format!("user\0{user}\0database\0{database}\0\0");
        let body = [&196_608_i32.to_be_bytes()[..], parameters.as_bytes()].concat();
        session.0.write_all(&packet(&body))?;
        match session.answer()? {
            Answer::Rows { .. } => Ok(session),
            Answer::Error { message, .. } => Err(io::Error::other(message)),
        }
    }

    /// Executes a statement with parameters.
    pub(crate) fn ask(&mut self, statement: &str, parameters: &[Parameter]) -> Answer {
        let count = (parameters.len() as u16).to_be_bytes();
        let mut parse = [b"\0", statement.as_bytes(), b"\0", &count].concat();
        parameters.iter().for_each(|own| parse.extend(own.oid.to_be_bytes()));
        let mut bind = [&[0; 4][..], &count].concat();
        for own in parameters {
            match &own.text {
                Some(text) => {
                    bind.extend((text.len() as u32).to_be_bytes());
                    bind.extend(text.as_bytes());
                }
                None => bind.extend((-1_i32).to_be_bytes()),
            }
        }
        bind.extend([0; 2]);
        let messages = [
            message(b'P', &parse),
            message(b'D', b"S\0"),
            message(b'B', &bind),
            message(b'E', &[0; 5]),
            message(b'S', b""),
        ];
        self.0.write_all(&messages.concat()).expect("the server reads");
        self.answer().unwrap_or_else(|error| panic!("no answer to {statement}: {error}"))
    }

    /// Reads up to the message that says that the next statement may come.
    fn answer(&mut self) -> io::Result<Answer> {
        let (mut types, mut rows, mut failed) = (Vec::new(), Vec::new(), None);
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body)?;
            let mut fields = Fields(&body);
            match head[0] {
                b'T' => {
                    types = (0..fields.short()).map(|_| fields.column_type()).collect();
                }
                b'D' => rows.push((0..fields.short()).map(|_| fields.value()).collect()),
                b'E' => failed = Some(fields.error()),
                b'Z' => return Ok(failed.unwrap_or(Answer::Rows { types, rows })),
                _ => {}
            }
        }
    }
}

/// The fields of a message of a server that is trusted to send whole ones.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes(&mut self, count: usize) -> &[u8] {
        let (own, rest) = self.0.split_at(count);
        self.0 = rest;
        own
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().expect("two bytes"))
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.bytes(4).try_into().expect("four bytes"))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("a text ends");
        let text = String::from_utf8_lossy(self.bytes(end)).into_owned();
        self.bytes(1);
        text
    }

    /// The type in the description of a column.
    fn column_type(&mut self) -> u32 {
        self.text();
        self.bytes(6);
        let oid = self.int() as u32;
        self.bytes(8);
        oid
    }

    fn value(&mut self) -> Option<String> {
        let length = usize::try_from(self.int()).ok()?;
        Some(String::from_utf8_lossy(self.bytes(length)).into_owned())
    }

    fn error(&mut self) -> Answer {
        let (mut code, mut message) = (String::new(), String::new());
        while let [kind, ..] = *self.0
            && kind != 0
        {
            self.bytes(1);
            match kind {
                b'C' => code = self.text(),
                b'M' => message = self.text(),
                _ => drop(self.text()),
            }
        }
        Answer::Error { code, message }
    }
}

/// Bytes after their length.
fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    [&[letter][..], &packet(body)].concat()
}
