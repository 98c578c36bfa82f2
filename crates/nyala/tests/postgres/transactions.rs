//! What transactions define: who sees it, who was first, and what a crash leaves of it. What single statements answer is
//! compared with a real PostgreSQL in `psql.rs`.

use super::client;
use super::hostile::{Raw, TIMEOUT, contains, message};
use super::process::Process;
use super::server::Server;
use super::statements::{does, query, text};
use std::time::{Duration, Instant};

pub(crate) fn fails(raw: &mut Raw, statement: &str, code: &str) {
    let answer = query(raw, statement);
    assert!(answer.contains(&format!("C{code}\0")), "{statement}: {answer}");
}

/// A database `d` whose server is started again and again.
pub(crate) struct Kept {
    directory: tempfile::TempDir,
    pub(crate) address: std::net::SocketAddr,
}

impl Kept {
    pub(crate) fn new() -> (Self, Process) {
        let directory = tempfile::tempdir().expect("a directory");
        let kept = Self { directory, address: client::free_address() };
        let server = kept.start();
        server.query("CREATE DATABASE d");
        (kept, server)
    }

    pub(crate) fn start(&self) -> Process {
        Process::start(self.directory.path(), &["--postgres-bind", &self.address.to_string()])
    }
}

#[test]
fn nobody_else_sees_what_is_not_committed() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    does(&mut own, &["BEGIN", "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (123456)"]);
    does(&mut own, &["CREATE VIEW v AS SELECT a + 1 AS b FROM t"]);
    assert!(query(&mut own, "SELECT * FROM v").contains("123457"));
    fails(&mut other, "SELECT * FROM t", "42P01");
    fails(&mut other, "SELECT * FROM v", "42P01");
    assert!(!query(&mut other, "SELECT relname || '.' FROM pg_class WHERE relname = 't'").contains("t."));
    assert!(query(&mut own, "SELECT relname || '.' FROM pg_class WHERE relname = 't'").contains("t."));
    does(&mut own, &["COMMIT"]);
    assert!(query(&mut other, "SELECT * FROM v").contains("123457"));
    // Until it is committed, others use what is to be dropped.
    does(&mut own, &["BEGIN", "DROP VIEW v", "DROP TABLE t"]);
    fails(&mut own, "SELECT * FROM t", "42P01");
    does(&mut own, &["ROLLBACK", "BEGIN", "DROP VIEW v", "TRUNCATE t"]);
    assert!(query(&mut other, "SELECT * FROM v").contains("123457"));
    does(&mut own, &["COMMIT"]);
    fails(&mut other, "SELECT * FROM v", "42P01");
    assert!(query(&mut other, "SELECT 'rows: ' || count(*) FROM t").contains("rows: 0"));
    // A session that ends takes its transaction with it.
    does(&mut own, &["BEGIN", "CREATE TABLE gone (a int)", "INSERT INTO gone VALUES (1)"]);
    drop(own);
    does(&mut other, &["CREATE TABLE gone (b text)", "INSERT INTO gone VALUES ('x')"]);
}

/// No more rows come from a portal whose transaction has failed or ended.
#[test]
fn portals_end_with_their_transaction() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    let execute = |portal: &str| message(b'E', &[text(portal), vec![0, 0, 0, 2]].concat());
    let bound = |portal: &str, statement: &str| {
        let parse = [text(""), text(statement), vec![0, 0]].concat();
        let bind = [text(portal), text(""), vec![0; 6]].concat();
        [message(b'P', &parse), message(b'B', &bind), execute(portal)].concat()
    };
    let sync = message(b'S', b"");
    let suspends = |raw: &mut Raw| {
        does(raw, &["BEGIN"]);
        raw.send(&[bound("p", "SELECT n FROM generate_series(1, 9) AS s(n)"), sync.clone()].concat());
        let answer = raw.until_ready();
        assert!(contains(&answer, "s\0\0\0\x04"), "it is not suspended: {answer:?}");
    };
    let refuses = |raw: &mut Raw, sent: &[u8], code: &str| {
        raw.send(&[sent, &sync].concat());
        let answer = raw.until_ready();
        assert!(contains(&answer, &format!("C{code}\0")), "{}", String::from_utf8_lossy(&answer));
    };
    suspends(&mut raw);
    fails(&mut raw, "SELECT * FROM nowhere", "42P01");
    refuses(&mut raw, &execute("p"), "25P02");
    does(&mut raw, &["ROLLBACK"]);
    refuses(&mut raw, &execute("p"), "34000");
    // Not even before the next Sync.
    for end in ["ROLLBACK", "COMMIT"] {
        suspends(&mut raw);
        refuses(&mut raw, &[bound("", end), execute("p")].concat(), "34000");
        suspends(&mut raw);
        refuses(&mut raw, &[bound("", end), execute("")].concat(), "34000");
        does(&mut raw, &["SELECT 1"]);
    }
}

