//! Bytes that no client of PostgreSQL sends, and clients that send nothing. The server answers or closes the connection, and
//! lives on.

use super::psql::ENDLESS;
use super::server::Server;
use super::statements::does;
use super::transactions::fails;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a server may take for an answer: far longer than any takes on a slow and busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

/// A connection of bytes.
pub(crate) struct Raw(TcpStream);

impl Raw {
    fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        Raw(stream)
    }

    /// A session.
    pub(crate) fn open(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address);
        raw.send(&startup(b"user\0me\0database\0d\0\0"));
        let greeting = raw.until_ready();
        assert!(greeting.ends_with(b"Z\0\0\0\x05I"), "{greeting:?}");
        raw
    }

    /// The server may have closed the connection already.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Whether bytes could be sent.
    pub(crate) fn sends(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Reads a message, and returns its letter.
    pub(crate) fn head(&mut self) -> u8 {
        self.message()[0]
    }

    fn message(&mut self) -> Vec<u8> {
        let mut all = vec![0; 5];
        self.0.read_exact(&mut all).expect("a message");
        let length = u32::from_be_bytes([all[1], all[2], all[3], all[4]]) as usize;
        all.resize(length + 1, 0);
        self.0.read_exact(&mut all[5..]).expect("its body");
        all
    }

    /// Everything up to a message that begins with a letter.
    pub(crate) fn until(&mut self, letter: u8) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let message = self.message();
            all.extend_from_slice(&message);
            if message[0] == letter {
                return all;
            }
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        loop {
            match self.0.read(&mut part) {
                Ok(0) => return bytes,
                Ok(read) => bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
                Err(error) => panic!("neither an answer nor an end: {error} after {bytes:?}"),
            }
        }
    }

    /// Everything up to a message that says that the next statement may come.
    pub(crate) fn until_ready(&mut self) -> Vec<u8> {
        self.until(b'Z')
    }
}

fn startup(parameters: &[u8]) -> Vec<u8> {
    packet(&[&196_608_i32.to_be_bytes()[..], parameters].concat())
}

/// Bytes after their length.
fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

pub(crate) fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    [&[letter][..], &packet(body)].concat()
}

pub(crate) fn contains(bytes: &[u8], wanted: &str) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

fn check_alive(server: &Server) {
    let mut raw = Raw::open(server.address);
    raw.send(&message(b'Q', b"SELECT count(*) AS n FROM cpu\0"));
    let answer = raw.until_ready();
    assert!(contains(&answer, "SELECT 1"), "{answer:?}");
}

