//! Statements of SQL that write while others keep the memory of the server full: they wait for flushes, as line protocol does.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "sql_differential/session.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod session;
#[path = "support/sql.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod sql;

use client::percent_encode;
use process::Process;
use session::{Answer, Session};
use sql::{answer, done, number, post};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So little that statements and loaders use all of it now and then.
const LIMIT: [&str; 2] = ["--memory-limit", "160MiB"];
const LOADERS: u64 = 2;
const LINES: u64 = 4_000;
const ROUNDS: u64 = 12;
/// A statement waits a second longer for memory before it is refused.
const WAITS_LEAST: Duration = Duration::from_secs(9);

/// Lines of wide points, each in a series of a few hundred.
fn points(loader: u64, batch: u64) -> String {
    let mut lines = String::new();
    for number in batch * LINES..(batch + 1) * LINES {
        let time_ns = 1_700_000_000_000_000_000 + number * 1_000_000;
        writeln!(
            lines,
            "load{loader},host=h{} a={number}.5,b={number}i,c=\"words of a point that are {number} long\" {time_ns}",
            number % 331
        )
        .expect("text grows");
    }
    lines
}

/// What a statement did in the end. Flushes may take longer on a slow disk than it may wait: one that has waited is asked again.
fn in_the_end<T>(round: u64, mut ask: impl FnMut() -> Result<T, String>) -> T {
    for _ in 0..20 {
        let begun = Instant::now();
        let refused = match ask() {
            Ok(done) => return done,
            Err(refused) => refused,
        };
        let waited = begun.elapsed();
        let has_waited = refused.contains("53000") && waited >= WAITS_LEAST;
        assert!(has_waited, "round {round}: refused after {waited:?}: {refused}");
    }
    panic!("round {round}: memory stays full");
}

#[test]
fn statements_wait_while_memory_is_full() {
    let dir = tempfile::tempdir().expect("a directory");
    let address = client::free_address();
    let bind = address.to_string();
    let server = Process::start(dir.path(), &[&LIMIT[..], &["--postgres-bind", &bind]].concat());
    server.query("CREATE DATABASE d");
    assert_eq!(server.send("POST", "/write?db=d", b"m,host=a v=1 1").expect("an answer").status, 204);
    let mut session = Session::open(address, "me", "d").expect("it listens");
    done(&server, "CREATE TABLE staged (id bigint PRIMARY KEY, words text)");
    done(&server, "CREATE TABLE literals (id bigint PRIMARY KEY, words text)");
    done(&server, "CREATE TABLE selected (id bigint PRIMARY KEY, words text)");
    done(&server, "CREATE TABLE copied (id bigint, words text)");
    let (is_done, loaded) = (AtomicBool::new(false), AtomicU64::new(0));
    let words = "x".repeat(400);
    std::thread::scope(|scope| {
        for loader in 0..LOADERS {
            let (server, is_done, loaded) = (&server, &is_done, &loaded);
            scope.spawn(move || {
                for batch in 0.. {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    let status = server
                        .send("POST", "/write?db=d", points(loader, batch).as_bytes())
                        .expect("an answer")
                        .status;
                    assert!([204, 503].contains(&status), "{status}");
                    loaded.fetch_add(u64::from(status == 204), Ordering::Relaxed);
                }
            });
        }
        let changed = |round: u64, statement: &str| {
            in_the_end(round, || {
                let answer = answer(&server, statement);
                answer[0]["rows_affected"].as_u64().ok_or_else(|| answer.to_string())
            })
        };
        let statements = || {
            for round in 0..ROUNDS {
                let first = round * 2_000;
                let rows: Vec<String> =
                    (first..first + 2_000).map(|id| format!("({id}, '{words}')")).collect();
                let insert = format!("INSERT INTO literals VALUES {}", rows.join(", "));
                assert_eq!(changed(round, &insert), 2_000, "round {round}");
                let (first, last) = (round * 20_000, round * 20_000 + 19_999);
                let insert = format!(
                    "INSERT INTO selected SELECT n, repeat('y', 200) FROM generate_series({first}, {last}) AS g(n)"
                );
                assert_eq!(changed(round, &insert), 20_000, "round {round}");
                let text: String = (first..=last).map(|id| format!("{id},{words}\n")).collect();
                let target = percent_encode("COPY copied FROM STDIN (FORMAT csv)");
                in_the_end(round, || {
                    let copied = post_csv(&server, &target, &text);
                    if copied.contains("20000") { Ok(()) } else { Err(copied) }
                });
                // What a transaction has written cannot be written again: each of its statements waits.
                let in_transaction = [
                    "BEGIN".to_owned(),
                    format!(
                        "INSERT INTO staged SELECT n, repeat('s', 200) FROM generate_series({first}, {last}) AS g(n)"
                    ),
                    format!("UPDATE staged SET words = words || 'z' WHERE id >= {first} AND id % 2 = 0"),
                    "COMMIT".to_owned(),
                ];
                in_the_end(round, || {
                    for statement in &in_transaction {
                        if let Answer::Error { code, message } = session.ask(statement, &[]) {
                            session.ask("ROLLBACK", &[]);
                            return Err(format!("{statement}: {code} {message}"));
                        }
                    }
                    Ok(())
                });
                let update = format!("UPDATE literals SET words = words || 'z' WHERE id % 7 = {}", round % 7);
                changed(round, &update);
                let insert = format!(
                    "INSERT INTO m (time, host, v) SELECT to_timestamp(n), 'b', n FROM generate_series({first}, {last}) AS g(n)"
                );
                assert_eq!(changed(round, &insert), 20_000, "round {round}");
            }
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(statements));
        is_done.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(loaded.load(Ordering::Relaxed) > LOADERS, "loading went on");
    let rows = (ROUNDS * 20_000) as i64;
    assert_eq!(number(&server, "SELECT count(*) FROM selected"), rows);
    assert_eq!(number(&server, "SELECT count(*) FROM copied"), rows);
    assert_eq!(number(&server, "SELECT count(*) FROM staged WHERE words LIKE '%z'"), rows / 2);
    assert_eq!(number(&server, "SELECT count(*) FROM literals"), (ROUNDS * 2_000) as i64);
    assert_eq!(number(&server, "SELECT count(*) FROM m WHERE host = 'b'"), rows);
    server.assert_within_memory_limit(160);
}

/// The answer to rows that are sent for a COPY.
fn post_csv(server: &Process, statement: &str, rows: &str) -> String {
    let request = client::Request {
        method: "POST".to_owned(),
        target: format!("/api/sql?db=d&q={statement}"),
        headers: vec![("Content-Type".to_owned(), "text/csv".to_owned())],
        body: rows.as_bytes().to_vec(),
    };
    let response = client::send(server.address, &request).expect("an answer");
    String::from_utf8_lossy(&response.body).into_owned()
}

/// A statement that needs more than it may ever have says how to cut it.
#[test]
fn statements_beyond_their_share_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &LIMIT);
    server.query("CREATE DATABASE d");
    assert_eq!(server.send("POST", "/write?db=d", b"m,host=a v=\"x\" 1").expect("an answer").status, 204);
    let insert = "INSERT INTO m (time, host, v) SELECT to_timestamp(n), 'b', repeat('y', 4000) FROM generate_series(1, 60000) AS g(n)";
    let refused = post(&server, "/api/sql?db=d", insert);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("53200") || text.contains("54000"), "{} {text}", refused.status);
    assert_eq!(number(&server, "SELECT count(*) FROM m"), 1, "nothing is half done");
}
