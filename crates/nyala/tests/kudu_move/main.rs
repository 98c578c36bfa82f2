//! `nyala move`, through the real program: from a data directory to a real Apache Kudu cluster and back, killed on the way; a
//! copy that was changed is noticed. `online`: while clients write.

#![cfg(feature = "sql")]

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/cluster.rs"]
mod cluster;
mod loader;
mod online;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "../support/sql.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod sql;

use kudu_client::test_cluster::TestCluster;
use process::Process;
use serde_json::Value;
use sql::{answer, done};
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const DAY_SECONDS: i64 = 24 * 3600;
/// How long a test waits for what takes seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(240);
/// What both sides have to answer in the same way.
const QUERIES: [&str; 9] = [
    "SELECT count(f), sum(i), max(u), min(f), last(s), count(b) FROM m GROUP BY host",
    "SELECT * FROM m WHERE host = 'h7' ORDER BY time DESC LIMIT 20",
    "SELECT * FROM other",
    "SELECT mean(f) FROM m WHERE time < 3d GROUP BY time(12h), zone",
    "SHOW SERIES",
    "SHOW FIELD KEYS",
    "SHOW TAG VALUES WITH KEY IN (host, zone)",
    "SHOW RETENTION POLICIES; SHOW CONTINUOUS QUERIES; SHOW SUBSCRIPTIONS",
    "SHOW USERS; SHOW GRANTS FOR reader",
];

/// A server with all types, NULLs, nanoseconds, shards, users and tables.
fn fill(server: &Process) {
    server.query("CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d");
    let mut lines = String::new();
    for step in 0..1500_i64 {
        for host in 0..10 {
            let time = step * 300 * 1_000_000_000 + host;
            write!(lines, "m,host=h{host},zone=z{} f={step}.5,i={step}i,u={step}u", host % 3)
                .expect("memory");
            lines += if step % 5 == 0 { ",b=true,s=\"a b\"" } else { "" };
            writeln!(lines, " {time}").expect("memory");
        }
    }
    assert_eq!(server.write(&lines).status, 204);
    let extremes = "other f=-0 -9223372036854775806\nother i=-9223372036854775808i 1\nother u=18446744073709551615u 2\n\
                    other s=\"\" 9223372036854775806\ngone f=1 1";
    assert_eq!(server.write(extremes).status, 204);
    assert_eq!(server.write(&format!("zzz s=\"{}\" 1", "x".repeat(65_537))).status, 204);
    for statement in [
        "CREATE USER admin WITH PASSWORD 'secret' WITH ALL PRIVILEGES",
        "CREATE USER reader WITH PASSWORD 'other'",
        "GRANT READ ON d TO reader",
        "CREATE RETENTION POLICY year ON d DURATION 52w REPLICATION 1",
        "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(f) INTO year.m FROM m GROUP BY time(1h) END",
        "CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'",
    ] {
        let answer = server.query(statement);
        assert!(answer["results"][0].get("error").is_none(), "{statement}: {answer}");
    }
    done(
        server,
        "CREATE TABLE host (name text PRIMARY KEY, rack int NOT NULL, watts numeric(8,2), at timestamptz)",
    );
    done(server, "CREATE TABLE note (words text)");
    done(server, "CREATE VIEW racks AS SELECT rack, count(*) AS hosts FROM host GROUP BY rack");
    done(
        server,
        "INSERT INTO host VALUES ('a', 1, 2.34, '2026-01-01 00:00:00.123456789Z'), ('b', 2, NULL, NULL)",
    );
    done(server, "INSERT INTO note VALUES ('x'), (NULL), ('x')");
}

/// Changes of all kinds.
fn change(server: &Process) {
    server.query("DELETE FROM m WHERE host = 'h3'");
    server.query("DELETE FROM m WHERE time >= 2d AND time < 60h");
    server.query("DROP MEASUREMENT gone");
    server.query("DROP MEASUREMENT zzz");
    assert_eq!(server.write("m,host=h7,zone=z1 f=0.1,new=1i 7\nm,host=h99,zone=z0 f=0.2 8").status, 204);
    server.query("SET PASSWORD FOR reader = 'another'");
    server.query("ALTER RETENTION POLICY year ON d DURATION 26w");
    done(server, "UPDATE host SET watts = 7 WHERE name = 'b'");
    done(server, "DELETE FROM note WHERE words IS NULL");
    done(server, "ALTER TABLE host ADD COLUMN floor int");
}

