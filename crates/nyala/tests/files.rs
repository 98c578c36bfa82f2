//! Rows in files: `COPY` to and from files of the server, `nyala export` and `nyala import`, as a person and programs of others
//! use them.
#![cfg(feature = "sql")]

#[path = "files/buckets.rs"]
mod buckets;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "files/command_line.rs"]
mod command_line;
#[path = "files/copy.rs"]
mod copy;
#[path = "files/faults.rs"]
mod faults;
#[path = "support/objects.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod objects;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "files/readers.rs"]
mod readers;
#[path = "support/small_disk.rs"]
mod small_disk;
#[path = "support/sql.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod sql;

use process::Process;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server with a database `d` that may use files, and its directories.
struct Fixture {
    server: Process,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    fn start_in(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let files = directory.path().join("files");
        std::fs::create_dir(&files).expect("a directory");
        let arguments = [&["--files-dir", files.to_str().expect("UTF-8")], arguments].concat();
        let server = Process::spawn_in(&directory.path().join("data"), &arguments, variables);
        server.wait_until_ready(Duration::from_secs(120));
        server.query("CREATE DATABASE d");
        Self { server, directory }
    }

    /// A path below the directory that the server may use.
    fn file(&self, path: &str) -> PathBuf {
        self.directory.path().join("files").join(path)
    }

    /// A path elsewhere.
    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Runs a command with the options of the server's database `d`, in a directory of its own.
    fn run(&self, command: &[&str], arguments: &[&str]) -> Outcome {
        let port = self.server.address.port().to_string();
        let options = ["--port", &port, "-d", "d"];
        run(self.directory.path(), &[command, &options, arguments].concat())
    }
}

/// What a command did.
#[derive(Debug)]
struct Outcome {
    code: i32,
    out: String,
    errors: String,
}

impl Outcome {
    /// What it printed when all went well.
    fn printed(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }
}

fn run(directory: &Path, arguments: &[&str]) -> Outcome {
    run_with(directory, arguments, &[])
}

/// The same with environment variables.
fn run_with(directory: &Path, arguments: &[&str], variables: &[(String, String)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let ran = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome { code: ran.status.code().unwrap_or(-1), out: text(&ran.stdout), errors: text(&ran.stderr) }
}

/// A table with a column of every type.
const EVERY_TYPE: &str = "(id int PRIMARY KEY, flag boolean, small smallint, big bigint, single real, \
                          number double precision, price numeric(38,10), name text, code varchar(5), \
                          raw bytea, day date, local timestamp, moment timestamptz)";

/// Its rows: what is ordinary, the ends of ranges, and NULL. They are written one by one, with texts that are long.
fn write_every_type(server: &Process, table: &str) {
    sql::done(server, &format!("CREATE TABLE {table} {EVERY_TYPE}"));
    for row in [
        "1, true, 1, 2, 1.5, 2.25, 3.1, 'a', 'b', '\\x00ff', '2026-01-31', '2026-01-31 12:00:00.000000001', \
         '2026-01-31 12:00:00.000000001+00'",
        "2, false, -32768, -9223372036854775808, '-Infinity', '-Infinity', -9999999999999999999999999999.9999999999, '', \
         '', '\\x', '1678-01-01', '1677-09-21 00:12:43.145224193', '1677-09-21 00:12:43.145224193Z'",
        "3, NULL, 32767, 9223372036854775807, 'NaN', 'NaN', 9999999999999999999999999999.9999999999, ',\"\n;', '\\N', \
         NULL, '2262-04-11', '2262-04-11 23:47:16.854775807', '2262-04-11 23:47:16.854775807Z'",
        "4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        "5, true, 0, 0, '-0', '-0', 0, 'ä日本\u{1f600}', 'äöüßé', NULL, '1970-01-01', '1970-01-01', '1970-01-01 00:00Z'",
    ] {
        assert_eq!(sql::changed(server, &format!("INSERT INTO {table} VALUES ({row})")), 1, "{row}");
    }
    let long = format!("INSERT INTO {table} (id, name) VALUES (6, repeat('long ', 200000))");
    assert_eq!(sql::changed(server, &long), 1);
}

/// All rows of a table, as text.
fn rows(server: &Process, table: &str) -> Vec<String> {
    sql::lines(server, &format!("SELECT * FROM {table} ORDER BY id"))
}

/// The names of all files below a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type().expect("a kind").is_dir() {
            true => names.extend(self::names(&entry.path()).iter().map(|inner| format!("{name}/{inner}"))),
            false => names.push(name),
        }
    }
    names.sort();
    names
}
