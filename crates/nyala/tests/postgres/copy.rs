//! COPY: files of psql, points, and clients that leave or lie in the middle.

use super::hostile::{Raw, TIMEOUT, contains, message, wait_for_connections};
use super::psql::{printed, program};
use super::server::Server;
use std::fmt::Write;
use std::time::Instant;

/// Executes a text in the simple protocol, and returns the answer.
fn ask(raw: &mut Raw, text: &str) -> Vec<u8> {
    raw.send(&message(b'Q', &[text.as_bytes(), b"\0"].concat()));
    raw.until_ready()
}

fn asked(raw: &mut Raw, text: &str, wanted: &str) {
    let answer = ask(raw, text);
    assert!(contains(&answer, wanted), "{text}: {}", String::from_utf8_lossy(&answer));
}

/// Begins a COPY that waits for rows.
fn begin(raw: &mut Raw, text: &str) {
    raw.send(&message(b'Q', &[text.as_bytes(), b"\0"].concat()));
    assert_eq!(raw.head(), b'G', "{text}");
}

fn rows(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

#[test]
fn psql_copies_files_both_ways() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let ask = |statements: &[&str]| printed(&psql, &server, "user=me dbname=d", statements);
    let (rooms, out, points, binary) = (path("rooms.csv"), path("out.csv"), path("points.csv"), path("b"));
    std::fs::write(&rooms, "name,floor,note\nkitchen,0,\"a,\"\"b\"\"\nc\"\nattic,3,\n").expect("a file");
    let table = "CREATE TABLE room (name text PRIMARY KEY, floor int NOT NULL, note text)";
    let answer = ask(&[
        table,
        &format!("\\copy room FROM '{rooms}' CSV HEADER"),
        &format!("\\copy room TO '{out}' WITH (FORMAT csv, HEADER)"),
        &format!("\\copy room TO '{binary}' BINARY"),
        "TRUNCATE room",
        &format!("\\copy room FROM '{binary}' BINARY"),
        "SELECT name, floor, note IS NULL AS n FROM room ORDER BY name",
    ]);
    assert_eq!(
        answer,
        "CREATE TABLE\nCOPY 2\nCOPY 2\nCOPY 2\nTRUNCATE TABLE\nCOPY 2\nname|floor|n\nattic|3|t\nkitchen|0|f\n(2 rows)\n"
    );
    let mut written: Vec<String> =
        std::fs::read_to_string(&out).expect("a file").lines().map(str::to_owned).collect();
    written.sort();
    assert_eq!(written, ["attic,3,", "c\"", "kitchen,0,\"a,\"\"b\"\"", "name,floor,note"]);
    // The line of an error is named, and nothing of the file is kept.
    std::fs::write(&rooms, "cellar,-1,x\nroof,high,y\n").expect("a file");
    let answer =
        ask(&[&format!("\\copy room FROM '{rooms}' CSV"), "SELECT count(*) AS n FROM room WHERE floor < 0"]);
    assert!(answer.contains("ERROR:  invalid input syntax for type integer: \"high\"\n"), "{answer}");
    assert!(answer.contains("CONTEXT:  COPY room, line 2, column floor: \"high\"\n"), "{answer}");
    assert!(answer.starts_with("n\n0\n(1 row)\n"), "{answer}");
    // Points.
    std::fs::write(&points, "time,host,usage\n1970-01-01 00:00:05.000000007+00,c,0.5\n6,c,\n")
        .expect("a file");
    let copy = format!("\\copy cpu (time, host, usage) FROM '{points}' CSV HEADER");
    let answer = ask(&[&copy]);
    assert!(answer.contains("CONTEXT:  COPY cpu, line 3, column time: \"6\""), "{answer}");
    std::fs::write(
        &points,
        "time,host,usage\n1970-01-01 00:00:05.000000007+00,c,0.5\n1970-01-01 00:00:06Z,,7\n",
    )
    .expect("a file");
    let answer = ask(&[
        &copy,
        "SELECT time_ns, host, usage FROM cpu WHERE time_ns > 4000000000 ORDER BY time",
        "COPY (SELECT time, usage FROM cpu WHERE host = 'c') TO STDOUT",
        "COPY cpu TO STDOUT CSV HEADER",
    ]);
    assert!(
        answer.starts_with(
            "COPY 2\ntime_ns|host|usage\n5000000007|c|0.5\n6000000000||7\n(2 rows)\n\
             1970-01-01 00:00:05.000000007+00\t0.5\n\
             time,host,n,s,up,usage\n"
        ),
        "{answer}"
    );
    assert_eq!(server.process.number("SELECT count(usage) FROM cpu"), 5, "InfluxQL sees them, too");
    for (statement, hint) in [
        ("COPY room FROM '/etc/passwd'", "is not allowed here"),
        ("COPY room TO PROGRAM 'cat'", "COPY TO PROGRAM is not supported"),
    ] {
        let answer = ask(&[statement]);
        assert!(answer.contains(hint) && answer.contains("\\copy"), "{answer}");
    }
}

