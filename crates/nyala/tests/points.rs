//! Changing points of measurements in SQL, through the real program: beside line protocol and InfluxQL, after a kill, with
//! conditions that the store judges and with those that it does not.

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
use std::fmt::Write;

const POINTS: &str = "\
t,room=k c=21.5,ok=true 1
t,room=b c=19.25,n=3i 2
t,room=k c=22,msg=\"a\" 3
t c=1,n=-1i 4
";

fn started(dir: &std::path::Path) -> Process {
    let server = Process::start(dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

#[test]
fn fields_get_constants_and_expressions() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    assert_eq!(changed(&server, "UPDATE t SET c = 3, n = NULL WHERE room = 'b'"), 1);
    assert_eq!(changed(&server, "UPDATE t SET c = c * 2, n = 7 WHERE c > 20 AND length(room) = 1"), 2);
    assert_eq!(
        changed(&server, "UPDATE autogen.t AS x SET msg = 'it''s ' || x.time_ns WHERE room IS NULL"),
        1
    );
    assert_eq!(changed(&server, "UPDATE t SET n = 9 WHERE time_ns = 5"), 0);
    assert_eq!(changed(&server, "UPDATE t SET n = 9 WHERE room = 'nowhere' AND length(room) > 3"), 0);
    assert_eq!(changed(&server, "UPDATE t SET ok = (SELECT count(*) = 4 FROM t) WHERE time_ns = 2"), 1);
    let expected = json!([
        {"time_ns": 1, "room": "k", "c": 43.0, "n": 7, "msg": null, "ok": true},
        {"time_ns": 2, "room": "b", "c": 3.0, "n": null, "msg": null, "ok": true},
        {"time_ns": 3, "room": "k", "c": 44.0, "n": 7, "msg": "a", "ok": null},
        {"time_ns": 4, "room": null, "c": 1.0, "n": -1, "msg": "it's 4", "ok": null},
    ]);
    let select = "SELECT time_ns, room, c, n, msg, ok FROM t ORDER BY time";
    assert_eq!(answer(&server, select), expected);
    let influxql = server.query("SELECT c, n, msg FROM t WHERE time = 4");
    assert_eq!(influxql["results"][0]["series"][0]["values"], json!([[4, 1, -1, "it's 4"]]));
    server.kill();
    let server = Process::start(dir.path(), &[]);
    assert_eq!(answer(&server, select), expected, "after a kill");
}

#[test]
fn points_are_deleted_and_their_series_with_the_last() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    assert_eq!(changed(&server, "DELETE FROM t WHERE c + 0 > 21 AND room IN (SELECT 'k')"), 2);
    assert_eq!(changed(&server, "DELETE FROM t WHERE n < 0"), 1);
    assert_eq!(changed(&server, "DELETE FROM t WHERE time > now() AND c > 0"), 0);
    let keys = |server: &Process| server.query("SHOW SERIES")["results"][0]["series"][0]["values"].clone();
    assert_eq!(keys(&server), json!([["t,room=b"]]));
    server.kill();
    let server = Process::start(dir.path(), &[]);
    assert_eq!(keys(&server), json!([["t,room=b"]]), "after a kill");
    // The field has no value in its shard any more, and may get another type.
    assert_eq!(changed(&server, "DELETE FROM t WHERE abs(time_ns) = 2"), 1);
    assert_eq!(server.write("t,room=b c=\"text\" 2\n").status, 204);
    assert_eq!(answer(&server, "SELECT time_ns, c FROM t"), json!([{"time_ns": 2, "c": "text"}]));
    assert_eq!(changed(&server, "DELETE FROM t"), 1);
    assert_eq!(keys(&server), json!(null));
}

