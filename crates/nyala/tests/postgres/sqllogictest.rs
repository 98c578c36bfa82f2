//! Scripts of sqllogictest (`testdata/sqllogictest`), whose answers a real PostgreSQL 15 has written
//! (`clients/sqllogictest.py --record`). What differs is marked in them with `skipif nyala`, and a reason.

use super::drivers::{find, programs};
use super::server::Server;
use std::path::Path;
use std::process::Command;

#[test]
fn scripts_give_the_answers_of_postgresql() {
    let check = &["-c", "import psycopg"];
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", check) else { return };
    let server = Server::start(&[]);
    server.ask("CREATE DATABASE e");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sqllogictest");
    let files = std::fs::read_dir(folder).expect("scripts").map(|file| file.expect("a file").path());
    let mut scripts: Vec<_> = files.filter(|path| path.extension().is_some_and(|own| own == "slt")).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let mut command = Command::new(python);
    command.arg(programs().join("sqllogictest.py")).args([&host, &port, "me", "none", "e", "nyala"]);
    let ran = command.args(scripts).output().expect("it runs");
    let text = String::from_utf8_lossy(&[ran.stderr, ran.stdout].concat()).into_owned();
    assert!(ran.status.success(), "{text}\n{}", server.process.log());
}
