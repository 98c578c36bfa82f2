//! Aggregates of SQL that the store computes, compared with the same queries computed from rows, and the latest rows of
//! series. Queries are random; each is asked several times with other literals, so that plans are used again.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::Request;
use process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// The answer to a query, with a setting of the session.
fn ask(server: &Process, query: &str, settings: &Value) -> (u16, Value) {
    let body = json!({ "query": query, "db": "d", "settings": settings });
    let request = Request {
        method: "POST".to_owned(),
        target: "/api/sql".to_owned(),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    };
    let response = client::send(server.address, &request).expect("an answer");
    let text = String::from_utf8_lossy(&response.body);
    (
        response.status,
        serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

fn rows(server: &Process, query: &str) -> Vec<Value> {
    let (status, answer) = ask(server, query, &json!({}));
    assert_eq!(status, 200, "{query}: {answer}");
    answer.as_array().expect("rows").clone()
}

/// Points of several shapes: series that lack tags or fields, gaps, rows without any value, times in several shards.
fn points(random: &mut StdRng) -> String {
    let mut lines = String::new();
    for host in 0..6 {
        for region in 0..=host % 3 {
            let tags = match (host, region) {
                (5, 0) => "rack=r0".to_owned(),
                (_, 0) => format!("host=h{host}"),
                _ => format!("host=h{host},region=eu{region}"),
            };
            for _ in 0..120 {
                let time_ns: i64 =
                    random.random_range(0..2_000) * 1_800_000_000_000 + random.random_range(0..3);
                let mut fields = vec![format!("n={}i", random.random_range(-50..50))];
                if random.random_bool(0.6) {
                    fields.push(format!("v={:.3}", random.random_range(-9.0..9.0)));
                }
                if random.random_bool(0.3) {
                    fields.push(format!("u={}u", random.random_range(0..1_000)));
                }
                if random.random_bool(0.3) {
                    fields.push(format!("ok={}", random.random_bool(0.5)));
                }
                if random.random_bool(0.2) {
                    fields.push(format!("s=\"t{}\"", random.random_range(0..9)));
                }
                if random.random_bool(0.2) {
                    fields.remove(0);
                }
                if !fields.is_empty() {
                    lines.push_str(&format!("m,{tags} {} {time_ns}\n", fields.join(",")));
                }
            }
        }
    }
    lines
}

fn one<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of[random.random_range(0..of.len())]
}

/// A random query with marks for literals.
fn query(random: &mut StdRng) -> String {
    let mut keys: Vec<String> = Vec::new();
    for tag in ["host", "region", "rack"] {
        if random.random_bool(0.35) {
            keys.push(tag.to_owned());
        }
    }
    if random.random_bool(0.7) {
        let bucket = one(
            random,
            &[
                "time_bucket('1 day', time)",
                "time_bucket('7 hours', time)",
                "time_bucket('1 month', time)",
                "time_bucket('1 day', time, 'Europe/Berlin')",
                "time_bucket('1 month', time, 'America/New_York')",
                "time_bucket('9 hours', time, TIMESTAMP '1970-01-01T03:00:00Z')",
                "date_bin(INTERVAL '1 hour', time)",
                "date_bin(INTERVAL '1 day', time, TIMESTAMP '1970-01-01T05:00:00Z')",
                "date_trunc('week', time)",
                "date_trunc('hour', time)",
                "date_trunc('quarter', time)",
            ],
        );
        let place = random.random_range(0..=keys.len());
        keys.insert(place, bucket.to_owned());
    }
    let mut shown: Vec<String> =
        keys.iter().enumerate().map(|(number, key)| format!("{key} AS k{number}")).collect();
    for number in 0..random.random_range(1..5) {
        let aggregate = one(
            random,
            &[
                "count(*)",
                "count(v)",
                "count(s)",
                "sum(n)",
                "sum(v)",
                "sum(u)",
                "avg(n)",
                "avg(v)",
                "avg(u)",
                "min(n)",
                "max(n)",
                "min(v)",
                "max(v)",
                "max(u)",
                "first(v, time)",
                "last(v, time)",
                "last(s, time)",
                "first(n, time)",
                "min(ok)",
                "max(ok)",
                "count(time)",
                "max(v) - min(v)",
            ],
        );
        shown.push(format!("{aggregate} AS a{number}"));
    }
    let mut query = format!("SELECT {} FROM m", shown.join(", "));
    let mut conditions: Vec<&str> = Vec::new();
    for _ in 0..random.random_range(0..3) {
        conditions.push(one(
            random,
            &[
                "time >= '$T'",
                "time < '$T'",
                "host = 'h$N'",
                "host IN ('h$N', 'h1')",
                "host != 'h$N'",
                "region IS NULL",
                "n > $N",
                "v < 3.5",
                "n IS NULL",
                "u >= $N",
                "v > n",
                "(host = 'h$N' OR rack = 'r0')",
                "time BETWEEN '$T' AND '1970-02-01T00:00:00Z'",
            ],
        ));
    }
    if !conditions.is_empty() {
        query.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    if !keys.is_empty() {
        let numbers: Vec<String> = (1..=keys.len()).map(|number| number.to_string()).collect();
        query.push_str(&format!(" GROUP BY {}", numbers.join(", ")));
        if random.random_bool(0.2) {
            query.push_str(" HAVING count(*) > 1");
        }
        // All of the keys, so that the answer has one order.
        let mut order: Vec<String> = numbers;
        if random.random_bool(0.5) {
            order.reverse();
        }
        let ends = ["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"];
        let order: Vec<String> = order.iter().map(|own| format!("{own}{}", one(random, &ends))).collect();
        query.push_str(&format!(" ORDER BY {}", order.join(", ")));
        if random.random_bool(0.3) {
            query.push_str(&format!(" LIMIT {}", random.random_range(1..8)));
        }
    }
    query
}

fn with_literals(query: &str, random: &mut StdRng) -> String {
    let day = random.random_range(1..29);
    let time = format!("1970-0{}-{day:02}T0{}:00:00Z", random.random_range(1..3), random.random_range(0..9));
    query.replace("$T", &time).replace("$N", &random.random_range(0..7).to_string())
}

/// Whether two answers are equal; sums of floats are added in another order.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, value)| is_equal(value, &other[name]))
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
        }
        _ => one == other,
    }
}