#[test]
fn points_are_inserted_as_other_writers_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let inserted = "INSERT INTO t (time, room, c, msg) VALUES
        ('1970-01-01T00:00:00.000000005Z', 'a b,c', 1.5, 'say \"hi\" \\'), ('1970-01-01 00:00:00', NULL, 1e300, NULL)";
    assert_eq!(changed(&server, inserted), 2);
    // A point that is there gets more fields.
    assert_eq!(changed(&server, "INSERT INTO t (time_ns, room, n) VALUES (1, 'k', 11)"), 1);
    assert_eq!(
        changed(&server, "INSERT INTO t (time_ns, room, c) SELECT time_ns + 10, room, c FROM t WHERE n > 0"),
        2
    );
    assert_eq!(
        answer(&server, "SELECT time_ns, room, c, n, msg FROM t WHERE n IS NULL OR n > 3 ORDER BY time"),
        json!([
            {"time_ns": 0, "room": null, "c": 1e300, "n": null, "msg": null},
            {"time_ns": 1, "room": "k", "c": 21.5, "n": 11, "msg": null},
            {"time_ns": 3, "room": "k", "c": 22.0, "n": null, "msg": "a"},
            {"time_ns": 5, "room": "a b,c", "c": 1.5, "n": null, "msg": "say \"hi\" \\"},
            {"time_ns": 11, "room": "k", "c": 21.5, "n": null, "msg": null},
            {"time_ns": 12, "room": "b", "c": 19.25, "n": null, "msg": null},
        ])
    );
    assert_eq!(changed(&server, "INSERT INTO t (c) VALUES (5)"), 1);
    assert_eq!(number(&server, "SELECT count(*) FROM t WHERE time > now() - interval '1 hour'"), 1);
}

#[test]
fn changed_points_are_returned() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let cases = [
        // New values, and fields that stay.
        (
            "UPDATE t SET c = c + 1, n = NULL WHERE room = 'b' RETURNING time_ns, room, c, n, ok",
            json!([{"time_ns": 2, "room": "b", "c": 20.25, "n": null, "ok": null}]),
        ),
        // What the store would do alone is returned, too.
        (
            "UPDATE t AS x SET msg = 'm' WHERE time_ns >= 3 RETURNING x.time_ns, upper(msg) AS loud",
            json!([{"time_ns": 3, "loud": "M"}, {"time_ns": 4, "loud": "M"}]),
        ),
        (
            "UPDATE t SET n = v.n FROM (VALUES ('k', 5), ('k', 6)) AS v(room, n) WHERE t.room = v.room AND t.time_ns = 1 RETURNING t.n > 4 AS is_more",
            json!([{"is_more": true}]),
        ),
        ("UPDATE t SET n = 1 WHERE room = 'nowhere' RETURNING *", json!([])),
        (
            "DELETE FROM t WHERE time_ns = 4 RETURNING *",
            json!([{"time": "1970-01-01T00:00:00.000000004Z", "room": null, "c": 1.0, "msg": "m", "n": -1, "ok": null, "time_ns": 4}]),
        ),
        (
            "INSERT INTO t (time_ns, room, c) VALUES (7, 'k', 0.5), (8, '', 1.5) RETURNING time_ns, room, c, n",
            json!([{"time_ns": 7, "room": "k", "c": 0.5, "n": null}, {"time_ns": 8, "room": null, "c": 1.5, "n": null}]),
        ),
        (
            "INSERT INTO t (time_ns, room, c) SELECT time_ns + 10, room, c FROM t WHERE time_ns = 7 RETURNING time_ns, room, time",
            json!([{"time_ns": 17, "room": "k", "time": "1970-01-01T00:00:00.000000017Z"}]),
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(answer(&server, statement), expected, "{statement}");
    }
    let left = "SELECT time_ns, c FROM t ORDER BY time_ns";
    let expected = [(1, 21.5), (2, 20.25), (3, 22.0), (7, 0.5), (8, 1.5), (17, 0.5)];
    let expected: Vec<_> = expected.iter().map(|(time, c)| json!({"time_ns": time, "c": c})).collect();
    assert_eq!(answer(&server, left), json!(expected));
    // Without a time it is that of the statement.
    let now =
        answer(&server, "INSERT INTO t (c) VALUES (1) RETURNING time_ns > 1700000000000000000 AS is_now");
    assert_eq!(now, json!([{"is_now": true}]));
}

