//! Locks that several sessions take. What one session alone answers is compared with a real PostgreSQL in `psql.rs`.

use super::hostile::{Raw, TIMEOUT};
use super::server::Server;
use super::sessions::becomes;
use super::statements::{does, query};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Long enough to see that somebody goes on who should not.
const MOMENT: Duration = Duration::from_millis(300);

/// A session that executes statements elsewhere.
struct Elsewhere {
    answers: mpsc::Receiver<String>,
    _thread: JoinHandle<()>,
}

impl Elsewhere {
    fn executes(address: SocketAddr, statements: &'static [&'static str]) -> Self {
        let (sender, answers) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut raw = Raw::open(address);
            for statement in statements {
                if sender.send(query(&mut raw, statement)).is_err() {
                    return;
                }
            }
        });
        Self { answers, _thread: thread }
    }

    /// It asks for a lock that somebody has, and does not get it.
    #[track_caller]
    fn waits(&self, address: SocketAddr) {
        let waiting =
            "SELECT 'waiting ' || count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        becomes(&mut Raw::open(address), waiting, "waiting 1");
        assert_eq!(self.answers.recv_timeout(MOMENT), Err(mpsc::RecvTimeoutError::Timeout));
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(TIMEOUT).expect("an answer")
    }
}

#[test]
fn who_waits_is_next_when_the_lock_is_given_back() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["SELECT pg_advisory_lock(7)", "SELECT pg_advisory_lock(7)"]);
    let other = Elsewhere::executes(
        server.address,
        &["SELECT 'tried ' || pg_try_advisory_lock(7)", "SELECT 'taken' || pg_advisory_lock(7)"],
    );
    assert!(other.answer().contains("tried false"));
    other.waits(server.address);
    does(&mut own, &["SELECT pg_advisory_unlock(7)"]);
    other.waits(server.address);
    // A session that ends gives back what it has.
    drop(own);
    assert!(other.answer().contains("taken"));
}

#[test]
fn a_transaction_sees_what_was_committed_before_its_lock() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE TABLE t (a int PRIMARY KEY)", "BEGIN", "SELECT pg_advisory_xact_lock(1, 2)"]);
    let statements =
        &["BEGIN", "SELECT pg_advisory_xact_lock(1, 2)", "SELECT 'rows: ' || count(*) FROM t", "COMMIT"];
    let other = Elsewhere::executes(server.address, statements);
    other.answer();
    other.waits(server.address);
    does(&mut own, &["INSERT INTO t VALUES (1)", "COMMIT"]);
    other.answer();
    assert!(other.answer().contains("rows: 1"));
    assert!(!other.answer().contains("SERROR"));
    does(&mut own, &["SELECT pg_advisory_xact_lock(1, 2)"]);
}

#[test]
fn a_statement_that_waits_ends_in_time_and_leaves_nothing() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["SELECT pg_advisory_lock(1)"]);
    let other = Elsewhere::executes(
        server.address,
        &[
            "SET lock_timeout = '100ms'",
            "SELECT pg_advisory_lock(2), pg_advisory_lock(1)",
            "SET lock_timeout = 0",
            "SET statement_timeout = '100ms'",
            "SELECT pg_advisory_lock_shared(1)",
            "SET statement_timeout = 0",
            "SELECT pg_advisory_unlock(2)",
        ],
    );
    other.answer();
    let late = other.answer();
    assert!(late.contains("C55P03\0") && late.contains("lock timeout"), "{late}");
    other.answer();
    other.answer();
    assert!(other.answer().contains("C57014\0"));
    other.answer();
    other.answer();
    // Neither of them is in the queue any more.
    does(&mut own, &["SELECT pg_advisory_unlock(1)"]);
    let all = "SELECT 'locks: ' || count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert!(query(&mut own, all).contains("locks: 0"));
}

#[test]
fn sessions_that_wait_for_each_other_are_told() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["BEGIN", "SELECT pg_advisory_xact_lock(1)"]);
    let other = Elsewhere::executes(
        server.address,
        &["SELECT pg_advisory_lock(2)", "SELECT 'taken' || pg_advisory_lock(1)"],
    );
    other.answer();
    other.waits(server.address);
    let refused = query(&mut own, "SELECT pg_advisory_xact_lock(2)");
    assert!(refused.contains("C40P01\0"), "{refused}");
    does(&mut own, &["ROLLBACK"]);
    assert!(other.answer().contains("taken"));
}

#[test]
fn a_query_that_begins_anew_for_want_of_memory_takes_its_locks_once() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(
        &mut own,
        &[
            "CREATE TABLE a (k int PRIMARY KEY)",
            "CREATE TABLE b (k int PRIMARY KEY, x text)",
            "INSERT INTO a VALUES (1), (2)",
            // A text so long that a join begins anew with fewer rows in a batch.
            "INSERT INTO b VALUES (1, repeat('x', 5000000)), (2, 'y')",
        ],
    );
    let locking = "SELECT s.l IS NULL, length(b.x) FROM (SELECT k, pg_advisory_lock(k)::text AS l FROM a) AS s \
                   JOIN b ON s.k = b.k";
    assert!(query(&mut own, locking).contains("5000000"));
    for key in [1, 2] {
        assert!(
            query(&mut own, &format!("SELECT 'first ' || pg_advisory_unlock({key})")).contains("first true")
        );
        assert!(
            query(&mut own, &format!("SELECT 'then ' || pg_advisory_unlock({key})")).contains("then false")
        );
    }
}
