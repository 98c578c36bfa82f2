//! Temporary tables beside other sessions, and what is left of them. What one session answers is compared with a real
//! PostgreSQL in `psql.rs`.

use super::hostile::{Raw, TIMEOUT};
use super::process::Process;
use super::server::Server;
use super::statements::{does, query};
use super::transactions::{Kept, fails};
use std::time::{Duration, Instant};

/// How many rows the temporary tables of these tests have.
const ROWS: u64 = 5000;

fn rows_in_memory(server: &Process) -> u64 {
    server.metric("nyala_memtable_rows ")
}

#[track_caller]
fn wait_for_rows(server: &Process, most: u64) {
    let begun = Instant::now();
    while rows_in_memory(server) > most {
        assert!(begun.elapsed() < TIMEOUT, "{} rows are left", rows_in_memory(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_session_has_its_own() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    let count = "SELECT 'rows: ' || count(*) FROM cpu";
    // The same text, whose plan others use.
    assert!(query(&mut other, count).contains("rows: 3"));
    does(
        &mut own,
        &["CREATE TEMP TABLE cpu AS SELECT 7 AS seven", "CREATE TEMP VIEW v AS SELECT * FROM cpu"],
    );
    assert!(query(&mut own, count).contains("rows: 1"));
    assert!(query(&mut other, count).contains("rows: 3"));
    assert!(query(&mut own, "SELECT 'rows: ' || count(*) FROM autogen.cpu").contains("rows: 3"));
    fails(&mut other, "SELECT * FROM v", "42P01");
    fails(&mut other, "SELECT * FROM pg_temp.cpu", "42P01");
    let listed = "SELECT 'n: ' || count(*) FROM pg_class WHERE relpersistence = 't'";
    assert!(query(&mut own, listed).contains("n: 2"));
    assert!(query(&mut other, listed).contains("n: 0"));
    does(&mut other, &["CREATE TEMP TABLE v (a int PRIMARY KEY)", "INSERT INTO v VALUES (1), (2)"]);
    assert!(query(&mut other, "SELECT 'rows: ' || count(*) FROM v").contains("rows: 2"));
    assert!(query(&mut own, "SELECT 'rows: ' || count(*) FROM v").contains("rows: 1"));
    // What is made of a measurement of the same name has its rows.
    does(&mut other, &["CREATE TABLE cpu AS SELECT host, usage FROM cpu"]);
    assert!(query(&mut other, count).contains("rows: 3"));
    assert!(query(&mut own, count).contains("rows: 1"));
}

#[test]
fn rows_go_with_their_session() {
    let server = Server::start(&[]);
    let before = rows_in_memory(&server.process);
    let mut own = Raw::open(server.address);
    let filled = format!("CREATE TEMP TABLE filled AS SELECT i FROM generate_series(1, {ROWS}) AS s(i)");
    let serial = "CREATE TEMP TABLE numbered (id serial, v int UNIQUE)";
    does(&mut own, &[&filled, serial, "INSERT INTO numbered (v) SELECT i FROM filled"]);
    assert!(rows_in_memory(&server.process) >= before + 2 * ROWS);
    does(&mut own, &["DROP TABLE numbered"]);
    wait_for_rows(&server.process, before + ROWS + 100);
    does(&mut own, &["BEGIN", serial, "INSERT INTO numbered (v) SELECT i FROM filled", "ROLLBACK"]);
    wait_for_rows(&server.process, before + ROWS + 100);
    does(&mut own, &["DISCARD ALL"]);
    wait_for_rows(&server.process, before + 100);
    does(&mut own, &[&filled, serial, "INSERT INTO numbered (v) SELECT i FROM filled"]);
    assert!(rows_in_memory(&server.process) >= before + 2 * ROWS);
    drop(own);
    wait_for_rows(&server.process, before + 100);
}

#[test]
fn nothing_is_left_after_a_crash() {
    let (kept, mut server) = Kept::new();
    let mut own = Raw::open(kept.address);
    let filled = format!("CREATE TEMP TABLE filled AS SELECT i FROM generate_series(1, {ROWS}) AS s(i)");
    does(&mut own, &[&filled, "CREATE TABLE lasting AS SELECT count(*) AS n FROM filled"]);
    assert!(rows_in_memory(&server) >= ROWS);
    server.kill();
    let server = kept.start();
    let mut own = Raw::open(kept.address);
    fails(&mut own, "SELECT * FROM filled", "42P01");
    assert!(query(&mut own, "SELECT 'n: ' || n FROM lasting").contains(&format!("n: {ROWS}")));
    wait_for_rows(&server, 100);
}