#[test]
fn aggregates_of_the_store_equal_those_of_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    let mut random = StdRng::seed_from_u64(18);
    assert_eq!(server.write(&points(&mut random)).status, 204);
    // Rows without values exist in SQL.
    server.query("DELETE FIELD v FROM m WHERE host = 'h3'");
    let (mut pushed, mut answered) = (0, 0);
    for _ in 0..250 {
        let query = query(&mut random);
        for _ in 0..2 {
            let asked = with_literals(&query, &mut random);
            let (status, answer) = ask(&server, &asked, &json!({}));
            let (naive_status, naive) = ask(&server, &asked, &json!({ "nyala.push_down": "off" }));
            assert_eq!(status, naive_status, "{asked}: {answer} {naive}");
            assert!(is_equal(&answer, &naive), "{asked}\n{answer}\n{naive}");
            answered += usize::from(status == 200 && answer != json!([]));
        }
        let plan = rows(&server, &format!("EXPLAIN {}", with_literals(&query, &mut random)));
        pushed += usize::from(plan.iter().any(|row| row.to_string().contains("MeasurementAggregate")));
    }
    assert!(pushed > 150 && answered > 400, "only {pushed} of 250 are pushed down, {answered} have rows");
    let off = json!({ "nyala.push_down": "off" });
    let (_, plan) = ask(&server, "EXPLAIN SELECT max(v) FROM m", &off);
    assert!(plan.to_string().contains("AggregateExec"), "{plan}");
}

