//! Changes of points that are taken back in SQL, through the real program.

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
use sql::{answer, code, done};

const POINTS: &str = "\
t,room=k c=21.5,ok=true 1
t,room=b c=19.25,n=3i 2
t,room=k c=22,msg=\"a\" 3
t c=1,n=-1i 4
";

fn started(dir: &std::path::Path, arguments: &[&str]) -> Process {
    let server = Process::start(dir, arguments);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

fn all(server: &Process) -> Value {
    answer(server, "SELECT time_ns, room, c, n, msg, ok FROM t ORDER BY time_ns")
}

/// The number of the change that a statement has made.
fn change(server: &Process, text: &str) -> u64 {
    let answer = answer(server, text);
    answer[0]["change"].as_u64().unwrap_or_else(|| panic!("{text}: {answer}"))
}

#[test]
fn statements_of_every_form_are_undone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path(), &["--history", "15m"]);
    let before = all(&server);
    let statements = [
        // What the store does alone, and what is staged.
        ("UPDATE t SET c = 3, n = NULL WHERE room = 'b'", [1, 2, 0]),
        ("UPDATE t SET c = c * 2, n = 7 WHERE length(room) = 1", [3, 6, 0]),
        ("DELETE FROM t WHERE room = 'k' AND c > 21", [2, 4, 0]),
        ("DELETE FROM t WHERE length(room) = 1", [3, 6, 0]),
        ("DELETE FROM t USING (SELECT 4 AS place) x WHERE t.time_ns = x.place", [1, 2, 0]),
    ];
    for (statement, counts) in statements {
        let id = change(&server, statement);
        let after = all(&server);
        assert_ne!(after, before, "{statement}");
        let [points, cells, left_alone] = counts;
        let counted = json!([{"change": null, "points": points, "cells": cells, "left_alone": left_alone}]);
        assert_eq!(answer(&server, &format!("DRY RUN UNDO {id}")), counted, "{statement}");
        let undone = answer(&server, &format!("UNDO {id}"));
        assert_eq!(undone[0]["cells"], cells, "{statement}: {undone}");
        assert_eq!(all(&server), before, "{statement}");
        let again = format!("UNDO {}", undone[0]["change"]);
        assert_eq!(answer(&server, &again)[0]["points"], points, "{statement}");
        assert_eq!(all(&server), after, "{statement}");
        // In the other language, after a restart.
        server.kill();
        server = Process::start(dir.path(), &["--history", "15m"]);
        server.query(&format!("UNDO {id}"));
        assert_eq!(all(&server), before, "{statement}");
    }
    let listed = answer(&server, "SHOW CHANGES");
    assert_eq!(listed.as_array().map(Vec::len), Some(4 * statements.len()));
    assert_eq!(listed[0]["statement"], "UPDATE t SET c = 3, n = NULL WHERE room = 'b'");
    let first = [&listed[0]["change"], &listed[0]["points"], &listed[0]["database"], &listed[0]["user"]];
    assert_eq!(first, [&json!(1), &json!(1), &json!("d"), &Value::Null]);
    assert_eq!(listed[3]["statement"], "UNDO 1");
    let influxql = server.query("SHOW CHANGES");
    let rows = influxql["results"][0]["series"][0]["values"].as_array().map(Vec::len);
    assert_eq!(rows, Some(4 * statements.len()));
}

#[test]
fn what_was_changed_since_is_left_alone_and_what_is_wrong_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &["--history", "15m"]);
    let id = change(&server, "UPDATE t SET c = 30");
    done(&server, "UPDATE t SET c = 31 WHERE room = 'k'");
    let undone = answer(&server, &format!("UNDO {id}"));
    assert_eq!([&undone[0]["points"], &undone[0]["left_alone"]], [&json!(2), &json!(2)], "{undone}");
    let expected = json!([{"c": 31.0}, {"c": 19.25}, {"c": 31.0}, {"c": 1.0}]);
    assert_eq!(answer(&server, "SELECT c FROM t ORDER BY time_ns"), expected);
    assert_eq!(code(&server, "UNDO 99"), "42704");
    assert_eq!(code(&server, "UNDO x"), "42601");
    // A statement that changes nothing has no number.
    assert_eq!(answer(&server, "UPDATE t SET c = 1 WHERE room = 'nowhere'")[0]["change"], Value::Null);
    drop(server);
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    assert_eq!(answer(&server, "DELETE FROM t")[0]["change"], Value::Null);
    for text in ["UNDO 1", "SHOW CHANGES"] {
        assert_eq!(code(&server, text), "55000", "{text}");
    }
}