/// Waits until only so many connections are open.
pub(crate) fn wait_for_connections(server: &Server, wanted: u64) {
    let begun = Instant::now();
    while server.process.metric("nyala_postgres_connections ") != wanted {
        assert!(begun.elapsed() < TIMEOUT, "connections are left open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn beginnings_that_are_none_are_refused() {
    let server = Server::start(&[]);
    let beginnings: [(&[u8], &str); 12] = [
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
        (b"\0\0\0\0", "08P01"),
        (b"\0\0\0\x04", "08P01"),
        (b"\xff\xff\xff\xff", "08P01"),
        (b"\x7f\xff\xff\xff\0\x03\0\0", "08P01"),
        (b"\x80\0\0\0\0\x03\0\0", "08P01"),
        (&packet(b"\0\x02\0\0user\0me\0\0"), "0A000"),
        (&packet(b"\0\x63\0\0user\0me\0\0"), "0A000"),
        (&startup(b"user\0me"), "08P01"),
        (&startup(b"user\0me\0database\0\0"), "08P01"),
        (&startup(b"\0"), "28000"),
        (&startup(b"user\0m\xff\xfe\0\0"), "22021"),
    ];
    for (bytes, code) in beginnings {
        let mut raw = Raw::connect(server.address);
        raw.send(bytes);
        let answer = raw.rest();
        assert!(contains(&answer, code), "{bytes:?}: {}", String::from_utf8_lossy(&answer));
    }
    // A client that leaves in the middle, and a request to cancel with a wrong secret.
    for bytes in [&b"\0\0"[..], b"\0\0\0\x20\0\x03\0\0us", &packet(b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x01")] {
        Raw::connect(server.address).send(bytes);
    }
    // A client of PostgreSQL 18 that asks for version 3.2 and an extension is told of 3.0, and goes on.
    let mut raw = Raw::connect(server.address);
    raw.send(&packet(b"\0\x03\0\x02user\0me\0database\0d\0_pq_.x\x001\0\0"));
    assert!(raw.until_ready().starts_with(b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0R"));
    drop(raw);
    // Without a certificate, TLS is declined, however often it is asked for.
    let mut raw = Raw::connect(server.address);
    (0..100).for_each(|_| raw.send(&packet(b"\x04\xd2\x16\x2f")));
    raw.send(&startup(b"user\0me\0database\0d\0\0"));
    let mut declined = [0; 100];
    raw.0.read_exact(&mut declined).expect("answers");
    assert_eq!(declined, [b'N'; 100]);
    assert!(raw.until_ready().starts_with(b"R\0\0\0\x08\0\0\0\0"));
    drop(raw);
    wait_for_connections(&server, 0);
    check_alive(&server);
}

#[test]
fn malformed_messages_are_answered_and_lengths_that_cannot_be_end_the_connection() {
    let server = Server::start(&[]);
    let at_an_end: [(&[u8], &str); 7] = [
        (b"Q\0\0\0\x03", "08P01"),
        (b"Q\0\0\0\0", "08P01"),
        (b"Q\x7f\xff\xff\xff", "54000"),
        (b"Q\xff\xff\xff\xffSELECT 1", "54000"),
        (b"!\0\0\0\x04", "08P01"),
        (b"\0\0\0\0\0\0\0\0", "08P01"),
        (&message(b'p', b"secret\0"), "08P01"),
    ];
    for (bytes, code) in at_an_end {
        let mut raw = Raw::open(server.address);
        raw.send(bytes);
        let answer = raw.rest();
        assert!(contains(&answer, code), "{bytes:?}: {}", String::from_utf8_lossy(&answer));
    }
    // The session goes on after these.
    let mut raw = Raw::open(server.address);
    let sync = message(b'S', b"");
    let answered: [(Vec<u8>, &str); 19] = [
        (message(b'Q', b"SELECT 1"), "08P01"),
        (message(b'Q', b"SELECT 1\0SELECT 2\0"), "08P01"),
        (message(b'Q', b"SELECT '\xff'\0"), "22021"),
        (message(b'Q', "SELECT (".repeat(50_000).as_bytes()), "08P01"),
        (message(b'Q', &[&b"SELECT "[..], &b"(".repeat(100_000), b"\0"].concat()), "54001"),
        (message(b'P', b""), "08P01"),
        (message(b'P', b"\0SELECT 1\0\xff\xff"), "08P01"),
        (message(b'P', b"\0SELECT $1\0\0\x01\0\0\xff\xff"), "42704"),
        (message(b'P', b"\0SELECT $99999\0\0\0"), "42P02"),
        (message(b'B', b"\0nowhere\0\0\0\0\0\0\0"), "26000"),
        (message(b'B', b"\0\0\xff\xff\0\0\0\0"), "08P01"),
        (message(b'B', b"\0\0\0\0\xff\xff\0\0"), "08P01"),
        (message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"), "08P01"),
        (message(b'D', b"X\0"), "08P01"),
        (message(b'D', b"Pnowhere\0"), "34000"),
        (message(b'E', b"nowhere\0\0\0\0\0"), "34000"),
        (message(b'E', b"\0\0"), "08P01"),
        (message(b'C', b""), "08P01"),
        (message(b'F', b"\0\0\0\0"), "0A000"),
    ];
    for (bytes, code) in answered {
        let is_extended = !matches!(bytes[0], b'Q' | b'F');
        raw.send(&bytes);
        if is_extended {
            raw.send(&sync);
        }
        let answer = raw.until_ready();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(contains(&answer, code), "{shown:?}: {}", String::from_utf8_lossy(&answer));
    }
    // What belongs to a COPY is ignored when there is none, and so is what follows an error up to Sync.
    raw.send(
        &[message(b'd', b"1\t2\n"), message(b'c', b""), message(b'f', b"no\0"), message(b'H', b"")].concat(),
    );
    raw.send(
        &[message(b'E', b"nowhere\0\0\0\0\0"), message(b'P', b"\0SELECT 1\0\0\0"), sync.clone()].concat(),
    );
    let answer = raw.until_ready();
    assert!(answer.starts_with(b"E") && !contains(&answer, "1\0\0\0\x04"), "{answer:?}");
    raw.send(&message(b'Q', b"SELECT 7 AS n\0"));
    assert!(contains(&raw.until_ready(), "SELECT 1"));
    drop(raw);
    wait_for_connections(&server, 0);
    check_alive(&server);
}

#[test]
fn a_server_survives_every_change_of_a_byte() {
    let server = Server::start(&[]);
    let conversation = [
        startup(b"user\0me\0database\0d\0options\0-c TimeZone=UTC\0\0"),
        message(b'Q', b"SELECT * FROM cpu\0"),
        message(b'P', b"s\0SELECT * FROM cpu WHERE n > $1 AND host = $2\0\0\x02\0\0\0\x14\0\0\0\x19"),
        message(b'B', b"p\0s\0\0\x02\0\x01\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\x01a\0\x01\0\x01"),
        message(b'D', b"Pp\0"),
        message(b'E', b"p\0\0\0\0\x01"),
        message(b'C', b"Ss\0"),
        message(b'S', b""),
        message(b'X', b""),
    ]
    .concat();
    for place in 0..conversation.len() {
        let mut bytes = conversation.clone();
        // Each place gets another value, so that lengths and letters become larger and smaller.
        bytes[place] = bytes[place].wrapping_add([1, 255, 128, 7][place % 4]);
        let mut raw = Raw::connect(server.address);
        raw.send(&bytes);
        drop(raw.0.shutdown(std::net::Shutdown::Write));
        raw.rest();
        let mut cut = Raw::connect(server.address);
        cut.send(&conversation[..place]);
        drop(cut.0.shutdown(std::net::Shutdown::Write));
        cut.rest();
    }
    wait_for_connections(&server, 0);
    assert!(!server.process.log().contains("panicked"), "{}", server.process.log());
    check_alive(&server);
}

#[test]
fn a_statement_whose_client_has_left_ends() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    raw.send(&message(b'Q', &[ENDLESS.as_bytes(), b"\0"].concat()));
    let runs = || server.process.query("SHOW QUERIES").to_string().contains("generate_series");
    let begun = Instant::now();
    while !runs() {
        assert!(begun.elapsed() < TIMEOUT, "the statement does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(raw);
    let left = Instant::now();
    while runs() {
        assert!(left.elapsed() < TIMEOUT, "the statement does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    wait_for_connections(&server, 0);
}

#[test]
fn five_hundred_idle_connections_leave_room_for_others() {
    let server = Server::start(&[]);
    let mut idle: Vec<Raw> = (0..500).map(|_| Raw::open(server.address)).collect();
    assert_eq!(server.process.metric("nyala_postgres_connections "), 500);
    check_alive(&server);
    assert_eq!(server.process.number("SELECT count(usage) FROM cpu"), 3);
    for raw in &mut idle {
        raw.send(&message(b'Q', b"SELECT 1\0"));
        assert!(contains(&raw.until_ready(), "SELECT 1"));
    }
    drop(idle);
    wait_for_connections(&server, 0);
}

#[test]
fn connections_beyond_the_most_are_refused_and_a_shutdown_says_so() {
    let mut server = Server::start(&["--memory-limit", "128MiB"]);
    let most = server.process.metric("nyala_postgres_connections_max ") as usize;
    let mut open: Vec<Raw> = (0..most).map(|_| Raw::open(server.address)).collect();
    let mut raw = Raw::connect(server.address);
    raw.send(&startup(b"user\0me\0database\0d\0\0"));
    assert!(contains(&raw.rest(), "53300"));
    let last = open.pop().expect("there are some");
    drop(open);
    wait_for_connections(&server, 1);
    check_alive(&server);
    server.process.assert_within_memory_limit(128);
    server.process.signal("TERM");
    assert!(contains(&last.rest(), "57P01"));
    assert_eq!(server.process.wait().code(), Some(0));
}

/// What a client names and binds is kept, and is charged, however short its statements are.
#[test]
fn names_and_elements_of_arrays_find_no_more_memory_than_there_is() {
    let server = Server::start(&["--memory-limit", "128MiB"]);
    let sync = message(b'S', b"");
    let refuses = |sent: &[u8]| {
        let mut raw = Raw::open(server.address);
        raw.send(sent);
        let answer = raw.until_ready();
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(400)]).into_owned();
        // The class of what there is too little of.
        assert!(contains(&answer, "C53"), "{shown}");
        server.process.assert_within_memory_limit(128);
    };
    let name = |number: u32| [number.to_string().as_bytes(), &vec![b'n'; 1 << 20], b"\0"].concat();
    let statement = |number| message(b'P', &[&name(number)[..], b"SELECT 1\0\0\0"].concat());
    refuses(&[(0..20).flat_map(statement).collect::<Vec<u8>>(), sync.clone()].concat());
    let portal = |number| message(b'B', &[&name(number)[..], b"\0\0\0\0\0\0\0"].concat());
    let unnamed = message(b'P', b"\0SELECT 1\0\0\0");
    refuses(&[unnamed, (0..150).flat_map(portal).collect(), sync.clone()].concat());
    // int4[], of two million numbers.
    let array = [&b"{1"[..], &b",1".repeat(2 << 20), b"}"].concat();
    let value = [&(array.len() as u32).to_be_bytes()[..], &array].concat();
    let bind = [b"\0\0\0\0\0\x01", &value[..], b"\0\0"].concat();
    let parse = message(b'P', b"\0SELECT 1 WHERE 1 = ANY($1)\0\0\x01\0\0\x03\xef");
    refuses(&[parse, message(b'B', &bind), sync].concat());
    check_alive(&server);
}

/// The client of a text waits until it is told that the next may come, also if there was no memory for the text.
#[test]
fn a_text_that_finds_no_memory_is_answered_to_its_end() {
    // The memory of a message is taken when its length is known. Those on their way get a quarter of all.
    const LONG_BYTES: u32 = 24_000_000;
    let server = Server::start(&["--memory-limit", "128MiB"]);
    let (mut first, mut second) = (Raw::open(server.address), Raw::open(server.address));
    first.send(&[&b"Q"[..], &LONG_BYTES.to_be_bytes()].concat());
    let begun = Instant::now();
    while server.process.metric("nyala_memory_bytes{component=\"in_flight\"} ") < u64::from(LONG_BYTES) - 4 {
        assert!(begun.elapsed() < TIMEOUT, "the length is not read");
        std::thread::sleep(Duration::from_millis(10));
    }
    let text = [&b"SELECT '"[..], &vec![b'x'; 12 << 20], b"'\0"].concat();
    for _ in 0..2 {
        second.send(&message(b'Q', &text));
        let answer = second.until_ready();
        assert!(contains(&answer, "53200"), "{}", String::from_utf8_lossy(&answer));
    }
    // What is skipped, and what is left of a COPY, is not spoken of.
    second.send(&[message(b'E', b"nowhere\0\0\0\0\0"), message(b'P', &text), message(b'S', b"")].concat());
    let answer = second.until_ready();
    assert!(
        contains(&answer, "34000") && !contains(&answer, "53200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    second.send(&[message(b'd', &text), message(b'Q', b"SELECT 7 AS n\0")].concat());
    let answer = second.until_ready();
    assert!(contains(&answer, "SELECT 1") && !contains(&answer, "53200"), "{answer:?}");
    drop(first);
    check_alive(&server);
}

#[test]
fn clients_that_do_not_log_in_hold_no_shutdown_up() {
    // Shorter than they may take to log in, and far longer than a shutdown takes.
    let mut server = Server::start(&["--shutdown-timeout", "20s"]);
    let (silent, mut begun) = (Raw::connect(server.address), Raw::connect(server.address));
    begun.send(&startup(b"user\0me\0\0")[..7]);
    wait_for_connections(&server, 2);
    server.process.signal("TERM");
    assert_eq!((silent.rest(), begun.rest()), (Vec::new(), Vec::new()));
    assert!(server.process.wait().success());
    assert!(!server.process.log().contains("aborted"), "{}", server.process.log());
}

/// Rows that a part of a statement has returned go when the statement fails, although the statement is kept.
#[test]
fn prepared_statements_keep_no_rows_of_executions_that_failed() {
    const STATEMENTS: usize = 30;
    let server = Server::start(&["--memory-limit", "128MiB"]);
    let mut raw = Raw::open(server.address);
    does(&mut raw, &["CREATE TABLE t (a int PRIMARY KEY, b text)"]);
    let changed =
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 6000) AS s (i) RETURNING b";
    for statement in 0..STATEMENTS {
        let own = format!("WITH i AS ({changed}) SELECT 1 / (length(b) - 1000) FROM i");
        does(&mut raw, &[&format!("PREPARE p{statement} AS {own}")]);
        fails(&mut raw, &format!("EXECUTE p{statement}"), "22012");
    }
    server.process.assert_within_memory_limit(128);
    check_alive(&server);
}

#[test]
fn statements_as_long_as_they_may_be_fit_on_the_stack() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    for (start, more, end) in [
        ("SELECT usage FROM cpu WHERE usage = 1", " OR usage = 1", ""),
        ("SELECT count(*) FROM (SELECT 1", " UNION ALL SELECT 1", ") AS all_of_them"),
        ("SELECT usage", " IS NULL", " FROM cpu"),
        ("SELECT usage", "::text::float8", " FROM cpu"),
    ] {
        for (times, is_answered) in [(90, true), (3_000, false)] {
            let text = format!("{start}{}{end}\0", more.repeat(times));
            raw.send(&message(b'Q', text.as_bytes()));
            let first = raw.head();
            assert_eq!(first == b'T', is_answered, "{times} × {more}: {}", first as char);
            raw.until_ready();
        }
    }
    check_alive(&server);
}