#[test]
fn what_is_wrong_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let select = "SELECT * FROM t ORDER BY time";
    let before = answer(&server, select);
    let wrong = [
        ("UPDATE t SET room = 'x'", "0A000"),
        ("UPDATE t SET time = now()", "0A000"),
        ("UPDATE t SET nothing = 1", "42703"),
        ("UPDATE t SET c = 1, c = 2", "42601"),
        ("UPDATE t SET c = 1 WHERE nothing = 1", "42703"),
        ("UPDATE t SET n = 'x'", "22P02"),
        ("UPDATE t SET n = 1e30", "22003"),
        ("UPDATE t SET c = 'NaN'", "22003"),
        ("UPDATE t SET c = c / (time_ns - 3) * 1e308 * 10", "22012"),
        ("UPDATE t SET n = 1 / (time_ns - 3)", "22012"),
        ("UPDATE t SET n = 1 RETURNING nothing", "42703"),
        ("UPDATE t SET n = 1 RETURNING 1 / (time_ns - 3)", "22012"),
        ("INSERT INTO t (time_ns, c) VALUES (9, 1) RETURNING count(*)", "42803"),
        ("DELETE FROM t WHERE 1 / (time_ns - 4) > 0", "22012"),
        ("DELETE FROM t WHERE room", "42804"),
        ("DELETE FROM nothing", "42P01"),
        ("INSERT INTO t (time_ns, room) VALUES (9, 'k')", "23502"),
        ("INSERT INTO t (time_ns, c) VALUES (9, 1), (NULL, 1)", "23502"),
        ("INSERT INTO t (time_ns, time, c) VALUES (9, now(), 1)", "42601"),
        ("INSERT INTO t (time_ns, c) VALUES (9, 1), (10, 'x')", "22P02"),
        ("INSERT INTO t (time_ns, zone) VALUES (9, 1)", "42703"),
        ("INSERT INTO t (time_ns, c) VALUES (9, 1) ON CONFLICT DO NOTHING", "0A000"),
    ];
    for (statement, expected) in wrong {
        assert_eq!(code(&server, statement), expected, "{statement}");
        assert_eq!(answer(&server, select), before, "{statement}");
    }
}

/// What the store judges itself, and what is computed for each row, selects the same points.
#[test]
fn conditions_mean_the_same_wherever_they_are_judged() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let mut lines = String::new();
    for number in 0..600_i64 {
        let (host, rack) = (number % 7, number % 3);
        for name in ["judged", "computed"] {
            write!(lines, "{name},host=h{host}").expect("text grows");
            if rack > 0 {
                write!(lines, ",rack=r{rack}").expect("text grows");
            }
            write!(lines, " v={}", number % 11).expect("text grows");
            if number % 4 > 0 {
                write!(lines, ",n={}i", number % 13).expect("text grows");
            }
            writeln!(lines, " {}", number * 86_400_000_000_000 / 10).expect("text grows");
        }
    }
    assert_eq!(server.write(&lines).status, 204);
    let conditions = [
        "host = 'h1'",
        "rack IS NULL AND v >= 5",
        "n IS NULL",
        "host IN ('h2', 'h3') AND time < timestamptz '1970-01-20' AND n > 6",
        "rack <> 'r1' AND NOT v = 3",
        "host LIKE 'h_' AND n BETWEEN 2 AND 4",
        "false",
        "time_ns >= 4320000000000000 AND n <> 5",
    ];
    let shown = |name: &str| answer(&server, &format!("SELECT * FROM {name} ORDER BY time, host"));
    let explained = answer(&server, "EXPLAIN SELECT v FROM judged WHERE host = 'h1' AND n > 6").to_string();
    assert!(!explained.contains("FilterExec"), "the store judges such conditions: {explained}");
    for (turn, condition) in conditions.iter().enumerate() {
        for what in ["UPDATE # SET v = 100 + {}, n = NULL WHERE ", "DELETE FROM # WHERE n = {} AND "] {
            let what = what.replace("{}", &turn.to_string());
            let judged = what.replace('#', "judged") + condition;
            let computed = what.replace('#', "computed") + condition + " AND abs(time_ns) >= 0";
            assert_eq!(changed(&server, &judged), changed(&server, &computed), "{judged}");
            assert_eq!(shown("judged"), shown("computed"), "{judged}");
        }
    }
}

#[test]
fn points_follow_a_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    done(&server, "CREATE TABLE repair (room text, at bigint, c float8, PRIMARY KEY (room, at))");
    assert_eq!(changed(&server, "INSERT INTO repair VALUES ('k', 1, 20), ('k', 3, 25), ('b', 9, 1)"), 3);
    let update = "UPDATE t SET c = r.c FROM repair r WHERE r.room = t.room AND r.at = t.time_ns";
    assert_eq!(changed(&server, update), 2);
    assert_eq!(
        answer(&server, "SELECT time_ns, c FROM t WHERE room = 'k' ORDER BY time"),
        json!([{"time_ns": 1, "c": 20.0}, {"time_ns": 3, "c": 25.0}])
    );
    // A point that is found twice is changed once.
    let twice = "DELETE FROM t USING repair r WHERE r.room = 'k' AND t.room = 'k'";
    assert_eq!(changed(&server, twice), 2);
    assert_eq!(number(&server, "SELECT count(*) FROM t"), 2);
}

