//! Runs clients by other authors against nyala, if they are installed.
//!
//! - `NYALA_PYTHON` names a Python with influxdb, msgpack and pandas below 3 (`pip install influxdb msgpack
//!   'pandas<3'`), else `python3` is tried.
//! - `NYALA_INFLUX` names InfluxDB's shell (Debian: `influxdb-client`), else the search path is tried.
//! - `NYALA_PROMETHEUS` names Prometheus (Debian: `prometheus`), else the search path is tried.
//! - `NYALA_NODE_MODULES` names a directory with node-influx (`clients/package.json`), for `node`.
//! - `NYALA_JARS` names a directory with influxdb-java and what it needs (`clients/influxdb_java.xml`), for `java`.
//! - `NYALA_GO_CLIENT` names the program of `clients/go`, which uses InfluxDB's Go client, `NYALA_TELEGRAF` that of
//!   `clients/telegraf`, which uses Telegraf's output.
//!
//! A client that is missing skips its test (`support/peers.rs`).

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/prometheus_server.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod prometheus_server;

use client::percent_encode;
use process::Process;
use prometheus_server::PrometheusServer;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The program of a client, if it runs with the arguments `check`.
fn find(peer: &str, variable: &str, usual: &str, check: &[&str]) -> Option<String> {
    let program = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let found = peers::works(&program, check).then_some(program);
    peers::require(peer, "crates/nyala/tests/clients.rs says where it is looked for", found)
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Runs a client's program with host and port of the server. It succeeds if all its steps succeed.
fn run(command: &mut Command, server: &Process) {
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let ran = command.args([host, port]).output().expect("it runs");
    assert!(ran.status.success(), "{}", text(&ran));
}

/// A server with authentication but without users, which only lets clients create the first.
fn guarded_server(directory: &Path) -> Process {
    Process::start(&directory.join("data"), &["--auth-enabled"])
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

#[test]
fn node_influx_works() {
    let modules = std::env::var("NYALA_NODE_MODULES").unwrap_or_default();
    let check = format!("require({:?})", Path::new(&modules).join("influx"));
    let Some(node) = find("node-influx", "NYALA_NODE", "node", &["-e", &check]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let script = clients().join("node_influx.js");
    let mut command = Command::new(node);
    run(command.env("NODE_PATH", modules).arg(script), &guarded_server(directory.path()));
}

#[test]
fn influxdb_java_works_with_json_and_messagepack() {
    let jars = std::env::var("NYALA_JARS").unwrap_or_default();
    let path = format!("{jars}/*");
    let is_there = std::fs::read_dir(&jars).is_ok_and(|mut jars| jars.next().is_some());
    let check: &[&str] = if is_there { &["-version"] } else { &["--no-jars-in-NYALA_JARS"] };
    let Some(java) = find("influxdb-java", "NYALA_JAVA", "java", check) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let program = clients().join("InfluxdbJava.java");
    run(Command::new(java).args(["-cp", &path]).arg(program), &guarded_server(directory.path()));
}

#[test]
fn influxdbs_go_client_works() {
    let Some(client) = find("InfluxDB's Go client", "NYALA_GO_CLIENT", "nyala-go-client", &["--version"])
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    run(&mut Command::new(client), &guarded_server(directory.path()));
}

/// The answer to a query of an administrator.
fn ask(server: &Process, query: &str) -> String {
    let target = format!("/query?db=d&u=ann&p=secret&q={}", percent_encode(query));
    let answer = server.send("POST", &target, b"").expect("an answer");
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[test]
fn telegrafs_output_writes_and_makes_its_databases() {
    let Some(telegraf) = find("Telegraf's output", "NYALA_TELEGRAF", "nyala-telegraf-output", &["--version"])
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server = guarded_server(directory.path());
    ask(&server, "CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES");
    run(&mut Command::new(telegraf), &server);
    for (database, count) in [("telegraf", 1000), ("other", 3), ("a b", 2)] {
        let counted = ask(&server, &format!("SELECT count(usage) FROM \"{database}\"..cpu WHERE up = true"));
        assert!(counted.contains(&format!(",{count}]]")), "{database}: {counted}");
    }
}

/// Starts Prometheus with its own data. Without scraping, all its data comes from the server.
fn start_prometheus(program: &str, directory: &Path, server: &Process, scrapes: bool) -> PrometheusServer {
    let settings = std::fs::read_to_string(clients().join("prometheus.yml")).expect("readable");
    let settings = settings.replace("ADDRESS", &server.address.to_string());
    PrometheusServer::start(program, directory, |own| {
        settings.replace("OWN", &if scrapes { own.to_string() } else { String::new() })
    })
}

/// Waits until an answer holds some text.
fn wait_for(words: &str, ask: impl Fn() -> String) {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if answer.contains(words) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(180), "no {words} in {answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn prometheus_writes_and_reads() {
    let Some(program) = find("Prometheus", "NYALA_PROMETHEUS", "prometheus", &["--version"]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = guarded_server(directory.path());
    let query = |text: &str| ask(&server, text);
    query("CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES");
    query("CREATE DATABASE d");
    let writer = start_prometheus(&program, &directory.path().join("writer"), &server, true);
    // A counter with several samples, so that rates can be computed.
    wait_for("\"values\"", || {
        query("SELECT value FROM up WHERE job = 'self' AND value = 1 LIMIT 1 OFFSET 2")
    });
    // Each series has its own place in the queue of the writer.
    wait_for("\"version\"", || query("SHOW TAG VALUES FROM prometheus_build_info WITH KEY = version"));
    wait_for("/metrics", || query("SHOW TAG VALUES FROM prometheus_http_requests_total WITH KEY = handler"));
    drop(writer);
    let reader = start_prometheus(&program, &directory.path().join("reader"), &server, false);
    wait_for("\"job\":\"self\"", || reader.ask("count_over_time(up[5m])"));
    let matched = reader.ask("prometheus_http_requests_total{handler=~\"/met.+\",code!=\"404\"}");
    assert!(matched.contains("/metrics") && !matched.contains("/api/v1/query\""), "{matched}");
    let nothing = reader.ask("up{job=\"other\"}");
    assert!(nothing.contains("\"result\":[]"), "{nothing}");
}

#[test]
fn influxdb_python_works_with_json_messagepack_and_frames() {
    let Some(python) =
        find("influxdb-python", "NYALA_PYTHON", "python3", &["-c", "import influxdb, msgpack, pandas"])
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let script = clients().join("influxdb_python.py");
    run(Command::new(python).arg(script), &guarded_server(directory.path()));
}

#[test]
fn the_influx_shell_writes_asks_and_imports() {
    let Some(shell) = find("InfluxDB's shell", "NYALA_INFLUX", "influx", &["-version"]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = guarded_server(directory.path());
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let run = |login: &[&str], arguments: &[&str]| {
        let common = ["-host", &*host, "-port", &*port, "-precision", "s"];
        let mut command = Command::new(&shell);
        // The shell keeps its history there.
        command.env("HOME", directory.path()).args(common).args(login).args(arguments);
        text(&command.output().expect("it runs"))
    };
    let ann = ["-username", "ann", "-password", "secret", "-database", "d"];
    let created = run(&[], &["-execute", "CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES"]);
    assert!(!created.contains("ERR"), "{created}");
    let refused = run(&["-username", "ann", "-password", "wrong"], &["-execute", "SHOW DATABASES"]);
    assert!(refused.contains("authorization failed"), "{refused}");
    run(&ann, &["-execute", "CREATE DATABASE d"]);
    assert_eq!(run(&ann, &["-execute", "INSERT m,h=a v=1.5,s=\"x y\" 1"]).trim(), "");
    let ask = |format: &str| run(&ann, &["-format", format, "-execute", "SELECT * FROM m; SHOW TAG KEYS"]);
    assert!(ask("json").contains(r#"["time","h","s","v"],"values":[[1,"a","x y",1.5]]"#), "{}", ask("json"));
    assert!(ask("csv").contains("name,time,h,s,v\nm,1,a,x y,1.5\n"), "{}", ask("csv"));
    assert!(ask("column").contains("time h s   v\n"), "{}", ask("column"));
    let file = directory.path().join("import.txt");
    let lines = "# DDL\nCREATE DATABASE i\n# DML\n# CONTEXT-DATABASE: i\nm v=1 1\nm v=2 2\n";
    std::fs::write(&file, lines).expect("writable");
    let imported = run(&ann, &["-import", "-path", file.to_str().expect("UTF-8")]);
    assert!(imported.contains("Processed 2 inserts") && imported.contains("Failed 0 inserts"), "{imported}");
    let counted = run(&ann, &["-format", "csv", "-execute", "SELECT count(v) FROM i..m"]);
    assert!(counted.contains("m,0,2"), "{counted}");
}
