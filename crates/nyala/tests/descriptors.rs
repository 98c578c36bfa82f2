//! The real program with fewer file descriptors than it has shards and connections. This is a separate test program,
//! because processes inherit the limit.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const OPEN_FILES_MAX: u64 = 160;
const MEASUREMENTS: u64 = 20;
const WEEKS: u64 = 30;
const WEEK_S: u64 = 7 * 86400;

/// The test program has as few: its tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Starts the server with few descriptors.
fn start(directory: &std::path::Path, settings: &[&str]) -> Process {
    let limit = Rlimit { current: Some(OPEN_FILES_MAX / 2), maximum: Some(OPEN_FILES_MAX) };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered");
    Process::start(directory, settings)
}

#[test]
fn many_shards_and_connections_work_with_few_descriptors() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    // The smallest log limit, so that rows are flushed often.
    let server = start(directory.path(), &["--wal-limit", "4MiB"]);
    server.query("CREATE DATABASE d");
    // Beyond half of the limit connections wait, and leave descriptors to the store.
    let idle: Vec<_> = (0..50).map(|_| TcpStream::connect(server.address).expect("connects")).collect();
    let mut rounds = 0;
    let begun = Instant::now();
    while server.metric("nyala_flushes_total") < 4 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it flushes: {}", server.log());
        let mut lines = String::new();
        for measurement in 0..MEASUREMENTS {
            for week in 0..WEEKS {
                let (time_s, text) = (week * WEEK_S + rounds, "x".repeat(1000));
                writeln!(lines, "m{measurement},host=a v={rounds}i,t=\"{text}\" {time_s}000000000")
                    .expect("writing to memory does not fail");
            }
        }
        let response = server.write(&lines);
        assert_eq!(response.status, 204, "{}", String::from_utf8_lossy(&response.body));
        rounds += 1;
    }
    for measurement in 0..MEASUREMENTS {
        let counted = server.number(&format!("SELECT count(v) FROM m{measurement}"));
        assert_eq!(counted as u64, WEEKS * rounds);
    }
    assert_eq!(server.metric("nyala_flush_failures_total"), 0, "{}", server.log());
    drop(idle);
    assert!(server.stop().success());
}

/// A request as a client sends it; its answer is read later.
fn send(mut stream: impl Write, request: &str) {
    stream.write_all(request.as_bytes()).expect("the server reads it");
}

#[test]
fn administrators_come_in_by_the_socket_while_all_other_connections_work() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("nyala.sock");
    let socket = socket.to_str().expect("a name");
    let server = start(&directory.path().join("data"), &["--bind-socket", socket]);
    let most = server.metric("nyala_connections_max{listener=\"http-bind\"}");
    assert!((20..OPEN_FILES_MAX).contains(&most), "{most}");
    // None of these can be closed for another one, once its statement is executed.
    let sleep = "POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nSELECT pg_sleep(600)";
    let working: Vec<_> = (0..most)
        .map(|_| {
            let stream = TcpStream::connect(server.address).expect("the server accepts");
            send(&stream, sleep);
            stream
        })
        .collect();
    let ping = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // An answer to HTTP 1.0 is in one piece.
    let executed = "GET /query?q=SHOW+QUERIES HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let by_socket = |request| {
        let mut local = UnixStream::connect(socket).expect("the server accepts");
        send(&local, request);
        let mut answer = String::new();
        local.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let begun = Instant::now();
    while by_socket(executed).matches("pg_sleep").count() < most as usize {
        assert!(begun.elapsed() < Duration::from_secs(300), "{}", by_socket(executed));
    }
    assert!(by_socket(ping).contains(&format!("nyala_connections{{listener=\"http-bind\"}} {most}\n")));
    let mut waiting = TcpStream::connect(server.address).expect("the system accepts");
    send(&waiting, ping);
    waiting.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    waiting.read(&mut [0]).expect_err("nobody answers who came too late");
    assert!(by_socket(ping).starts_with("HTTP/1.1 200"));
    drop(working);
    // Their statements end, because nobody waits for them any more.
    waiting.set_read_timeout(Some(Duration::from_secs(180))).expect("a timeout");
    waiting.read_exact(&mut [0; 12]).expect("it is answered now");
    assert!(server.stop().success());
}
