//! Parts of a backup: a database, a measurement, a range of times, a moment before, under other names; to a server and to a
//! data directory.

use super::client::percent_encode;
use super::command::{backup, nyala, run, url};
use super::kinds::sql;
use super::process::Process;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn ask(server: &Process, database: &str, text: &str) -> Value {
    let target = format!("/query?db={database}&epoch=ns&q={}", percent_encode(text));
    let answer = server.send("POST", &target, b"").expect("an answer").body;
    serde_json::from_slice(&answer).expect("JSON")
}

/// All types, strange names, a field that has another type in another shard, and a policy that is not the default.
fn fill(server: &Process) {
    server.query("CREATE DATABASE d");
    server.query("CREATE RETENTION POLICY second ON d DURATION INF REPLICATION 1 SHARD DURATION 1d");
    let lines = [
        "all,h=a,t=x f=1.5,i=-9007199254740993i,b=true,s=\"a \\\"word\\\", ä\" 1000000000",
        "all,h=a,t=x f=-1e300 2000000000",
        "all,h=b b=false,s=\"\" 1000000000",
        "all i=1i 3000000000",
        "all,h=b later=7i 5000000000000000000",
        "all,h=b later=7.5 1000000000",
        "str\\,ange\\ name,t\\ ag=v\\,al\\=ue fi\\ eld=1 1000000000",
        "times v=1i -5000000000",
        "times v=2i 0",
        "times v=3i 5000000000",
    ];
    for line in lines {
        assert_eq!(server.write(line).status, 204, "{line}");
    }
    let target = "/write?db=d&rp=second";
    assert_eq!(server.send("POST", target, b"all,h=z f=1 7\nother f=2 8").expect("an answer").status, 204);
}

const QUESTIONS: [&str; 7] = [
    "SELECT * FROM \"all\"",
    "SELECT * FROM \"str,ange name\"",
    "SELECT * FROM times",
    "SELECT * FROM second.\"all\"",
    "SELECT * FROM second.other",
    "SHOW SERIES",
    "SHOW FIELD KEYS",
];

fn answers(server: &Process, database: &str) -> Vec<Value> {
    let questions = QUESTIONS.map(|text| {
        // `second` is the same policy in every database.
        ask(server, database, text)
    });
    questions.to_vec()
}

struct Place {
    _dir: tempfile::TempDir,
    backups: PathBuf,
    new: PathBuf,
    server: Process,
}

fn begin(arguments: &[&str]) -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(&dir.path().join("data"), arguments);
    fill(&server);
    Place { backups: dir.path().join("backups"), new: dir.path().join("new"), server, _dir: dir }
}

