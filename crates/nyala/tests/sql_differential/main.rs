//! Sends random queries of SQL to nyala and to a real PostgreSQL 15. Values, their types and the codes of errors must be the same.
//!
//! `testdata/postgres/differences.txt` says what may differ, and why. Without a PostgreSQL the test is skipped
//! (`support/peers.rs`; `NYALA_POSTGRESQL` names the directory of its programs).
//!
//! - `NYALA_SQL_QUERIES` sets how many queries are asked (600), `NYALA_SQL_SEED` repeats a run.

#![cfg(feature = "sql")]

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
mod compare;
mod forms;
mod grammar;
#[path = "../support/peers.rs"]
mod peers;
mod postgresql;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
mod session;
mod statements;

use compare::{Difference, Differences, difference};
use postgresql::{Postgresql, USER};
use process::Process;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use session::{Answer, Session};
use statements::{Query, query, tables};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Queries over the same rows.
const QUERIES_OF_A_ROUND: usize = 200;
/// The most differences that are shown.
const SHOWN_MAX: usize = 400;
/// The most that is shown of an answer.
const SHOWN_LETTERS: usize = 600;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_queries_have_postgresqls_answers() {
    let Some(peer) = Postgresql::start() else { return };
    let (queries, seed) = (number("NYALA_SQL_QUERIES", 600) as usize, number("NYALA_SQL_SEED", 1));
    let meant = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres/differences.txt");
    let meant = Differences::read(&meant);
    let directory = tempfile::tempdir().expect("a directory");
    let address = client::free_address();
    let process = Process::start(&directory.path().join("data"), &["--postgres-bind", &address.to_string()]);
    let created = process.send("POST", "/query?q=CREATE+DATABASE+e", b"").expect("an answer");
    assert_eq!(created.status, 200);
    let mut nyala = Session::open(address, USER, "e").expect("nyala listens");
    let mut peer = Session::open(peer.address, USER, "postgres").expect("PostgreSQL listens");
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut different, mut with_rows, mut left_out) = (Vec::new(), 0, 0);
    for asked in 0..queries {
        if asked % QUERIES_OF_A_ROUND == 0 {
            for statement in tables(&mut random) {
                let answers = (nyala.ask(&statement, &[]), peer.ask(&statement, &[]));
                assert_eq!(answers.0, answers.1, "seed {seed}: {statement}");
            }
        }
        let query = query(&mut random);
        let (own, other) =
            (nyala.ask(&query.text, &query.parameters), peer.ask(&query.text, &query.parameters));
        with_rows += usize::from(matches!(&other, Answer::Rows { rows, .. } if !rows.is_empty()));
        match difference(&own, &other, query.is_ordered) {
            Some(kind) if meant.include(kind, &query.text) => left_out += 1,
            Some(kind) => different.push(shown(kind, &query, &own, &other)),
            None => {}
        }
    }
    let text = different.iter().take(SHOWN_MAX).fold(String::new(), |mut text, own| {
        writeln!(text, "{own}").expect("text grows");
        text
    });
    let said = format!("seed {seed}: {queries} queries, {with_rows} with rows, {left_out} that may differ\n");
    // Not by a macro: what those print is shown of tests that fail only.
    let _ = std::io::stderr().write_all(said.as_bytes());
    assert!(different.is_empty(), "{} of {queries} answers differ (seed {seed}):\n{text}", different.len());
    assert!(with_rows * 2 > queries, "most queries should have rows: {with_rows} of {queries}");
    assert!(left_out * 5 < queries, "few queries should be left out: {left_out} of {queries}");
}

fn shown(kind: Difference, query: &Query, own: &Answer, other: &Answer) -> String {
    let parameters: Vec<String> = query
        .parameters
        .iter()
        .map(|own| format!("{}: {}", own.oid, own.text.as_deref().unwrap_or("NULL")))
        .collect();
    let cut = |answer: &Answer| {
        let text = match answer {
            Answer::Error { code, message } => format!("{code} {message}"),
            Answer::Rows { types, rows } => {
                let row = |row: &Vec<Option<String>>| {
                    let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
                    cells.collect::<Vec<_>>().join("|")
                };
                format!("{types:?} {}", rows.iter().map(row).collect::<Vec<_>>().join("; "))
            }
        };
        text.chars().take(SHOWN_LETTERS).collect::<String>()
    };
    format!(
        "{kind:?}: {} {parameters:?}\n  nyala:      {}\n  postgresql: {}",
        query.text,
        cut(own),
        cut(other)
    )
}
