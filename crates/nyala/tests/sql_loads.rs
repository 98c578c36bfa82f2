//! Loads of tables of SQL, through the real program: statements that write so many rows that these do not pass through a
//! memtable. What they leave when the server is killed, which duplicates they find, and what goes on beside them.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/sql.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod sql;

use client::{Request, percent_encode};
use process::Process;
use serde_json::json;
use sql::{answer, changed, code, done, number};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// A stage has 8 MiB of this.
const LIMIT: [&str; 2] = ["--memory-limit", "128MiB"];
const ROWS: i64 = 70_000;

fn started(dir: &Path) -> Process {
    let server = Process::start(dir, &LIMIT);
    server.query("CREATE DATABASE d");
    server
}

/// The files whose names end so.
fn files(dir: &Path, ending: &str) -> usize {
    let entries = std::fs::read_dir(dir.join("rowsets")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(ending)).count()
}

/// Rows from a series of numbers: none of their texts is like another.
fn selected(first: i64, last: i64) -> String {
    format!(
        "SELECT n AS id, n % 1000 AS number, n / 8.0 AS ratio, 'text ' || n AS words FROM generate_series({first}, {last}) AS g (n)"
    )
}

/// Checks that a table has rows of a series of numbers, from 1 on.
fn check(server: &Process, table: &str, rows: i64) {
    let sums = answer(
        server,
        &format!(
            "SELECT count(*) AS rows, sum(id) AS ids, sum(number) AS numbers, count(DISTINCT words) AS words FROM {table}"
        ),
    );
    let ids = (rows > 0).then(|| rows * (rows + 1) / 2);
    let numbers = (rows > 0).then(|| (1..=rows).map(|id| id % 1000).sum::<i64>());
    assert_eq!(sums, json!([{"rows": rows, "ids": ids, "numbers": numbers, "words": rows}]), "{table}");
}

#[test]
fn loads_find_duplicates_and_outlast_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    assert_eq!(changed(&server, &format!("CREATE TABLE copied AS {}", selected(1, ROWS))), ROWS as u64);
    check(&server, "copied", ROWS);
    done(
        &server,
        "CREATE TABLE keyed (words text NOT NULL, id bigint, number int CHECK (number < 1000), ratio float8, note text DEFAULT 'none', PRIMARY KEY (id, number))",
    );
    let insert = |rows: &str| format!("INSERT INTO keyed (id, number, ratio, words) {rows}");
    assert_eq!(changed(&server, &insert(&selected(1, ROWS))), ROWS as u64);
    check(&server, "keyed", ROWS);
    // One row of many is there already, and one is there twice.
    let last = 2 * ROWS;
    let there = answer(&server, &insert(&selected(ROWS, last)));
    assert_eq!(there["code"], "23505", "{there}");
    assert!(there.to_string().contains(&format!("Key (id, number)=({ROWS}, 0) already exists")), "{there}");
    let (from, moved) = (ROWS + 1, last - 7);
    let twice = format!(
        "SELECT CASE WHEN id = {last} THEN {moved} ELSE id END, CASE WHEN id = {last} THEN {moved} % 1000 ELSE number END, ratio, words
         FROM ({}) x",
        selected(from, last)
    );
    let twice = answer(&server, &insert(&twice));
    assert_eq!(twice["code"], "23505", "{twice}");
    assert!(twice.to_string().contains(&format!("Key (id, number)=({moved}, {})", moved % 1000)), "{twice}");
    // So are rules: the last rows break one.
    let broken =
        selected(from, last).replace("n % 1000", &format!("CASE WHEN n > {last} - 9 THEN 1000 ELSE 7 END"));
    assert_eq!(code(&server, &insert(&broken)), "23514");
    check(&server, "keyed", ROWS);
    // Rows in another order, with gaps that the next statement fills.
    assert_eq!(
        changed(
            &server,
            &insert(&format!("{} WHERE n % 2 = 0 ORDER BY n * 7919 % 100003", selected(from, last)))
        ),
        ROWS as u64 / 2
    );
    assert_eq!(
        changed(&server, &insert(&format!("{} ORDER BY n DESC ON CONFLICT DO NOTHING", selected(1, last)))),
        ROWS as u64 / 2
    );
    check(&server, "keyed", last);
    assert_eq!(number(&server, "SELECT count(*) FROM keyed WHERE note = 'none'"), last);
    assert_eq!(files(dir.path(), ".staged"), 0);
    server.assert_within_memory_limit(128);
    server.kill();
    let server = Process::start(dir.path(), &LIMIT);
    check(&server, "copied", ROWS);
    check(&server, "keyed", last);
    let row = answer(&server, "SELECT words FROM keyed WHERE id = 123456");
    assert_eq!(row, json!([{"words": "text 123456"}]));
}

#[test]
fn a_load_that_is_killed_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    done(&server, "CREATE TABLE t (id bigint PRIMARY KEY, number int, ratio float8, words text)");
    assert_eq!(changed(&server, &format!("INSERT INTO t {}", selected(1, 10))), 10);
    // A copy in any order, and others beside it.
    let mut lines = (11..=60_000_i64).fold(String::new(), |mut lines, id| {
        let id = (id - 11) * 7919 % 59_990 + 11;
        let _ = writeln!(lines, "{id},{},{},text {id}", id % 1000, id as f64 / 8.0);
        lines
    });
    let target = format!("/api/sql?db=d&q={}", percent_encode("COPY t FROM STDIN (FORMAT csv)"));
    let copy = |server: &Process, body: &str| {
        let headers = vec![("Content-Type".to_owned(), "text/csv".to_owned())];
        let (method, target) = ("POST".to_owned(), target.clone());
        let request = Request { method, target, headers, body: body.as_bytes().to_vec() };
        client::send(server.address, &request).map(|response| response.status)
    };
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&server, &lines));
        while !copying.is_finished() {
            done(&server, "INSERT INTO t VALUES (-1, 1, 1, 'other')");
            done(&server, "DELETE FROM t WHERE id = -1");
        }
        assert_eq!(copying.join().expect("no panic"), Ok(200));
    });
    check(&server, "t", 60_000);
    lines.push_str("11,1,1,there\n");
    assert_eq!(copy(&server, &lines), Ok(409));
    check(&server, "t", 60_000);
    // It would take minutes.
    let endless = format!("INSERT INTO t {}", selected(100_000, 100_000_000));
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| server.send("POST", "/api/sql?db=d", endless.as_bytes()));
        let begun = Instant::now();
        while files(dir.path(), ".staged") == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no load began");
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill_9();
        assert!(loading.join().expect("no panic").is_err());
    });
    server.kill();
    let server = Process::start(dir.path(), &LIMIT);
    assert_eq!(files(dir.path(), ".staged"), 0);
    check(&server, "t", 60_000);
    assert_eq!(server.stop().code(), Some(0));
    let checked = std::process::Command::new(env!("CARGO_BIN_EXE_nyala"))
        .arg("check")
        .arg(dir.path())
        .output()
        .expect("nyala check runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
