//! `ALTER TABLE` of measurements over `POST /api/sql`, through the real program.

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
use serde_json::json;
use sql::{answer, changed, code, done, number};

fn started(dir: &std::path::Path) -> Process {
    let server = Process::start(dir, &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("t,room=k c=21,ok=true 1000\nt,room=b c=19,n=3i 2000\nu c=1 1000\n").status, 204);
    server
}

#[test]
fn measurements_and_their_columns_get_other_names_and_types() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    // A plan that is used again.
    for _ in 0..3 {
        assert_eq!(number(&server, "SELECT count(*) FROM t WHERE c > 20"), 1);
    }
    done(&server, "ALTER TABLE t RENAME TO readings");
    assert_eq!(code(&server, "SELECT count(*) FROM t WHERE c > 20"), "42P01");
    for (statement, query) in [
        (
            "ALTER TABLE readings RENAME COLUMN c TO celsius",
            "SELECT count(*) FROM readings WHERE celsius > 20",
        ),
        ("ALTER TABLE readings RENAME room TO area", "SELECT count(*) FROM readings WHERE area = 'k'"),
        (
            "ALTER TABLE readings ALTER COLUMN celsius TYPE bigint",
            "SELECT count(*) FROM readings WHERE celsius / 2 * 2 < celsius AND celsius > 20",
        ),
        ("ALTER TABLE readings ALTER ok TYPE text", "SELECT count(*) FROM readings WHERE ok = 'true'"),
        (
            "ALTER TABLE readings ALTER n TYPE double precision",
            "SELECT count(*) + 1 FROM readings WHERE n > 3.5",
        ),
    ] {
        done(&server, statement);
        assert_eq!(number(&server, query), 1, "{statement}");
    }
    server.kill();
    let server = Process::start(dir.path(), &["--history", "15m"]);
    let rows = answer(&server, "SELECT area, celsius, n, ok FROM readings ORDER BY time");
    let expected = json!([
        {"area": "k", "celsius": 21, "n": null, "ok": "true"},
        {"area": "b", "celsius": 19, "n": 3.0, "ok": null}
    ]);
    assert_eq!(rows, expected);
    let columns = "SELECT column_name || ' ' || data_type AS c FROM information_schema.columns \
                   WHERE table_name = 'readings' ORDER BY 1";
    let columns: Vec<String> = answer(&server, columns).as_array().map_or_else(Vec::new, |rows| {
        rows.iter().map(|row| row["c"].as_str().unwrap_or_default().to_owned()).collect()
    });
    assert!(
        columns.contains(&"celsius bigint".to_owned()) && columns.contains(&"area text".to_owned()),
        "{columns:?}"
    );
    assert_eq!(changed(&server, "UPDATE readings SET celsius = 5 WHERE area = 'b'"), 1);
    // InfluxQL shows the same.
    assert_eq!(server.number("SELECT sum(celsius) FROM readings"), 26);
}

#[test]
fn every_change_is_logged_and_the_past_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    std::thread::sleep(std::time::Duration::from_millis(50));
    let then =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    std::thread::sleep(std::time::Duration::from_millis(50));
    done(&server, "ALTER TABLE t RENAME TO v");
    done(&server, "ALTER TABLE v RENAME COLUMN c TO d");
    for statement in ["ALTER TABLE t RENAME TO v", "ALTER TABLE v RENAME COLUMN c TO d"] {
        assert_eq!(server.log().matches(statement).count(), 1, "{statement}: {}", server.log());
    }
    assert_eq!(number(&server, "SELECT sum(d)::bigint FROM v"), 40);
    assert_eq!(number(&server, &format!("SELECT sum(c)::bigint FROM t AS OF {then}")), 40);
}

#[test]
fn aliases_are_tables_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    server.query("ALTER MEASUREMENT t RENAME TO v KEEP ALIAS");
    assert_eq!(number(&server, "SELECT count(*) FROM t JOIN v USING (time)"), 2);
    assert_eq!(changed(&server, "UPDATE t SET c = c + 1 WHERE room = 'k'"), 1);
    assert_eq!(changed(&server, "DELETE FROM t WHERE room = 'b'"), 1);
    assert_eq!(number(&server, "SELECT sum(c)::bigint FROM v"), 22);
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_name IN ('t', 'v')";
    assert_eq!(number(&server, tables), 1, "lists have own names only");
}

#[test]
fn what_is_wrong_has_postgresqls_codes() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    done(&server, "CREATE TABLE plain (id int PRIMARY KEY)");
    for (statement, expected) in [
        ("ALTER TABLE nothing RENAME TO x", "42P01"),
        ("ALTER TABLE t RENAME TO u", "42P07"),
        ("ALTER TABLE t RENAME TO plain", "42P07"),
        ("ALTER TABLE t RENAME TO autogen.x", "42601"),
        ("ALTER TABLE t RENAME COLUMN x TO y", "42703"),
        ("ALTER TABLE t RENAME COLUMN c TO n", "42701"),
        ("ALTER TABLE t RENAME COLUMN c TO room", "42701"),
        ("ALTER TABLE t RENAME COLUMN room TO c", "42701"),
        ("ALTER TABLE t RENAME COLUMN time TO x", "42809"),
        ("ALTER TABLE t RENAME COLUMN c TO time_ns", "22023"),
        ("ALTER TABLE t ALTER COLUMN x TYPE bigint", "42703"),
        ("ALTER TABLE t ALTER COLUMN c TYPE boolean", "42804"),
        ("ALTER TABLE t ALTER COLUMN c TYPE date", "42804"),
        ("ALTER TABLE t ADD COLUMN x int", "42809"),
        ("ALTER TABLE t DROP COLUMN c", "42809"),
        ("ALTER TABLE t RENAME COLUMN c TO x, RENAME COLUMN n TO y", "0A000"),
        ("ALTER VIEW t RENAME TO x", "42P01"),
    ] {
        assert_eq!(code(&server, statement), expected, "{statement}");
    }
    assert_eq!(number(&server, "SELECT sum(c)::bigint FROM t"), 40);
}
