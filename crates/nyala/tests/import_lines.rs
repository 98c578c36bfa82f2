//! `nyala import lines`: what a real InfluxDB stores is exported by its own tool and imported, and nyala must answer the same; files
//! with mistakes; imports that go on.
#![cfg(feature = "sql")]

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
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const REMEDY: &str = "go install github.com/influxdata/influxdb/cmd/influx_inspect@v1.8.10";

/// Runs `nyala import lines` in a directory. Returns its exit code and all that it printed.
fn import(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.args(["import", "lines"]).args(arguments).current_dir(directory).stdin(Stdio::null());
    let ran = command.output().expect("nyala runs");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code().unwrap_or(-1), shown(&ran.stdout) + &shown(&ran.stderr))
}

fn answer(nyala: &Process, database: &str, query: &str) -> Value {
    let target = format!("/query?db={}&epoch=ns&q={}", percent_encode(database), percent_encode(query));
    serde_json::from_slice(&nyala.send("POST", &target, b"").expect("an answer").body).expect("JSON")
}

fn count(nyala: &Process, database: &str, from: &str) -> Value {
    answer(nyala, database, &format!("SELECT count(v) FROM {from}"))["results"][0]["series"][0]["values"][0]
        [1]
    .clone()
}

/// A server with a database `d`, in a directory in which commands run, and the arguments that name it.
fn start(directory: &Path) -> (Process, [String; 2]) {
    let nyala = Process::start(&directory.join("data"), &[]);
    nyala.query("CREATE DATABASE d");
    let port = nyala.address.port().to_string();
    (nyala, ["--port".to_owned(), port])
}

fn post(influx: &Server, target: &str, body: &str) -> Value {
    let request = Request {
        method: "POST".to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: body.into(),
    };
    let response = influx.send(&request).expect("an answer");
    assert!(response.status < 300, "{target}: {}", String::from_utf8_lossy(&response.body));
    serde_json::from_slice(&response.body).unwrap_or(Value::Null)
}

/// Sorts the rows of an answer.
fn sort_rows(answer: &mut Value) {
    for series in answer["results"][0]["series"].as_array_mut().into_iter().flatten() {
        if let Some(rows) = series["values"].as_array_mut() {
            rows.sort_by_key(Value::to_string);
        }
    }
}

