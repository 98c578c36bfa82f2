//! A real InfluxDB to compare with, and scripts of queries with its answers.

// Each test program uses a part of it.
#![allow(dead_code)]

#[path = "../../../nyala/tests/support/peers.rs"]
mod peers;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A query and what is answered to it.
pub(crate) struct Case {
    pub(crate) query: String,
    pub(crate) answer: String,
}

/// Scripts hold `> query` and `< answer` lines; a line break in either is written `\n`. Anything else is comment.
pub(crate) struct Script {
    path: PathBuf,
    lines: Vec<Line>,
}

enum Line {
    Comment(String),
    Case(Case),
}

impl Script {
    pub(crate) fn read(name: &str) -> Script {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/influxql").join(name);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut lines = Vec::new();
        for line in text.lines() {
            if let Some(query) = line.strip_prefix("> ") {
                lines.push(Line::Case(Case { query: unescape(query), answer: String::new() }));
            } else if let Some(answer) = line.strip_prefix("< ") {
                match lines.last_mut() {
                    Some(Line::Case(case)) if case.answer.is_empty() => case.answer = unescape(answer),
                    _ => panic!("{}: an answer without its query: {line}", path.display()),
                }
            } else {
                lines.push(Line::Comment(line.to_string()));
            }
        }
        Script { path, lines }
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.lines.iter().filter_map(|line| match line {
            Line::Case(case) => Some(case),
            Line::Comment(_) => None,
        })
    }

    /// Asks every query again and writes the answers down.
    pub(crate) fn rewrite(&mut self, mut answer: impl FnMut(&str) -> String) {
        let mut text = String::new();
        for line in &mut self.lines {
            match line {
                Line::Comment(comment) => writeln!(text, "{comment}").unwrap(),
                Line::Case(case) => {
                    case.answer = answer(&case.query);
                    writeln!(text, "> {}\n< {}", escape(&case.query), escape(&case.answer)).unwrap();
                }
            }
        }
        std::fs::write(&self.path, text).unwrap();
    }

    /// Compares every answer with the script's and reports all that differ.
    #[track_caller]
    pub(crate) fn check(&self, mut answer: impl FnMut(&str) -> String) {
        let mut differences = String::new();
        let mut count = 0;
        for case in self.cases() {
            count += 1;
            let given = answer(&case.query);
            if given != case.answer {
                writeln!(differences, "> {}\nexpected {}\n     got {given}", case.query, case.answer)
                    .unwrap();
            }
        }
        assert!(count > 0, "{} has no cases", self.path.display());
        assert!(differences.is_empty(), "{}:\n{differences}", self.path.display());
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r")
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('\\') => '\\',
                other => panic!("\\{other:?} in {text}"),
            },
            (character, false) => character,
        });
    }
    plain
}

/// A running InfluxDB 1.8, stopped when dropped.
pub(crate) struct Peer {
    process: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Peer {
    /// Starts it; without it the test is skipped.
    pub(crate) fn start() -> Option<Peer> {
        let program = peers::influxd()?;
        let peer = (0..5).find_map(|_| Peer::listening(&program));
        Some(peer.expect("influxd starts"))
    }

    /// `None` if the program ended because another one took an address meanwhile.
    fn listening(program: &Path) -> Option<Peer> {
        let directory = tempfile::tempdir().unwrap();
        let [address, other] = free_addresses();
        let process = Command::new(program)
            .env("INFLUXDB_HTTP_BIND_ADDRESS", &address)
            .env("INFLUXDB_BIND_ADDRESS", other)
            .env("INFLUXDB_DATA_DIR", directory.path().join("data"))
            .env("INFLUXDB_DATA_WAL_DIR", directory.path().join("wal"))
            .env("INFLUXDB_META_DIR", directory.path().join("meta"))
            .env("INFLUXDB_REPORTING_DISABLED", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut peer = Peer { process, address, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(&peer.address).is_err() {
            if peer.process.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(Instant::now() < deadline, "influxd does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(peer)
    }

    /// Posts a query to database `db` and gives the JSON of the answer.
    pub(crate) fn query(&self, query: &str, params: Option<&str>) -> serde_json::Value {
        let mut body = format!("db=db&q={}", percent_encode(query));
        if let Some(params) = params {
            write!(body, "&params={}", percent_encode(params)).unwrap();
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /query HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{query}: {error}: {answer}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing can be done where it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two addresses that are free at this moment.
fn free_addresses() -> [String; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").unwrap();
        encoded
    })
}