/// What exec_bind_message and exec_describe_message of PostgreSQL do, and its portals of subtransactions.
#[test]
fn portals_end_with_their_savepoint_and_are_not_made_in_failed_transactions() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    let parse = |name: &str, words: &str| message(b'P', &[text(name), text(words), vec![0, 0]].concat());
    let bind = |portal: &str, name: &str| message(b'B', &[text(portal), text(name), vec![0; 6]].concat());
    let execute = |portal: &str| message(b'E', &[text(portal), vec![0, 0, 0, 2]].concat());
    let describe = |kind: u8, name: &str| message(b'D', &[vec![kind], text(name)].concat());
    let answer = |raw: &mut Raw, sent: &[Vec<u8>]| {
        raw.send(&[sent.concat(), message(b'S', b"")].concat());
        raw.until_ready()
    };
    let refuses = |raw: &mut Raw, sent: &[Vec<u8>], code: &str| {
        let answer = answer(raw, sent);
        assert!(contains(&answer, &format!("C{code}\0")), "{code}: {}", String::from_utf8_lossy(&answer));
    };
    let succeeds = |raw: &mut Raw, sent: &[Vec<u8>]| {
        let answer = answer(raw, sent);
        assert!(!contains(&answer, "SERROR\0"), "{}", String::from_utf8_lossy(&answer));
    };
    let rows = "SELECT n FROM generate_series(1, 9) AS s(n)";
    succeeds(&mut raw, &[parse("rows", rows), parse("back", "ROLLBACK TO s"), parse("end", "ROLLBACK")]);
    succeeds(&mut raw, &[parse("one", "SET application_name = 'a'"), parse("nothing", "")]);
    for (name, undo) in [("simple", None), ("extended", Some([bind("", "back"), execute("")]))] {
        does(&mut raw, &["BEGIN"]);
        succeeds(&mut raw, &[bind("before", "rows"), execute("before")]);
        does(&mut raw, &["SAVEPOINT s"]);
        succeeds(&mut raw, &[bind("behind", "rows"), execute("behind")]);
        // What is released belongs to what came before.
        does(&mut raw, &["SAVEPOINT inner"]);
        succeeds(&mut raw, &[bind("within", "rows"), execute("within")]);
        does(&mut raw, &["RELEASE inner"]);
        match undo {
            Some(undo) => succeeds(&mut raw, &undo),
            None => does(&mut raw, &["ROLLBACK TO s"]),
        }
        for gone in ["behind", "within"] {
            refuses(&mut raw, &[execute(gone)], "34000");
            does(&mut raw, &["ROLLBACK TO s"]);
        }
        let going_on = answer(&mut raw, &[execute("before")]);
        assert!(contains(&going_on, "s\0\0\0\x04"), "{name}: {}", String::from_utf8_lossy(&going_on));
        does(&mut raw, &["ROLLBACK"]);
    }
    does(&mut raw, &["BEGIN"]);
    succeeds(&mut raw, &[bind("early", "rows")]);
    fails(&mut raw, "SELECT * FROM nowhere", "42P01");
    for sent in [
        bind("", "rows"),
        bind("", "one"),
        bind("", "nothing"),
        describe(b'S', "rows"),
        describe(b'P', "early"),
    ] {
        refuses(&mut raw, &[sent], "25P02");
    }
    for sent in [describe(b'S', "one"), describe(b'S', "nothing"), describe(b'S', "end"), bind("", "end")] {
        succeeds(&mut raw, &[sent]);
    }
    refuses(&mut raw, &[bind("", "unknown")], "26000");
    refuses(&mut raw, &[describe(b'P', "unknown")], "34000");
    succeeds(&mut raw, &[bind("", "end"), describe(b'P', ""), execute("")]);
    does(&mut raw, &["SELECT 1"]);
}

