//! Connections and request headers.

use crate::server::{ANSWER_LIMIT, Server, expect, request, statuses, text};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[test]
fn headers_that_are_not_http_or_too_large() {
    let server = Server::start();
    let cases: [(Vec<u8>, &[u16]); 13] = [
        (b"nonsense\r\n\r\n".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_vec(), &[400]),
        // What follows is not read as a second request.
        (b"POST /ping HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nBad\0Name: y\r\n\r\n".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\0b\r\n\r\n".to_vec(), &[400]),
        (b"POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_vec(), &[400]),
        (
            b"POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
                .to_vec(),
            &[400],
        ),
        (
            b"POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            &[400],
        ),
        (format!("GET /query?q={} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(100_000)).into_bytes(), &[414]),
        (
            format!("GET /ping HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "a".repeat(2_000_000)).into_bytes(),
            &[431],
        ),
        (format!("GET /ping HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000)).into_bytes(), &[431]),
    ];
    for (bytes, expected) in cases {
        let answer = server.raw(&bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(statuses(&answer), expected, "{shown:?}: {answer:?}");
    }
    for (method, target, status) in [
        ("PUT", "/write?db=x", 405),
        ("DELETE", "/query?q=DROP+DATABASE+x", 405),
        ("BREW", "/ping", 405),
        ("POST", "/metrics", 405),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/write/../query", 404),
    ] {
        assert_eq!(server.send(&request(method, target, b"")).status, status, "{method} {target}");
    }
    server.is_well();
}

#[test]
fn connections_that_are_slow_half_closed_or_hasty() {
    let server = Server::start();
    let ping = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = server.raw(&[ping.repeat(500).as_slice(), last].concat());
    assert_eq!(statuses(&answer), [204; 501]);

    // Clients that send nothing, or only the beginning of a header.
    let mut idle = Vec::new();
    for number in 0..400 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        if number % 2 == 0 {
            stream.write_all(b"POST /write?db=x HTTP/1.1\r\nHo").expect("it is read");
        }
        idle.push(stream);
    }
    expect(&server.query("SELECT v FROM precious"), 200, "[1,42]");

    // An incomplete body is not stored, although some lines arrived.
    let mut stream = TcpStream::connect(server.address).expect("the server accepts");
    let head =
        b"POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf v=1 1\nhalf v=2 2\n";
    stream.write_all(head).expect("it is read");
    stream.shutdown(Shutdown::Both).expect("it was open");
    // A client that sends a large query and disconnects.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        let query = "GET /query?db=x&q=SELECT+v+FROM+%2F.*%2F HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(query.as_bytes()).expect("it is read");
        stream.shutdown(Shutdown::Write).expect("it was open");
    }
    let answer = text(&server.query("SELECT v FROM half"));
    assert!(!answer.contains("series"), "{answer}");
    server.is_well();
}

#[test]
fn headers_that_are_never_finished() {
    let server = Server::start();
    let head = format!("GET /ping HTTP/1.1\r\nHost: localhost\r\nA: {}", "a".repeat(240_000));
    let mut open = Vec::new();
    for _ in 0..800 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        // The server may refuse it before all is sent, or not read it while there are too many others.
        let _ = stream.write_all(head.as_bytes());
        open.push(stream);
    }
    expect(&server.query("SELECT v FROM precious"), 200, "[1,42]");
    server.is_well();
}

#[test]
fn more_idle_connections_than_the_limit() {
    let server = Server::start();
    let most = server.metric("nyala_connections_max{listener=\"http-bind\"}") as usize;
    let connect = |_| TcpStream::connect(server.address).expect("the server accepts");
    let mut first = connect(0);
    let _others: Vec<_> = (0..most + 20).map(connect).collect();
    // A kept connection counts too, but a new client does not wait for its timeout.
    expect(&server.query("SELECT v FROM precious"), 200, "[1,42]");
    // Those that came faster than they were accepted may come after the query.
    let closed = || server.metric("nyala_connections_closed_for_others_total{listener=\"http-bind\"}");
    let begun = Instant::now();
    while closed() < 20 {
        assert!(begun.elapsed() < ANSWER_LIMIT, "{} connections gave way to others", closed());
        std::thread::sleep(Duration::from_millis(20));
    }
    first.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
    assert_eq!(first.read(&mut [0]).expect("closed"), 0, "who waited longest goes first");
    // Clients of the Unix socket do not compete with others.
    let mut local = UnixStream::connect(server.socket()).expect("the server accepts");
    local.write_all(b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    local.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    server.is_well();
}

#[test]
fn readers_who_do_not_read() {
    let server = Server::start();
    let long = "x".repeat(4_000);
    for batch in 0..6 {
        let row = |row: i64| format!("m s=\"{long}\" {}\n", batch * 1_000 + row);
        assert_eq!(server.write((0..1_000).map(row).collect::<String>().as_bytes()).status, 204);
    }
    let query = b"GET /query?db=x&q=SELECT+*+FROM+m HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ask = |_| {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        stream.write_all(query).expect("it is read");
        stream
    };
    let readers: Vec<_> = (0..30).map(ask).collect();
    // Until each has any answer.
    for stream in &readers {
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        assert!(stream.peek(&mut [0]).expect("an answer") > 0);
    }
    assert_eq!(server.write(b"meanwhile v=1 1").status, 204);
    drop(readers);
    let begun = Instant::now();
    while server.query("SELECT v FROM precious").status != 200 {
        assert!(begun.elapsed() < ANSWER_LIMIT, "no query after the readers had gone");
    }
    server.is_well();
}
