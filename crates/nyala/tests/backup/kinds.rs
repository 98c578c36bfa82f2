//! Everything that a store has comes back.

use super::command::{backup, nyala, restore};
use super::process::Process;
use serde_json::Value;

pub(crate) fn sql(server: &Process, text: &str) -> String {
    let response = server.send("POST", "/api/sql?db=d", text.as_bytes()).expect("an answer");
    let body = String::from_utf8(response.body).expect("text");
    assert_eq!(response.status, 200, "{text}: {body}");
    body
}

/// What a server answers to questions about all kinds of things.
fn answers(server: &Process) -> Vec<Value> {
    [
        "SHOW DATABASES",
        "SHOW RETENTION POLICIES ON d",
        "SHOW CONTINUOUS QUERIES",
        "SHOW SUBSCRIPTIONS",
        "SHOW USERS",
        "SHOW GRANTS FOR reader",
        "SHOW SERIES",
        "SHOW FIELD KEYS",
        "SELECT * FROM m",
        "SELECT * FROM d.short.m",
    ]
    .map(|text| server.query(text))
    .to_vec()
}

#[test]
fn everything_is_restored() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    for text in [
        "CREATE DATABASE d",
        "CREATE DATABASE other",
        "CREATE RETENTION POLICY short ON d DURATION INF REPLICATION 1 SHARD DURATION 1h",
        "CREATE USER root WITH PASSWORD 'secret' WITH ALL PRIVILEGES",
        "CREATE USER reader WITH PASSWORD 'secret'",
        "GRANT READ ON d TO reader",
        "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(f) INTO short.mean FROM m GROUP BY time(1h) END",
        "CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'http://127.0.0.1:1'",
    ] {
        let answer = server.query(text);
        assert!(answer["results"][0].get("error").is_none(), "{text}: {answer}");
    }
    let lines = "m,h=a f=1.5,i=2i,b=true,s=\"text\" 1\nm,h=b f=2.5 2\nm,h=c f=3.5 3";
    assert_eq!(server.write(lines).status, 204);
    assert_eq!(server.send("POST", "/write?db=d&rp=short", b"m u=1i 5").expect("an answer").status, 204);
    server.query("DELETE FROM m WHERE h = 'b'");
    sql(&server, "CREATE TABLE t (id int PRIMARY KEY, word text, price numeric(10,2))");
    sql(&server, "INSERT INTO t VALUES (1, 'one', 1.25), (2, NULL, 2.50)");
    sql(&server, "UPDATE t SET word = 'zwei' WHERE id = 2");
    sql(&server, "CREATE VIEW v AS SELECT word FROM t WHERE id > 1");
    let (expected, tables) = (answers(&server), ["SELECT * FROM t ORDER BY id", "SELECT * FROM v"]);
    let rows = tables.map(|text| sql(&server, text));
    backup(&server, &backups, &[]);
    // What comes later is not in it.
    server.query("DROP MEASUREMENT m");
    sql(&server, "DROP TABLE t CASCADE");
    let restored = dir.path().join("restored");
    restore(&backups, &restored, &[]);
    let again = Process::start(&restored, &[]);
    assert_eq!(answers(&again), expected);
    assert_eq!(tables.map(|text| sql(&again, text)), rows);
    again.stop();
    nyala(&["check", restored.to_str().expect("a path")]);
}

#[test]
fn a_stopped_server_is_backed_up_as_well() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups, restored) =
        (dir.path().join("data"), dir.path().join("backups"), dir.path().join("restored"));
    let at = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let mut server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    // What was not flushed is in the log.
    server.kill();
    nyala(&["backup", "--data-dir", &at(&data), &at(&backups)]);
    restore(&backups, &restored, &[]);
    nyala(&["check", &at(&restored)]);
    assert_eq!(Process::start(&restored, &[]).number("SELECT count(v) FROM m"), 1);
    // The directory is as it was.
    assert_eq!(Process::start(&data, &[]).number("SELECT count(v) FROM m"), 1);
}

#[test]
fn the_past_is_restored() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups, restored) =
        (dir.path().join("data"), dir.path().join("backups"), dir.path().join("restored"));
    let server = Process::start(&data, &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let now =
        std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).expect("after 1970");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(server.write("m v=2 1").status, 204);
    backup(&server, &backups, &[]);
    restore(&backups, &restored, &[]);
    let again = Process::start(&restored, &["--history", "15m"]);
    let target = format!("/query?db=d&as_of={}&q=SELECT%20v%20FROM%20m", now.as_nanos());
    let answer = again.send("POST", &target, b"").expect("an answer").body;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["results"][0]["series"][0]["values"][0][1], 1, "{answer}");
    assert_eq!(again.number("SELECT v FROM m"), 2);
}
