//! Changes of points that are taken back, through the real program.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/prometheus.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod prometheus;

use process::Process;
use serde_json::{Value, json};
use std::path::Path;

const POINTS: &str = "\
t,room=k c=21.5,ok=true 1
t,room=b c=19.25,n=3i 2
t,room=k c=22,msg=\"a\" 3
t,room=c c=5 4
u,room=k c=22 3
";

fn started(dir: &Path) -> Process {
    let server = Process::start(dir, &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

fn again(dir: &Path) -> Process {
    Process::start(dir, &["--history", "15m"])
}

/// The columns and rows of the only series of an answer.
fn series(answer: &Value) -> Value {
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    series.iter().map(|one| json!([one["columns"], one["values"]])).collect()
}

fn error(answer: &Value) -> &str {
    answer["results"][0]["error"].as_str().unwrap_or_default()
}

/// The number of the change that a statement has made.
fn change(server: &Process, statement: &str) -> u64 {
    let answer = server.query(statement);
    let text = answer["results"][0]["messages"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{statement}: {answer}"));
    let number = text.strip_prefix("change ").and_then(|rest| rest.split(':').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{statement}: {text}"))
}

/// Points, cells, and cells that were left alone.
fn undone(server: &Process, statement: &str) -> [i64; 3] {
    let answer = server.query(statement);
    let columns = &answer["results"][0]["series"][0]["columns"];
    assert_eq!(
        columns.as_array().map(|all| &all[1..4]),
        json!(["points", "cells", "left_alone"]).as_array().map(|all| &all[..]),
        "{answer}"
    );
    let row = &answer["results"][0]["series"][0]["values"][0];
    [1, 2, 3].map(|column| row[column].as_i64().expect("a count"))
}

fn all(server: &Process) -> Value {
    json!([
        series(&server.query("SELECT * FROM t")),
        series(&server.query("SELECT * FROM u")),
        series(&server.query("SHOW SERIES"))
    ])
}

#[test]
fn corrections_are_undone_exactly() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    let before = all(&server);
    let statements = [
        ("UPDATE t SET c = 3, n = 4 WHERE room = 'k'", [2, 4, 0]),
        ("DELETE FIELD c, ok FROM t WHERE time < 3", [2, 3, 0]),
        ("DELETE FROM t WHERE room = 'k' AND time < 2", [1, 2, 0]),
        // Series go with their last points, and come back.
        ("DELETE FROM t WHERE room = 'b'", [1, 2, 0]),
        ("DELETE WHERE c > 20", [3, 5, 0]),
        ("DELETE FROM t", [4, 7, 0]),
        ("DROP SERIES FROM t WHERE room = 'c'", [1, 1, 0]),
        ("DROP SERIES FROM u", [1, 1, 0]),
    ];
    for (number, (statement, counts)) in statements.into_iter().enumerate() {
        let id = change(&server, statement);
        let after = all(&server);
        assert_ne!(after, before, "{statement}");
        if number % 3 == 1 {
            // A stop flushes.
            assert!(server.stop().success());
            server = again(dir.path());
        }
        assert_eq!(undone(&server, &format!("DRY RUN UNDO {id}")), counts, "{statement}");
        assert_eq!(all(&server), after, "{statement}");
        let undo = server.query(&format!("UNDO {id}"));
        assert_eq!(all(&server), before, "{statement}: {undo}");
        // The undo is a change, too.
        let row = &undo["results"][0]["series"][0]["values"][0];
        assert_eq!([1, 2, 3].map(|column| row[column].as_i64().expect("a count")), counts, "{statement}");
        if number % 3 == 2 {
            server.kill();
            server = again(dir.path());
            assert_eq!(all(&server), before, "{statement}, after a kill");
        }
        assert_eq!(undone(&server, &format!("UNDO {}", row[4])), counts, "{statement}");
        assert_eq!(all(&server), after, "{statement}");
        assert_eq!(
            undone(&server, &format!("UNDO {}", row[4].as_u64().expect("a number") + 1)),
            counts,
            "{statement}"
        );
        assert_eq!(all(&server), before, "{statement}");
    }
    let listed = server.query("SHOW CHANGES");
    let rows = listed["results"][0]["series"][0]["values"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 4 * statements.len());
    assert_eq!(
        listed["results"][0]["series"][0]["columns"],
        json!(["time", "change", "database", "user", "points", "statement"])
    );
    assert_eq!(
        rows[0].as_array().expect("a row")[1..],
        json!([1, "d", "", 2, "UPDATE t SET c = 3, n = 4 WHERE room = 'k'"]).as_array().expect("a row")[..]
    );
    assert_eq!(rows[1][5], json!("UNDO 1"));
    assert_eq!(
        error(&server.query("UNDO 99")),
        "there is no change 99: SHOW CHANGES lists those that can be undone"
    );
}

#[test]
fn what_somebody_has_changed_since_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    // Both follow within a millisecond or so: each is undone as it was.
    let first = change(&server, "UPDATE t SET c = 1 WHERE room = 'k'");
    assert!(server.log().contains(&format!("change={first}")), "{}", server.log());
    let second = change(&server, "UPDATE t SET c = 2 WHERE room = 'k' AND time = 1");
    assert_eq!(undone(&server, &format!("UNDO {first}")), [1, 1, 1]);
    let c = |server: &Process| series(&server.query("SELECT c FROM t WHERE room = 'k'"));
    assert_eq!(c(&server), json!([[["time", "c"], [[1, 2], [3, 22]]]]));
    assert_eq!(undone(&server, &format!("UNDO {second}")), [1, 1, 0]);
    assert_eq!(c(&server), json!([[["time", "c"], [[1, 1], [3, 22]]]]));
    // Now the cell is again as the first change has left it.
    assert_eq!(undone(&server, &format!("UNDO {first}")), [1, 1, 1]);
    assert_eq!(c(&server), json!([[["time", "c"], [[1, 21.5], [3, 22]]]]));
    // A point that was written again keeps what was written.
    let third = change(&server, "DELETE FROM t WHERE room = 'k'");
    assert_eq!(server.write("t,room=k c=7 3\nt,room=k c=8 9\n").status, 204);
    assert_eq!(undone(&server, &format!("UNDO {third}")), [2, 3, 1]);
    assert_eq!(
        series(&server.query("SELECT c, msg, ok FROM t WHERE room = 'k'")),
        json!([[["time", "c", "msg", "ok"], [[1, 21.5, null, true], [3, 7, "a", null], [9, 8, null, null]]]])
    );
    // A point that was deleted since stays deleted.
    let fourth = change(&server, "UPDATE t SET c = 30");
    server.query("DELETE FROM t WHERE room = 'k'");
    assert_eq!(undone(&server, &format!("UNDO {fourth}")), [2, 2, 3]);
    assert_eq!(series(&server.query("SELECT c FROM t")), json!([[["time", "c"], [[2, 19.25], [4, 5]]]]));
    // A field that has another type by now.
    let fifth = change(&server, "DELETE FROM t");
    assert_eq!(server.write("t,room=z n=\"text\" 9\n").status, 204);
    assert_eq!(undone(&server, &format!("UNDO {fifth}")), [2, 2, 1]);
}

#[test]
fn what_cannot_be_undone_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    let answer = server.query("DELETE FROM u");
    assert_eq!(answer["results"][0]["messages"], Value::Null, "{answer}");
    for statement in ["UNDO 1", "DRY RUN UNDO 1", "SHOW CHANGES"] {
        let answer = server.query(statement);
        assert!(error(&answer).starts_with("no history is kept"), "{statement}: {answer}");
    }
    assert!(server.stop().success());
    // Longer than it takes to look once.
    let history = ["--history", "8s"];
    server = Process::start(dir.path(), &history);
    let id = change(&server, "DELETE FROM t WHERE room = 'b'");
    assert_eq!(undone(&server, &format!("DRY RUN UNDO {id}")), [1, 2, 0]);
    // The history forgets with what has files, or is deleted.
    let begun = std::time::Instant::now();
    let refused = loop {
        let answer = server.query(&format!("DRY RUN UNDO {id}"));
        if !error(&answer).is_empty() {
            break error(&answer).to_owned();
        }
        assert!(begun.elapsed().as_secs() < 180, "it is never forgotten: {answer}");
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert_eq!(server.write("v a=1\n").status, 204);
        assert!(server.stop().success());
        server = Process::start(dir.path(), &history);
    };
    assert!(refused.contains("cannot be undone any more: the history begins at 20"), "{refused}");
    assert!(refused.contains("--history sets how long it is kept"), "{refused}");
    assert_eq!(series(&server.query("SHOW CHANGES")), json!([]));
}

#[test]
fn metrics_of_prometheus_come_back_with_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Process::start(dir.path(), &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    for (name, host) in [("up", "a"), ("up", "b"), ("down", "a"), ("left", "c")] {
        let samples = (1..4).map(|time| (time as f64, time));
        let body = prometheus::packed_samples(&[("__name__", name), ("h", host)], samples);
        let written = server.send("POST", "/api/v1/prom/write?db=d", &body).expect("an answer");
        assert_eq!(written.status, 204);
    }
    assert_eq!(server.write("up,h=a other=1 7000000\n").status, 204);
    let all = |server: &Process| {
        ["SHOW MEASUREMENTS", "SHOW SERIES", "SELECT * FROM up, down, \"left\""]
            .map(|text| series(&server.query(text)))
    };
    let before = all(&server);
    for (statement, counts) in [
        ("DELETE FROM up", [7, 7, 0]),
        ("DROP SERIES FROM up, down WHERE h = 'a'", [7, 7, 0]),
        ("DELETE WHERE time > 1ms", [9, 9, 0]),
    ] {
        let id = change(&server, statement);
        assert_ne!(all(&server), before, "{statement}");
        server.kill();
        server = again(dir.path());
        assert_eq!(undone(&server, &format!("UNDO {id}")), counts, "{statement}");
        assert_eq!(all(&server), before, "{statement}");
        server.kill();
        server = again(dir.path());
        assert_eq!(all(&server), before, "{statement}, after a kill");
    }
}

#[test]
fn many_points_are_undone_within_little_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--history", "15m", "--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    for series in 0..40 {
        let lines: String =
            (0..10_000).map(|time| format!("m,host=h{series} v={time},w=\"{time}\" {time}\n")).collect();
        assert_eq!(server.write(&lines).status, 204);
    }
    let sums = |server: &Process| series(&server.query("SELECT count(v), sum(v), count(w) FROM m"));
    let before = sums(&server);
    let id = change(&server, "DELETE FROM m WHERE time >= 500");
    assert_eq!(undone(&server, &format!("UNDO {id}")), [380_000, 760_000, 0]);
    assert_eq!(sums(&server), before);
}

