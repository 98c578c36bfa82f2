//! The system catalogue, as psql and other programs look at it. The answers are those of a real PostgreSQL 15
//! (`testdata/postgres/record`).

use super::psql::{command, program};
use super::server::Server;
use std::fs::File;
use std::path::Path;

/// Has psql execute a file of `testdata/postgres` in an empty database, and compares what it prints.
fn compare(name: &str, arguments: &[&str]) {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    server.ask("CREATE DATABASE e");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres");
    let directory = tempfile::tempdir().expect("a directory");
    let answers = directory.path().join("answers");
    let file = File::create(&answers).expect("a file");
    let mut command = command(&psql, &server, "user=me dbname=e");
    command.args(["--quiet", "--echo-all"]).args(arguments);
    command.stdin(File::open(folder.join(format!("{name}.sql"))).expect("statements"));
    command.stdout(file.try_clone().expect("a file")).stderr(file);
    assert!(command.status().expect("it runs").success());
    let answers = std::fs::read_to_string(answers).expect("answers");
    let expected = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("answers");
    let mut lines = answers.lines().zip(expected.lines()).enumerate();
    if let Some((number, (got, wanted))) = lines.find(|(_, (got, wanted))| got != wanted) {
        panic!("{name}, line {}: {got:?} instead of {wanted:?}", number + 1);
    }
    assert_eq!(answers.lines().count(), expected.lines().count());
}

#[test]
fn psql_describes_tables_as_those_of_postgresql() {
    compare("catalog", &["--pset=format=aligned"]);
}

#[test]
fn programs_that_look_around_get_the_answers_of_postgresql() {
    compare("catalog_queries", &["--set=VERBOSITY=sqlstate"]);
}
