//! Random data and random queries, asked of nyala and of a real InfluxDB 1.8.10: their answers must be the same.
//!
//! Floats may differ by a few units in the last place, because the order of additions is free. What is known to
//! differ on purpose (`docs/compat/influxdb.md`) is not asked. Without an InfluxDB the test does nothing, unless
//! `NYALA_REQUIRE_PEERS=1`.
//!
//! - `NYALA_DIFFERENTIAL_QUERIES` sets how many queries are asked (400), `NYALA_DIFFERENTIAL_SEED` repeats a run.

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
mod compare;
mod data;
mod grammar;
#[path = "../support/server.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod server;

use client::{Request, Response, percent_encode};
use data::Schema;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use server::{Program, Server};
use std::fmt::Write as _;

/// Queries that are asked of the same data.
const QUERIES_OF_A_ROUND: usize = 200;
/// Differences that are shown.
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
}

#[test]
fn random_queries_have_influxdbs_answers() {
    let Some(influxd) = server::find_influxd() else {
        let required = std::env::var_os("NYALA_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required, "no influxd 1.8.10 found: set NYALA_INFLUXD, or put it in the search path");
        return;
    };
    let queries = number("NYALA_DIFFERENTIAL_QUERIES", 400) as usize;
    let seed = number("NYALA_DIFFERENTIAL_SEED", 1);
    let pair = Pair {
        nyala: Server::start(&Program::Nyala, &[]).expect("nyala starts"),
        influx: Server::start(&influxd, &[]).expect("influxd starts"),
    };
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut asked, mut answered, mut different) = (0, 0, Vec::new());
    for round in 0.. {
        if asked >= queries {
            break;
        }
        let database = format!("d{round}");
        let schema = Schema::random(&mut random);
        pair.query("", &format!("CREATE DATABASE {database}"));
        for lines in schema.lines(&mut random).chunks(5_000) {
            let (nyala, influx) = pair.both(&format!("/write?db={database}"), &lines.join("\n"));
            assert_eq!(
                (nyala.status, influx.status),
                (204, 204),
                "seed {seed}, round {round}: data is written"
            );
        }
        for _ in 0..QUERIES_OF_A_ROUND.min(queries - asked) {
            let query = grammar::query(&schema, &mut random);
            let (nyala, influx) = pair.query(&database, &query);
            asked += 1;
            answered += usize::from(String::from_utf8_lossy(&influx.body).contains("\"values\""));
            if let Some(difference) = compare::difference(&nyala, &influx) {
                different.push(format!("round {round}: {query}\n{difference}"));
            }
        }
    }
    let mut text = String::new();
    for difference in different.iter().take(SHOWN_MAX) {
        writeln!(text, "{difference}\n").expect("text grows");
    }
    assert!(different.is_empty(), "{} of {asked} answers differ (seed {seed}):\n{text}", different.len());
    assert!(answered * 2 > asked, "most queries should have rows: {answered} of {asked}");
}
