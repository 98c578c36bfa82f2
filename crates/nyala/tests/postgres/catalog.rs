//! The system catalogue, as psql and other programs look at it. The answers are those of a real PostgreSQL 15
//! (`testdata/postgres/record`).

use super::drivers::find;
use super::psql::{command, printed, program};
use super::server::Server;
use std::fs::File;
use std::path::Path;
use std::process::Command;

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
    let status = command.status().expect("it runs");
    let answers = std::fs::read_to_string(answers).expect("answers");
    assert!(status.success(), "{status}: {answers}");
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
fn tables_are_altered_as_those_of_postgresql() {
    compare("alter", &["--tuples-only", "--set=VERBOSITY=sqlstate"]);
}

#[test]
fn programs_that_look_around_get_the_answers_of_postgresql() {
    compare("catalog_queries", &["--set=VERBOSITY=sqlstate"]);
}

/// Sends the queries of a client, and compares the answers (`clients/catalog_queries.py`).
fn compare_queries_of(client: &str) {
    let check = &["-c", "import psycopg"];
    let Some(python) = find("psycopg 3", "NYALA_PYTHON", "python3", check) else { return };
    let server = Server::start(&[]);
    server.ask("CREATE DATABASE e");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let queries = folder.join("../../testdata/postgres/clients");
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let mut program = Command::new(python);
    program.arg(folder.join("tests/clients/catalog_queries.py")).args([&host, &port, "me", "none", "e"]);
    let ran = program.arg(queries.join(format!("{client}.sql"))).output().expect("it runs");
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{errors}\n{}", server.process.log());
    let expected = std::fs::read_to_string(queries.join(format!("{client}.txt"))).expect("answers");
    let answers = String::from_utf8_lossy(&ran.stdout).into_owned();
    let mut title = "";
    for (got, wanted) in answers.lines().zip(expected.lines()) {
        if wanted.starts_with("-- ") {
            title = wanted;
        }
        assert_eq!(got, wanted, "{title}\n{errors}");
    }
    assert_eq!(answers.lines().count(), expected.lines().count(), "{errors}");
}

#[test]
fn grafana_gets_the_answers_of_postgresql() {
    compare_queries_of("grafana");
}

#[test]
fn dbeaver_gets_the_answers_of_postgresql() {
    compare_queries_of("dbeaver");
}

#[test]
fn metabase_gets_the_answers_of_postgresql() {
    compare_queries_of("metabase");
}

#[test]
fn superset_gets_the_answers_of_postgresql() {
    compare_queries_of("superset");
}

#[test]
fn npgsql_gets_the_answers_of_postgresql() {
    compare_queries_of("npgsql");
}

#[test]
fn measurements_are_tables_in_the_schema_of_their_policy() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    server.ask("CREATE RETENTION POLICY other ON d DURATION 0s REPLICATION 1");
    let ask =
        |statement: &str| printed(&psql, &server, "user=me dbname=d", &["\\pset tuples_only", statement]);
    let shown = |statement: &str| ask(statement).replace("Tuples only is on.\n", "");
    assert_eq!(shown("\\dt"), "autogen|cpu|table|me\n");
    assert_eq!(
        shown("\\d cpu"),
        "time|timestamp with time zone||not null|\nhost|text|||\nn|bigint|||\ns|text|||\nup|boolean|||\n\
         usage|double precision|||\ntime_ns|bigint||not null|\n"
    );
    let schemas = "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY 1";
    assert_eq!(shown(schemas), "autogen\ninformation_schema\nother\npublic\n");
    // The number of a relation is the same for every session, also after a restart.
    let oid = "SELECT 'cpu'::regclass::oid = 'autogen.cpu'::regclass::oid, 'cpu'::regclass";
    assert_eq!(shown(oid), "t|cpu\n");
}

#[test]
fn users_find_only_what_they_may_read() {
    let Some(psql) = program() else { return };
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    server.ask("CREATE DATABASE hidden");
    server.ask("CREATE USER bob WITH PASSWORD 'bob'");
    server.ask("CREATE USER eve WITH PASSWORD 'eve'");
    server.ask("GRANT READ ON d TO bob");
    server.ask("GRANT WRITE ON d TO eve");
    let ask = |user: &str, database: &str, statement: &str| {
        let settings =
            format!("user={user} password={} dbname={database}", if user == "ann" { "pencil" } else { user });
        printed(&psql, &server, &settings, &["\\pset tuples_only", statement])
            .replace("Tuples only is on.\n", "")
    };
    let databases = "SELECT datname FROM pg_database ORDER BY 1";
    assert_eq!(ask("ann", "d", databases), "d\nhidden\npostgres\n");
    assert_eq!(ask("bob", "postgres", databases), "d\npostgres\n");
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'autogen'";
    assert_eq!(ask("bob", "d", tables), "cpu\n");
    // Who may only write sees neither tables nor columns.
    assert_eq!(ask("eve", "d", tables), "");
    assert_eq!(ask("eve", "d", "SELECT count(*) FROM pg_attribute WHERE attname = 'usage'"), "0\n");
    assert_eq!(
        ask("bob", "d", "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1"),
        "bob\nnyala\n"
    );
    assert_eq!(ask("ann", "d", "SELECT usename, usesuper FROM pg_user ORDER BY 1"), "ann|t\nbob|f\neve|f\n");
    let privileges =
        "SELECT has_table_privilege('autogen.cpu', 'SELECT'), has_table_privilege('autogen.cpu', 'INSERT')";
    assert_eq!(ask("bob", "d", privileges), "t|f\n");
    assert!(ask("bob", "d", "SELECT 1 FROM hidden.pg_catalog.pg_class LIMIT 1").contains("does not exist"));
}
