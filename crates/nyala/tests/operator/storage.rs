//! `SHOW STORAGE` and `SHOW MAINTENANCE`: what columns take on disk, and what flushes and merges wait and run.

use crate::client::percent_encode;
use crate::process::Process;
use crate::send_with;
use serde_json::Value;
use std::fmt::Write;

const POINTS: i64 = 30_000;
const BEGIN_NS: i64 = 1_451_606_400_000_000_000;

/// The columns of the only series of an answer, row by row.
fn rows(answer: &Value) -> Vec<Value> {
    answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default()
}

/// A row of `SHOW STORAGE` by its column, or by its kind.
fn part<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    let found = rows.iter().find(|row| row[0] == name || (row[0] == "" && row[1] == name));
    found.unwrap_or_else(|| panic!("{name}: {rows:?}"))
}

fn write_points(server: &Process) {
    server.query("CREATE DATABASE d");
    let mut lines = String::new();
    for i in 0..POINTS {
        let at = BEGIN_NS + i * 1_000_000_000;
        let state = ["on", "off", "standby"][(i / 7 % 3) as usize];
        write!(
            lines,
            "m,host=h{} constant=7i,rising={i}i,noise={}",
            i % 2,
            (i * 7919 % 10_007) as f64 / 100.0
        )
        .and_then(|()| writeln!(lines, ",is_odd={},state=\"{state}\" {at}", i % 2 == 1))
        .expect("memory takes every byte");
    }
    assert_eq!(server.write(&lines).status, 204);
}

#[test]
fn columns_are_shown_with_encodings_and_bytes() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Process::start(&data, &[]);
    write_points(&server);
    // Points are in memory first, …
    let in_memory = rows(&server.query("SHOW STORAGE ON d FROM m"));
    assert_eq!(part(&in_memory, "memory")[4], POINTS, "{in_memory:?}");
    let waiting = rows(&server.query("SHOW MAINTENANCE"));
    // Rows of the server's own tables wait, too.
    assert_eq!((&waiting[0][0], &waiting[0][1]), (&"flush".into(), &"waits".into()));
    assert!(waiting[0][8].as_i64() >= Some(POINTS), "{waiting:?}");
    // … and in files after the server was stopped.
    assert!(server.stop().success());
    let server = Process::start(&data, &[]);
    assert_eq!(rows(&server.query("SHOW MAINTENANCE")), Vec::<Value>::new());
    let answer = server.query("SHOW STORAGE ON d FROM m");
    let series = &answer["results"][0]["series"][0];
    assert_eq!((&series["name"], &series["tags"]["retention_policy"]), (&"m".into(), &"autogen".into()));
    let parts = rows(&answer);
    for (column, value_type, encoding) in [
        ("constant", "integer", "constant"),
        ("rising", "integer", "frame"),
        ("is_odd", "boolean", "bits"),
        ("noise", "float", "decimal"),
        ("state", "string", "dictionary"),
    ] {
        let row = part(&parts, column);
        assert_eq!(
            (&row[1], &row[2], &row[4]),
            (&"field".into(), &value_type.into(), &POINTS.into()),
            "{row}"
        );
        assert_eq!(row[3], encoding, "{row}");
        let per_value = row[5].as_f64().expect("bytes") / POINTS as f64;
        assert!((row[6].as_f64().expect("a ratio") - per_value).abs() < 1e-9, "{row}");
    }
    assert_eq!(part(&parts, "time")[1], "time");
    let bytes = |name: &str| part(&parts, name)[5].as_u64().expect("bytes");
    assert!(bytes("constant") * 100 < bytes("noise"), "{parts:?}");
    // The parts are the whole.
    let all: u64 = parts.iter().map(|row| row[5].as_u64().expect("bytes")).sum();
    let stats = server.query("SHOW STATS FOR 'shard'");
    let shards = stats["results"][0]["series"].as_array().expect("shards").iter();
    let on_disk = shards.map(|shard| {
        let columns = shard["columns"].as_array().expect("columns");
        let place = columns.iter().position(|column| column == "diskBytes").expect("a column");
        shard["values"][0][place].as_u64().expect("bytes")
    });
    assert_eq!(all, on_disk.sum::<u64>());

    // A table of SQL has its keys in a part of their own.
    let sql = |text: &str| server.send("POST", "/api/sql?db=d", text.as_bytes()).expect("an answer").status;
    assert_eq!(sql("CREATE TABLE t (id bigint PRIMARY KEY, word text)"), 200);
    assert_eq!(sql("INSERT INTO t SELECT x, 'w' || x FROM generate_series(1, 5000) AS g(x)"), 200);
    assert!(server.stop().success());
    let server = Process::start(&data, &[]);
    let parts = rows(&server.query("SHOW STORAGE ON d FROM t"));
    let word = part(&parts, "word");
    assert_eq!((&word[1], &word[2], &word[4]), (&"column".into(), &"text".into(), &5000.into()), "{word}");
    assert_eq!(part(&parts, "keys")[4], 5000);

    for (statement, words) in [
        ("SHOW STORAGE ON d FROM m LIMIT 1", "leave out FROM, or LIMIT"),
        ("SHOW STORAGE ON missing", "database not found: missing"),
        ("SHOW STORAGE ON d FROM /m/", "no patterns"),
        ("SHOW STORAGE ON d FROM missing", "measurement or table not found: missing"),
        ("SHOW STORAGE ON missing FROM m", "database not found: missing"),
    ] {
        let answer = server.query(statement).to_string();
        assert!(answer.contains(words), "{statement}: {answer}");
    }
}