#[test]
fn the_past_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--history", "1h"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    done(&server, "CREATE TABLE host (name text PRIMARY KEY, rack int)");
    assert_eq!(changed(&server, "INSERT INTO host VALUES ('k', 1)"), 1);
    let moment = number(&server, "SELECT CAST(now() AS bigint) AS ns");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(changed(&server, "UPDATE t SET c = 0"), 4);
    assert_eq!(changed(&server, "DELETE FROM t WHERE room = 'k'"), 2);
    assert_eq!(changed(&server, "UPDATE host SET rack = 2"), 1);
    let query = "SELECT t.time_ns, t.c, h.rack FROM t JOIN host h ON h.name = t.room ORDER BY 1";
    assert_eq!(answer(&server, query), json!([]));
    let then = json!([{"time_ns": 1, "c": 21.5, "rack": 1}, {"time_ns": 3, "c": 22.0, "rack": 1}]);
    assert_eq!(answer(&server, &format!("{query} AS OF {moment}")), then);
    // What was deleted is brought back.
    let back = format!(
        "INSERT INTO t (time_ns, room, c) SELECT time_ns, room, c FROM t WHERE room = 'k' AS OF {moment}"
    );
    assert_eq!(code(&server, &back), "0A000");
    assert_eq!(code(&server, "SELECT 1 AS OF '2026-02-30'"), "22008");
    assert_eq!(code(&server, "SELECT * FROM t AS OF now() - interval '30 days'"), "22023");
    assert_eq!(number(&server, "SELECT count(*) FROM t AS OF now() - interval '1 millisecond'"), 2);
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let before = answer(&server, "SELECT * FROM t ORDER BY time");
    done(&server, "CREATE TABLE room (name text PRIMARY KEY, floor int CHECK (floor < 100))");
    done(&server, "INSERT INTO room VALUES ('k', 1), ('b', 2), ('c', 3)");
    for (statement, rows) in [
        ("UPDATE t SET c = 3, n = NULL WHERE room = 'b'", 1),
        ("UPDATE t SET c = c * 2 WHERE c > 20 AND length(room) = 1", 2),
        ("DELETE FROM t WHERE n < 0", 1),
        ("DELETE FROM t WHERE abs(time_ns) = 2", 1),
        ("DELETE FROM t USING room r WHERE r.name = t.room", 3),
        ("DELETE FROM t", 4),
        ("DELETE FROM t WHERE time_ns = 5", 0),
        (
            "WITH low AS (SELECT name FROM room WHERE floor < 2) DELETE FROM t WHERE room IN (SELECT name FROM low)",
            2,
        ),
        ("UPDATE room SET floor = floor + 1", 3),
        ("DELETE FROM room WHERE floor > 1", 2),
        ("DELETE FROM room WHERE name = 'k'", 1),
        ("DELETE FROM room WHERE name = 'nobody'", 0),
        ("INSERT INTO room VALUES ('d', 4), ('k', 5) ON CONFLICT DO NOTHING", 1),
        ("UPSERT INTO room SELECT room, 7 FROM t WHERE room IS NOT NULL GROUP BY room", 2),
    ] {
        assert_eq!(answer(&server, &format!("dry run {statement}")), json!([{"rows": rows}]), "{statement}");
    }
    for (statement, expected) in [
        ("INSERT INTO room VALUES ('k', 1)", "23505"),
        ("UPDATE room SET floor = 100", "23514"),
        ("DELETE FROM room RETURNING name", "0A000"),
        ("INSERT INTO t (time, c) VALUES (now(), 1)", "0A000"),
        ("UPDATE t SET n = 'x'", "22P02"),
        ("SELECT 1", "42601"),
        ("", "42601"),
    ] {
        assert_eq!(code(&server, &format!("DRY RUN {statement}")), expected, "{statement}");
    }
    assert_eq!(answer(&server, "SELECT * FROM t ORDER BY time"), before);
    let rooms = "SELECT name, floor FROM room ORDER BY floor";
    let expected = json!([{"name": "k", "floor": 1}, {"name": "b", "floor": 2}, {"name": "c", "floor": 3}]);
    assert_eq!(answer(&server, rooms), expected);
}