#[test]
fn what_influxdb_exports_is_answered_as_influxdb_answered_it() {
    let inspect = peers::works("influx_inspect", &["help"]).then_some("influx_inspect");
    let Some(inspect) = peers::require("influx_inspect 1.8.10", REMEDY, inspect) else { return };
    let Some(program) = peers::influxd().map(Program::Influx) else { return };
    let at_once = [("cache-snapshot-write-cold-duration".to_owned(), "1s".to_owned())];
    let mut influx = Server::start(&program, &at_once).expect("InfluxDB starts");
    let ask = |influx: &Server, database: &str, query: &str| {
        post(
            influx,
            &format!("/query?db={}&epoch=ns&q={}", percent_encode(database), percent_encode(query)),
            "",
        )
    };
    ask(&influx, "", r#"CREATE DATABASE "my db" WITH DURATION INF NAME "w:1""#);
    ask(&influx, "", "CREATE DATABASE plain");
    ask(&influx, "", "CREATE RETENTION POLICY second ON plain DURATION INF REPLICATION 1");
    let odd = [
        "extreme v=1 -9223372036854775806",
        "extreme v=2 9223372036854775806",
        "extreme v=1.7976931348623157e308,i=-9223372036854775808i 0",
        "extreme v=5e-324,i=9223372036854775807i,b=true 1",
        r#"na\ me\,x=y,t\ k\=1=v\,\ \=z,u=ü s="with \"quotes\", commas, \\ and
# a newline",empty="" 10"#,
        r#"na\ me\,x=y,t\ k\=1=v\,\ \=z,u=ü f\ \,x=1 11"#,
        "twice v=1,w=1 5",
    ];
    post(&influx, "/write?db=plain", &odd.join("\n"));
    post(&influx, "/write?db=my%20db", &odd.join("\n"));
    let many = |salt: i64| -> String {
        let line = |at: i64| {
            let time = 1_577_923_200_000_000_000 + at * 60_000_000_000;
            format!("cpu,host=h{} v={},n={at}i,s=\"s{}\" {time}\n", at % 7, at * salt % 1000, at % 5)
        };
        (0..20_000).map(line).collect()
    };
    post(&influx, "/write?db=plain&rp=second", &many(3));
    // Values in files, and others over them and beside them in the log.
    std::thread::sleep(Duration::from_secs(3));
    post(&influx, "/write?db=plain", "twice v=2 5\ntwice v=3 6");
    post(&influx, "/write?db=my%20db", &many(7));

    let everything = "SELECT * FROM /.*/ GROUP BY *";
    let queries = [
        ("plain", "SELECT * FROM extreme, \"na me,x=y\", twice GROUP BY *"),
        ("plain", "SELECT * FROM second.cpu GROUP BY *"),
        ("my db", everything),
        ("my db", "SHOW SERIES"),
        ("my db", "SHOW FIELD KEYS"),
        ("plain", "SHOW RETENTION POLICIES"),
        ("", "SHOW DATABASES"),
    ];
    let recorded = queries.map(|(database, query)| ask(&influx, database, query));
    influx.stop(false).expect("InfluxDB stops");
    let directory = tempfile::tempdir().expect("a directory");
    let (data, wal) = (influx.data_dir().join("data"), influx.data_dir().join("wal"));
    let export = |out: &str, arguments: &[&str]| {
        let mut command = Command::new(inspect);
        command.arg("export").arg("-datadir").arg(&data).arg("-waldir").arg(&wal).args(arguments);
        let ran = command.arg("-out").arg(directory.path().join(out)).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    export("all.gz", &["-compress"]);
    export("second.lp", &["-lponly", "-database", "plain", "-retention", "second"]);

    let data_dir = directory.path().join("nyala");
    let arguments = ["--data-dir", data_dir.to_str().expect("UTF-8"), "all.gz"];
    let (code, printed) = import(directory.path(), &arguments);
    assert_eq!(code, 0, "{printed}");
    assert!(
        printed.contains(" points of 1 file were sent in ") && printed.contains(", and all are written\n"),
        "{printed}"
    );
    let nyala = Process::start(&data_dir, &[]);
    for ((database, query), expected) in queries.iter().zip(&recorded) {
        let shown = |answer: &Value| answer.to_string().chars().take(1000).collect::<String>();
        let (mut answered, mut expected) = (answer(&nyala, database, query), expected.clone());
        if query.starts_with("SHOW") {
            // The program exports databases and policies in any order, in which they are created.
            [&mut answered, &mut expected].into_iter().for_each(sort_rows);
        }
        assert!(answered == expected, "{database}: {query}\n{}\n{}", shown(&answered), shown(&expected));
    }
    // Lines alone, into another place of a running server.
    nyala.query("CREATE DATABASE elsewhere WITH NAME kept");
    nyala.query("CREATE RETENTION POLICY other ON elsewhere DURATION INF REPLICATION 1");
    let port = nyala.address.port().to_string();
    let to = ["--port", &port, "-d", "elsewhere", "--retention-policy", "other", "second.lp"];
    assert_eq!(import(directory.path(), &to).0, 0);
    assert_eq!(answer(&nyala, "elsewhere", "SELECT * FROM other.cpu GROUP BY *"), recorded[1]);
    // A policy that is there stays as it is, and the points of the file go into it. Its statements are not those of `-d`.
    let (code, printed) = import(directory.path(), &["--port", &port, "-d", "elsewhere", "all.gz"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(count(&nyala, "elsewhere", "kept.cpu"), 20_000);
}

#[test]
fn lines_that_are_refused_are_named_and_keep_no_others_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let (nyala, [flag, port]) = start(directory.path());
    let text =
        "# a comment\n\nm v=1 1\nm v= 2\n# another\n\nm v=2 3\r\nm s=\"two\nlines\" 4\nm v=x 5\nm v=3 7";
    std::fs::write(directory.path().join("some.lp"), text).expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "-d", "d", "some.lp"]);
    let at = |line: &str| text.lines().position(|own| own.starts_with(line)).expect("it is there") + 1;
    assert_eq!(code, 1, "{printed}");
    for wanted in [
        "6 points of 1 file were sent in ".to_owned(),
        "; 3 were refused:".to_owned(),
        format!("refused: some.lp, line {}, column 5: expected a value after =\n", at("m v= 2")),
        format!("refused: some.lp, line {}, column 8: expected an integer timestamp\n", at("m v=2 3")),
        format!("refused: some.lp, line {}, column 5: expected a number, t, true", at("m v=x")),
    ] {
        assert!(printed.contains(&wanted), "{wanted}\n{printed}");
    }
    assert_eq!(count(&nyala, "d", "m"), 2);
    std::fs::write(directory.path().join("types.lp"), "m v=4 8\nm v=\"text\" 9\nm v= 10\n")
        .expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "-d", "d", "types.lp"]);
    assert!(code == 1 && printed.contains("; 2 were refused:"), "{printed}");
    let conflict = "refused: types.lp, from line 1 on: partial write: field type conflict: input field \"v\"";
    assert!(printed.contains(conflict), "{printed}");
    assert!(printed.contains("refused: types.lp, line 3, column 5: expected a value after ="), "{printed}");
    assert_eq!(count(&nyala, "d", "m"), 3);
    // A file of something else is not sent to its end.
    std::fs::write(directory.path().join("not.txt"), "hello\n".repeat(4_000_000)).expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "-d", "d", "not.txt"]);
    assert!(code == 1 && printed.contains("not.txt: it is no line protocol:"), "{printed}");
    assert!(printed.contains("not.txt, line 1, column "), "{printed}");
    std::fs::remove_file(directory.path().join("nyala-import.journal")).expect("it could go on");
    // Nothing but what creates is executed.
    let text = "# DDL\nDROP DATABASE d\nCREATE DATABASE e\n# DML\n# CONTEXT-DATABASE:e\nm v=1 1\n";
    std::fs::write(directory.path().join("drops.txt"), text).expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "drops.txt"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("note: drops.txt, line 2: DROP DATABASE d: only databases"), "{printed}");
    assert_eq!((count(&nyala, "d", "m"), count(&nyala, "e", "m")), (3.into(), 1.into()));
}

