//! Definitions of tables beside sessions that write and read their rows: nothing that was acknowledged is lost, and nobody reads
//! what is half there.

use super::hostile::{Raw, message};
use super::indexes::shown;
use super::server::Server;
use super::sessions::becomes;
use super::statements::{does, query, text};
use super::transactions::fails;
use std::net::SocketAddr;

/// Rows enough that altering a table takes a while.
const MANY: &str = "INSERT INTO t SELECT v, v FROM generate_series(1, 200000) AS s(v)";

/// Executes a statement in another session while `meanwhile` is done again and again.
fn beside(server: &Server, statement: &'static str, mut meanwhile: impl FnMut(u64)) {
    let address = server.address;
    std::thread::scope(|scope| {
        let altering = scope.spawn(move || does(&mut Raw::open(address), &[statement]));
        for number in 0..64 {
            meanwhile(number);
            if altering.is_finished() {
                break;
            }
        }
        altering.join().expect("it is done");
    });
}

/// Copies a row in a transaction; whether it is committed.
fn copied(address: SocketAddr, statement: &str, row: &str) -> bool {
    let mut raw = Raw::open(address);
    does(&mut raw, &["BEGIN"]);
    raw.send(&message(b'Q', &[statement.as_bytes(), b"\0"].concat()));
    assert_eq!(raw.head(), b'G', "{statement}");
    raw.send(&[message(b'd', row.as_bytes()), message(b'c', b"")].concat());
    let answer = String::from_utf8_lossy(&raw.until_ready()).into_owned();
    let is_committed = |answer: &str| match answer.contains("SERROR") {
        true => {
            assert!(answer.contains("C40001\0"), "{answer}");
            false
        }
        false => true,
    };
    is_committed(&answer) && is_committed(&query(&mut raw, "COMMIT"))
}

#[test]
fn an_index_inside_a_transaction_is_of_a_table_that_it_has_created() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (id int PRIMARY KEY, word text)", "BEGIN", "ALTER TABLE t RENAME TO u"]);
    fails(&mut own, "CREATE UNIQUE INDEX words ON u (word)", "0A000");
    does(&mut own, &["ROLLBACK", "BEGIN", "ALTER TABLE t RENAME TO u"]);
    fails(&mut own, "ALTER TABLE u ADD UNIQUE (word)", "0A000");
    does(&mut own, &["ROLLBACK"]);
}

#[test]
fn a_new_primary_key_loses_no_row_of_a_transaction() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (id int NOT NULL, n int)", MANY]);
    let (mut began, mut during) = (Raw::open(server.address), 0);
    does(&mut began, &["BEGIN", "INSERT INTO t VALUES (-1, 1)"]);
    let mut outcome = None;
    beside(&server, "ALTER TABLE t ADD PRIMARY KEY (id)", |number| {
        if number == 1 {
            outcome = Some(query(&mut began, "COMMIT"));
        }
        during +=
            u64::from(copied(server.address, "COPY t FROM STDIN", &format!("{}\t1\n", 1_000_000 + number)));
    });
    let outcome = outcome.unwrap_or_else(|| query(&mut began, "COMMIT"));
    let is_there = shown(&mut own, "SELECT count(*) FROM t WHERE id = -1") == "1";
    assert_eq!(is_there, !outcome.contains("SERROR"), "{outcome}");
    assert_eq!(shown(&mut own, "SELECT count(*) FROM t WHERE id >= 1000000"), during.to_string());
}

#[test]
fn rows_that_are_copied_in_transactions_get_what_a_table_gets_meanwhile() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (id int PRIMARY KEY, n int)", MANY]);
    let mut all = 200_000;
    for (round, alter) in [
        "ALTER TABLE t ALTER COLUMN n TYPE bigint",
        "ALTER TABLE t ADD CHECK (n > 0)",
        "ALTER TABLE t ADD COLUMN added int DEFAULT 5 * random()::int + 5",
        "CREATE INDEX numbers ON t (n)",
    ]
    .into_iter()
    .enumerate()
    {
        beside(&server, alter, |number| {
            let id = (round as u64 + 1) * 1_000_000 + number;
            all += i32::from(copied(server.address, "COPY t (id, n) FROM STDIN", &format!("{id}\t{id}\n")));
        });
        assert_eq!(shown(&mut own, "SELECT count(*) FROM t WHERE n = id"), all.to_string(), "{alter}");
        let by_index = "SELECT count(*) FROM t WHERE n = 4000000";
        let by_scan = "SELECT count(*) FROM t WHERE n + 0 = 4000000";
        assert_eq!(shown(&mut own, by_index), shown(&mut own, by_scan), "{alter}");
    }
    assert_eq!(shown(&mut own, "SELECT count(*) FROM t WHERE added IS NULL"), "0");
}

