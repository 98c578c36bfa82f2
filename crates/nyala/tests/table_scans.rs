//! Reading tables of SQL of which some rows lie in files and some in memory: what scans leave out, and what they read side by
//! side, must not show.

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

use process::Process;
use serde_json::{Value, json};
use sql::{answer, changed, code, done, number};

const ROWS: i64 = 70_000;

/// The value of a row, each once.
fn value_of(id: i64) -> i64 {
    id * 7919 % ROWS
}

fn note_of(id: i64) -> String {
    format!("{id} times seven is {}", id * 7)
}

/// A table that does not fit into the log, so that most of its rows are in files.
fn started(dir: &std::path::Path) -> Process {
    let server = Process::start(dir, &["--wal-limit", "4MiB"]);
    server.query("CREATE DATABASE d");
    done(&server, "CREATE TABLE event (id int PRIMARY KEY, v int, note text, filling text, small int)");
    let insert = "INSERT INTO event SELECT g, g * 7919 % 70000, g || ' times seven is ' || g * 7, repeat('filling ' || g, 10), g % 5 \
                  FROM generate_series";
    for begin in (0..ROWS).step_by(10_000) {
        let rows = format!("{insert}({begin}, {}) g", begin + 9_999);
        assert_eq!(changed(&server, &rows), 10_000);
    }
    server
}

fn row(id: i64) -> Value {
    json!({"id": id, "note": note_of(id)})
}

#[test]
fn what_scans_leave_out_does_not_show() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    assert_eq!(number(&server, "SELECT count(*) FROM event"), ROWS);
    assert_eq!(number(&server, "SELECT sum(v) FROM event"), (0..ROWS).sum::<i64>());
    let plan = answer(&server, "EXPLAIN SELECT small, count(*) FROM event GROUP BY small").to_string();
    assert!(
        std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) || plan.contains("parts=")
    );

    // A condition that only the planner knows.
    let with_77: Vec<i64> = (0..ROWS).filter(|id| note_of(*id).contains("77")).collect();
    let sums =
        "SELECT count(*) AS n, sum(v) AS v, min(filling) IS NULL AS none FROM event WHERE note LIKE '%77%'";
    let sum: i64 = with_77.iter().map(|id| value_of(*id)).sum();
    assert_eq!(answer(&server, sums), json!([{"n": with_77.len(), "v": sum, "none": false}]));
    let of_some = "SELECT id, note FROM event WHERE note LIKE '%77%' AND small = 3 ORDER BY id";
    let expected: Vec<Value> = with_77.iter().filter(|id| *id % 5 == 3).map(|id| row(*id)).collect();
    assert_eq!(answer(&server, of_some), Value::from(expected));
    // It fails for a row that another condition leaves out, and for one that none does.
    assert_eq!(number(&server, "SELECT count(*) FROM event WHERE id > 0 AND 70000 / id >= 1"), ROWS - 1);
    assert_eq!(code(&server, "SELECT max(note) FROM event WHERE 70000 / id >= 1"), "22012");
}

#[test]
fn what_was_found_out_for_one_statement_is_not_used_for_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let id_of = |value: i64| (0..ROWS).find(|id| value_of(*id) == value).expect("each value is there");
    let least = "SELECT id, note FROM event ORDER BY v LIMIT 3";
    let three = json!([row(id_of(0)), row(id_of(1)), row(id_of(2))]);
    assert_eq!(answer(&server, least), three);
    assert_eq!(answer(&server, "SELECT id, note FROM event ORDER BY v LIMIT 1"), json!([row(id_of(0))]));
    assert_eq!(changed(&server, "UPDATE event SET v = v - 100000 WHERE id = 17"), 1);
    assert_eq!(answer(&server, least), json!([row(17), row(id_of(0)), row(id_of(1))]));
    assert_eq!(changed(&server, "DELETE FROM event WHERE id = 17"), 1);
    assert_eq!(answer(&server, least), three);

    done(&server, "CREATE TABLE wanted (v int PRIMARY KEY)");
    assert_eq!(changed(&server, "INSERT INTO wanted VALUES (5), (60000)"), 2);
    let joined = "SELECT e.id, e.note FROM wanted w JOIN event e ON e.v = w.v ORDER BY e.v";
    assert_eq!(answer(&server, joined), json!([row(id_of(5)), row(id_of(60_000))]));
    assert_eq!(changed(&server, "DELETE FROM wanted WHERE v = 5"), 1);
    assert_eq!(changed(&server, "INSERT INTO wanted VALUES (1), (69999)"), 2);
    assert_eq!(answer(&server, joined), json!([row(id_of(1)), row(id_of(60_000)), row(id_of(69_999))]));
}
