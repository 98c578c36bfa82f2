//! Statements that sort or group more rows than fit into their memory.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::Request;
use process::Process;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Little memory: a statement has 26 MiB of it.
const LIMIT: [&str; 2] = ["--memory-limit", "128MiB"];
const ROWS: u64 = 1_500_000;

fn started(dir: &Path, spill_limit: &str) -> Process {
    Process::start(dir, &[LIMIT[0], LIMIT[1], "--spill-limit", spill_limit])
}

fn answer(server: &Process, query: &str) -> (u16, Value) {
    let (method, target) = ("POST".to_owned(), "/api/sql".to_owned());
    let request = Request { method, target, headers: Vec::new(), body: query.as_bytes().to_vec() };
    let response = client::send(server.address, &request).expect("an answer");
    let body = serde_json::from_slice(&response.body)
        .unwrap_or_else(|error| panic!("{error}: {query}: {}", String::from_utf8_lossy(&response.body)));
    (response.status, body)
}

/// Counts rows of a sorted list that are smaller than the row before them. Its rows are too many for the memory.
fn sorted() -> String {
    format!(
        "SELECT count(*) AS n, sum(CASE WHEN x < before THEN 1 ELSE 0 END) AS wrong, sum(x) AS total, sum(length(text)) AS letters
         FROM (
             SELECT x, lag(x) OVER (ORDER BY x) AS before, text FROM (
                 SELECT value * 7919 % 1500007 AS x, lpad(value::text, 40, 'x') AS text FROM generate_series(1, {ROWS}) AS value
             ) numbers
         ) pairs"
    )
}

/// Groups by a number that is different in almost all rows.
fn grouped() -> String {
    format!(
        "SELECT count(*) AS groups, sum(n) AS n FROM (
             SELECT value * 7919 % 1500007 AS x, count(*) AS n FROM generate_series(1, {ROWS}) AS value GROUP BY 1
         ) counts"
    )
}

/// How many files statements have on the disk.
fn files(dir: &Path) -> usize {
    let folders = std::fs::read_dir(dir.join(".spill")).into_iter().flatten().flatten();
    folders.filter_map(|folder| std::fs::read_dir(folder.path()).ok()).map(Iterator::count).sum()
}

/// Tasks of a statement end moments after its answer.
fn wait_until_there_are_no_files(dir: &Path) {
    let begun = Instant::now();
    while files(dir) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "files are kept though their statement has ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Several tasks sort the rows of a table: whichever merges first leaves the others what they need.
#[test]
fn long_rows_of_tables_are_sorted_and_grouped_beyond_the_memory() {
    const TABLE_ROWS: u64 = 300_000;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1GiB");
    assert_eq!(
        client::send(
            server.address,
            &Request {
                method: "POST".to_owned(),
                target: "/query?q=CREATE+DATABASE+d".to_owned(),
                headers: Vec::new(),
                body: Vec::new(),
            }
        )
        .expect("an answer")
        .status,
        200
    );
    let text = "md5(i::text) || md5((i + 1)::text) || md5((i + 2)::text) || md5((i + 3)::text)";
    let create = format!(
        "CREATE TABLE d.public.t AS SELECT i, {text} AS s FROM generate_series(1, {TABLE_ROWS}) AS g(i)"
    );
    assert_eq!(answer(&server, &create).0, 200);
    let sorted = "SELECT count(*) AS n, sum(CASE WHEN s < before THEN 1 ELSE 0 END) AS wrong FROM (
                      SELECT s, lag(s) OVER (ORDER BY s) AS before FROM d.public.t) pairs";
    for _ in 0..3 {
        let expected = json!([{"n": TABLE_ROWS, "wrong": 0}]);
        assert_eq!(answer(&server, sorted), (200, expected));
        let ordered = "SELECT count(*) AS n, max(s) = (SELECT max(s) FROM d.public.t) AS whole FROM (
                           SELECT i, s FROM d.public.t ORDER BY s, i OFFSET 10) rest";
        assert_eq!(answer(&server, ordered), (200, json!([{"n": TABLE_ROWS - 10, "whole": true}])));
    }
    let grouped = "SELECT count(*) AS groups, sum(n) AS n FROM (
                       SELECT s, count(*) AS n FROM d.public.t GROUP BY s) counts";
    assert_eq!(answer(&server, grouped), (200, json!([{"groups": TABLE_ROWS, "n": TABLE_ROWS}])));
    server.assert_within_memory_limit(128);
}

