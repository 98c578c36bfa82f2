//! What goes wrong with disks, processes and files: nothing half-written has a name, and nobody believes a damaged file.

use super::small_disk::SmallDisk;
use super::sql::{answer, changed, code, done, number};
use super::{Fixture, names};
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A table with so many rows of about 40 bytes that do not compress well.
fn fill(fixture: &Fixture, table: &str, rows: u32) {
    done(&fixture.server, &format!("CREATE TABLE {table} (id bigint PRIMARY KEY, a text)"));
    let digits =
        |factor: u32| format!("CAST(CAST(n * n * {factor} % 1000003 AS double precision) / 1000003 AS text)");
    let insert = format!(
        "INSERT INTO {table} SELECT n, {} || {} FROM generate_series(1, {rows}) AS n",
        digits(1),
        digits(7919)
    );
    assert_eq!(changed(&fixture.server, &insert), u64::from(rows));
}

#[test]
fn on_a_full_disk_there_is_no_file() {
    let fixture = Fixture::start();
    let Some(disk) = SmallDisk::mount(&fixture.file("small"), 1) else { return };
    fill(&fixture, "t", 200_000);
    for options in ["(FORMAT parquet, ROW_GROUP_SIZE 1000)", "(FORMAT csv)", "(FORMAT parquet)"] {
        let refused = answer(&fixture.server, &format!("COPY t TO 'small/t' {options}"));
        assert_eq!(refused["code"], "53100", "{options}: {refused}");
        assert_eq!(names(&disk.0), Vec::<String>::new(), "{options}");
    }
    let output = disk.0.join("t.parquet");
    let failed = fixture.run(&["export"], &["--table", "t", output.to_str().expect("UTF-8")]);
    assert!(failed.code == 1 && failed.errors.contains("No space left on device"), "{failed:?}");
    assert_eq!(names(&disk.0), Vec::<String>::new());
    assert_eq!(
        changed(&fixture.server, "COPY (SELECT * FROM t WHERE id < 100) TO 'small/t' (FORMAT csv)"),
        99
    );
}

#[test]
fn who_is_killed_leaves_no_file_with_a_name() {
    let mut fixture = Fixture::start();
    fill(&fixture, "t", 200_000);
    let address = fixture.server.address;
    let copying = std::thread::spawn(move || {
        let request = super::client::Request {
            method: "POST".to_owned(),
            target: "/api/sql?db=d".to_owned(),
            headers: Vec::new(),
            body: b"COPY (SELECT t.* FROM t, generate_series(1, 1000) AS n) TO 't.csv' (FORMAT csv)".to_vec(),
        };
        drop(super::client::send(address, &request));
    });
    let begun = Instant::now();
    let is_begun = || {
        fs::read_dir(fixture.file(""))
            .expect("a directory")
            .any(|entry| entry.expect("an entry").metadata().is_ok_and(|metadata| metadata.len() > 1 << 20))
    };
    while !is_begun() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written: {}", fixture.server.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    fixture.server.kill();
    copying.join().expect("it ends");
    let left = names(&fixture.file(""));
    assert!(left.iter().all(|name| name.starts_with(".nyala-") && name.ends_with(".tmp")), "{left:?}");
}