#[test]
fn an_import_goes_on_where_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let (nyala, [flag, port]) = start(directory.path());
    let lines = |name: &str, from: u64| -> String {
        (from..from + 300_000)
            .map(|at| format!("{name},host=a v={at},text=\"some words that take space\" {at}\n"))
            .collect()
    };
    let text =
        format!("# DML\n# CONTEXT-DATABASE:d\n{}# CONTEXT-DATABASE:late\n{}", lines("m", 0), lines("m", 5));
    std::fs::write(directory.path().join("two.lp"), &text).expect("it is written");
    let arguments = [&*flag, &*port, "two.lp"];
    let (code, printed) = import(directory.path(), &arguments);
    assert!(code == 1 && printed.contains("database not found: \"late\""), "{printed}");
    assert!(printed.contains("start the same command again to go on"), "{printed}");
    assert_eq!(count(&nyala, "d", "m"), 300_000);
    // What is written is not sent again.
    nyala.query("DROP DATABASE d");
    nyala.query("CREATE DATABASE d");
    nyala.query("CREATE DATABASE late");
    let (code, printed) = import(directory.path(), &arguments);
    assert!(code == 0 && printed.starts_with("300 000 points of 1 file were sent in "), "{printed}");
    assert_eq!((count(&nyala, "d", "m"), count(&nyala, "late", "m")), (Value::Null, 300_000.into()));
    assert!(!directory.path().join("nyala-import.journal").exists());
    // Without a place there is none to guess.
    std::fs::write(directory.path().join("plain.lp"), "m v=1 1\n").expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "plain.lp"]);
    assert!(
        code == 1 && printed.contains("plain.lp, line 1: the file does not say which database"),
        "{printed}"
    );
    // Nothing was sent, so no journal keeps the corrected command away.
    assert_eq!(import(directory.path(), &[&flag, &port, "-d", "d", "plain.lp"]).0, 0);
}