#[test]
fn the_latest_rows_of_series_equal_those_of_all_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    let mut random = StdRng::seed_from_u64(19);
    assert_eq!(server.write(&points(&mut random)).status, 204);
    for (query, node) in [
        (
            "SELECT DISTINCT ON (host, region) host, region, time, n, v FROM m \
             WHERE host != 'h2' ORDER BY host, region, time DESC",
            "LatestRows",
        ),
        ("SELECT DISTINCT ON (rack) rack, time FROM m ORDER BY rack, time DESC", "LatestRows"),
        ("SELECT DISTINCT ON (host) host, time FROM m WHERE n > 20 ORDER BY host, time", "LatestRows"),
        ("SELECT host, last_value(time ORDER BY time) AS t FROM m GROUP BY host ORDER BY host", "LatestRows"),
        (
            "SELECT region, first_value(time ORDER BY time DESC) AS t FROM m GROUP BY 1 ORDER BY 1",
            "LatestRows",
        ),
        ("SELECT host, time, v FROM m WHERE region IS NULL LATEST ON time PARTITION BY host", "LatestRows"),
        ("SELECT time FROM m LATEST ON time PARTITION BY host, region ORDER BY time LIMIT 3", "LatestRows"),
        (
            "SELECT host, region, n, rank FROM (SELECT *, row_number() OVER \
             (PARTITION BY host, region ORDER BY time DESC) AS rank FROM m) WHERE rank <= 3 ORDER BY 1, 2, 4",
            "per series=3 latest",
        ),
        // These need all rows.
        ("SELECT DISTINCT ON (host) host, time FROM m WHERE v > n ORDER BY host, time DESC", "AggregateExec"),
        ("SELECT host, last_value(n ORDER BY n, time) AS n FROM m GROUP BY host ORDER BY 1", "AggregateExec"),
    ] {
        let (_, naive) = ask(&server, query, &json!({ "nyala.push_down": "off" }));
        assert_eq!(json!(rows(&server, query)), naive, "{query}");
        let plan = json!(rows(&server, &format!("EXPLAIN {query}"))).to_string();
        assert!(plan.contains(node), "{query}: {plan}");
    }
}

#[test]
fn no_sum_of_integers_is_out_of_range() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    let lines = format!("m,host=a n={0}i 1\nm,host=a n={0}i 2\nm,host=b n=1i 3\n", i64::MAX);
    assert_eq!(server.write(&lines).status, 204);
    for settings in [json!({}), json!({ "nyala.push_down": "off" })] {
        let (status, answer) =
            ask(&server, "SELECT host, sum(n) AS n FROM m GROUP BY host ORDER BY host", &settings);
        let expected = json!([{ "host": "a", "n": 2 * i64::MAX as u64 }, { "host": "b", "n": 1 }]);
        assert_eq!((status, answer), (200, expected));
    }
    assert_eq!(
        rows(&server, "SELECT avg(n) AS n FROM m WHERE host = 'a'"),
        [json!({ "n": i64::MAX as f64 })]
    );
}

#[test]
fn a_plan_that_is_used_again_is_made_anew_for_new_columns() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m,host=a v=1 1\n").status, 204);
    let all = |time: i64| rows(&server, &format!("SELECT * FROM m WHERE time_ns >= {time} ORDER BY time"));
    assert_eq!(all(0)[0].as_object().map(|row| row.len()), Some(4));
    assert_eq!(all(2), Vec::<Value>::new());
    assert_eq!(server.write("m,host=a,dc=eu w=1 2\n").status, 204);
    assert_eq!(all(2)[0].as_object().map(|row| row.len()), Some(6));
    server.query("DROP MEASUREMENT m");
    let (_, answer) = ask(&server, "SELECT * FROM m WHERE time_ns >= 3 ORDER BY time", &json!({}));
    assert_eq!(answer["code"], "42P01", "{answer}");
    assert_eq!(server.write("m v=\"x\" 3\n").status, 204);
    assert_eq!(all(0)[0]["v"], "x");
    // Literals keep their meaning: a fraction is no integer, and text is no pattern.
    assert_eq!(server.write("k,host=a n=1i 1\nk,host=%25 n=2i 2\n").status, 204);
    for (condition, hosts) in [
        ("n > 1", 1),
        ("n > 0", 2),
        ("n > 0.5", 2),
        ("n > 1.5", 1),
        ("n > 9223372036854775808", 0),
        ("host = 'a'", 1),
        ("host = 'b'", 0),
        ("host LIKE '%'", 2),
        ("host LIKE 'a%'", 1),
        ("host = ''", 0),
    ] {
        let found = rows(&server, &format!("SELECT host FROM k WHERE {condition}"));
        assert_eq!(found.len(), hosts, "{condition}");
    }
}
