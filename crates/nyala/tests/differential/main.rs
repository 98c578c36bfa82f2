//! Sends random data and random queries to nyala, with its rows here or in Apache Kudu, and to a real InfluxDB 1.8.10.
//! Their answers must be the same.
//!
//! Floats may differ by a few units in the last place, because the order of additions is free. What is known to
//! differ on purpose (`docs/compat/influxdb.md`) is not asked. Without an InfluxDB the test is skipped
//! (`support/peers.rs`).
//!
//! Between queries points are deleted and written again. Unsigned integers take part if the InfluxDB was built with
//! them (`go install -tags uint64 …`): `NYALA_INFLUXD_UNSIGNED` names such a server.
//!
//! - `NYALA_DIFFERENTIAL_QUERIES` sets how many queries are asked (1000, over Kudu 200), `NYALA_DIFFERENTIAL_SEED` repeats a run.

mod changes;
#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/cluster.rs"]
mod cluster;
mod compare;
mod data;
mod functions;
mod grammar;
#[path = "../support/peers.rs"]
mod peers;
mod rows;
#[path = "../support/server.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod server;
mod show;

use changes::Change;
use client::{Request, Response, percent_encode};
use compare::Order;
use data::Schema;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use server::{Program, Server};
use std::fmt::Write as _;

/// Requests per database.
const QUERIES_OF_A_ROUND: usize = 200;
/// How often a request changes stored data instead.
const CHANGES: f64 = 0.04;
/// The most differences that are shown.
const SHOWN_MAX: usize = 40;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

struct Pair {
    nyala: Server,
    influx: Server,
}

impl Pair {
    fn both(&self, target: &str, body: &str) -> (Response, Response) {
        let request = Request {
            method: "POST".to_owned(),
            target: target.to_owned(),
            headers: vec![("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned())],
            body: body.as_bytes().to_vec(),
        };
        let send = |server: &Server| server.send(&request).expect("an answer");
        (send(&self.nyala), send(&self.influx))
    }

    fn query(&self, database: &str, query: &str) -> (Response, Response) {
        self.both(&format!("/query?db={database}&epoch=ns"), &format!("q={}", percent_encode(query)))
    }

    fn write(&self, database: &str, lines: &[String]) -> (Response, Response) {
        self.both(&format!("/write?db={database}"), &lines.join("\n"))
    }

    fn drop_database(&self, database: &str) {
        self.query("", &format!("DROP DATABASE {database}"));
    }

    /// Whether InfluxDB was built with unsigned integers.
    fn has_unsigned(&self) -> bool {
        self.query("", "CREATE DATABASE probe");
        let (_, influx) = self.write("probe", &["m v=1u 1".to_owned()]);
        self.drop_database("probe");
        influx.status == 204
    }
}

/// The findings of a run.
#[derive(Default)]
struct Findings {
    asked: usize,
    /// What changed the data of this round.
    changes: Vec<String>,
    answered: usize,
    different: Vec<String>,
}

impl Findings {
    fn judge(&mut self, what: &str, order: Order, (nyala, influx): &(Response, Response)) {
        self.asked += 1;
        self.answered += usize::from(String::from_utf8_lossy(&influx.body).contains("\"values\""));
        if let Some(difference) = compare::difference(nyala, influx, order) {
            self.different.push(format!("{what}\n{difference}\n  after {}", self.changes.join(", ")));
        }
    }
}

#[test]
fn random_queries_have_influxdbs_answers() {
    compare_answers(&Program::Nyala, 1_000);
}

#[test]
fn random_queries_over_kudu_have_influxdbs_answers() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    compare_answers(&Program::NyalaOnKudu(cluster.masters().to_vec()), 200);
}

/// Asks so many queries, unless a setting says another number.
fn compare_answers(nyala: &Program, queries: u64) {
    let Some((influxd, _)) = peers::influxd_with_unsigned() else { return };
    let queries = number("NYALA_DIFFERENTIAL_QUERIES", queries) as usize;
    let seed = number("NYALA_DIFFERENTIAL_SEED", 1);
    let pair = Pair {
        nyala: Server::start(nyala, &[]).expect("nyala starts"),
        influx: Server::start(&Program::Influx(influxd), &[]).expect("influxd starts"),
    };
    let with_unsigned = pair.has_unsigned();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut findings = Findings::default();
    for round in 0.. {
        if findings.asked >= queries {
            break;
        }
        findings.changes.clear();
        let database = format!("d{round}");
        let schema = Schema::random(with_unsigned, &mut random);
        pair.query("", &format!("CREATE DATABASE {database}"));
        for lines in schema.lines(&mut random).chunks(5_000) {
            let (nyala, influx) = pair.write(&database, lines);
            assert_eq!(
                (nyala.status, influx.status),
                (204, 204),
                "seed {seed}, round {round}: data is written"
            );
        }
        for _ in 0..QUERIES_OF_A_ROUND.min(queries - findings.asked) {
            if random.random_bool(CHANGES) {
                let (what, answers) = match changes::change(&schema, &mut random) {
                    Change::Query(query) => (query.clone(), pair.query(&database, &query)),
                    Change::Lines(lines) => (format!("{} lines", lines.len()), pair.write(&database, &lines)),
                };
                findings.judge(&format!("round {round}: {what}"), Order::Exact, &answers);
                findings.changes.push(what);
                continue;
            }
            let query = grammar::query(&schema, &database, &mut random);
            // InfluxDB keeps integrals that are open at the end in a hash table, so their order is random.
            let order = if query.contains("integral(") { Order::Free } else { Order::Exact };
            let answers = pair.query(&database, &query);
            findings.judge(&format!("round {round}: {query}"), order, &answers);
        }
        pair.drop_database(&database);
    }
    let Findings { asked, answered, different, .. } = findings;
    let mut text = String::new();
    for difference in different.iter().take(SHOWN_MAX) {
        writeln!(text, "{difference}\n").expect("text grows");
    }
    assert!(different.is_empty(), "{} of {asked} answers differ (seed {seed}):\n{text}", different.len());
    assert!(answered * 2 > asked, "most queries should have rows: {answered} of {asked}");
}
