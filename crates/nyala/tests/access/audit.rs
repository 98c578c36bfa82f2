//! The audit log: every kind of event once, no secrets, renamed files, and a file that cannot be written.

use super::CANARY;
use super::sender::{Server, Session};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

fn has(path: &Path, wanted: &Value) -> bool {
    let fits = |line: &Value| {
        let fields = wanted.as_object().expect("an object");
        fields.iter().all(|(name, value)| match (name.as_str(), &line[name]) {
            ("what" | "reason", Value::String(text)) => text.contains(value.as_str().expect("a text")),
            (_, found) => found == value,
        })
    };
    lines(path).iter().any(fits)
}

#[test]
fn what_is_done_and_refused_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("audit.log");
    let server = Server::start(&["--audit-log", log.to_str().expect("a name")]);
    server.ask(&format!("CREATE USER bob WITH PASSWORD '{CANARY}'"));
    server.ask("GRANT READ ON home TO bob");
    let token = server.token("CREATE TOKEN ci FOR bob ON home READ");
    assert_eq!(server.send("POST", "/write?db=home&u=ann&p=pencil", &[], "m v=1 1").status, 204);
    let bob = format!("u=bob&p={CANARY}");
    server.query(&bob, &[], "SELECT v FROM m");
    server.query("u=bob&p=wrong", &[], "SELECT v FROM m");
    assert_eq!(server.query(&bob, &[], "DROP DATABASE home").status, 403);
    server.query("u=ann&p=pencil", &[], "CREATE RETENTION POLICY p ON nowhere DURATION 1d REPLICATION 1");
    let of_token = format!("Token {token}");
    assert_eq!(server.query("", &[("Authorization", &of_token)], "DROP MEASUREMENT m").status, 403);
    drop(Session::open(server.postgres, "ann", "pencil").map_err(drop).expect("it logs in"));
    let deleted = r#"{"start": "1970-01-01T00:00:00Z", "stop": "1970-01-01T00:00:01Z", "predicate": "_measurement=\"elsewhere\""}"#;
    assert_eq!(server.send("POST", "/api/v2/delete?bucket=home&u=ann&p=pencil", &[], deleted).status, 204);
    let mut session = Session::open(server.postgres, "bob", &token).map_err(drop).expect("it logs in");
    assert!(session.run("CREATE TABLE t (a int)").is_err());
    for statement in [
        "CREATE TABLE t (a int PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN b text",
        "INSERT INTO t VALUES (1, 'one')",
        "UPDATE t SET b = 'two' WHERE a = 1",
        "UPDATE t SET b = 'three'",
        "DELETE FROM t WHERE a = 1",
        "DROP TABLE t",
    ] {
        let done = server.send("POST", "/api/sql?db=home&u=ann&p=pencil", &[], statement);
        assert_eq!(done.status, 200, "{statement}");
    }
    server.ask("DELETE FROM m WHERE time < 5");
    let of_sql = |what: &str| serde_json::json!({"event": "statement", "result": "done", "user": "ann", "client": "127.0.0.1", "protocol": "http", "database": "home", "what": what});
    for wanted in [
        serde_json::json!({"event": "log-in", "result": "done", "user": "ann", "client": "127.0.0.1", "protocol": "http"}),
        serde_json::json!({"event": "log-in", "result": "failed", "user": "bob", "client": "127.0.0.1", "protocol": "http"}),
        serde_json::json!({"event": "log-in", "result": "done", "user": "bob by token ci", "protocol": "postgres"}),
        serde_json::json!({"event": "log-in", "result": "done", "user": "ann", "client": "127.0.0.1", "protocol": "postgres"}),
        serde_json::json!({"event": "statement", "user": "ann", "client": "127.0.0.1", "what": "elsewhere"}),
        serde_json::json!({"event": "refused", "user": "bob", "protocol": "http", "what": "POST /query", "reason": "DROP MEASUREMENT m"}),
        serde_json::json!({"event": "statement", "result": "done", "user": "ann", "what": "CREATE USER bob WITH PASSWORD [REDACTED]"}),
        serde_json::json!({"event": "statement", "result": "done", "what": "GRANT READ ON home TO bob"}),
        serde_json::json!({"event": "statement", "result": "done", "what": "CREATE TOKEN ci FOR bob ON home READ"}),
        serde_json::json!({"event": "statement", "result": "failed", "protocol": "http", "what": "CREATE RETENTION POLICY p ON nowhere"}),
        serde_json::json!({"event": "statement", "result": "done", "user": "ann", "what": "DELETE FROM m", "database": "home"}),
        of_sql("CREATE TABLE t"),
        of_sql("ALTER TABLE t ADD COLUMN b"),
        of_sql("UPDATE t SET b = 'two'"),
        of_sql("UPDATE t SET b = 'three'"),
        of_sql("DELETE FROM t"),
        of_sql("DROP TABLE t"),
        serde_json::json!({"event": "refused", "user": "bob", "what": "POST /query", "reason": "DROP DATABASE home"}),
        serde_json::json!({"event": "refused", "user": "bob", "client": "127.0.0.1", "protocol": "postgres", "what": "CREATE TABLE t", "reason": "permission denied"}),
    ] {
        assert!(has(&log, &wanted), "{wanted} in {:#?}", lines(&log));
    }
    // As points that are written, rows that are inserted are no event.
    assert!(!has(&log, &serde_json::json!({"what": "INSERT INTO"})));
    let text = std::fs::read_to_string(&log).expect("readable");
    assert!(!text.contains(CANARY) && !text.contains(&token) && !text.contains("pencil"), "{text}");
    assert_eq!(std::fs::metadata(&log).expect("it is there").permissions().mode() & 0o777, 0o600);
    // Clients of HTTP log in with each request, and once is enough.
    let logged_in = r#""log-in","result":"done","user":"ann","client":"127.0.0.1","protocol":"http""#;
    assert_eq!(text.matches(logged_in).count(), 1);
    // Renamed, as logrotate does it.
    std::fs::rename(&log, directory.path().join("audit.1")).expect("renamed");
    server.process.signal("HUP");
    let begun = Instant::now();
    while !server.process.log().contains("the audit log was opened again") {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it was not opened again: {}",
            server.process.log()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    server.ask("CREATE DATABASE later");
    assert!(has(&log, &serde_json::json!({"what": "CREATE DATABASE later"})));
    assert!(server.metric("nyala_audit_lines_total") > 10);
}