#[test]
fn rights_are_those_of_insert_and_select() {
    let Some(psql) = program() else { return };
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    server.ask("CREATE USER reader WITH PASSWORD 'r'");
    server.ask("CREATE USER writer WITH PASSWORD 'w'");
    server.ask("GRANT READ ON d TO reader");
    server.ask("GRANT WRITE ON d TO writer");
    let ask = |settings: &str, statement: &str| printed(&psql, &server, settings, &[statement]);
    let (ann, reader, writer) = (
        "user=ann password=pencil dbname=d",
        "user=reader password=r dbname=d",
        "user=writer password=w dbname=d",
    );
    assert_eq!(ask(ann, "CREATE TABLE t (a int)"), "CREATE TABLE\n");
    assert_eq!(ask(writer, "\\copy t FROM PROGRAM 'echo 1'"), "COPY 1\n");
    assert_eq!(ask(reader, "COPY t TO STDOUT"), "1\n");
    let refused = ask(reader, "\\copy t FROM PROGRAM 'echo 2'");
    assert!(refused.contains("permission denied"), "{refused}");
    let refused = ask(writer, "COPY t TO STDOUT");
    assert!(refused.contains("relation \"t\" does not exist") && !refused.contains("LINE"), "{refused}");
    let refused = ask(writer, "COPY cpu TO STDOUT");
    assert!(refused.contains("relation \"cpu\" does not exist"), "{refused}");
    assert_eq!(ask(ann, "SELECT count(*) AS n FROM t"), "n\n1\n(1 row)\n");
}

