//! Drivers by other authors. Each runs a program of `tests/clients` with host and port of a server whose database `d` has
//! points, and whose administrator is `ann` with the password `pencil`.

use super::peers;
use super::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn find(peer: &str, variable: &str, usual: &str, check: &[&str]) -> Option<String> {
    let program = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let found = peers::works(&program, check).then_some(program);
    peers::require(peer, "crates/nyala/tests/postgres/main.rs says where it is looked for", found)
}

pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Runs a driver's program. It succeeds if all its steps succeed.
fn run(command: &mut Command) {
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let ran = command.args([host, port]).output().expect("it runs");
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{text}\n{}", server.process.log());
}

/// Runs a program that looks at tables, and compares what it prints with what it printed of a real PostgreSQL 15
/// (`testdata/postgres/record`).
fn compare(command: &mut Command, answers: &str) {
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let ran = command.args([&host, &port, "ann", "pencil", "d"]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{errors}\n{}", server.process.log());
    let answers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres").join(answers);
    let expected = std::fs::read_to_string(answers).expect("answers");
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    for (got, wanted) in printed.lines().zip(expected.lines()) {
        assert_eq!(got, wanted, "{errors}");
    }
    assert_eq!(printed.lines().count(), expected.lines().count(), "{errors}");
}

#[test]
fn sqlalchemy_and_pandas_find_tables() {
    let check = &["-c", "import psycopg, sqlalchemy, pandas"];
    let Some(python) = find("SQLAlchemy and pandas", "NYALA_PYTHON", "python3", check) else { return };
    let program = programs().join("sqlalchemy_reflection.py");
    compare(Command::new(python).arg(program), "sqlalchemy.txt");
}

#[test]
fn models_of_sqlalchemy_number_themselves() {
    let Some(python) = find("SQLAlchemy", "NYALA_PYTHON", "python3", &["-c", "import psycopg, sqlalchemy"])
    else {
        return;
    };
    compare(Command::new(python).arg(programs().join("sqlalchemy_models.py")), "models.txt");
}

#[test]
fn pgjdbc_finds_tables() {
    let jars = std::env::var("NYALA_PGJDBC").unwrap_or_default();
    let is_there = std::fs::read_dir(&jars).is_ok_and(|mut jars| jars.next().is_some());
    let check: &[&str] = if is_there { &["-version"] } else { &["--no-jars-in-NYALA_PGJDBC"] };
    let Some(java) = find("pgJDBC", "NYALA_JAVA", "java", check) else { return };
    let program = programs().join("PgJdbcMetaData.java");
    compare(Command::new(java).args(["-cp", &format!("{jars}/*")]).arg(program), "pgjdbc.txt");
}

#[test]
fn psycopg_copies_as_to_and_from_postgresql() {
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", &["-c", "import psycopg"]) else {
        return;
    };
    compare(Command::new(python).arg(programs().join("psycopg3_copy.py")), "copy.txt");
}

#[test]
fn psycopg_sends_series_of_statements_as_to_postgresql() {
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", &["-c", "import psycopg"]) else {
        return;
    };
    compare(Command::new(python).arg(programs().join("psycopg3_series.py")), "series.txt");
}

#[test]
fn psycopg_learns_which_rule_rows_break_as_from_postgresql() {
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", &["-c", "import psycopg"]) else {
        return;
    };
    compare(Command::new(python).arg(programs().join("psycopg3_errors.py")), "errors.txt");
}

#[test]
fn pgcli_works() {
    let Some(python) = find("pgcli", "NYALA_PYTHON", "python3", &["-c", "import pgcli, pgspecial"]) else {
        return;
    };
    compare(Command::new(python).arg(programs().join("pgcli_session.py")), "pgcli.txt");
}

#[test]
fn adbc_ingests_and_reads() {
    let check = &["-c", "import adbc_driver_postgresql, pyarrow"];
    let Some(python) = find("ADBC's driver", "NYALA_PYTHON", "python3", check) else { return };
    compare(Command::new(python).arg(programs().join("adbc_postgresql.py")), "adbc.txt");
}

#[test]
fn odbc_works() {
    let Some(python) = find("pyodbc", "NYALA_PYTHON", "python3", &["-c", "import pyodbc"]) else { return };
    let usual = "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so";
    let driver = std::env::var("NYALA_ODBC").unwrap_or_else(|_| usual.to_owned());
    let found = Path::new(&driver).is_file().then_some(driver);
    let Some(driver) = peers::require("psqlodbc", "Debian: odbc-postgresql", found) else { return };
    let program = programs().join("odbc_session.py");
    compare(Command::new(python).env("NYALA_ODBC", driver).arg(program), "odbc.txt");
}

#[test]
fn pgx_and_pq_work() {
    let program = std::env::var("NYALA_PGX").unwrap_or_default();
    let found = Path::new(&program).is_file().then_some(program);
    let hint = "build crates/nyala/tests/clients/pgx and name it by NYALA_PGX";
    let Some(program) = peers::require("pgx", hint, found) else { return };
    compare(&mut Command::new(program), "pgx.txt");
}

#[test]
fn psycopg_works() {
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", &["-c", "import psycopg"]) else {
        return;
    };
    run(Command::new(python).arg(programs().join("psycopg3.py")));
}

#[test]
fn node_postgres_works() {
    let modules = std::env::var("NYALA_NODE_MODULES").unwrap_or_default();
    let check = format!("require({:?})", Path::new(&modules).join("pg"));
    let Some(node) = find("node-postgres", "NYALA_NODE", "node", &["-e", &check]) else { return };
    run(Command::new(node).env("NODE_PATH", modules).arg(programs().join("node_postgres.js")));
}

#[test]
fn pgjdbc_works() {
    let jars = std::env::var("NYALA_PGJDBC").unwrap_or_default();
    let is_there = std::fs::read_dir(&jars).is_ok_and(|mut jars| jars.next().is_some());
    let check: &[&str] = if is_there { &["-version"] } else { &["--no-jars-in-NYALA_PGJDBC"] };
    let Some(java) = find("pgJDBC", "NYALA_JAVA", "java", check) else { return };
    run(Command::new(java).args(["-cp", &format!("{jars}/*")]).arg(programs().join("PgJdbc.java")));
}