#[test]
fn a_transaction_does_not_get_the_snapshot_of_another_one() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["BEGIN"]);
    fails(&mut own, "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'", "0A000");
}

#[test]
fn the_first_to_define_a_table_wins() {
    let server = Server::start(&[]);
    let (mut first, mut second) = (Raw::open(server.address), Raw::open(server.address));
    does(
        &mut first,
        &["BEGIN", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "CREATE TABLE u (a int)"],
    );
    does(&mut second, &["CREATE TABLE t (b text)", "INSERT INTO t VALUES ('second')"]);
    fails(&mut first, "COMMIT", "40001");
    assert!(query(&mut first, "SELECT * FROM t").contains("second"));
    fails(&mut first, "SELECT * FROM u", "42P01");
    // Rows of other tables go with it.
    does(&mut first, &["BEGIN", "DROP TABLE t", "CREATE TABLE other (a int)"]);
    does(&mut second, &["COMMENT ON TABLE t IS 'changed'", "INSERT INTO t VALUES ('more')"]);
    fails(&mut first, "COMMIT", "40001");
    assert!(query(&mut first, "SELECT 'rows: ' || count(*) FROM t").contains("rows: 2"));
    fails(&mut first, "SELECT * FROM other", "42P01");
    does(&mut first, &["BEGIN", "CREATE TABLE w (a int)", "UPDATE t SET b = 'first'"]);
    does(&mut second, &["UPDATE t SET b = 'second'"]);
    fails(&mut first, "COMMIT", "40001");
    fails(&mut first, "SELECT * FROM w", "42P01");
}

#[test]
fn a_crash_leaves_definitions_and_rows_or_neither() {
    let (kept, mut server) = Kept::new();
    let address = kept.address;
    let mut raw = Raw::open(address);
    does(&mut raw, &["CREATE TABLE kept (a int PRIMARY KEY)", "INSERT INTO kept VALUES (1)"]);
    does(
        &mut raw,
        &["BEGIN", "CREATE TABLE done (a int)", "INSERT INTO done VALUES (7)", "DELETE FROM kept"],
    );
    does(&mut raw, &["INSERT INTO kept VALUES (2)", "COMMIT"]);
    does(&mut raw, &["BEGIN", "CREATE TABLE lost (a int)", "INSERT INTO lost VALUES (8)", "DROP TABLE done"]);
    does(&mut raw, &["TRUNCATE kept", "INSERT INTO kept VALUES (3)"]);
    server.kill();
    server = kept.start();
    let mut raw = Raw::open(address);
    assert!(query(&mut raw, "SELECT 'done: ' || a FROM done").contains("done: 7"));
    assert!(query(&mut raw, "SELECT 'kept: ' || sum(a) FROM kept").contains("kept: 2"));
    fails(&mut raw, "SELECT * FROM lost", "42P01");
    does(&mut raw, &["CREATE TABLE lost (b text)", "DROP TABLE lost"]);
    assert!(server.stop().success());
}

