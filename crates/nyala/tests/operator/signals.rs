//! Signals: which stop the server, and how fast.

use crate::process::Process;
use std::fmt::Write as _;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server with an answer that nobody reads and that does not fit into the buffers on its way.
fn server_with_an_unread_answer(data_dir: &Path, arguments: &[&str]) -> (Process, TcpStream) {
    let server = Process::start(data_dir, arguments);
    server.query("CREATE DATABASE d");
    for batch in 0..20 {
        let mut lines = String::new();
        for row in 0..1000 {
            writeln!(lines, "m text=\"{}\" {}", "x".repeat(1000), batch * 1000 + row).expect("memory");
        }
        assert_eq!(server.write(&lines).status, 204);
    }
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(b"GET /query?db=d&q=SELECT+*+FROM+m HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    assert!(stream.peek(&mut [0]).expect("it begins to answer") > 0);
    (server, stream)
}

fn wait_for_log(server: &Process, words: &str) {
    for _ in 0..6000 {
        if server.log().contains(words) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no {words:?} in {}", server.log());
}

#[test]
fn other_signals_are_ignored() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    for (signal, told) in [
        ("HUP", "no certificate to read again"),
        ("HUP", "the level of the log was read again"),
        ("USR1", "SIGUSR1"),
        ("USR2", "SIGUSR2"),
        ("ALRM", "SIGALRM"),
        ("IO", "SIGIO"),
        ("PIPE", ""),
    ] {
        server.signal(signal);
        wait_for_log(&server, told);
        assert_eq!(server.status("/health"), 200, "SIG{signal}");
    }
    assert!(server.stop().success());
}

#[test]
fn a_shutdown_waits_for_unread_answers_up_to_its_timeout() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["--shutdown-timeout", "300ms"];
    let (mut server, unread) = server_with_an_unread_answer(&directory.path().join("data"), &arguments);
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(server.log().contains("aborted 300ms after"), "{}", server.log());
    drop(unread);
}

#[test]
fn a_second_signal_ends_a_shutdown_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    // Longer than the test waits for the end.
    let (mut server, unread) = server_with_an_unread_answer(&data_dir, &["--shutdown-timeout", "1h"]);
    // Signals that arrive together count as one, and a process that is stopped gets them when it goes on.
    for signal in ["STOP", "TERM", "INT", "CONT"] {
        server.signal(signal);
    }
    wait_for_log(&server, "a second one ends the server at once");
    std::thread::sleep(Duration::from_millis(700));
    assert!(!server.log().contains("a second signal"), "{}", server.log());
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(1), "{}", server.log());
    assert!(server.log().contains("a second signal, SIGINT"), "{}", server.log());
    drop((server, unread));
    let server = Process::start(&data_dir, &[]);
    assert_eq!(server.number("SELECT count(text) FROM m"), 20_000);
}

#[test]
fn a_start_can_be_interrupted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let leave_a_log = || {
        let mut server = Process::start(&data_dir, &[]);
        server.query("CREATE DATABASE d");
        for batch in 0..20 {
            let lines: String =
                (0..5000).map(|row| format!("m,h=h{} v=1 {}\n", row % 10, batch * 5000 + row)).collect();
            assert_eq!(server.write(&lines).status, 204);
        }
        server.kill();
    };
    leave_a_log();
    let (mut tries, mut broken_off) = (0, 0);
    while tries < 3 || broken_off == 0 {
        assert!(tries < 30, "each was ready before it was asked to stop");
        tries += 1;
        let begun = Instant::now();
        let mut server = Process::spawn(&data_dir, &[]);
        while server.status("/ping") != 204 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{}", server.log());
            std::thread::sleep(Duration::from_millis(1));
        }
        server.signal("TERM");
        assert!(server.wait().success(), "{}", server.log());
        if server.log().contains("before the server was ready") {
            broken_off += 1;
        } else {
            // It was ready, and has put into files what was to be recovered.
            leave_a_log();
        }
    }
    let server = Process::start(&data_dir, &[]);
    assert_eq!(server.number("SELECT count(v) FROM m"), 100_000);
}
