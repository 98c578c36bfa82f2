//! Requests of somebody, by each way in: HTTP with credentials of every form, and PostgreSQL's protocol.

use super::client::{self, Request, Response, percent_encode};
use super::process::Process;
use base64ct::{Base64, Encoding};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that asks for log-ins, with the administrator `ann` and the database `home`.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) postgres: SocketAddr,
    pub(crate) directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        let postgres = client::free_address();
        let process = spawn(&directory, postgres, arguments);
        let server = Server { process, postgres, directory };
        server.ask("CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES");
        server.ask("CREATE DATABASE home");
        server
    }

    /// Stops it, and starts it again with the same data.
    pub(crate) fn again(self, arguments: &[&str]) -> Server {
        let Server { process, postgres, directory } = self;
        assert!(process.stop().success());
        Server { process: spawn(&directory, postgres, arguments), postgres, directory }
    }

    /// Executes InfluxQL as the administrator.
    pub(crate) fn ask(&self, text: &str) -> String {
        let answer = self.query("u=ann&p=pencil", &[], text);
        let body = body(&answer);
        assert!(answer.status == 200 && !body.contains("error"), "{text}: {} {body}", answer.status);
        body
    }

    /// Creates a token; its secret.
    pub(crate) fn token(&self, statement: &str) -> String {
        let body = self.ask(statement);
        let begin = body.find("nyala_").expect("a secret");
        body[begin..].split('"').next().expect("its end").to_owned()
    }

    pub(crate) fn query(&self, in_url: &str, headers: &[(&str, &str)], text: &str) -> Response {
        self.send("POST", &format!("/query?db=home&{in_url}&q={}", percent_encode(text)), headers, "")
    }

    pub(crate) fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.request(method, target, headers, body.as_bytes())
    }

    /// Posts bytes as somebody, whom the end of the target names.
    pub(crate) fn send_bytes(
        &self,
        target: &str,
        user: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.request("POST", &format!("{target}&{user}"), headers, body)
    }

    /// Copies the rows of a query, which the administrator asks, into `m` as somebody: from Arrow to Arrow.
    pub(crate) fn send_arrow(&self, user: &str, query: &str) -> Response {
        let arrow = "application/vnd.apache.arrow.stream";
        let asked = self.send("POST", "/api/sql?db=home&u=ann&p=pencil", &[("Accept", arrow)], query);
        assert_eq!(asked.status, 200, "{}", body(&asked));
        let target = "/api/sql?db=home&q=COPY%20m%20(time,h,v)%20FROM%20STDIN%20(FORMAT%20arrow)";
        self.send_bytes(target, user, &[("Content-Type", arrow)], &asked.body)
    }

    fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (method, target) = (method.to_owned(), target.to_owned());
        let request = Request { method, target, headers: headers.collect(), body: body.to_vec() };
        client::send(self.process.address, &request).expect("an answer")
    }

    /// The value of a metric with its labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = body(&self.send("GET", "/metrics?u=ann&p=pencil", &[], ""));
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric {name}: {text}"))
    }
}

fn spawn(directory: &tempfile::TempDir, postgres: SocketAddr, arguments: &[&str]) -> Process {
    let bind = postgres.to_string();
    let arguments = [&["--auth-enabled", "--postgres-bind", &bind], arguments].concat();
    Process::start(&directory.path().join("data"), &arguments)
}

pub(crate) fn body(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

pub(crate) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", Base64::encode_string(format!("{name}:{password}").as_bytes()))
}

/// A session of PostgreSQL's protocol. Errors are their SQLSTATE and message.
pub(crate) struct Session(TcpStream);

impl Session {
    pub(crate) fn open(address: SocketAddr, user: &str, password: &str) -> Result<Session, String> {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(180))).expect("a timeout");
        let mut session = Session(stream);
        let parameters = format!("user\0{user}\0database\0home\0\0");
        session.send(None, &[&196_608_i32.to_be_bytes()[..], parameters.as_bytes()].concat());
        let (letter, body) = session.message();
        if letter == b'E' {
            return Err(error(&body));
        }
        assert_eq!(
            (letter, &body[..]),
            (b'R', &3_i32.to_be_bytes()[..]),
            "it asks for the password in clear"
        );
        session.send(Some(b'p'), &[password.as_bytes(), b"\0"].concat());
        session.until_ready().map(|_| session)
    }

    /// Executes a statement; how many rows it has.
    pub(crate) fn run(&mut self, statement: &str) -> Result<usize, String> {
        self.send(Some(b'Q'), &[statement.as_bytes(), b"\0"].concat());
        self.until_ready()
    }

    fn until_ready(&mut self) -> Result<usize, String> {
        let (mut rows, mut failed) = (0, None);
        loop {
            match self.message() {
                (b'Z', _) => return failed.map_or(Ok(rows), Err),
                (b'D', _) => rows += 1,
                (b'E', body) if body.starts_with(b"SFATAL") => return Err(error(&body)),
                (b'E', body) => failed = Some(error(&body)),
                _ => {}
            }
        }
    }

    fn send(&mut self, letter: Option<u8>, body: &[u8]) {
        let mut bytes: Vec<u8> = letter.into_iter().collect();
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        self.0.write_all(&bytes).expect("the server listens");
    }

    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).expect("a message");
        let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
        self.0.read_exact(&mut body).expect("its body");
        (head[0], body)
    }
}

/// Code and message of an error.
fn error(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let wanted = fields.filter_map(|field| field.strip_prefix(['C', 'M']).map(str::to_owned));
    wanted.collect::<Vec<_>>().join(" ")
}