/// Whoever goes away in the middle of a COMMIT finds all of the transaction later, or nothing.
#[test]
fn a_client_that_leaves_while_it_commits_loses_nothing_that_was_committed() {
    const ROUNDS: usize = 40;
    let (kept, server) = Kept::new();
    let address = kept.address;
    for round in 0..ROUNDS {
        let mut raw = Raw::open(address);
        does(&mut raw, &["BEGIN", &format!("CREATE TABLE t{round} (a int)")]);
        does(&mut raw, &[&format!("INSERT INTO t{round} VALUES (7)")]);
        raw.send(&message(b'Q', b"COMMIT\0"));
        // Up to half a second: on every machine some have committed by then, and some have not.
        std::thread::sleep(Duration::from_micros(50 << (round / 3)));
    }
    let found = |address| {
        let mut raw = Raw::open(address);
        let mut found = Vec::new();
        for round in 0..ROUNDS {
            let answer = query(&mut raw, &format!("SELECT 'rows: ' || count(*) FROM t{round}"));
            assert!(answer.contains("rows: 1") || answer.contains("C42P01\0"), "{round}: {answer}");
            found.push(answer.contains("rows: 1"));
        }
        found
    };
    let begun = Instant::now();
    while server.metric("nyala_postgres_connections ") > 0 {
        assert!(begun.elapsed() < TIMEOUT, "connections are left open");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A commit that has begun goes on without its connection.
    let (mut before, mut times_the_same) = (found(address), 0);
    while times_the_same < 10 {
        std::thread::sleep(Duration::from_millis(200));
        let now = found(address);
        times_the_same = if now == before { times_the_same + 1 } else { 0 };
        before = now;
    }
    assert!(before.iter().any(|is_there| *is_there), "some were committed");
    assert!(server.stop().success());
    let _server = kept.start();
    assert_eq!(found(address), before, "after a restart");
}

/// Rows that are written while a table gets its key are there, each once.
#[test]
fn a_table_gets_its_key_while_rows_are_written() {
    const ROWS: usize = 300;
    let (kept, mut server) = Kept::new();
    let address = kept.address;
    let mut raw = Raw::open(address);
    does(&mut raw, &["CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (-1, 'first')"]);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                let mut raw = Raw::open(address);
                for row in (0..ROWS).filter(|row| row % 2 == writer) {
                    does(&mut raw, &[&format!("INSERT INTO t VALUES ({row}, 'written')")]);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        does(&mut raw, &["ALTER TABLE t ADD PRIMARY KEY (a)"]);
    });
    server.kill();
    let server = kept.start();
    let mut raw = Raw::open(address);
    let counted = "SELECT 'rows: ' || count(*) || ' of ' || count(DISTINCT a) FROM t";
    assert!(query(&mut raw, counted).contains(&format!("rows: {0} of {0}", ROWS + 1)));
    fails(&mut raw, "INSERT INTO t VALUES (7, 'again')", "23505");
    // A transaction that wrote to the table as it was cannot commit that.
    does(&mut raw, &["CREATE TABLE u (a int)", "BEGIN", "INSERT INTO u VALUES (1)"]);
    let mut other = Raw::open(address);
    does(&mut other, &["ALTER TABLE u ADD PRIMARY KEY (a)"]);
    fails(&mut raw, "COMMIT", "40001");
    fails(&mut other, "BEGIN; ALTER TABLE u ADD PRIMARY KEY (a)", "0A000");
    drop(server);
}

/// No number is given twice, whoever takes it and however the server ends; one that is stopped leaves no gap.
#[test]
fn no_number_of_a_sequence_is_given_twice() {
    const ROWS: usize = 60;
    let (kept, mut server) = Kept::new();
    let address = kept.address;
    does(&mut Raw::open(address), &["CREATE TABLE t (id serial PRIMARY KEY, written text)"]);
    for round in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    let mut raw = Raw::open(address);
                    for _ in 0..ROWS {
                        does(&mut raw, &["INSERT INTO t (written) VALUES ('now')"]);
                    }
                });
            }
        });
        let counted = query(&mut Raw::open(address), "SELECT 'rows: ' || count(DISTINCT id) || '.' FROM t");
        assert!(counted.contains(&format!("rows: {}.", 3 * ROWS * (round + 1))), "{counted}");
        // What was reserved and not given is lost.
        if round < 2 {
            server.kill();
            server = kept.start();
        }
    }
    assert!(server.stop().success());
    let server = kept.start();
    let mut raw = Raw::open(address);
    does(&mut raw, &["INSERT INTO t (written) VALUES ('last')"]);
    let last =
        "SELECT 'gap: ' || max(id) - lag(max(id)) OVER (ORDER BY written DESC) FROM t GROUP BY written";
    assert!(query(&mut raw, last).contains("gap: 1"), "{}", query(&mut raw, last));
    drop(server);
}
