//! `nyala import influxdb`: a real InfluxDB writes, overwrites and deletes, its answers are recorded, it is stopped, its
//! files are imported, and nyala must answer the same.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod server;

use client::{Request, percent_encode};
use process::Process;
use serde_json::Value;
use server::{Program, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Settings with which InfluxDB moves its log to TSM files at once, or hardly ever. Files with tombstones stay.
fn settings(snapshots_at_once: bool) -> Vec<(String, String)> {
    let cold = if snapshots_at_once { "1s" } else { "1h" };
    [("cache-snapshot-write-cold-duration", cold), ("compact-full-write-cold-duration", "1h")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

fn post(influx: &Server, target: &str, body: &str) -> client::Response {
    let request = Request {
        method: "POST".to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    };
    influx.send(&request).expect("an answer")
}

fn write(influx: &Server, place: &str, lines: &str) {
    let response = post(influx, &format!("/write?{place}"), lines);
    assert_eq!(response.status, 204, "{}", String::from_utf8_lossy(&response.body));
}

fn ask(influx: &Server, database: &str, query: &str) -> Value {
    let target = format!("/query?db={}&epoch=ns&q={}", percent_encode(database), percent_encode(query));
    serde_json::from_slice(&post(influx, &target, "").body).expect("JSON")
}

fn run(influx: &Server, database: &str, query: &str) {
    let answer = ask(influx, database, query);
    assert!(
        answer["results"][0].get("error").is_none() && answer.get("error").is_none(),
        "{query}: {answer}"
    );
}

fn answer(nyala: &Process, database: &str, query: &str) -> Value {
    let target = format!("/query?db={}&epoch=ns&q={}", percent_encode(database), percent_encode(query));
    serde_json::from_slice(&nyala.send("POST", &target, b"").expect("an answer").body).expect("JSON")
}

/// Files below a directory with an extension that are not empty.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|own| own == extension)
                && fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Waits until InfluxDB has moved all of its log to TSM files.
fn wait_for_snapshots(influx: &Server) {
    let data_dir = influx.data_dir();
    let begun = Instant::now();
    while !files(&data_dir.join("wal"), "wal").is_empty() || files(&data_dir.join("data"), "tsm").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(180), "InfluxDB writes no TSM files");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A copy of InfluxDB's directory from a moment at which there are tombstones: a running InfluxDB applies them within a
/// second or two, by rewriting their files.
fn copy_with_tombstones(influx: &Server, directory: &Path) -> PathBuf {
    for number in 0..20 {
        let query =
            format!("DELETE FROM cpu WHERE host = 'b' AND time = '2020-01-16T00:{:02}:00Z'", number + 10);
        run(influx, "plain", &query);
        influx.signal("STOP");
        let copy = directory.join(format!("influxdb-{number}"));
        let copied = Command::new("cp").arg("-a").arg(influx.data_dir()).arg(&copy).status();
        influx.signal("CONT");
        assert!(copied.expect("cp runs").success());
        if !files(&copy.join("data"), "tombstone").is_empty() {
            return copy;
        }
    }
    panic!("there are never tombstones");
}

/// Lets InfluxDB make a portable backup.
fn back_up(program: &Program, influx: &Server, directory: &Path, arguments: &[&str]) {
    let Program::Influx(path) = program else { panic!("only InfluxDB makes such backups") };
    let mut command = Command::new(path);
    command.args(["backup", "-portable", "-host", &influx.backup_address().to_string()]).args(arguments);
    let output = command.arg(directory).output().expect("influxd runs");
    assert!(output.status.success(), "{}", text(&output));
}

fn import(influx_dir: &Path, data_dir: &Path, arguments: &[&str]) -> Output {
    let mut command = import_command(influx_dir, data_dir, arguments);
    command.output().expect("nyala runs")
}

fn import_command(influx_dir: &Path, data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.args(["import", "influxdb", "--data-dir"]).arg(data_dir).args(arguments).arg(influx_dir);
    command.stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The answers of InfluxDB to queries (database, text).
fn record(influx: &Server, queries: &[(&str, &str)]) -> Vec<Value> {
    queries.iter().map(|(database, query)| ask(influx, database, query)).collect()
}

fn compare(nyala: &Process, queries: &[(&str, &str)], recorded: &[Value]) {
    let mut differences = Vec::new();
    for ((database, query), expected) in queries.iter().zip(recorded) {
        let answered = answer(nyala, database, query);
        if answered != *expected {
            let shown = |answer: &Value| answer.to_string().chars().take(2000).collect::<String>();
            differences.push(format!("{database}: {query}\n{}\n{}", shown(&answered), shown(expected)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Every value of a database's default policy, and names that belong to all policies.
const VALUES: [&str; 4] = [
    "SELECT * FROM /.*/ GROUP BY *",
    "SELECT count(*) FROM /.*/",
    "SHOW MEASUREMENTS",
    "SHOW RETENTION POLICIES",
];
/// Names that nyala shows of the default policy.
const NAMES: [&str; 4] =
    ["SHOW SERIES", "SHOW TAG KEYS", "SHOW TAG VALUES WITH KEY =~ /.*/", "SHOW FIELD KEYS"];

fn hour_lines(measurement: &str, first_ns: i64, hours: i64, salt: i64) -> String {
    let mut lines = String::new();
    for minute in 0..hours * 60 {
        let time_ns = first_ns + minute * 60_000_000_000;
        for host in ["a", "b"] {
            lines += &format!(
                "{measurement},host={host} usage={},count={}i,busy={},state=\"s{}\" {time_ns}\n",
                (minute * 37 + salt) % 1000 * 10 + 5,
                minute * minute - salt,
                (minute + salt) % 3 == 0,
                minute % 7
            );
        }
        if minute % 10 == 0 {
            lines += &format!("{measurement},host=a rare={} {}\n", minute as f64 / 16.0, time_ns + 1);
        }
    }
    lines
}

const DAY_NS: i64 = 86_400_000_000_000;
/// 2020-01-02, a Thursday: a week of shards begins there.
const BASE_NS: i64 = 1_577_923_200_000_000_000;

#[test]
fn nyala_answers_what_influxdb_answered() {
    let Some((program, has_unsigned)) = peers::influxd_with_unsigned() else { return };
    let program = Program::Influx(program);
    let mut influx = Server::start(&program, &settings(true)).expect("InfluxDB starts");
    run(&influx, "", "CREATE DATABASE plain");
    run(&influx, "", "CREATE DATABASE other WITH DURATION INF SHARD DURATION 1d NAME \"days\"");
    run(
        &influx,
        "",
        "CREATE RETENTION POLICY \"long one\" ON other DURATION 520w REPLICATION 1 SHARD DURATION 4w",
    );
    run(
        &influx,
        "",
        "CREATE RETENTION POLICY hours ON plain DURATION 24000d REPLICATION 1 SHARD DURATION 30d DEFAULT",
    );
    run(
        &influx,
        "plain",
        "CREATE CONTINUOUS QUERY means ON plain BEGIN SELECT mean(usage) AS usage INTO means FROM autogen.cpu GROUP BY time(1h), host END",
    );
    run(
        &influx,
        "",
        "CREATE SUBSCRIPTION copies ON other.days DESTINATIONS ANY 'udp://127.0.0.1:9', 'http://127.0.0.1:9'",
    );
    run(&influx, "", "CREATE USER \"the admin\" WITH PASSWORD 'secret' WITH ALL PRIVILEGES");
    run(&influx, "", "CREATE USER reader WITH PASSWORD 'secret'");
    run(&influx, "", "GRANT READ ON plain TO reader");
    run(&influx, "", "CREATE USER writer WITH PASSWORD 'secret'");
    run(&influx, "", "GRANT ALL ON other TO writer");

    // Regular data over several shards, then other types, times and names.
    let place = "db=plain&rp=autogen";
    for week in 0..3 {
        write(&influx, place, &hour_lines("cpu", BASE_NS + week * 7 * DAY_NS, 12, week));
    }
    write(&influx, "db=other&rp=days", &hour_lines("cpu", BASE_NS, 50, 9));
    write(&influx, "db=other&rp=long%20one", &hour_lines("rare", BASE_NS + 2000 * DAY_NS, 3, 1));
    let odd = [
        "extreme v=1 -9223372036854775806",
        "extreme v=2 9223372036854775806",
        "extreme v=-0.0 -1",
        "extreme v=1.7976931348623157e308,i=-9223372036854775808i 0",
        "extreme v=5e-324,i=9223372036854775807i 1",
        "extreme i=1i 999999999999999999",
        r#"na\ me\,x=y,t\ k\=1=v\,\ \=z,u=ü s="with \"quotes\", commas, \\ and
a newline" 10"#,
        r#"na\ me\,x=y,t\ k\=1=v\,\ \=z,u=ü f\ \,x=1,empty="" 11"#,
        "m,a=1 x=1 5",
        "m,a=1,b=2 x=2 5",
        "m x=3,on=true 5",
    ];
    write(&influx, place, &odd.join("\n"));
    if has_unsigned {
        write(&influx, place, "unsigned u=18446744073709551615u 1\nunsigned u=0u 2\nunsigned u=7u 3");
    }
    wait_for_snapshots(&influx);

    // Overwritten and deleted, in TSM files and before they are made.
    write(&influx, place, &hour_lines("cpu", BASE_NS + DAY_NS / 4, 3, 77));
    run(
        &influx,
        "plain",
        "DELETE FROM cpu WHERE host = 'a' AND time >= '2020-01-02T03:00:00Z' AND time < '2020-01-02T04:30:00Z'",
    );
    run(&influx, "other", "DROP SERIES FROM cpu WHERE host = 'b'");
    write(&influx, place, "gone v=1 1\ngone,t=x v=2 2\nkept v=1 1");
    run(&influx, "plain", "DROP MEASUREMENT gone");
    // A field has another type in another shard.
    write(&influx, place, &format!("mixed v=1i {BASE_NS}\nmixed v=2i {}", BASE_NS + 1));
    write(&influx, place, &format!("mixed v=1.5 {}", BASE_NS + 70 * DAY_NS));
    write(&influx, place, &format!("mixed v=\"text\" {}", BASE_NS + 140 * DAY_NS));
    write(&influx, place, &format!("mixed v=true {}", BASE_NS + 210 * DAY_NS));
    wait_for_snapshots(&influx);

    // What is in the log only, with deletions there.
    influx.restart_with(&settings(false)).expect("InfluxDB starts again");
    write(&influx, place, &hour_lines("cpu", BASE_NS + DAY_NS / 3, 2, 500));
    write(&influx, place, &hour_lines("late", BASE_NS + DAY_NS, 2, 3));
    run(&influx, "plain", "DELETE FROM late WHERE host = 'b' AND time < '2020-01-03T01:00:00Z'");
    write(&influx, place, &format!("late,host=b usage=1 {}", BASE_NS + DAY_NS));
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("nyala");
    let copy = copy_with_tombstones(&influx, directory.path());
    assert!(!files(&copy.join("wal"), "wal").is_empty(), "there is no log");

    let mut queries: Vec<(&str, &str)> = Vec::new();
    queries.extend(VALUES.map(|query| ("other", query)));
    queries.extend(VALUES.map(|query| ("plain", query)));
    for query in [
        "SELECT * FROM autogen./.*/ GROUP BY *",
        "SELECT count(*) FROM autogen./.*/",
        "SELECT v::float FROM autogen.mixed",
        "SELECT v::integer FROM autogen.mixed",
        "SELECT v::string FROM autogen.mixed",
        "SELECT v::boolean FROM autogen.mixed",
        "SELECT mean(usage), max(count), last(state) FROM autogen.cpu GROUP BY host",
        "SELECT sum(usage) FROM autogen.cpu WHERE time >= '2020-01-01T00:00:00Z' AND time < '2020-02-01T00:00:00Z' GROUP BY time(1d), host",
    ] {
        queries.push(("plain", query));
    }
    queries.push(("other", "SELECT * FROM \"long one\"./.*/ GROUP BY *"));
    for query in [
        "SHOW DATABASES",
        "SHOW USERS",
        "SHOW GRANTS FOR reader",
        "SHOW GRANTS FOR writer",
        "SHOW CONTINUOUS QUERIES",
        "SHOW SUBSCRIPTIONS",
        "SHOW RETENTION POLICIES ON other",
    ] {
        queries.push(("", query));
    }
    let recorded = record(&influx, &queries);

    let refused = import(&influx.data_dir(), &data_dir, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("is in use: process"), "{}", text(&refused));
    influx.stop(false).expect("InfluxDB stops");

    let listed = import(&copy, &data_dir, &["--dry-run"]);
    assert!(listed.status.success(), "{}", text(&listed));
    assert!(text(&listed).contains("retention policy \"days\", the default"), "{}", text(&listed));
    assert!(!data_dir.exists(), "--dry-run wrote something");

    let imported = import(&copy, &data_dir, &[]);
    assert!(imported.status.success(), "{}", text(&imported));
    let report = text(&imported);
    assert!(report.contains("users without a password: \"the admin\", \"reader\", \"writer\""), "{report}");
    assert!(report.contains("everything was imported"), "{report}");
    let nyala = Process::start(&data_dir, &[]);
    compare(&nyala, &queries, &recorded);
    assert!(nyala.stop().success());

    // Once more: nothing is read again, and nothing changes.
    let again = import(&copy, &data_dir, &[]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("0 shards with 0 values"), "{}", text(&again));
    // All of it again, over what is there.
    fs::remove_file(data_dir.join("influxdb-import.journal")).expect("there is a journal");
    let repeated = import(&copy, &data_dir, &[]);
    assert!(repeated.status.success(), "{}", text(&repeated));
    let nyala = Process::start(&data_dir, &[]);
    compare(&nyala, &queries, &recorded);
}

#[test]
fn an_import_that_is_killed_goes_on_where_it_was() {
    let Some(program) = peers::influxd().map(Program::Influx) else { return };
    let mut influx = Server::start(&program, &settings(true)).expect("InfluxDB starts");
    run(&influx, "", "CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d NAME r");
    for day in 0..12 {
        write(&influx, "db=d", &hour_lines("cpu", BASE_NS + day * DAY_NS, 24, day));
    }
    wait_for_snapshots(&influx);
    let queries: Vec<(&str, &str)> = VALUES.iter().chain(&NAMES).map(|query| ("d", *query)).collect();
    let recorded = record(&influx, &queries);
    influx.stop(false).expect("InfluxDB stops");
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("nyala");
    let begin = || {
        let mut command = import_command(&influx.data_dir(), &data_dir, &[]);
        command.stdout(Stdio::piped()).spawn().expect("nyala runs")
    };
    // The first is killed when it has done a shard. It may be quicker than who kills it: then once more from the beginning.
    let has_done = || {
        let journal = fs::metadata(data_dir.join("influxdb-import.journal"));
        journal.is_ok_and(|journal| journal.len() > 0)
    };
    let is_killed = (0..20).any(|_| {
        let mut child = begin();
        while !has_done() && child.try_wait().expect("can be asked").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("can be killed");
        let is_killed = !child.wait().expect("ends").success() && has_done();
        if !is_killed {
            fs::remove_dir_all(&data_dir).expect("removed");
        }
        is_killed
    });
    assert!(is_killed, "it always comes to its end");
    // The others are killed later and later, until one gets to its end.
    let mut pause = Duration::from_millis(30);
    let report = loop {
        let mut child = begin();
        std::thread::sleep(pause);
        pause = pause * 5 / 4;
        if child.try_wait().expect("can be asked").is_none() {
            child.kill().expect("can be killed");
            child.wait().expect("ends");
            continue;
        }
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", text(&output));
        break text(&output);
    };
    assert!(!report.contains("; 0 shards had been imported before"), "the first had done one: {report}");
    let nyala = Process::start(&data_dir, &[]);
    compare(&nyala, &queries, &recorded);
}

#[test]
fn damage_is_named_and_everything_else_is_imported() {
    let Some(program) = peers::influxd().map(Program::Influx) else { return };
    let mut influx = Server::start(&program, &settings(true)).expect("InfluxDB starts");
    run(&influx, "", "CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d NAME r");
    for day in 0..3 {
        write(&influx, "db=d", &hour_lines("cpu", BASE_NS + day * DAY_NS, 2, day));
    }
    wait_for_snapshots(&influx);
    influx.stop(false).expect("InfluxDB stops");
    let tsm = files(&influx.data_dir().join("data"), "tsm");
    assert_eq!(tsm.len(), 3);
    // A bit of the first block of one file, the end of another.
    let mut bytes = fs::read(&tsm[0]).expect("readable");
    bytes[20] ^= 1;
    fs::write(&tsm[0], &bytes).expect("writable");
    let bytes = fs::read(&tsm[1]).expect("readable");
    fs::write(&tsm[1], &bytes[..bytes.len() / 2]).expect("writable");
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("nyala");
    let imported = import(&influx.data_dir(), &data_dir, &[]);
    let report = text(&imported);
    assert_eq!(imported.status.code(), Some(1), "{report}");
    assert!(report.contains(&format!("{}, byte 5: the checksum of a block", tsm[0].display())), "{report}");
    assert!(report.contains(&format!("{}, byte ", tsm[1].display())), "{report}");
    assert!(report.contains("the import is incomplete"), "{report}");
    // Asked again, it is still incomplete.
    assert_eq!(import(&influx.data_dir(), &data_dir, &[]).status.code(), Some(1));
    let nyala = Process::start(&data_dir, &[]);
    let day = |day: i64| {
        let first = BASE_NS + day * DAY_NS;
        let query =
            format!("SELECT count(usage) FROM cpu WHERE time >= {first} AND time < {}", first + DAY_NS);
        nyala.number(&query)
    };
    assert_eq!((day(0), day(1), day(2)), (240, 0, 240));
    // The block that is lost is that of `busy` of host a.
    assert_eq!(nyala.number("SELECT count(busy) FROM cpu"), 120 + 240);
}

#[test]
fn portable_backups_are_imported() {
    let Some(program) = peers::influxd().map(Program::Influx) else { return };
    let mut influx = Server::start(&program, &settings(false)).expect("InfluxDB starts");
    run(&influx, "", "CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d NAME r");
    run(
        &influx,
        "",
        "CREATE RETENTION POLICY \"long one\" ON d DURATION 520w REPLICATION 1 SHARD DURATION 4w",
    );
    run(&influx, "", "CREATE DATABASE \"other one\" WITH DURATION INF NAME r");
    run(&influx, "", "CREATE USER reader WITH PASSWORD 'secret'");
    for day in 0..3 {
        write(&influx, "db=d", &hour_lines("cpu", BASE_NS + day * DAY_NS, 2, day));
    }
    write(&influx, "db=d&rp=long%20one", &hour_lines("rare", BASE_NS + 2000 * DAY_NS, 1, 1));
    write(&influx, "db=other%20one", "m v=1 1");
    let directory = tempfile::tempdir().expect("a directory");
    let (backups, one) = (directory.path().join("backups"), directory.path().join("one"));
    back_up(&program, &influx, &backups, &[]);

    // A second backup beside the first: two shards have changed, one is there no more.
    write(&influx, "db=d", &hour_lines("cpu", BASE_NS + DAY_NS, 3, 77));
    run(&influx, "d", "DELETE FROM cpu WHERE host = 'a' AND time < '2020-01-02T01:00:00Z'");
    let first = files(&backups, "manifest");
    while files(&backups, "manifest") == first {
        // Names of backups have no parts of a second.
        std::thread::sleep(Duration::from_millis(200));
        back_up(&program, &influx, &backups, &[]);
    }
    back_up(&program, &influx, &one, &["-db", "other one"]);
    let queries: Vec<(&str, &str)> = VALUES
        .iter()
        .chain(&["SHOW TAG KEYS", "SELECT * FROM \"long one\"./.*/ GROUP BY *"])
        .map(|query| ("d", *query))
        .chain(VALUES.iter().map(|query| ("other one", *query)))
        .chain([("", "SHOW DATABASES"), ("", "SHOW USERS")])
        .collect();
    let recorded = record(&influx, &queries);
    influx.stop(false).expect("InfluxDB stops");

    let data_dir = directory.path().join("nyala");
    let listed = import(&backups, &data_dir, &["--dry-run"]);
    assert!(listed.status.success(), "{}", text(&listed));
    assert!(text(&listed).contains("retention policy \"long one\": keeps"), "{}", text(&listed));
    assert!(!data_dir.exists(), "--dry-run wrote something");
    let imported = import(&backups, &data_dir, &[]);
    assert!(imported.status.success(), "{}", text(&imported));
    assert!(text(&imported).contains("everything was imported"), "{}", text(&imported));
    let nyala = Process::start(&data_dir, &[]);
    compare(&nyala, &queries, &recorded);
    assert!(nyala.stop().success());
    let left: Vec<_> = fs::read_dir(&data_dir)
        .expect("readable")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("influxdb-shard-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let again = import(&backups, &data_dir, &[]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("0 shards with 0 values"), "{}", text(&again));

    // A backup of one database has the settings of all, and nothing tells that it is one.
    let of_one = directory.path().join("nyala-one");
    let imported = import(&one, &of_one, &["--database", "other one"]);
    assert!(imported.status.success(), "{}", text(&imported));
    let nyala = Process::start(&of_one, &[]);
    assert_eq!(
        answer(&nyala, "", "SHOW DATABASES")["results"][0]["series"][0]["values"],
        serde_json::json!([["other one"]])
    );
    assert!(nyala.stop().success());

    // An archive that is cut off, and one that is gone.
    let archives = files(&one, "gz");
    let bytes = fs::read(&archives[0]).expect("readable");
    fs::write(&archives[0], &bytes[..bytes.len() / 2]).expect("writable");
    let cut = import(&one, &directory.path().join("nyala-cut"), &[]);
    assert_eq!(cut.status.code(), Some(1), "{}", text(&cut));
    assert!(
        text(&cut).contains(&format!("{}, byte 0: its end cannot be read", archives[0].display())),
        "{}",
        text(&cut)
    );
    fs::remove_file(&archives[0]).expect("removed");
    let gone = import(&one, &directory.path().join("nyala-gone"), &[]);
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone));
    assert!(text(&gone).contains("is missing: shard"), "{}", text(&gone));
}

#[test]
fn parts_can_be_imported_and_foreign_directories_are_refused() {
    let Some(program) = peers::influxd().map(Program::Influx) else { return };
    let mut influx = Server::start(&program, &settings(false)).expect("InfluxDB starts");
    run(&influx, "", "CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d NAME r");
    run(&influx, "", "CREATE DATABASE e");
    write(&influx, "db=d", &hour_lines("cpu", BASE_NS, 48, 0));
    write(&influx, "db=e", "m v=1 1");
    // Far in the past, in a policy that is shortened afterwards.
    run(&influx, "", "CREATE RETENTION POLICY short ON e DURATION 0s REPLICATION 1 SHARD DURATION 1h");
    write(&influx, "db=e&rp=short", "m v=1 1000000000000000000");
    run(&influx, "", "ALTER RETENTION POLICY short ON e DURATION 2h");
    influx.stop(false).expect("InfluxDB stops");
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("nyala");
    let arguments = ["--database", "d", "--from", "2020-01-02T10:00:00Z", "--to", "2020-01-03"];
    let imported = import(&influx.data_dir(), &data_dir, &arguments);
    assert!(imported.status.success(), "{}", text(&imported));
    let nyala = Process::start(&data_dir, &[]);
    assert_eq!(nyala.number("SELECT count(usage) FROM cpu"), 14 * 60 * 2);
    assert_eq!(
        answer(&nyala, "", "SHOW DATABASES")["results"][0]["series"][0]["values"],
        serde_json::json!([["d"]])
    );
    let refused = import(&influx.data_dir(), &data_dir, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("stop it first"), "{}", text(&refused));
    assert!(nyala.stop().success());

    let all = import(&influx.data_dir(), &data_dir, &["--database", "e"]);
    assert!(all.status.success(), "{}", text(&all));
    assert!(text(&all).contains("1 points were left out: they are older"), "{}", text(&all));

    for (arguments, words) in
        [(["--database", "x"], "there is no database \"x\""), (["--from", "x"], "neither a time")]
    {
        let refused = import(&influx.data_dir(), &data_dir, &arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused).contains(words), "{}", text(&refused));
    }
    let foreign = import(directory.path(), &data_dir, &[]);
    assert_eq!(foreign.status.code(), Some(2));
    assert!(text(&foreign).contains("is not a directory of InfluxDB:"), "{}", text(&foreign));
}
