//! Numbers of sequences for many sessions at once. What single statements answer is compared with a real PostgreSQL in
//! `psql.rs`.

use super::hostile::Raw;
use super::indexes::shown;
use super::server::Server;
use super::statements::{does, query};
use super::transactions::fails;

const SESSIONS: usize = 8;
const STATEMENTS: usize = 12;
const ROWS: usize = 700;

/// Sessions that share a thread take more numbers than are reserved together: none waits for another one for ever.
#[test]
fn numbers_that_run_out_stop_nobody() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(
        &mut own,
        &[
            "CREATE TABLE t (id serial PRIMARY KEY, n int)",
            "CREATE SEQUENCE s",
            "CREATE SEQUENCE shared",
            "CREATE SEQUENCE codes",
            "CREATE TABLE coded (id int PRIMARY KEY, code text DEFAULT 'A' || nextval('codes'))",
        ],
    );
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let address = server.address;
            scope.spawn(move || {
                let mut raw = Raw::open(address);
                for statement in 0..STATEMENTS {
                    let inserted = match (session + statement) % 2 {
                        0 => format!("INSERT INTO t (n) SELECT v FROM generate_series(1, {ROWS}) AS g(v)"),
                        _ => format!(
                            "INSERT INTO t (id, n) SELECT 1000000 + nextval('s'), v FROM generate_series(1, {ROWS}) AS g(v)"
                        ),
                    };
                    does(&mut raw, &[&inserted, "INSERT INTO t DEFAULT VALUES", "INSERT INTO t (id) VALUES (DEFAULT)"]);
                    let place = session * STATEMENTS + statement;
                    let coded = format!("INSERT INTO coded VALUES ({place}) RETURNING code, nextval('codes')");
                    does(&mut raw, &[&format!("SELECT setval('shared', {})", place + 1), &coded]);
                }
            });
        }
    });
    let count = query(&mut own, "SELECT count(*), count(DISTINCT id) FROM t");
    let expected = (SESSIONS * STATEMENTS * (ROWS + 2)).to_string();
    assert_eq!(count.matches(&*expected).count(), 2, "{count}");
    let codes = shown(&mut own, "SELECT count(DISTINCT code) FROM coded");
    assert_eq!(codes, (SESSIONS * STATEMENTS).to_string());
}

/// The counter of a sequence is everybody's, also while a transaction alters the rules that it counts by.
#[test]
fn a_sequence_that_is_altered_and_rolled_back_gives_no_number_again() {
    let server = Server::start(&[]);
    let mut own = Raw::open(server.address);
    does(&mut own, &["CREATE SEQUENCE s", "SELECT nextval('s'), nextval('s'), nextval('s')"]);
    for altered in ["INCREMENT BY -1 MINVALUE -100", "MAXVALUE 5 CYCLE"] {
        for taken in ["SELECT nextval('s')", "SELECT setval('s', 2)"] {
            does(&mut own, &["BEGIN", &format!("ALTER SEQUENCE s {altered}")]);
            fails(&mut own, taken, "0A000");
            does(&mut own, &["ROLLBACK"]);
        }
    }
    // One that begins anew has a counter of its own.
    does(&mut own, &["BEGIN", "ALTER SEQUENCE s RESTART"]);
    assert_eq!(shown(&mut own, "SELECT nextval('s')"), "1");
    does(&mut own, &["ROLLBACK"]);
    assert_eq!(shown(&mut own, "SELECT nextval('s')"), "4");
    does(&mut own, &["BEGIN", "ALTER SEQUENCE s INCREMENT BY 10", "COMMIT"]);
    assert_eq!(shown(&mut own, "SELECT nextval('s')"), "14");
}