#[test]
fn every_measurement_is_listed_the_largest_first() {
    const MEASUREMENTS: usize = 10_000;
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Process::start(&data, &[]);
    write_points(&server);
    // A request creates so many names at most.
    for first in (0..MEASUREMENTS).step_by(5000) {
        let lines = (first..first + 5000).map(|i| format!("few{i},host=a v={i} {BEGIN_NS}\n"));
        assert_eq!(server.write(&lines.collect::<String>()).status, 204);
    }
    let sql = |server: &Process, text: &str| {
        server.send("POST", "/api/sql?db=d", text.as_bytes()).expect("an answer").status
    };
    assert_eq!(sql(&server, "CREATE TABLE t (id bigint PRIMARY KEY, word text)"), 200);
    assert_eq!(
        sql(&server, "INSERT INTO t SELECT x, md5(x::text) FROM generate_series(1, 1000) AS g(x)"),
        200
    );
    server.query("CREATE DATABASE other");
    let all = rows(&server.query("SHOW STORAGE ON d"));
    assert_eq!(all.len(), MEASUREMENTS + 2);
    // Nothing is in files yet: what takes the most memory comes first.
    assert_eq!((&all[0][0], &all[0][1], &all[0][2]), (&"m".into(), &"autogen".into(), &POINTS.into()));
    assert!(all[0][4].as_u64() > Some(0), "{}", all[0]);
    assert_eq!(rows(&server.query("SHOW STORAGE ON other")), Vec::<Value>::new());
    assert!(server.stop().success());
    let server = Process::start(&data, &[]);
    let all = rows(&server.query("SHOW STORAGE ON d"));
    assert_eq!(all.len(), MEASUREMENTS + 2);
    assert_eq!((&all[0][0], &all[0][2], &all[0][4]), (&"m".into(), &POINTS.into(), &0.into()));
    assert_eq!((&all[1][0], &all[1][1], &all[1][2]), (&"t".into(), &"".into(), &1000.into()));
    assert!(all.windows(2).all(|two| two[0][3].as_u64() >= two[1][3].as_u64()));
    let names: std::collections::BTreeSet<&str> = all.iter().filter_map(|row| row[0].as_str()).collect();
    assert_eq!(names.len(), all.len());
    // What a measurement takes is the sum of its parts.
    let of_m = rows(&server.query("SHOW STORAGE ON d FROM m"));
    assert_eq!(all[0][3], of_m.iter().filter_map(|part| part[5].as_u64()).sum::<u64>());
    assert_eq!(rows(&server.query("SHOW STORAGE ON d LIMIT 2")), all[..2]);
    assert_eq!(rows(&server.query("SHOW MAINTENANCE")), Vec::<Value>::new());
}

#[test]
fn storage_is_shown_to_readers_and_maintenance_to_administrators() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let ask = |login: &str, statement: &str| {
        let target = format!("/query?db=d&{login}&q={}", percent_encode(statement));
        let answer = send_with(&server, "POST", &target, &[]);
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    assert_eq!(ask("", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES").0, 200);
    let admin = "u=ann&p=a";
    let made = "CREATE DATABASE d; CREATE USER bob WITH PASSWORD 'b'; CREATE USER eve WITH PASSWORD 'e'; GRANT READ ON d TO bob";
    assert_eq!(ask(admin, made).0, 200);
    let written = server.send("POST", &format!("/write?db=d&{admin}"), b"m v=1").expect("an answer");
    assert_eq!(written.status, 204);
    assert_eq!(ask("u=eve&p=e", "SHOW STORAGE FROM m").0, 403);
    assert_eq!(ask("u=bob&p=b", "SHOW STORAGE FROM m").0, 200);
    assert_eq!(ask("u=eve&p=e", "SHOW STORAGE").0, 403);
    assert_eq!(ask("u=bob&p=b", "SHOW STORAGE").0, 200);
    assert_eq!(ask("u=bob&p=b", "SHOW MAINTENANCE").0, 403);
    assert_eq!(ask(admin, "SHOW MAINTENANCE").0, 200);
}