/// Begins a command of the command line with the server's database `d`.
fn spawn(fixture: &Fixture, arguments: &[&str]) -> Child {
    let port = fixture.server.address.port().to_string();
    Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(arguments)
        .args(["--port", &port, "-d", "d"])
        .current_dir(fixture.directory.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs")
}

/// Kills a command when it has done enough. On a busy machine it may have done all by then: it is begun again if it was not
/// killed in the middle, with what it has left cleared away.
fn kill_within(
    begin: impl Fn() -> Child,
    has_done_enough: impl Fn() -> bool,
    is_in_the_middle: impl Fn() -> bool,
    clear: impl Fn(),
) {
    for _ in 0..20 {
        let mut command = begin();
        let begun = Instant::now();
        while !has_done_enough() && command.try_wait().expect("it can be waited for").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        // It may have ended already.
        let _ = command.kill();
        command.wait().expect("it is gone");
        if is_in_the_middle() {
            return;
        }
        clear();
    }
    panic!("it was never killed in the middle");
}

#[test]
fn an_export_that_was_killed_goes_on() {
    let fixture = Fixture::start();
    done(&fixture.server, "CREATE TABLE t (id bigint PRIMARY KEY, part int, a text)");
    let insert = "INSERT INTO t SELECT n, n % 40, CAST(n * 7919 AS text) FROM generate_series(1, 40000) AS n";
    assert_eq!(changed(&fixture.server, insert), 40_000);
    let out = fixture.path("out");
    let finished = || {
        let files = if out.exists() { names(&out) } else { Vec::new() };
        files.into_iter().filter(|name| name.ends_with("/part-0.parquet")).count()
    };
    let arguments = ["export", "--table", "t", "--partition-by", "part", "out"];
    kill_within(
        || spawn(&fixture, &arguments),
        || finished() >= 3,
        || {
            assert!(finished() >= 3, "nothing is written");
            finished() < 40
        },
        || fs::remove_dir_all(&out).expect("it is removed"),
    );
    let old = fs::metadata(out.join("part=0/part-0.parquet")).expect("a file").modified().expect("a time");
    let other = fixture.run(&["export"], &["--table", "t", "--partition-by", "a", "out"]);
    assert!(other.code == 1 && other.errors.contains("another command"), "{other:?}");
    let printed = fixture.run(&["export"], &["--table", "t", "--partition-by", "part", "out"]).printed();
    assert!(printed.starts_with("40 000 rows, ") && printed.contains(" 40 files "), "{printed}");
    let new = fs::metadata(out.join("part=0/part-0.parquet")).expect("a file").modified().expect("a time");
    assert_eq!(old, new, "a file that was done is not written again");
    let left = names(&out);
    assert_eq!(left.iter().filter(|name| name.ends_with(".parquet")).count(), 40, "{left:?}");
    assert!(!left.iter().any(|name| name.contains("journal")), "{left:?}");
    done(&fixture.server, "CREATE TABLE back (id bigint PRIMARY KEY, part int, a text)");
    fixture.run(&["import", "parquet"], &["--table", "back", "out"]).printed();
    assert_eq!(
        number(&fixture.server, "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM back) AS x"),
        0
    );
}

#[test]
fn an_import_that_was_killed_goes_on() {
    let fixture = Fixture::start();
    fill(&fixture, "t", 600_000);
    fixture.run(&["export"], &["--table", "t", "t.parquet"]).printed();
    // Without a key, rows that are written twice would stay.
    done(&fixture.server, "CREATE TABLE back (id bigint, a text)");
    let journal = fixture.path("nyala-import.journal");
    let lines = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    kill_within(
        || spawn(&fixture, &["import", "parquet", "--table", "back", "t.parquet"]),
        || lines() >= 6,
        || {
            // The server may still write what was sent last.
            let before = number(&fixture.server, "SELECT count(*) FROM back");
            assert!(before > 0, "nothing is written");
            before < 600_000 && journal.exists()
        },
        || {
            done(&fixture.server, "TRUNCATE back");
            // It is there if not even that was done which follows the last rows.
            let _ = fs::remove_file(&journal);
        },
    );
    let printed = fixture.run(&["import", "parquet"], &["--table", "back", "t.parquet"]).printed();
    assert!(printed.contains("\"back\" has 600 000 rows"), "{printed}");
    assert_eq!(number(&fixture.server, "SELECT count(DISTINCT id) FROM back"), 600_000);
    assert!(!journal.exists());
}

#[test]
fn damaged_files_are_named_and_nothing_of_them_is_kept() {
    let fixture = Fixture::start();
    fill(&fixture, "t", 3000);
    done(&fixture.server, "CREATE TABLE back (id bigint PRIMARY KEY, a text)");
    assert_eq!(changed(&fixture.server, "COPY t TO 't.parquet' (FORMAT parquet, ROW_GROUP_SIZE 1000)"), 3000);
    let whole = fs::read(fixture.file("t.parquet")).expect("a file");
    let refused = |bytes: &[u8]| {
        fs::write(fixture.file("bad.parquet"), bytes).expect("a file");
        let answer = answer(&fixture.server, "COPY back FROM 'bad.parquet'");
        let kept = number(&fixture.server, "SELECT count(*) FROM back");
        (answer, kept)
    };
    for length in [0, 4, 11, 100, whole.len() / 2, whole.len() - 1] {
        let (answer, kept) = refused(&whole[..length]);
        assert_eq!((answer["code"].as_str(), kept), (Some("22P04"), 0), "{length}: {answer}");
        assert!(
            answer["error"].as_str().is_some_and(|words| words.contains("\"bad.parquet\", ")),
            "{answer}"
        );
    }
    // Pages of the third row group: two of them were read before.
    let mut bytes = whole.clone();
    let at = whole.len() * 5 / 6;
    bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0xa5);
    let (answer, kept) = refused(&bytes);
    assert_eq!((answer["code"].as_str(), kept), (Some("22P04"), 0), "{answer}");
    assert!(answer["error"].as_str().is_some_and(|words| words.contains("row group 2")), "{answer}");
    for number in 0..60 {
        let mut bytes = whole.clone();
        let at = (number * 7919) % bytes.len();
        bytes[at] ^= 0x80;
        let (answer, kept) = refused(&bytes);
        match answer["code"].as_str() {
            // A bit of a text that no checksum covers.
            None => assert_eq!(changed(&fixture.server, "DELETE FROM back"), 3000),
            Some(_) => assert_eq!(kept, 0, "{answer}"),
        }
    }
    fs::write(fixture.file("text.parquet"), "id,a\n1,x\n").expect("a file");
    assert_eq!(code(&fixture.server, "COPY back FROM 'text.parquet'"), "22P04");
    assert_eq!(fixture.server.status("/health"), 200);
    fs::write(fixture.path("bad.parquet"), &whole[..1000]).expect("a file");
    let refused = fixture.run(&["import", "parquet"], &["--table", "back", "bad.parquet"]);
    assert!(refused.code == 1 && refused.errors.contains("bad.parquet"), "{refused:?}");
}

