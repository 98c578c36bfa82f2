//! The server under attack: it has little memory, and every test ends with a check that it still works.

use crate::client::{self, Request, Response, free_address, percent_encode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The memory limit, and the most resident memory.
const MEMORY_LIMIT_MIB: u64 = 128;
const PEAK_MEMORY_MAX_MIB: u64 = MEMORY_LIMIT_MIB * 11 / 10;
const SOCKET: &str = "socket";
pub(crate) const MAX_BODY_BYTES: usize = 25_000_000;
/// The longest wait for a start, or for memory of others that is freed. Both take a second or two on an idle machine.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);
/// The longest wait for an answer, which none of the attacks may delay.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    /// A server with a database `x` and a point in it.
    pub(crate) fn start() -> Server {
        allow_open_files();
        let directory = tempfile::tempdir().expect("a directory");
        let address = free_address();
        let child = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(["serve", "--memory-limit", &format!("{MEMORY_LIMIT_MIB}MiB")])
            .args(["--http-bind", &address.to_string(), "--bind-socket"])
            .arg(directory.path().join(SOCKET))
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Server { child, address, directory };
        let begun = Instant::now();
        let health = request("GET", "/health", b"");
        while !client::send(address, &health).is_ok_and(|response| response.status == 200) {
            assert!(begun.elapsed() < START_LIMIT, "not ready in {START_LIMIT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(server.query("CREATE DATABASE x").status, 200);
        assert_eq!(server.write(b"precious v=42 1").status, 204);
        server
    }

    pub(crate) fn send(&self, request: &Request) -> Response {
        client::send(self.address, request)
            .unwrap_or_else(|error| panic!("{} {}: {error}", request.method, request.target))
    }

    pub(crate) fn query(&self, text: &str) -> Response {
        self.query_with(text, "")
    }

    pub(crate) fn query_with(&self, text: &str, parameters: &str) -> Response {
        let body = format!("q={}", percent_encode(text));
        let target = format!("/query?db=x&epoch=ns{parameters}");
        let mut request = request("POST", &target, body.as_bytes());
        request.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        self.send(&request)
    }

    pub(crate) fn write(&self, body: &[u8]) -> Response {
        self.send(&request("POST", "/write?db=x", body))
    }

    pub(crate) fn write_packed(&self, encoding: &str, body: Vec<u8>) -> Response {
        let mut request = request("POST", "/write?db=x", &body);
        request.headers.push(("Content-Encoding".into(), encoding.into()));
        self.send(&request)
    }

    /// Sends bytes, and returns the answer until the server closes the connection or is silent.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).expect("the server accepts");
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Checks that the server still works and has lost nothing; called at the end of every test. Memory of clients that
    /// just disconnected may count for a moment: it is measured several times a second.
    pub(crate) fn is_well(&self) {
        let begun = Instant::now();
        loop {
            let status = self.write(b"after v=1 1").status;
            let answer = text(&self.query("SELECT v FROM precious; SELECT v FROM after"));
            if status == 204 && answer.contains("[1,42]") && answer.contains("[1,1]") {
                break;
            }
            assert!(begun.elapsed() < START_LIMIT, "{status} {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let peak_mib = self.memory_mib("VmHWM:");
        assert!(peak_mib <= PEAK_MEMORY_MAX_MIB, "took {peak_mib} MiB of memory");
    }

    /// The resident memory now (`VmRSS:`), or its peak (`VmHWM:`), corrected to that of an optimised build, which has less
    /// code.
    pub(crate) fn memory_mib(&self, name: &str) -> u64 {
        const OPTIMISED_CODE_KIB: u64 = 14 << 10;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it lives");
        let kib = |name| {
            let found = status.lines().find_map(|line| line.strip_prefix(name)).expect("a member");
            found.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        (kib(name) - kib("RssFile:").saturating_sub(OPTIMISED_CODE_KIB)) >> 10
    }

    /// The Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// A metric by its full name with labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = text(&self.send(&request("GET", "/metrics", b"")));
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric {name} in {text}"))
    }
}

/// Raises the limit on open files of this process, whose tests have a thousand connections each and run at once.
fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it may be raised so far");
}

pub(crate) fn request(method: &str, target: &str, body: &[u8]) -> Request {
    Request { method: method.into(), target: target.into(), headers: Vec::new(), body: body.to_vec() }
}

pub(crate) fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Checks the status and some words of an answer.
#[track_caller]
pub(crate) fn expect(response: &Response, status: u16, words: &str) {
    let text = text(response);
    let shown: String = text.chars().take(600).collect();
    assert_eq!(response.status, status, "{shown}");
    assert!(text.contains(words), "no {words:?} in {shown}");
}

/// The status of each answer on a connection.
pub(crate) fn statuses(answers: &str) -> Vec<u16> {
    let lines = answers.split("HTTP/1.1 ").skip(1);
    lines.filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}