/// All answers.
fn answers(server: &Process) -> Vec<Value> {
    let mut all: Vec<Value> = QUERIES.iter().map(|query| server.query(query)).collect();
    let tables = [
        "SELECT * FROM host ORDER BY name",
        "SELECT * FROM note ORDER BY words",
        "SELECT * FROM racks ORDER BY rack",
    ];
    all.extend(tables.iter().map(|query| answer(server, query)));
    all
}

fn assert_same(server: &Process, expected: &[Value]) {
    for (found, expected) in answers(server).iter().zip(expected) {
        assert_eq!(found, expected);
    }
}

fn command(from: &str, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command
        .args(["move", "--from", from, "--to", to, "--kudu-replicas", "1", "--kudu-buckets", "2"])
        .args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to its end: exit code, report, and errors.
fn run(mut command: Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (status.code().unwrap_or(-1), text)
}

/// Runs a command that moves to its end, again as long as it asks for that: a busy machine may take longer for a step than it
/// waits.
fn run_to_end(command: impl Fn() -> Command) -> (i32, String) {
    for _ in 0..5 {
        let (code, text) = run(command());
        let asks = ["start the same command again", "send it again", "a backup is"];
        if code != 2 || !asks.iter().any(|words| text.contains(words)) {
            return (code, text);
        }
    }
    run(command())
}

/// Kills a command after a time.
fn kill_after(mut child: Child, wait_ms: u64) {
    std::thread::sleep(Duration::from_millis(wait_ms));
    // It may have ended.
    let _ = child.kill();
    child.wait().expect("it is gone");
}

fn serve_cluster(cluster: &TestCluster, dir: &Path) -> Process {
    let masters = cluster.masters().join(",");
    let own = ["--store", "kudu", "--kudu-masters", &masters, "--kudu-replicas", "1", "--kudu-buckets", "2"];
    let server = Process::spawn(dir, &own);
    server.wait_until_ready(TIMEOUT);
    server
}

#[test]
fn a_directory_moves_to_a_cluster_and_back_however_often_it_is_killed() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).display().to_string();
    let (dir, kudu) = (path("data"), format!("kudu://{}", cluster.masters().join(",")));
    let server = Process::start(Path::new(&dir), &[]);
    fill(&server);
    let (code, text) = run(command(&dir, &kudu, &[]));
    assert!(code == 2 && text.contains("is nyala running? stop it first"), "{text}");
    assert!(server.stop().success());
    // Killed at moments that lie further and further apart. It never comes to its end, where a value is too long.
    for wait_ms in [100, 200, 300, 500] {
        kill_after(command(&dir, &kudu, &[]).spawn().expect("the command starts"), wait_ms);
    }
    // On a slow machine none of these may have begun to move. This one has.
    let (code, text) = run(command(&dir, &kudu, &[]));
    assert!(code == 2 && text.contains("d.autogen.zzz"), "{text}");
    // While the server runs. What is written, overwritten, deleted and altered afterwards is moved when it has stopped.
    let server = Process::start(Path::new(&dir), &[]);
    let url = format!("http://{}", server.address);
    let (code, text) = run_to_end(|| command(&url, &kudu, &["--skip", "d.autogen.zzz"]));
    assert!(code == 0 && text.contains("everything that the server had was moved"), "{text}");
    assert!(text.contains("note: the move had been begun before"), "{text}");
    assert!(text.contains("d.autogen.m: 15000 points of 6 days, equal"), "{text}");
    change(&server);
    let expected = answers(&server);
    assert!(server.stop().success());

    let (code, text) = run_to_end(|| command(&dir, &kudu, &[]));
    assert!(code == 0 && text.contains("everything was moved, and both sides are equal"), "{text}");
    // A host without points, twelve hours of the others, and a new one.
    let points = 9 * (1500 - 144) + 1;
    assert!(text.contains(&format!("d.autogen.m: {points} points of 6 days, equal")), "{text}");
    assert!(text.contains("d.autogen.other: 4 points of 3 days, equal"), "{text}");
    assert!(text.contains("d.host: 2 rows, equal") && text.contains("d.note: 2 rows, equal"), "{text}");
    let (code, text) = run(command(&dir, &kudu, &[]));
    assert!(code == 2 && text.contains("it has a nyala in it already"), "{text}");

    let daemon = serve_cluster(&cluster, &place.path().join("none"));
    assert_same(&daemon, &expected);
    let (code, text) = run(command(&dir, &kudu, &["--compare"]));
    assert!(code == 0 && text.contains("both sides are equal"), "{text}");
    // A value is damaged, and a row is surplus.
    let time = DAY_SECONDS * 1_000_000_000 + 7;
    assert_eq!(daemon.write(&format!("m,host=h7,zone=z1 f=1 {time}\nother f=1 3")).status, 204);
    let (code, text) = run(command(&dir, &kudu, &["--compare"]));
    let words = "differs: d.autogen.m, 1970-01-02: 2592 rows on both sides, and their checksums differ";
    assert!(code == 1 && text.contains(words), "{text}");
    assert!(
        text.contains("differs: d.autogen.other, 1970-01-01: the source has 2 rows, the target 3"),
        "{text}"
    );
    let expected = answers(&daemon);

    // Back, while a daemon runs, and when it has stopped.
    let new = path("new");
    let (code, text) = run(command(&kudu, &new, &[]));
    assert!(code == 2 && text.contains("stop it first"), "{text}");
    assert!(daemon.stop().success());
    let (code, text) = run_to_end(|| command(&kudu, &new, &[]));
    assert!(code == 0 && text.contains("everything was moved, and both sides are equal"), "{text}");
    let server = Process::start(Path::new(&new), &[]);
    assert_same(&server, &expected);
    assert_eq!(server.write("m,host=h7,zone=z1 f=2 5\nm,host=h3,zone=z0 f=2 5").status, 204);
    assert_eq!(server.number("SELECT count(f) FROM m WHERE time < 10"), 12);
}