#[test]
fn an_undo_takes_the_rights_of_its_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--history", "15m", "--auth-enabled"]);
    let ask = |user: &str, text: &str| -> Value {
        let target = format!("/query?db=d&epoch=ns&u={user}&p=pencil&q={}", client::percent_encode(text));
        let response = server.send("POST", &target, b"").expect("an answer");
        serde_json::from_slice(&response.body).expect("JSON")
    };
    for text in [
        "CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES",
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        "CREATE USER bob WITH PASSWORD 'pencil'",
        "CREATE USER eve WITH PASSWORD 'pencil'",
        "GRANT READ ON d TO bob",
        "GRANT ALL ON e TO eve",
    ] {
        let answer = ask("ann", text);
        assert!(!answer.to_string().contains("error"), "{text}: {answer}");
    }
    let written = server.send("POST", "/write?db=d&u=ann&p=pencil", POINTS.as_bytes());
    assert_eq!(written.expect("an answer").status, 204);
    ask("ann", "DELETE FROM t");
    let listed = |user: &str| {
        let rows = ask(user, "SHOW CHANGES")["results"][0]["series"][0]["values"].as_array().cloned();
        rows.unwrap_or_default().len()
    };
    assert_eq!(["ann", "bob", "eve"].map(listed), [1, 1, 0]);
    assert_eq!(ask("ann", "SHOW CHANGES")["results"][0]["series"][0]["values"][0][3], "ann");
    for (user, lacking) in [("bob", "WRITE"), ("eve", "READ")] {
        for text in ["UNDO 1", "DRY RUN UNDO 1"] {
            let answer = ask(user, text);
            let words =
                format!("{user} not authorized to execute statement 'UNDO 1', requires {lacking} on d");
            assert_eq!(error(&answer), words, "{answer}");
        }
    }
    let answer = ask("ann", "UNDO 1");
    assert_eq!(answer["results"][0]["series"][0]["values"], json!([[0, 4, 7, 0, 2]]), "{answer}");
}