#[test]
fn a_journal_is_of_one_server_and_of_one_command_at_a_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let (nyala, [flag, port]) = start(directory.path());
    let elsewhere = tempfile::tempdir().expect("a directory");
    let (other, [_, other_port]) = start(elsewhere.path());
    other.query("CREATE DATABASE late");
    let text = "# DML\n# CONTEXT-DATABASE:d\nm v=1 1\n# CONTEXT-DATABASE:late\nm v=1 1\n";
    std::fs::write(directory.path().join("two.lp"), text).expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "two.lp"]);
    assert!(code == 1 && printed.contains("database not found: \"late\""), "{printed}");
    // What one server has, another one does not have.
    let (code, printed) = import(directory.path(), &[&flag, &other_port, "two.lp"]);
    assert!(code == 1 && printed.contains("nyala-import.journal is of another command"), "{printed}");
    assert_eq!(count(&other, "late", "m"), Value::Null);
    let data = elsewhere.path().join("new");
    let to_data = ["--data-dir", data.to_str().expect("UTF-8"), "two.lp"];
    let (code, printed) = import(directory.path(), &to_data);
    assert!(code == 1 && printed.contains("nyala-import.journal is of another command"), "{printed}");
    // As long as a command has it, others are refused.
    let journal = std::fs::File::open(directory.path().join("nyala-import.journal")).expect("it is there");
    journal.try_lock().expect("nobody has it");
    nyala.query("CREATE DATABASE late");
    let (code, printed) = import(directory.path(), &[&flag, &port, "two.lp"]);
    assert!(code == 1 && printed.contains("nyala-import.journal is in use"), "{printed}");
    drop(journal);
    assert_eq!(import(directory.path(), &[&flag, &port, "two.lp"]).0, 0);
    assert_eq!((count(&nyala, "d", "m"), count(&nyala, "late", "m")), (1.into(), 1.into()));
    // A data directory is the same by whatever name, though its server has another port each time.
    for (there, code) in [("new", 1), ("./new/../new", 0)] {
        let data = elsewhere.path().join(there);
        let to_data =
            ["--data-dir", data.to_str().expect("UTF-8"), "-d", "later", "--journal", "x", "two.lp"];
        let (own, printed) = import(directory.path(), &to_data);
        assert_eq!(own, code, "{printed}");
        if code == 1 {
            let server = Process::start(&elsewhere.path().join("new"), &[]);
            server.query("CREATE DATABASE later");
            assert!(server.stop().success());
        }
    }
    // A file that is no journal keeps its bytes.
    let notes = directory.path().join("notes.txt");
    std::fs::write(&notes, "one\ntwo").expect("it is written");
    let (code, printed) = import(directory.path(), &[&flag, &port, "--journal", "notes.txt", "two.lp"]);
    assert!(code == 1 && printed.contains("notes.txt is of another command"), "{printed}");
    assert_eq!(std::fs::read_to_string(&notes).expect("it is there"), "one\ntwo");
}

#[test]
fn points_without_a_time_are_not_doubled_when_an_import_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let (nyala, [flag, port]) = start(directory.path());
    let text = "# DML\n# CONTEXT-DATABASE:d\nm v=1\nm,host=a v=2,s=\"x 1\" \nm v=3 7\n\
                # CONTEXT-DATABASE:late\nm v=4\n";
    std::fs::write(directory.path().join("times.lp"), text).expect("it is written");
    let arguments = [&*flag, &*port, "--precision", "s", "times.lp"];
    let begun = std::time::SystemTime::now();
    let (code, printed) = import(directory.path(), &arguments);
    assert!(code == 1 && printed.contains("database not found: \"late\""), "{printed}");
    let all = "SELECT v FROM m GROUP BY host";
    let before = answer(&nyala, "d", all);
    assert_eq!(count(&nyala, "d", "m"), 3);
    // As if it was killed when the first piece was written, and this not noted yet.
    let journal = directory.path().join("nyala-import.journal");
    let noted = std::fs::read_to_string(&journal).expect("it is there");
    let end = noted.find("\"piece_done\"").expect("a piece is done");
    let end = noted[..end].rfind('\n').expect("lines before") + 1;
    std::fs::write(&journal, &noted[..end]).expect("it is written");
    nyala.query("CREATE DATABASE late");
    // Another second, in which the points would be others.
    while begun.elapsed().expect("time goes on") < Duration::from_millis(2100) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, printed) = import(directory.path(), &arguments);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(answer(&nyala, "d", all), before);
    let time = &answer(&nyala, "late", "SELECT v FROM m")["results"][0]["series"][0]["values"][0][0];
    assert_eq!(before["results"][0]["series"][1]["values"][0][0], *time);
    let seconds = begun.duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs() as i64;
    let time = time.as_i64().expect("a number");
    assert!(
        time % 1_000_000_000 == 0 && (seconds..seconds + 600).contains(&(time / 1_000_000_000)),
        "{time}"
    );
}