#[test]
fn what_a_cluster_cannot_hold_is_named_and_left_out() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("data").display().to_string();
    let kudu = format!("kudu://{}", cluster.masters().join(","));
    let server = Process::start(Path::new(&dir), &[]);
    server.query("CREATE DATABASE d");
    let long = "x".repeat(65_537);
    assert_eq!(server.write(&format!("m v=1 1\nlong s=\"{long}\" 1")).status, 204);
    done(&server, "CREATE TABLE keyed (a int PRIMARY KEY, b int UNIQUE)");
    assert!(server.stop().success());
    let (code, text) = run(command(&dir, &kudu, &[]));
    assert!(code == 2 && text.contains("d.keyed: it has indexes, or unique columns"), "{text}");
    assert_eq!(text.matches("d.keyed").count(), 1, "{text}");
    let keyed = ["--skip", "d.keyed"];
    let (code, text) = run(command(&dir, &kudu, &[keyed, ["--skip", "d.autogen.nothing"]].concat()));
    assert!(code == 2 && text.contains("d.autogen.nothing: there is no such measurement or table"), "{text}");
    let (code, text) = run(command(&dir, &kudu, &keyed));
    assert!(code == 2 && text.contains("d.autogen.long") && text.contains("65536 bytes"), "{text}");
    assert!(text.contains("leave it out with --skip"), "{text}");
    // No daemon takes this for a store.
    let mut refused = Process::spawn(
        &place.path().join("none"),
        &["--store", "kudu", "--kudu-masters", &cluster.masters().join(",")],
    );
    assert!(!refused.wait().success() && refused.log().contains("is not finished"), "{}", refused.log());
    let (code, text) = run_to_end(|| command(&dir, &kudu, &[keyed, ["--skip", "d.autogen.long"]].concat()));
    assert!(code == 0 && text.contains("note: d.autogen.long was left out"), "{text}");
    assert_eq!(text.matches("d.keyed").count(), 1, "{text}");
    let daemon = serve_cluster(&cluster, &place.path().join("none"));
    assert_eq!(daemon.number("SELECT sum(v) FROM m"), 1);
    assert_eq!(daemon.number("SELECT count(s) FROM long"), 0);
}