#[test]
fn a_table_is_not_replaced_above_rows_that_a_transaction_has_not_seen() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    let made_anew = [
        &["INSERT INTO archive SELECT id FROM t", "TRUNCATE t"][..],
        &["SELECT count(*) FROM t", "TRUNCATE t", "INSERT INTO t VALUES (5)"],
        &[
            "ALTER TABLE t RENAME TO old",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "INSERT INTO t SELECT * FROM old",
            "DROP TABLE old",
        ],
        &[
            "CREATE TABLE new (id int PRIMARY KEY)",
            "INSERT INTO new SELECT * FROM t",
            "DROP TABLE t",
            "ALTER TABLE new RENAME TO t",
        ],
    ];
    for statements in made_anew {
        for change in ["INSERT INTO t VALUES (99)", "DELETE FROM t WHERE id = 1", ""] {
            does(
                &mut other,
                &[
                    "DROP TABLE IF EXISTS t",
                    "DROP TABLE IF EXISTS archive",
                    "CREATE TABLE t (id int PRIMARY KEY)",
                    "CREATE TABLE archive (id int)",
                    "INSERT INTO t VALUES (1), (2)",
                ],
            );
            does(&mut own, &["BEGIN"]);
            does(&mut own, statements);
            if change.is_empty() {
                does(&mut own, &["COMMIT"]);
                continue;
            }
            does(&mut other, &[change]);
            fails(&mut own, "COMMIT", "40001");
            let left = if change.starts_with('I') { "3" } else { "1" };
            assert_eq!(shown(&mut other, "SELECT count(*) FROM t"), left, "{statements:?}");
        }
    }
    // One that has looked at nothing comes after whoever was first.
    does(&mut own, &["BEGIN", "TRUNCATE t"]);
    does(&mut other, &["INSERT INTO t VALUES (99)"]);
    does(&mut own, &["COMMIT"]);
    assert_eq!(shown(&mut other, "SELECT count(*) FROM t"), "0");
}

#[test]
fn an_older_transaction_does_not_take_a_table_for_empty() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    does(
        &mut other,
        &[
            "CREATE TABLE keep (id int NOT NULL)",
            "INSERT INTO keep VALUES (1), (2)",
            "CREATE TABLE o (id int PRIMARY KEY)",
            "INSERT INTO o VALUES (1), (2), (3)",
        ],
    );
    for alter in ["ALTER TABLE keep ADD PRIMARY KEY (id)", "TRUNCATE keep"] {
        does(&mut own, &["BEGIN", "SELECT count(*) FROM keep"]);
        does(&mut other, &[alter]);
        fails(&mut own, "DELETE FROM o WHERE id NOT IN (SELECT id FROM keep)", "40001");
        does(&mut own, &["ROLLBACK", "BEGIN", "SELECT count(*) FROM keep", "ROLLBACK"]);
    }
    // By its key, too, and by a statement that was prepared before.
    does(&mut other, &["INSERT INTO keep VALUES (1)", "PREPARE one AS SELECT id FROM keep WHERE id = $1"]);
    does(&mut own, &["BEGIN", "SELECT count(*) FROM o"]);
    does(&mut other, &["TRUNCATE keep", "INSERT INTO keep VALUES (1)"]);
    fails(&mut own, "SELECT id FROM keep WHERE id = 1", "40001");
    does(&mut own, &["ROLLBACK"]);
    let found = query(&mut other, "EXECUTE one(1)");
    assert!(found.contains("SELECT 1\0"), "{found}");
    // A table that is new has no rows yet.
    does(&mut own, &["BEGIN", "SELECT count(*) FROM o"]);
    does(&mut other, &["CREATE TABLE fresh (id int)", "INSERT INTO fresh VALUES (1)"]);
    assert_eq!(shown(&mut own, "SELECT count(*) FROM fresh"), "0");
    does(&mut own, &["ROLLBACK"]);
}

