//! Joins that compare rows for hours and have none to give: they end when their statements do, and others go on meanwhile.

use super::hostile::Raw;
use super::server::Server;
use super::statements::{does, query};
use std::thread;

/// The pairs of rows of these are 90,000,000,000.
const JOINS: [&str; 3] = [
    "SELECT count(*) FROM (SELECT 1 AS x FROM big) a JOIN (SELECT 1 AS x FROM big) b ON a.x = b.x WHERE a.x + b.x = 7",
    "SELECT count(*) FROM big a, big b WHERE a.k + b.k = -1",
    "SELECT count(*) FROM (SELECT 1 AS x FROM big) a WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS x FROM big) b WHERE a.x = b.x)",
];

#[test]
fn joins_without_rows_are_stopped_and_keep_nobody_waiting() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    let rows = "CREATE TABLE big AS SELECT i, i % 7 AS k FROM generate_series(1, 300000) AS s(i)";
    does(&mut own, &[rows]);
    let address = server.address;
    let joining: Vec<_> = JOINS
        .iter()
        .flat_map(|join| [join, join])
        .map(|join| {
            thread::spawn(move || {
                let mut raw = Raw::open(address);
                does(&mut raw, &["SET statement_timeout = '3s'"]);
                query(&mut raw, join)
            })
        })
        .collect();
    // There are more of them than the server has threads. Nobody waits hours for an answer: `Raw` does not.
    while joining.iter().any(|joining| !joining.is_finished()) {
        assert!(query(&mut own, "SELECT 'n: ' || count(*) FROM cpu").contains("n: 3"));
        let mut new = Raw::open(address);
        assert!(query(&mut new, "SELECT 'sum: ' || sum(i) FROM big WHERE i < 3").contains("sum: 3"));
    }
    for joining in joining {
        let answer = joining.join().expect("an answer");
        // What is quick enough has an answer.
        assert!(answer.contains("C57014") || answer.contains("SELECT 1"), "{answer}");
    }
    let listed = server.ask("SHOW QUERIES");
    assert!(!listed.contains("FROM big"), "{listed}");
}