#[test]
fn bodies_of_rows_that_lie_are_refused() {
    let fixture = Fixture::start();
    done(&fixture.server, "CREATE TABLE t (id bigint)");
    let send = |format: &str, media_type: &str, body: &[u8]| {
        let statement = format!("COPY t FROM STDIN (FORMAT {format})");
        let request = super::client::Request {
            method: "POST".to_owned(),
            target: format!("/api/sql?db=d&q={}", super::client::percent_encode(&statement)),
            headers: vec![("Content-Type".to_owned(), media_type.to_owned())],
            body: body.to_vec(),
        };
        let response = super::client::send(fixture.server.address, &request).expect("an answer");
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    let arrow = "application/vnd.apache.arrow.stream";
    for body in [
        &b"nonsense"[..],
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\xff\xff\xff\xff\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0xff; 1000],
    ] {
        let (status, answer) = send("arrow", arrow, body);
        assert!(status == 400 && answer.contains("22P04"), "{answer}");
    }
    assert!(send("csv", "text/csv", b"1\nx\n").1.contains("22P02"));
    assert!(send("parquet", arrow, b"").1.contains("0A000"));
    assert_eq!(send("csv", "text/csv", b"1\n2\n").0, 200);
    assert_eq!(number(&fixture.server, "SELECT count(*) FROM t"), 2);
    assert_eq!(code(&fixture.server, "COPY t FROM STDIN (FORMAT csv)"), "0A000");
}

/// An import that begins again counts rows: none of them may come later.
#[test]
fn statements_of_an_earlier_attempt_are_over_before_those_of_a_later_one() {
    let fixture = Fixture::start();
    done(&fixture.server, "CREATE TABLE t (id bigint)");
    let attempt = |attempt: u32, statement: &str, rows: &str| {
        let statement = super::client::percent_encode(statement);
        let request = super::client::Request {
            method: "POST".to_owned(),
            target: format!("/api/sql?db=d&load=one&attempt={attempt}&q={statement}"),
            headers: vec![("Content-Type".to_owned(), "text/csv".to_owned())],
            body: rows.as_bytes().to_vec(),
        };
        let response = super::client::send(fixture.server.address, &request).expect("an answer");
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    let copy = "COPY t FROM STDIN (FORMAT csv)";
    let mut slow = std::net::TcpStream::connect(fixture.server.address).expect("the server accepts");
    let target = format!("/api/sql?db=d&load=one&attempt=1&q={}", super::client::percent_encode(copy));
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 4\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).expect("it is sent");
    // The server wants the rows when the attempt has begun.
    slow.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
    let mut wanted = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    slow.read_exact(&mut wanted).expect("the server goes on");
    assert!(wanted.starts_with(b"HTTP/1.1 100 "), "{}", wanted.escape_ascii());
    slow.write_all(b"1\n2").expect("it is sent");
    std::thread::scope(|scope| {
        let later = scope.spawn(|| attempt(2, copy, "3\n"));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!later.is_finished(), "rows of the first attempt may still come");
        assert_eq!(number(&fixture.server, "SELECT count(*) FROM t"), 0);
        slow.write_all(b"\n").expect("it is sent");
        assert_eq!(later.join().expect("no panic").0, 200);
    });
    assert_eq!(number(&fixture.server, "SELECT count(*) FROM t"), 3);
    let (status, words) = attempt(1, copy, "4\n");
    assert!(status == 409 && words.contains("a later attempt"), "{status} {words}");
    assert_eq!(attempt(2, copy, "5\n").0, 200);
    assert_eq!(number(&fixture.server, "SELECT sum(id) FROM t"), 11);
}