#[test]
fn who_begins_while_a_column_gets_its_values_does_not_read_null() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)", MANY]);
    for alter in [
        "ALTER TABLE t ALTER COLUMN n TYPE bigint",
        "ALTER TABLE t ADD COLUMN m int DEFAULT 7 + random()::int",
    ] {
        let mut begun = Vec::new();
        beside(&server, alter, |_| {
            let mut raw = Raw::open(server.address);
            does(&mut raw, &["BEGIN", "SELECT id FROM t WHERE id = 1"]);
            begun.push(raw);
        });
        let column = if alter.contains("ADD") { "m" } else { "n" };
        for mut raw in begun {
            let counted = query(&mut raw, &format!("SELECT count({column}) FROM t"));
            assert!(counted.contains("200000") || counted.contains("C40001\0"), "{alter}: {counted}");
        }
    }
}

#[test]
fn a_renamed_table_keeps_since_when_its_index_is_whole() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (id int PRIMARY KEY, n int)", MANY]);
    let mut begun = Vec::new();
    beside(&server, "CREATE INDEX numbers ON t (n)", |_| {
        let mut raw = Raw::open(server.address);
        does(&mut raw, &["BEGIN", "SELECT id FROM t WHERE id = 1"]);
        begun.push(raw);
    });
    does(&mut own, &["BEGIN", "ALTER TABLE t RENAME TO u", "COMMIT"]);
    for mut raw in begun {
        assert_eq!(shown(&mut raw, "SELECT count(*) FROM u WHERE n = 7"), "1");
    }
}

#[test]
fn several_tables_are_dropped_and_emptied_together() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(
        &mut own,
        &["CREATE TABLE a (id int)", "CREATE TABLE b (id int)", "CREATE VIEW v AS SELECT id FROM b"],
    );
    does(&mut own, &["INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)", "TRUNCATE a, b"]);
    assert_eq!(shown(&mut own, "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)"), "0");
    // Others write meanwhile: the statement has looked at nothing.
    let address = server.address;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let mut raw = Raw::open(address);
            for _ in 0..200 {
                does(&mut raw, &["INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)"]);
            }
        });
        while !writing.is_finished() {
            does(&mut own, &["TRUNCATE a, b"]);
        }
        writing.join().expect("it has written");
    });
    does(&mut own, &["DROP VIEW v", "DROP TABLE a, b"]);
    assert_eq!(shown(&mut own, "SELECT count(*) FROM pg_class WHERE relname IN ('a', 'b')"), "0");
}

/// A table that is made of a query is there with its rows, or not at all.
#[test]
fn nobody_sees_a_table_that_its_query_is_filling() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    let running = "SELECT 'running: ' || count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%made%7%' AND pid <> pg_backend_pid()";
    let begin = |own: &mut Raw, other: &mut Raw, statement: &str| {
        own.send(&message(b'Q', &text(statement)));
        becomes(other, running, "running: 1");
    };
    // Somebody else is first to make one of this name.
    for (created, answered) in [("TABLE", "C42P07\0"), ("TABLE IF NOT EXISTS", "CREATE TABLE AS\0")] {
        does(&mut other, &["SELECT pg_advisory_lock(1)"]);
        let filled = format!("CREATE {created} made AS SELECT 7 AS a WHERE pg_advisory_lock(1) IS NOT NULL");
        begin(&mut own, &mut other, &filled);
        fails(&mut other, "SELECT * FROM made", "42P01");
        does(&mut other, &["CREATE TABLE made (b text)", "INSERT INTO made VALUES ('kept')"]);
        does(&mut other, &["SELECT pg_advisory_unlock(1)"]);
        let answer = String::from_utf8_lossy(&own.until_ready()).into_owned();
        assert!(answer.contains(answered), "{answer}");
        assert!(query(&mut other, "SELECT b FROM made").contains("kept"));
        does(&mut own, &["SELECT pg_advisory_unlock_all()"]);
        does(&mut other, &["DROP TABLE made"]);
    }
    // A client that leaves leaves nothing.
    begin(&mut own, &mut other, "CREATE TABLE made AS SELECT 7 AS a WHERE pg_sleep(600) IS NOT NULL");
    drop(own);
    becomes(&mut other, running, "running: 0");
    fails(&mut other, "SELECT * FROM made", "42P01");
    does(&mut other, &["CREATE TABLE made AS SELECT 8 AS a"]);
    assert!(query(&mut other, "SELECT 'a: ' || a FROM made").contains("a: 8"));
}