/// A join keeps one of its sides in memory as long as there is enough, and sorts both if there is not.
#[test]
fn joins_of_more_rows_than_fit_into_the_memory_are_answered() {
    const TABLE_ROWS: u64 = 300_000;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1GiB");
    server.query("CREATE DATABASE d");
    let text = "md5(i::text) || md5((i + 1)::text) || md5((i + 2)::text) || md5((i + 3)::text)";
    let create = format!(
        "CREATE TABLE d.public.t AS SELECT i, {text} AS s, to_timestamp(i) AS at FROM generate_series(1, {TABLE_ROWS}) AS g(i)"
    );
    assert_eq!(answer(&server, &create).0, 200);
    for (query, expected) in [
        (
            "SELECT count(*) AS n, sum(CASE WHEN a.i = b.i THEN 1 ELSE 0 END) AS same FROM t a JOIN t b ON a.s = b.s",
            json!([{"n": TABLE_ROWS, "same": TABLE_ROWS}]),
        ),
        (
            "SELECT count(*) AS n FROM t a JOIN t b ON a.at = b.at AND a.s = b.s AND a.i + b.i > 20",
            json!([{"n": TABLE_ROWS - 10}]),
        ),
        (
            "SELECT count(*) AS n, count(b.s) AS found FROM t a LEFT JOIN t b ON a.s = b.s AND (a.i + b.i) % 4 = 0",
            json!([{"n": TABLE_ROWS, "found": TABLE_ROWS / 2}]),
        ),
        (
            "SELECT count(a.s) AS a, count(b.s) AS b FROM t a FULL JOIN t b ON a.s = b.s AND a.i + b.i > 20",
            json!([{"a": TABLE_ROWS, "b": TABLE_ROWS}]),
        ),
        (
            "SELECT count(*) AS n FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.s = a.s AND a.i + b.i > 20)",
            json!([{"n": TABLE_ROWS - 10}]),
        ),
        (
            "SELECT count(*) AS n FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.s = a.s)",
            json!([{"n": TABLE_ROWS}]),
        ),
        (
            "SELECT count(*) AS n FROM t a WHERE s IN (SELECT s FROM t b WHERE b.i > 20)",
            json!([{"n": TABLE_ROWS - 20}]),
        ),
        (
            "SELECT count(*) AS n FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.s = a.s AND a.i + b.i > 20)",
            json!([{"n": 10}]),
        ),
        (
            "SELECT a.i, b.i AS same FROM t a JOIN t b ON a.s = b.s ORDER BY a.i OFFSET 299998",
            json!([{"i": 299_999, "same": 299_999}, {"i": 300_000, "same": 300_000}]),
        ),
        (
            "SELECT count(*) AS n FROM t a JOIN t b ON a.s = b.s JOIN t c ON b.s = c.s AND b.at = c.at",
            json!([{"n": TABLE_ROWS}]),
        ),
    ] {
        let query = query.replace(" t ", " d.public.t ");
        assert_eq!(answer(&server, &query), (200, expected), "{query}");
    }
    wait_until_there_are_no_files(dir.path());
    server.assert_within_memory_limit(128);
}

/// Two tasks that divided such rows waited for each other for ever, each time in three.
#[test]
fn groups_of_many_series_beyond_the_memory_are_found_each_time() {
    const SERIES: u64 = 300_000;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1GiB");
    server.query("CREATE DATABASE d");
    for first in (0..SERIES).step_by(10_000) {
        let lines: String = (first..first + 10_000)
            .map(|n| format!("m,a=host{n:06},b=b{} v={n} {}\n", n % 1000, n + 1))
            .collect();
        let begun = Instant::now();
        while server.write(&lines).status != 204 {
            assert!(begun.elapsed() < Duration::from_secs(120), "memory stays full");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // From now on series are looked up where they are kept, and nothing else is in memory.
    assert!(server.stop().success());
    let server = started(dir.path(), "1GiB");
    for (query, times) in [
        ("SELECT a, v, count(*) FROM m GROUP BY a, v", 4),
        ("SELECT a, b, count(*) FROM m GROUP BY a, b", 4),
        ("SELECT a, max(v) FROM m GROUP BY a", 1),
    ] {
        for _ in 0..times {
            let body = json!({
                "db": "d",
                "query": format!("SELECT count(*) AS n FROM ({query}) q"),
                // Sooner than the client gives up, so that the server says what happened.
                "settings": {"statement_timeout": "150s"},
            });
            let request = client::Request {
                method: "POST".to_owned(),
                target: "/api/sql".to_owned(),
                headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
                body: body.to_string().into_bytes(),
            };
            let answer = client::send(server.address, &request).expect("an answer");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!((answer.status, text.trim()), (200, "[{\"n\":300000}]"), "{query}");
        }
    }
    server.assert_within_memory_limit(128);
}

#[test]
fn rows_beyond_the_memory_go_to_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1GiB");
    let total: u64 = (1..=ROWS).map(|value| value * 7919 % 1_500_007).sum();
    let expected = json!([{"n": ROWS, "wrong": 0, "total": total, "letters": 40 * ROWS}]);
    assert_eq!(answer(&server, &sorted()), (200, expected));
    assert_eq!(answer(&server, &grouped()), (200, json!([{"groups": ROWS, "n": ROWS}])));
    let (_, explained) = answer(&server, &format!("EXPLAIN ANALYZE {}", sorted()));
    let plan = explained[0]["plan"].as_str().unwrap_or_else(|| panic!("{explained}"));
    let sort = plan.lines().find(|line| line.contains(" SortExec: ")).expect("it sorts");
    assert!(sort.contains(", spill_count=") && !sort.contains("spill_count=0,"), "{plan}");
    wait_until_there_are_no_files(dir.path());
    server.assert_within_memory_limit(128);
}

#[test]
fn the_disk_has_a_limit_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1MiB");
    let (status, refused) = answer(&server, &sorted());
    assert_eq!((status, &refused["code"]), (422, &json!("53400")), "{refused}");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("spill-limit")), "{refused}");
    wait_until_there_are_no_files(dir.path());
    drop(server);
    let server = started(dir.path(), "0");
    for query in [sorted(), grouped()] {
        let (status, refused) = answer(&server, &query);
        assert_eq!((status, &refused["code"]), (422, &json!("53200")), "{refused}");
    }
}

#[test]
fn what_a_killed_server_left_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), "1GiB");
    // It would take minutes.
    let long = sorted().replace(&ROWS.to_string(), "100000000");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            // The server is killed while it answers.
            std::panic::catch_unwind(|| answer(&server, &long)).is_err()
        });
        let begun = Instant::now();
        while files(dir.path()) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60) && !asked.is_finished(), "nothing was written");
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill_9();
        assert!(asked.join().expect("a thread"));
    });
    assert!(files(dir.path()) > 0);
    let server = started(dir.path(), "1GiB");
    assert_eq!(files(dir.path()), 0);
    assert_eq!(answer(&server, "SELECT 1 AS one"), (200, json!([{"one": 1}])));
}
