//! Correcting stored points in InfluxQL, through the real program: values that are changed or taken away, deletions by
//! value, counts before, and what remains after a kill.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use serde_json::{Value, json};

const POINTS: &str = "\
t,room=k c=21.5,ok=true 1
t,room=b c=19.25,n=3i 2
t,room=k c=22,msg=\"a\" 3
u,room=k c=22 3
";

fn started(dir: &std::path::Path) -> Process {
    let server = Process::start(dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

/// The series of an answer, without what does not change.
fn series(answer: &Value) -> Value {
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    series.iter().map(|one| json!([one["columns"], one["values"]])).collect()
}

fn error(answer: &Value) -> &str {
    answer["results"][0]["error"].as_str().unwrap_or_default()
}

fn count(server: &Process, statement: &str) -> i64 {
    let answer = server.query(statement);
    let values = &answer["results"][0]["series"][0]["values"];
    values[0][1].as_i64().unwrap_or_else(|| panic!("{statement}: {answer}"))
}

#[test]
fn values_are_changed_and_taken_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    assert_eq!(count(&server, "DRY RUN UPDATE t SET c = 3 WHERE room = 'k'"), 2);
    assert_eq!(count(&server, "UPDATE t SET c = 3, n = 4 WHERE c = 22"), 1);
    assert_eq!(count(&server, "UPDATE t SET c = -1.5 WHERE time = 2"), 1);
    assert_eq!(count(&server, "DELETE FIELD c, ok FROM t WHERE time < 2"), 1);
    assert_eq!(count(&server, "UPDATE \"autogen\".t SET msg = 'it\\'s' WHERE room = 'nowhere'"), 0);
    let expected = json!([[
        ["time", "c", "msg", "n", "ok", "room"],
        [[2, -1.5, null, 3, null, "b"], [3, 3, "a", 4, null, "k"]]
    ]]);
    let select = "SELECT * FROM t";
    assert_eq!(series(&server.query(select)), expected);
    assert_eq!(series(&server.query("SELECT c FROM u")), json!([[["time", "c"], [[3, 22]]]]));
    server.kill();
    let server = Process::start(dir.path(), &[]);
    assert_eq!(series(&server.query(select)), expected, "after a kill");
    // A point without values is not shown, but exists until it is deleted.
    assert_eq!(count(&server, "UPDATE t SET c = 7 WHERE time = 1"), 1);
    assert_eq!(series(&server.query("SELECT c FROM t WHERE time = 1")), json!([[["time", "c"], [[1, 7]]]]));
}

#[test]
fn points_are_deleted_by_their_values() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let counted = server.query("DRY RUN DELETE WHERE c > 20");
    assert_eq!(series(&counted), json!([[["time", "points"], [[0, 2]]], [["time", "points"], [[0, 1]]]]));
    server.query("DELETE WHERE c > 20");
    assert_eq!(series(&server.query("SELECT c FROM t, u")), json!([[["time", "c"], [[2, 19.25]]]]));
    assert_eq!(
        series(&server.query("SHOW SERIES")),
        json!([[["key"], [["t,room=b"]]]]),
        "without their last points"
    );
    server.query("DELETE FROM t WHERE n = 3 AND room = 'k'");
    server.query("DELETE FROM t WHERE nothing = 3");
    assert_eq!(series(&server.query("SHOW SERIES")), json!([[["key"], [["t,room=b"]]]]));
    server.query("DELETE FROM t WHERE n = 3 AND room = 'b' AND time > 1");
    assert_eq!(series(&server.query("SHOW SERIES")), json!([]));
    // A field that is gone gets a new type.
    assert_eq!(server.write("t,room=b n=\"text\" 2\n").status, 204);
}

#[test]
fn what_cannot_be_corrected_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let week = 8 * 86_400_000_000_000_u64;
    assert_eq!(server.write(&format!("t,room=k n=1.5 {week}\n")).status, 204);
    let before = series(&server.query("SELECT * FROM t"));
    let cases = [
        ("UPDATE t SET nothing = 1", "it has no such field"),
        ("UPDATE t SET room = 'b'", "is a tag, not a field"),
        ("UPDATE t SET c = 'text'", "field \"c\" is of type float, and 'text' is not"),
        ("UPDATE t SET msg = 1", "field \"msg\" is of type string"),
        ("UPDATE t SET n = 2.5", "has the type integer in the shard that begins at"),
        ("UPDATE nothing SET c = 1", "measurement not found: nothing"),
        ("DELETE FROM t WHERE c > 1 OR ok = true", "join the comparisons by AND"),
        ("DELETE FROM t WHERE c + 1 > 2", "compare its fields with constants"),
        ("DROP SERIES FROM t WHERE c > 1", "fields not supported in WHERE clause during deletion"),
    ];
    for (statement, words) in cases {
        let answer = server.query(statement);
        assert!(error(&answer).contains(words), "{statement}: {answer}");
    }
    for (statement, words) in [
        ("UPDATE t SET c = c + 1", "found c, expected number, string, boolean, NULL at line 1, char 18"),
        (
            "DRY RUN SELECT c FROM t",
            "found SELECT, expected ALTER MEASUREMENT, DELETE, UNDO, UPDATE at line 1, char 9",
        ),
        ("UPDATE t c = 1", "found c, expected SET at line 1, char 10"),
    ] {
        let target = format!("/query?db=d&q={}", client::percent_encode(statement));
        let response = server.send("POST", &target, b"").expect("an answer");
        let text = String::from_utf8_lossy(&response.body);
        assert!(response.status == 400 && text.contains(words), "{statement}: {text}");
    }
    assert_eq!(series(&server.query("SELECT * FROM t")), before);
    // A type of its own in one shard does not hinder changes in the others.
    assert_eq!(count(&server, &format!("UPDATE t SET n = 2.5 WHERE time = {week}")), 1);
    assert_eq!(count(&server, "UPDATE t SET n = 2 WHERE time < 1h"), 3);
}