#[test]
fn a_copy_that_does_not_end_leaves_nothing() {
    let mut server = Server::start(&[]);
    let mut other = Raw::open(server.address);
    asked(&mut other, "CREATE TABLE t (a int PRIMARY KEY, s text)", "CREATE TABLE");
    let many: String = (0..60_000).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{number}\tsome text");
        text
    });
    let count = |other: &mut Raw| {
        let answer = ask(other, "SELECT 'rows:' || count(*) AS n FROM t");
        String::from_utf8_lossy(&answer).into_owned()
    };
    // The client is killed, after more rows than fit into a batch.
    for bytes in [b"1\tx\n2".to_vec(), many.clone().into_bytes()] {
        let mut raw = Raw::open(server.address);
        begin(&mut raw, "COPY t FROM STDIN");
        bytes.chunks(100_000).for_each(|part| raw.send(&rows(part)));
        // Others go on meanwhile.
        asked(&mut other, "INSERT INTO t VALUES (-1, 'other')", "INSERT 0 1");
        asked(&mut other, "UPDATE t SET s = 'changed' WHERE a = -1", "UPDATE 1");
        asked(&mut other, "DELETE FROM t", "DELETE 1");
        drop(raw);
        wait_for_connections(&server, 1);
        assert!(count(&mut other).contains("rows:0"));
    }
    let mut raw = Raw::open(server.address);
    // It changes its mind.
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&[rows(many.as_bytes()), message(b'f', b"no more\0")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "57014") && contains(&answer, "COPY from stdin failed: no more"), "{answer:?}");
    // It sends something else. What belongs to the COPY comes too late then.
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&[rows(b"1\tx\n"), message(b'Q', b"SELECT 1\0"), rows(b"2\ty\n"), message(b'c', b"")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "08P01") && contains(&answer, "unexpected message type 0x51"), "{answer:?}");
    // Rows that follow an error are not looked at.
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&[rows(b"1\tx\nz\ty\n"), rows(b"2\ty\n"), message(b'c', b"")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "22P02") && contains(&answer, "COPY t, line 2, column a: \"z\""), "{answer:?}");
    // In a transaction it makes that fail.
    asked(&mut raw, "BEGIN", "BEGIN");
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&message(b'f', b"\0"));
    assert!(raw.until_ready().ends_with(b"Z\0\0\0\x05E"));
    asked(&mut raw, "COMMIT", "ROLLBACK");
    // It is too slow.
    asked(&mut raw, "SET statement_timeout = '100ms'", "SET");
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&rows(b"1\tx\n"));
    let answer = raw.until_ready();
    assert!(contains(&answer, "57014"), "{answer:?}");
    asked(&mut raw, "RESET statement_timeout", "RESET");
    // Somebody kills it, in the middle of a message.
    begin(&mut raw, "COPY t FROM STDIN");
    raw.send(&rows(b"1\tx\n2\ty\n")[..9]);
    let begun = Instant::now();
    let number = loop {
        let shown = server.process.query("SHOW QUERIES").to_string();
        if let Some((before, _)) = shown.split_once(",\"COPY t FROM STDIN\"") {
            let number = before.rsplit('[').next().expect("a number").to_owned();
            break number;
        }
        assert!(begun.elapsed() < TIMEOUT, "{shown}");
    };
    server.ask(&format!("KILL QUERY {number}"));
    let answer = raw.until_ready();
    assert!(contains(&answer, "57014"), "{answer:?}");
    raw.send(&rows(b"1\tx\n2\ty\n")[9..]);
    assert!(count(&mut raw).contains("rows:0"));
    // A server that stops says so.
    begin(&mut raw, "COPY t FROM STDIN");
    server.process.signal("TERM");
    assert!(contains(&raw.rest(), "57P01"));
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn copies_in_the_extended_protocol_ignore_what_comes_before_their_rows() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    asked(&mut raw, "CREATE TABLE t (a int, b text)", "CREATE TABLE");
    let prepared = |text: &str| {
        [
            message(b'P', &[b"\0", text.as_bytes(), b"\0\0\0"].concat()),
            message(b'B', b"\0\0\0\0\0\0\0\0"),
            message(b'D', b"P\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ]
        .concat()
    };
    raw.send(&prepared("COPY t FROM STDIN CSV"));
    let answer = raw.until(b'G');
    assert!(answer.starts_with(b"1\0\0\0\x042\0\0\0\x04n\0\0\0\x04"), "{answer:?}");
    raw.send(&[rows(b"1,a\n"), rows(b"2,b"), message(b'c', b""), message(b'S', b"")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "COPY 2"), "{answer:?}");
    raw.send(&prepared("COPY t TO STDOUT"));
    let answer = raw.until_ready();
    assert!(contains(&answer, "1\ta\n") && contains(&answer, "COPY 2"), "{answer:?}");
    // After an error everything up to a Sync is skipped.
    raw.send(&prepared("COPY t FROM STDIN"));
    raw.until(b'G');
    raw.send(&[rows(b"x\n"), rows(b"3\tc\n"), message(b'c', b""), message(b'S', b"")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "22P02") || contains(&answer, "22P04"), "{answer:?}");
    // Several statements in one text.
    raw.send(&message(
        b'Q',
        b"COPY t FROM STDIN; COPY t FROM STDIN CSV; SELECT 'n:' || count(*) AS n FROM t\0",
    ));
    assert_eq!(raw.head(), b'G');
    raw.send(&[rows(b"3\tc\n"), message(b'c', b"")].concat());
    raw.until(b'G');
    raw.send(&[rows(b"4,d\n"), message(b'c', b"")].concat());
    let answer = raw.until_ready();
    assert!(contains(&answer, "n:4"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn memory_is_bounded_however_much_comes() {
    let server = Server::start(&["--memory-limit", "192MiB"]);
    let mut raw = Raw::open(server.address);
    asked(&mut raw, "CREATE TABLE t (a bigint PRIMARY KEY, s text)", "CREATE TABLE");
    // One value that never ends.
    begin(&mut raw, "COPY t FROM STDIN");
    let part = rows(&vec![b'x'; 1 << 20]);
    let mut sent = 0;
    raw.send(&rows(b"1\t"));
    while sent < 400 && raw.sends(&part) {
        sent += 1;
    }
    raw.send(&message(b'c', b""));
    let answer = raw.until_ready();
    assert!(
        contains(&answer, "C5320") || contains(&answer, "C53000"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    // Many rows: more than the statement may have of memory.
    begin(&mut raw, "COPY t FROM STDIN");
    let text = "y".repeat(1000);
    for first in (0..150_000).step_by(1000) {
        let part: String = (first..first + 1000).fold(String::new(), |mut part, number| {
            let _ = writeln!(part, "{number}\t{text}");
            part
        });
        raw.send(&rows(part.as_bytes()));
    }
    raw.send(&message(b'c', b""));
    let answer = raw.until_ready();
    assert!(contains(&answer, "COPY 150000"), "{}", String::from_utf8_lossy(&answer));
    asked(&mut raw, "SELECT 'n:' || count(*) || ':' || sum(a) AS n FROM t", "n:150000:11249925000");
    server.process.assert_within_memory_limit(192);
}
