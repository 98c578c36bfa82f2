//! Statements that wait until others have ended what they do with a table.

use super::hostile::Raw;
use super::server::Server;
use super::sessions::becomes;
use super::statements::{does, query};
use super::transactions::fails;
use std::thread;

#[test]
fn who_waits_for_a_table_can_be_ended() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (a int)"]);
    let address = server.address;
    let slow = thread::spawn(move || {
        let mut raw = Raw::open(address);
        query(&mut raw, "INSERT INTO t SELECT 1 WHERE pg_sleep(600) IS NOT NULL")
    });
    let running = "SELECT 'running ' || count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO t%'";
    becomes(&mut own, running, "running 1");
    // Its end is farther away than anybody here waits for an answer.
    does(&mut own, &["SET statement_timeout = '200ms'"]);
    fails(&mut own, "ALTER TABLE t ADD COLUMN b int", "57014");
    does(&mut own, &["SET statement_timeout = 0", "SET lock_timeout = '200ms'"]);
    fails(&mut own, "ALTER TABLE t ADD COLUMN b int", "55P03");
    fails(&mut own, "DROP TABLE t", "55P03");
    does(&mut own, &["SET lock_timeout = 0"]);
    let altering = thread::spawn(move || {
        let mut raw = Raw::open(address);
        query(&mut raw, "ALTER TABLE t ADD COLUMN b int")
    });
    let waiting = "SELECT 'waiting ' || count(*) FROM pg_stat_activity WHERE query LIKE '%defines table%' AND pid <> pg_backend_pid()";
    becomes(&mut own, waiting, "waiting 1");
    // Who comes behind it waits, too.
    does(&mut own, &["SET statement_timeout = '200ms'"]);
    fails(&mut own, "INSERT INTO t VALUES (2)", "57014");
    does(
        &mut own,
        &[
            "SET statement_timeout = 0",
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%defines table%' AND pid <> pg_backend_pid()",
            "INSERT INTO t VALUES (2)",
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO t%'",
        ],
    );
    assert!(altering.join().expect("it answers").contains("C57014\0"));
    assert!(slow.join().expect("it answers").contains("C57014\0"));
    does(&mut own, &["ALTER TABLE t ADD COLUMN b int"]);
    assert!(query(&mut own, "SELECT 'rows ' || count(*) || max(a) FROM t").contains("rows 12"));
}