fn at(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_database_is_restored_to_the_running_server() {
    let Place { backups, server, .. } = &begin(&[]);
    server.query("CREATE RETENTION POLICY limited ON d DURATION INF REPLICATION 1 SHARD DURATION 1d");
    let old = server.send("POST", "/write?db=d&rp=limited", b"old v=1 9").expect("an answer");
    assert_eq!(old.status, 204);
    server.query("ALTER RETENTION POLICY limited ON d FUTURE LIMIT 90m PAST LIMIT 2h");
    let policies = |database: &str| ask(server, "", &format!("SHOW RETENTION POLICIES ON {database}"));
    let limited = |database: &str| ask(server, database, "SELECT * FROM limited.old");
    let (expected, with_limits, old) = (answers(server, "d"), policies("d"), limited("d"));
    backup(server, backups, &[]);
    let url = url(server);
    let restore = ["restore", at(backups), "--url", &url, "--database", "d"];
    // Beside the one that there is.
    let report = nyala(&[&restore[..], &["--as-database", "copy"]].concat());
    assert!(report.contains("copy.autogen.all: 5 points"), "{report}");
    assert_eq!(answers(server, "copy"), expected);
    // In its place, twice: what was written again is the same.
    server.query("DROP DATABASE d");
    nyala(&restore);
    nyala(&restore);
    assert_eq!(answers(server, "d"), expected);
    for database in ["d", "copy"] {
        assert_eq!((policies(database), limited(database)), (with_limits.clone(), old.clone()), "{database}");
    }
    // What came later stays, what is in the backup is as it was.
    assert_eq!(server.write("times v=20i 0\ntimes v=4i 9").status, 204);
    nyala(&restore);
    assert_eq!(server.number("SELECT count(v) FROM times"), 4);
    assert_eq!(server.number("SELECT v FROM times WHERE time = 0"), 2);
}

#[test]
fn a_database_is_restored_to_a_data_directory() {
    let Place { backups, new, server, .. } = &begin(&[]);
    sql(server, "CREATE TABLE t (id int PRIMARY KEY, word text DEFAULT 'none' UNIQUE, price numeric(10,2))");
    sql(server, "CREATE INDEX prices ON t (price)");
    sql(server, "INSERT INTO t VALUES (1, 'one', 1.25), (2, NULL, 2.50)");
    sql(server, "CREATE TABLE hidden (x double precision)");
    sql(server, "INSERT INTO hidden VALUES (1.5), (NULL), (1.5)");
    sql(server, "ALTER TABLE t ADD COLUMN more bigint");
    sql(server, "CREATE INDEX ON t (more, id)");
    sql(server, "UPDATE t SET more = 5 WHERE id = 1");
    sql(server, "ALTER TABLE t DROP COLUMN price");
    sql(server, "CREATE VIEW v AS SELECT word FROM t WHERE id > 1");
    let query = "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO second.mean FROM times GROUP BY time(1h) END";
    server.query(query);
    let expected = answers(server, "d");
    let questions = ["SELECT * FROM t ORDER BY id", "SELECT * FROM hidden ORDER BY x", "SELECT * FROM v"];
    let rows = questions.map(|text| sql(server, text));
    backup(server, backups, &[]);
    let restore = ["restore", at(backups), "--data-dir", at(new), "--database", "d"];
    let report = nyala(&restore);
    assert!(report.contains("d: 2 tables of SQL with 5 rows, 1 views"), "{report}");
    nyala(&restore);
    nyala(&["check", at(new)]);
    let restored = Process::start(new, &[]);
    assert_eq!(answers(&restored, "d"), expected);
    assert_eq!(questions.map(|text| sql(&restored, text)), rows);
    assert_eq!(restored.query("SHOW CONTINUOUS QUERIES"), server.query("SHOW CONTINUOUS QUERIES"));
    // The tables are tables.
    sql(&restored, "INSERT INTO t (id) VALUES (3)");
    sql(&restored, "INSERT INTO hidden VALUES (9)");
    assert!(sql(&restored, "SELECT word FROM t WHERE id = 3").contains("none"));
    assert!(sql(&restored, "SELECT id FROM t WHERE more = 5").contains('1'));
    sql(&restored, "INSERT INTO t (id, word) VALUES (4, 'one') ON CONFLICT (word) DO UPDATE SET more = 6");
    assert!(sql(&restored, "SELECT id FROM t WHERE word = 'one' AND more = 6").contains('1'));
    restored.stop();
    // It has other rows now: entries of theirs would stay beside those of the backup.
    let output = run(&restore);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("not restored: d.t: "), "{text}");
    let restored = Process::start(new, &[]);
    assert!(
        sql(&restored, "SELECT count(*) AS n FROM t WHERE word = 'one' AND more = 6").contains("\"n\":1")
    );
    drop(restored);
    // Another table of that name is left alone, and that is said.
    let other = new.with_extension("other");
    let restored = Process::start(&other, &[]);
    restored.query("CREATE DATABASE d");
    sql(&restored, "CREATE TABLE t (id text PRIMARY KEY)");
    restored.stop();
    let output = run(&["restore", at(backups), "--data-dir", at(&other), "--database", "d"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("not restored: d.t: "), "{text}");
    assert_eq!(answers(&Process::start(&other, &[]), "d"), expected);
}

/// As in PostgreSQL, users are of the server and not of a database; what was granted on it comes back when somebody asks for it.
#[test]
fn grants_on_a_database_come_back_if_they_are_asked_for() {
    let Place { backups, server, new, .. } = &begin(&[]);
    for text in [
        "CREATE USER reader WITH PASSWORD 'secret'",
        "CREATE USER writer WITH PASSWORD 'secret'",
        "CREATE USER gone WITH PASSWORD 'secret'",
        "CREATE TOKEN t FOR writer ON d WRITE",
        "GRANT READ ON d TO reader",
        "GRANT ALL ON d TO writer",
        "GRANT WRITE ON d TO gone",
    ] {
        let answer = server.query(text);
        assert!(answer["results"][0].get("error").is_none(), "{text}: {answer}");
    }
    backup(server, backups, &[]);
    server.query("DROP USER gone");
    server.query("DROP DATABASE d");
    server.query("SET PASSWORD FOR reader = 'another'");
    let (url, grants) =
        (url(server), |user: &str| server.query(&format!("SHOW GRANTS FOR {user}")).to_string());
    let restore = ["restore", at(backups), "--url", &url, "--database", "d"];
    let report = nyala(&restore);
    assert!(report.contains("users, tokens and subscriptions are not restored this way"), "{report}");
    assert!(!grants("reader").contains("READ") && !grants("writer").contains("ALL"), "{}", grants("writer"));
    let output = run(&[&restore[..], &["--grants"]].concat());
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(
        report.contains("granted: READ ON d TO reader\ngranted: ALL PRIVILEGES ON d TO writer"),
        "{report}"
    );
    assert!(report.contains("not restored: WRITE on d to gone: user not found"), "{report}");
    assert!(grants("reader").contains("[\"d\",\"READ\"]"), "{}", grants("reader"));
    assert!(grants("writer").contains("[\"d\",\"ALL PRIVILEGES\"]"), "{}", grants("writer"));
    assert!(!server.query("SHOW USERS").to_string().contains("gone"));
    // The right of the token to the database has ended with that.
    assert!(!server.query("SHOW TOKENS").to_string().contains("WRITE"), "{}", server.query("SHOW TOKENS"));
    // Under another name they are of that.
    nyala(&["restore", at(backups), "--data-dir", at(new), "--database", "d"]);
    run(&[&restore[..], &["--as-database", "then", "--grants"]].concat());
    assert!(grants("reader").contains("[\"then\",\"READ\"]"), "{}", grants("reader"));
    let output = run(&[&restore[..], &["--measurement", "times", "--grants"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && error.contains("--grants needs a whole --database"),
        "{error}"
    );
}

#[test]
fn a_measurement_and_a_range_of_times_are_restored() {
    let Place { backups, server, new, .. } = &begin(&[]);
    let times = ask(server, "d", "SELECT v FROM times");
    backup(server, backups, &[]);
    let url = url(server);
    let restore = |more: &[&str]| nyala(&[&["restore", at(backups), "--url", &url], more].concat());
    let of_times = ["--database", "d", "--measurement", "times"];
    restore(&[&of_times[..], &["--as-measurement", "again"]].concat());
    let mut again = ask(server, "d", "SELECT v FROM again");
    again["results"][0]["series"][0]["name"] = "times".into();
    assert_eq!(again, times);
    let range = ["--from", "1970-01-01", "--to", "1970-01-01T00:00:05Z", "--as-database", "part"];
    restore(&[&of_times[..], &range].concat());
    let part = ask(server, "part", "SELECT v FROM times");
    assert_eq!(part["results"][0]["series"][0]["values"], serde_json::json!([[0, 2]]), "{part}");
    assert_eq!(ask(server, "part", "SHOW MEASUREMENTS")["results"][0]["series"][0]["values"][0][0], "times");
    restore(&["--database", "d", "--retention-policy", "second", "--as-database", "of_policy"]);
    assert_eq!(
        ask(server, "of_policy", "SELECT * FROM second.other"),
        ask(server, "d", "SELECT * FROM second.other")
    );
    assert_eq!(
        ask(server, "of_policy", "SHOW SERIES")["results"][0]["series"][0]["values"].as_array().map(Vec::len),
        Some(2)
    );
    nyala(&["restore", at(backups), "--data-dir", at(new), "--database", "d", "--measurement", "times"]);
    let restored = Process::start(new, &[]);
    assert_eq!(ask(&restored, "d", "SELECT v FROM times"), times);
    assert_eq!(ask(&restored, "d", "SHOW MEASUREMENTS"), ask(server, "part", "SHOW MEASUREMENTS"));
    for (wrong, words) in [
        (&["--database", "nothing"][..], "no database \"nothing\""),
        (&["--database", "d", "--measurement", "nothing"], "no measurement \"nothing\""),
        (&["--database", "d", "--retention-policy", "nothing"], "no such retention policy"),
        (&["--as-database", "x"], "--as-database needs one --database"),
        (&["--database", "d", "--as-measurement", "x"], "--as-measurement needs"),
        (&["--from", "2026-01-02", "--to", "2026-01-01"], "--from is not before --to"),
        (&["--at", "2099-01-01"], "was made before that moment"),
        (&["--at", "2001-01-01"], "what was at 2001-01-01T00:00:00Z is not known any more"),
    ] {
        let output = run(&[&["restore", at(backups), "--url", &url], wrong].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(words), "{wrong:?}: {error}");
    }
}

/// A field of the target has another type there, so no point of it is stored.
#[test]
fn points_that_are_refused_are_not_counted_as_restored() {
    let Place { backups, server, new, .. } = &begin(&[]);
    backup(server, backups, &[]);
    let other = Process::start(new, &[]);
    for server in [server, &other] {
        server.query("CREATE DATABASE copy");
        let written = server.send("POST", "/write?db=copy", b"times v=\"a text\" 1").expect("an answer");
        assert_eq!(written.status, 204);
    }
    other.stop();
    let url = url(server);
    for target in [["--url", &*url], ["--data-dir", at(new)]] {
        let selected = ["--database", "d", "--measurement", "times", "--as-database", "copy"];
        let output = run(&[&["restore", at(backups)][..], &target[..], &selected[..]].concat());
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert!(report.contains("copy.autogen.times: 0 points\nnot restored: points of copy"), "{report}");
        assert!(report.contains("\n0 points were restored from "), "{report}");
    }
}

/// As lines, with all their names, rows are many times as long as the columns that they are read as.
#[test]
fn long_rows_are_sent_in_requests_that_a_server_takes() {
    const ROWS: usize = 6000;
    let Place { backups, server, new, .. } = &begin(&["--max-body-size", "5MB"]);
    let names = ["one", "two", "three"].map(|name| name.repeat(100));
    let row = |row: usize| format!("long {}=1,{}=2,{}=3 {row}\n", names[0], names[1], names[2]);
    for part in 0..3 {
        let lines: String = (part * ROWS / 3..(part + 1) * ROWS / 3).map(row).collect();
        assert_eq!(server.write(&lines).status, 204);
    }
    backup(server, backups, &[]);
    let to = |server: &Process, name: &str| {
        let url = url(server);
        run(&["restore", at(backups), "--url", &url, "--database", "d", "--as-database", name])
    };
    let output = to(server, "copy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count = ask(server, "copy", &format!("SELECT count({}) FROM long", names[2]));
    assert_eq!(count["results"][0]["series"][0]["values"][0][1], ROWS, "{count}");
    // A server that takes short requests gets short ones.
    let small = Process::start(new, &["--max-body-size", "20KB"]);
    let output = to(&small, "copy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ask(&small, "copy", QUESTIONS[0]), ask(server, "d", QUESTIONS[0]));
    let count = ask(&small, "copy", &format!("SELECT count({}) FROM long", names[2]));
    assert_eq!(count["results"][0]["series"][0]["values"][0][1], ROWS, "{count}");
    // Lines that it does not take are named, and the others are restored.
    let tiny = Process::start(&new.with_extension("tiny"), &["--max-body-size", "512"]);
    let output = to(&tiny, "copy");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("bytes is refused (413)"), "{report}");
    assert_eq!(ask(&tiny, "copy", QUESTIONS[0]), ask(server, "d", QUESTIONS[0]));
}

#[test]
fn a_moment_before_the_backup_is_restored() {
    let Place { backups, server, .. } = &begin(&["--history", "1h"]);
    sql(server, "CREATE TABLE t (id int PRIMARY KEY, word text)");
    sql(server, "INSERT INTO t VALUES (1, 'before')");
    let expected = answers(server, "d");
    std::thread::sleep(Duration::from_millis(100));
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.write("times v=99i 0\ntimes v=5i 77\nnew v=1 1").status, 204);
    server.query("DELETE FROM \"all\" WHERE h = 'a'");
    sql(server, "UPDATE t SET word = 'after'");
    sql(server, "INSERT INTO t VALUES (2, 'after')");
    backup(server, backups, &[]);
    let (url, moment) = (url(server), now.to_string());
    let report = nyala(&[
        "restore",
        at(backups),
        "--url",
        &url,
        "--database",
        "d",
        "--measurement",
        "times",
        "--at",
        &moment,
        "--as-database",
        "then",
    ]);
    assert_eq!(ask(server, "then", "SELECT * FROM times"), expected[2]);
    assert!(report.contains("dropped as a whole after that moment"), "{report}");
    let new = backups.with_extension("new");
    nyala(&["restore", at(backups), "--data-dir", at(&new), "--at", &moment]);
    let restored = Process::start(&new, &[]);
    assert_eq!(answers(&restored, "d"), expected);
    let rows = sql(&restored, "SELECT * FROM t");
    assert!(rows.contains("before") && !rows.contains("after"), "{rows}");
}
