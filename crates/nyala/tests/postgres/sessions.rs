//! Sessions as others see them, and how they are ended from another one.

use super::hostile::{Raw, TIMEOUT, message};
use super::psql;
use super::server::Server;
use super::statements::{does, query, text};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Asks until the answer has these words.
#[track_caller]
pub(crate) fn becomes(raw: &mut Raw, statement: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let answer = query(raw, statement);
        if answer.contains(wanted) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{statement}: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of a session.
fn number(raw: &mut Raw) -> String {
    let answer = query(raw, "SELECT '<' || pg_backend_pid() || '>'");
    let (_, after) = answer.split_once('<').expect("a number");
    after.split_once('>').expect("its end").0.to_owned()
}

#[test]
fn a_statement_and_a_session_are_ended_from_another_one() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    let pid = number(&mut other);
    let shown = format!(
        "SELECT '<' || usename || '|' || datname || '|' || application_name || '|' || client_addr || '|' || state || '|' || query
            || '>' FROM pg_stat_activity WHERE pid = {pid} AND backend_start <= now() AND backend_type = 'client backend'"
    );
    becomes(&mut own, &shown, "<me|d||127.0.0.1|idle|>");
    does(&mut other, &["SET application_name = 'psql of me'", "BEGIN"]);
    becomes(&mut own, &shown, "<me|d|psql of me|127.0.0.1|idle in transaction|>");
    query(&mut other, "SELECT nothing");
    becomes(&mut own, &shown, "<me|d|psql of me|127.0.0.1|idle in transaction (aborted)|>");
    does(&mut other, &["ROLLBACK"]);
    // It sees itself, too, with what it executes.
    let answer = query(&mut own, "SELECT query, state FROM pg_stat_activity WHERE pid = pg_backend_pid()");
    assert!(answer.contains("SELECT query, state FROM") && answer.contains("active"), "{answer}");

    other.send(&message(b'Q', &text("SELECT pg_sleep(600)")));
    becomes(&mut own, &shown, "127.0.0.1|active|SELECT pg_sleep(600)>");
    let answer = query(&mut own, &format!("SELECT 'did ' || pg_cancel_backend({pid})"));
    assert!(answer.contains("did true"), "{answer}");
    let answer = String::from_utf8_lossy(&other.until_ready()).into_owned();
    assert!(answer.contains("C57014"), "{answer}");
    does(&mut other, &["SELECT 1"]);
    // Nothing runs: nothing happens. Nobody has that number: neither.
    let answer = query(
        &mut own,
        &format!("SELECT 'did ' || pg_cancel_backend({pid}), pg_cancel_backend(NULL) IS NULL"),
    );
    assert!(answer.contains("did true"), "{answer}");
    assert!(query(&mut own, "SELECT 'did ' || pg_terminate_backend(1999999999)").contains("did false"));
    does(&mut other, &["SELECT 1"]);

    // One that waits for its client ends at once, …
    let answer = query(&mut own, &format!("SELECT 'did ' || pg_terminate_backend({pid})"));
    assert!(answer.contains("did true"), "{answer}");
    let answer = String::from_utf8_lossy(&other.rest()).into_owned();
    assert!(answer.contains("SFATAL") && answer.contains("C57P01"), "{answer}");
    becomes(&mut own, "SELECT 'sessions: ' || count(*) FROM pg_stat_activity", "sessions: 1");
    // … and one that executes a statement, with it.
    let mut other = Raw::open(server.address);
    let pid = number(&mut other);
    other.send(&message(b'Q', &text("SELECT pg_sleep(600)")));
    becomes(
        &mut own,
        &format!("SELECT 'state: ' || state FROM pg_stat_activity WHERE pid = {pid}"),
        "state: active",
    );
    does(
        &mut own,
        &[&format!("SELECT pg_terminate_backend(pid, 100) FROM pg_stat_activity WHERE pid = {pid}")],
    );
    let answer = String::from_utf8_lossy(&other.rest()).into_owned();
    assert!(answer.contains("SFATAL") && answer.contains("C57P01"), "{answer}");
}

#[test]
fn only_administrators_end_what_others_do() {
    let Some(psql) = psql::program() else { return };
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    for user in ["bob", "eve"] {
        server.ask(&format!("CREATE USER {user} WITH PASSWORD '{user}'"));
        server.ask(&format!("GRANT READ ON d TO {user}"));
    }
    let settings = |user: &str| {
        let password = if user == "ann" { "pencil" } else { user };
        format!("user={user} password={password} dbname=d application_name={user}")
    };
    let mut waiting = psql::command(&psql, &server, &settings("bob"));
    let waiting = waiting.args(["--command", "SELECT pg_sleep(600)"]);
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let asks = |user: &str, statement: &str| psql::printed(&psql, &server, &settings(user), &[statement]);
    let listed = "SELECT usename, application_name, state FROM pg_stat_activity ORDER BY usename";
    let both = "usename|application_name|state\nann|ann|active\nbob|bob|active\n(2 rows)\n";
    // Until the sleep has begun. A session of ann may still be there for a moment when the next one is.
    let begun = Instant::now();
    loop {
        let shown = asks("ann", listed);
        if shown == both {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{shown}");
    }
    assert_eq!(asks("eve", listed), "usename|application_name|state\neve|eve|active\n(1 row)\n");
    // Numbers are small, and nobody is told whose they are.
    let pid = asks("ann", "SELECT pid FROM pg_stat_activity WHERE usename = 'bob'");
    let pid = pid.lines().nth(1).expect("a number");
    for (function, word) in [("pg_cancel_backend", "query"), ("pg_terminate_backend", "process")] {
        let refused =
            asks("eve", &format!("SELECT {function}(pid) FROM generate_series(1, {pid}) AS t (pid)"));
        assert!(
            refused.contains(&format!("must be a member of the role whose {word} is being ")),
            "{refused}"
        );
    }
    let own = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
    assert!(asks("bob", own).contains("t\n(1 row)"));
    let ended = waiting.wait().expect("it ends");
    assert!(!ended.success());
}