#[test]
fn what_is_asked_for_too_often_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("audit.log");
    let server = Server::start(&["--audit-log", log.to_str().expect("a name")]);
    server.ask(&format!("CREATE USER bob WITH PASSWORD '{CANARY}'"));
    server.ask("GRANT ALL ON home TO bob");
    server.ask("SET QUOTA FOR bob queries_per_minute = 1");
    let mut session = Session::open(server.postgres, "bob", CANARY).map_err(drop).expect("it logs in");
    let refused =
        |session: &mut Session| session.run("SELECT 17").is_err_and(|error| error.starts_with("53400"));
    assert!((0..5).any(|_| refused(&mut session)));
    let guess = || Session::open(server.postgres, "ann", "guessed").map(drop).expect_err("it is refused");
    assert!((0..20).any(|_| guess().starts_with("53400")));
    for wanted in [
        serde_json::json!({"event": "refused", "user": "bob", "client": "127.0.0.1", "protocol": "postgres", "what": "SELECT 17"}),
        serde_json::json!({"event": "refused", "user": "ann", "client": "127.0.0.1", "protocol": "postgres", "what": "log-in"}),
    ] {
        assert!(has(&log, &wanted), "{wanted} in {:#?}", lines(&log));
    }
}

#[test]
fn an_audit_log_that_cannot_be_written_is_not_hidden() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["serve", "--http-bind", "127.0.0.1:0", "--audit-log", "/nowhere/audit.log", "--data-dir"])
        .arg(directory.path().join("data"))
        .output()
        .expect("it runs");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("audit-log /nowhere/audit.log"), "{words}");
    // Requests are answered all the same, and the lines are counted as lost.
    let server = Server::start(&["--audit-log", "/dev/full", "--audit-log-ins", "failed"]);
    server.ask("CREATE DATABASE lost");
    assert!(server.metric("nyala_audit_lines_lost_total") > 0);
    let health = server.send("GET", "/health", &[], "");
    let words = String::from_utf8_lossy(&health.body).into_owned();
    assert!(health.status == 200 && words.contains("the audit log /dev/full cannot be written"), "{words}");
}
