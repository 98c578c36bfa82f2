//! Clients that others wrote, run against nyala where they are installed.
//!
//! - `NYALA_PYTHON` names a Python with influxdb, msgpack and pandas below 3 (`pip install influxdb msgpack 'pandas<3'`),
//!   else `python3` is tried.
//! - `NYALA_INFLUX` names InfluxDB's shell (Debian: `influxdb-client`), else the search path is tried.
//! - `NYALA_REQUIRE_PEERS=1` fails where they are not there; otherwise their tests do nothing.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use std::path::Path;
use std::process::{Command, Output};

/// The program of a client, if it does what `check` asks.
fn find(variable: &str, usual: &str, check: &[&str]) -> Option<String> {
    let program = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let works = Command::new(&program).args(check).output().is_ok_and(|output| output.status.success());
    let required = std::env::var_os("NYALA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(works || !required, "{program} does not work: set {variable}");
    works.then_some(program)
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

#[test]
fn influxdb_python_works_with_json_messagepack_and_frames() {
    let Some(python) = find("NYALA_PYTHON", "python3", &["-c", "import influxdb, msgpack, pandas"]) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/influxdb_python.py");
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let ran = Command::new(python).arg(script).args([host, port]).output().expect("it runs");
    assert!(ran.status.success(), "{}", text(&ran));
}

#[test]
fn the_influx_shell_writes_asks_and_imports() {
    let Some(shell) = find("NYALA_INFLUX", "influx", &["-version"]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let run = |login: &[&str], arguments: &[&str]| {
        let common = ["-host", &*host, "-port", &*port, "-precision", "s"];
        let mut command = Command::new(&shell);
        // It keeps a history there.
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
