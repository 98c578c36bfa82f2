//! What users of other time-series databases expect of SQL: gaps that are filled, and joins by time.
//!
//! Rows are shown as lines of CSV. The expected ones follow from the definitions of TimescaleDB and of InfluxDB 3.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/sql.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod sql;

use client::Request;
use process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use sql::lines;
use std::collections::BTreeMap;

/// The code and the message of the error that a query ends with.
fn refused(server: &Process, query: &str) -> (String, String) {
    let answer = sql::answer(server, query);
    let text = |name: &str| answer[name].as_str().unwrap_or_else(|| panic!("{query}: {answer}")).to_owned();
    (text("code"), text("error"))
}

/// The answer to a query with parameters and settings.
fn asked(server: &Process, body: &Value) -> Value {
    let request = Request {
        method: "POST".to_owned(),
        target: "/api/sql".to_owned(),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    };
    let response = client::send(server.address, &request).expect("an answer");
    serde_json::from_slice(&response.body).expect("JSON")
}

fn started(dir: &std::path::Path, points: &str) -> Process {
    let server = Process::start(dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(points).status, 204);
    server
}

/// Seconds of 1970 as line protocol writes them.
fn at(hours: f64) -> i64 {
    (hours * 3_600e9) as i64
}

fn hours() -> String {
    let points = [
        ("g,host=a v=1,n=10i", 1.2),
        ("g,host=a v=4,n=11i", 4.3),
        ("g,host=a w=1", 5.5),
        ("g,host=b v=8", 2.5),
        ("g,host=b v=9", 7.5),
    ];
    points.iter().map(|(point, hours)| format!("{point} {}\n", at(*hours))).collect()
}

const RANGE: &str = "time >= '1970-01-01T00:00:00Z' AND time < '1970-01-01T07:00:00Z'";

#[test]
fn gaps_are_filled_by_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &hours());
    let expected = [
        "0,a,,,,,",
        "1,a,1.0,1.0,1.0,10,1",
        "2,a,,1.0,2.0,10,",
        "3,a,,1.0,3.0,11,",
        "4,a,4.0,4.0,4.0,11,1",
        // A bucket with a row that lacks the value is no gap: its NULL is shown, and carried.
        "5,a,,,,,1",
        "6,a,,,,,",
        "0,b,,,,,",
        "1,b,,,,,",
        "2,b,8.0,8.0,8.0,,1",
        "3,b,,8.0,,,",
        "4,b,,8.0,,,",
        "5,b,,8.0,,,",
        "6,b,,8.0,,,",
    ];
    let shown = "host, avg(v), locf(avg(v)), interpolate(avg(v)), interpolate(max(n)), count(*) FROM g";
    let query = format!(
        "SELECT date_part('hour', time_bucket_gapfill('1 hour', time))::int AS h, {shown} WHERE {RANGE} \
         GROUP BY time_bucket_gapfill('1 hour', time), host ORDER BY host, h"
    );
    assert_eq!(lines(&server, &query), expected);
    let naive = json!({ "query": query, "db": "d", "settings": { "nyala.push_down": "off" } });
    assert_eq!(asked(&server, &naive), sql::answer(&server, &query));
    // The store computes the aggregate, in the order in which gaps are filled.
    let plan = sql::answer(&server, &format!("EXPLAIN {query}")).to_string();
    assert!(plan.contains("GapFillExec") && plan.contains("MeasurementAggregate"), "{plan}");
    // The range may be said in other ways.
    let bucket = "time_bucket_gapfill('1 hour', time, '1970-01-01T00:30:00Z', '1970-01-01T06:30:00Z')";
    let others = [
        format!("{bucket} AS b, host, avg(v) FROM g WHERE {RANGE} GROUP BY b, host"),
        "time_bucket_gapfill('1 hour', time, finish => '1970-01-01T06:30:00Z') AS b, host, avg(v) FROM g \
             WHERE time > '1970-01-01T00:59:59Z' AND time < '1970-01-01T07:00:00Z' GROUP BY b, host"
            .to_owned(),
        "time_bucket_gapfill('1 hour', time) AS b, host, avg(v) FROM (SELECT * FROM g) x \
         WHERE x.time BETWEEN '1970-01-01' AND '1970-01-01T06:00:00Z' GROUP BY b, host"
            .to_owned(),
    ];
    for (other, count) in others.iter().zip([14, 14, 14]) {
        assert_eq!(lines(&server, &format!("SELECT {other}")).len(), count, "{other}");
    }
}

#[test]
fn filled_rows_are_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &hours());
    let bucket = "time_bucket_gapfill('1 hour', time)";
    let hour = format!("date_part('hour', {bucket})::int AS h");
    let cases = [
        // Without other groups there is one, even without rows.
        (format!("SELECT {hour}, max(v) FROM g WHERE {RANGE} AND v > 99 GROUP BY {bucket} LIMIT 2"), "0, 1,"),
        (format!("SELECT host FROM g WHERE {RANGE} AND v > 99 GROUP BY {bucket}, host"), ""),
        (
            format!(
                "SELECT {hour}, max(v) AS v FROM g WHERE {RANGE} AND host = 'a' GROUP BY {bucket} \
                 ORDER BY {bucket} DESC LIMIT 3"
            ),
            "6, 5, 4,4.0",
        ),
        // HAVING is judged before.
        (
            format!(
                "SELECT {hour}, locf(max(v)) FROM g WHERE {RANGE} AND host = 'a' GROUP BY {bucket} \
                 HAVING max(v) < 4 ORDER BY 1 DESC LIMIT 2"
            ),
            "6,1.0 5,1.0",
        ),
        (
            format!(
                "SELECT {hour}, COALESCE(max(v), -1) + 1 FROM g WHERE {RANGE} AND host = 'b' GROUP BY {bucket} \
                 ORDER BY 1 LIMIT 3"
            ),
            "0,0.0 1,0.0 2,9.0",
        ),
        // A NULL may be taken for a gap.
        (
            format!(
                "SELECT {hour}, locf(max(v), treat_null_as_missing => true) FROM g WHERE {RANGE} AND host = 'a' \
                 GROUP BY {bucket} ORDER BY 1 DESC LIMIT 3"
            ),
            "6,4.0 5,4.0 4,4.0",
        ),
        // As InfluxDB 3 does, whose range begins with the first row if it is not said.
        (
            "SELECT date_part('hour', date_bin_gapfill(INTERVAL '1 hour', time))::int AS h, locf(max(v)) FROM g \
             WHERE time < '1970-01-01T07:00:00Z' AND host = 'a' \
             GROUP BY date_bin_gapfill(INTERVAL '1 hour', time) ORDER BY 1"
                .to_owned(),
            "1,1.0 2,1.0 3,1.0 4,4.0 5,4.0 6,4.0",
        ),
        (
            format!(
                "SELECT sum(l) FROM (SELECT locf(max(v)) AS l, host FROM g WHERE {RANGE} GROUP BY {bucket}, host) x \
                 JOIN (SELECT 'b' AS name) y ON y.name = x.host"
            ),
            "40.0",
        ),
        (
            format!(
                "SELECT h, v, lag(v) OVER (ORDER BY h) FROM (SELECT {hour}, locf(max(v)) AS v FROM g \
                 WHERE {RANGE} AND host = 'b' GROUP BY {bucket}) x ORDER BY h LIMIT 4"
            ),
            "0,, 1,, 2,8.0, 3,8.0,8.0",
        ),
        (
            format!(
                "SELECT {hour}, lag(locf(max(v))) OVER (ORDER BY {bucket}) FROM g WHERE {RANGE} AND host = 'b' \
                 GROUP BY {bucket} ORDER BY 1 LIMIT 4"
            ),
            "0, 1, 2, 3,8.0",
        ),
        // Rows outside of the range are shown.
        (
            "SELECT date_part('hour', time_bucket_gapfill('1 hour', time, '1970-01-01T03:00:00Z', \
             '1970-01-01T05:00:00Z'))::int AS h, host, interpolate(max(v)) FROM g \
             GROUP BY time_bucket_gapfill('1 hour', time, '1970-01-01T03:00:00Z', '1970-01-01T05:00:00Z'), host \
             ORDER BY 2, 1"
                .to_owned(),
            "1,a,1.0 3,a,3.0 4,a,4.0 5,a, 2,b,8.0 3,b,8.2 4,b,8.4 7,b,9.0",
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(lines(&server, &query).join(" "), expected, "{query}");
    }
    // Days of a zone, over a change of its clocks.
    let days = "SELECT time_bucket_gapfill('1 day', time, 'Europe/Berlin') AS b, count(*) FROM g \
                WHERE time >= '2026-03-27T23:00:00Z' AND time < '2026-03-30T22:00:00Z' GROUP BY b";
    assert_eq!(
        lines(&server, days),
        ["2026-03-27T23:00:00Z,", "2026-03-28T23:00:00Z,", "2026-03-29T22:00:00Z,"]
    );
    let months = "SELECT time_bucket_gapfill('1 month', time) AS b, count(*) FROM g \
                  WHERE time >= '2026-01-15T00:00:00Z' AND time <= '2026-03-01T00:00:00Z' GROUP BY b";
    assert_eq!(
        lines(&server, months),
        ["2026-01-01T00:00:00Z,", "2026-02-01T00:00:00Z,", "2026-03-01T00:00:00Z,"]
    );
    // With parameters, also when the plan is used again, and relative to now.
    for (finish, count) in [("1970-01-01T03:00:00Z", 2), ("1970-01-01T05:00:00Z", 4)] {
        let query = "SELECT time_bucket_gapfill('1 hour', time) AS b, max(v) FROM g \
                     WHERE time >= $1 AND time < $2 GROUP BY b";
        let body = json!({ "query": query, "db": "d", "params": ["1970-01-01T01:00:00Z", finish] });
        let answer = asked(&server, &body);
        assert_eq!(answer.as_array().map(Vec::len), Some(count), "{answer}");
        let query = query.replace("$1", "'1970-01-01T01:00:00Z'").replace("$2", &format!("'{finish}'"));
        assert_eq!(lines(&server, &query).len(), count);
    }
    let recent = "SELECT time_bucket_gapfill('1 minute', time) AS b, max(v) FROM g \
                  WHERE time >= now() - interval '10 minutes' AND time < now() GROUP BY b";
    assert!([10, 11].contains(&lines(&server, recent).len()));
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &hours());
    let bucket = "time_bucket_gapfill('1 hour', time)";
    let cases = [
        (format!("SELECT {bucket} AS b, max(v) FROM g GROUP BY b"), "22023", "could not infer"),
        (
            format!("SELECT {bucket} AS b, max(v) FROM g WHERE time >= '1970-01-01' GROUP BY b"),
            "22023",
            "could not infer finish",
        ),
        (format!("SELECT {bucket} FROM g WHERE {RANGE}"), "22023", "no top level"),
        (format!("SELECT locf(v) FROM g WHERE {RANGE}"), "0A000", "locf"),
        (
            format!(
                "SELECT {bucket} AS b, time_bucket_gapfill('2 hours', time) AS c, max(v) FROM g WHERE {RANGE} \
                 GROUP BY b, c"
            ),
            "0A000",
            "multiple",
        ),
        (
            "SELECT time_bucket_gapfill('1 millisecond', time) AS b, max(v) FROM g \
             WHERE time >= '1970-01-01' AND time < '2026-01-01' GROUP BY b"
                .to_owned(),
            "54000",
            "10000000 rows",
        ),
        (
            format!("SELECT time_bucket_gapfill('0 hours', time) AS b FROM g WHERE {RANGE} GROUP BY b"),
            "22023",
            "positive",
        ),
        (
            format!("SELECT {bucket} AS b, interpolate(max(host)) FROM g WHERE {RANGE} GROUP BY b"),
            "42883",
            "interpolate takes a number",
        ),
        (format!("SELECT {bucket} AS b, locf(max(v), 7) FROM g WHERE {RANGE} GROUP BY b"), "0A000", "prev"),
        (
            format!("SELECT {bucket} AS b, locf(locf(max(v))) FROM g WHERE {RANGE} GROUP BY b"),
            "0A000",
            "in one of locf",
        ),
    ];
    for (query, code, words) in cases {
        let (found, message) = refused(&server, &query);
        assert!(found == code && message.contains(words), "{query}: {found} {message}");
    }
    // A long range is given in parts.
    let long = "SELECT count(*) AS c, sum(x) AS s FROM (SELECT time_bucket_gapfill('1 second', time) AS b, \
                interpolate(max(v)) AS x, host FROM g WHERE time >= '1970-01-01' AND time < '1970-01-03' \
                GROUP BY b, host) q";
    assert_eq!(sql::answer(&server, long)[0]["c"], 2 * 172_800);
}

/// Random rows, filled by the program and in the simplest way.
#[test]
fn gaps_are_filled_as_the_definition_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = StdRng::seed_from_u64(31);
    let mut points = String::new();
    for number in 0..400 {
        let host = random.random_range(0..5);
        let value = if random.random_bool(0.8) {
            format!("v={},", random.random_range(-50..50))
        } else {
            String::new()
        };
        let dc = if host > 2 { format!(",dc=d{}", host % 2) } else { String::new() };
        points.push_str(&format!(
            "r,host=h{host}{dc} {value}n={number}i {}\n",
            at(random.random_range(0.0..90.0))
        ));
    }
    let server = started(dir.path(), &points);
    for number in 0..40 {
        let width = [1, 2, 3, 7][random.random_range(0..4)];
        let start = random.random_range(0..40_i64);
        let finish = start + random.random_range(1..60_i64);
        let filter =
            ["", " AND host <> 'h1'", " AND v > 40", " AND host = 'none'"][random.random_range(0..4)];
        let keys = ["", ", host", ", dc, host"][random.random_range(0..3)];
        let range = |column: &str| {
            let time = |hour: i64| format!("1970-01-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24);
            format!("{column} >= '{}' AND {column} < '{}'", time(start), time(finish))
        };
        let query = |bucket: &str, of: &str| {
            format!(
                "SELECT CAST(extract(epoch FROM {bucket}('{width} hours', time)) AS bigint) AS b, {of}{keys} FROM r \
                 WHERE {}{filter} GROUP BY {bucket}('{width} hours', time){keys}",
                range("time")
            )
        };
        let values = "max(v) AS v, max(v) AS l, max(v) AS m, max(v) AS i, count(*) AS c";
        let plain = sql::answer(&server, &query("time_bucket", values));
        let values = "max(v) AS v, locf(max(v)) AS l, locf(max(v), NULL, true) AS m, interpolate(max(v)) AS i, \
                      count(*) AS c";
        let body = json!({
            "query": query("time_bucket_gapfill", values), "db": "d",
            "settings": { "nyala.push_down": if number % 2 == 0 { "on" } else { "off" } },
        });
        let mut filled = asked(&server, &body).as_array().expect("rows").clone();
        let width_s = width * 3_600;
        // Buckets are counted from Monday, 3 January 2000.
        let first = start * 3_600 - (start * 3_600 - 946_857_600_i64).rem_euclid(width_s);
        let buckets: Vec<i64> =
            (0..).map(|own| first + own * width_s).take_while(|own| *own < finish * 3_600).collect();
        let mut expected = naive(plain.as_array().expect("rows"), &buckets, keys.is_empty());
        for rows in [&mut filled, &mut expected] {
            rows.sort_by_key(|row| {
                format!("{} {} {:012}", row["dc"], row["host"], row["b"].as_i64().unwrap_or(0))
            });
        }
        assert_eq!(json!(filled), json!(expected), "{body}");
    }
}

/// The rows of aggregates with those of gaps.
fn naive(rows: &[Value], buckets: &[i64], has_one_group: bool) -> Vec<Value> {
    let mut groups: BTreeMap<String, (Value, BTreeMap<i64, Value>)> = BTreeMap::new();
    if has_one_group {
        groups.entry(format!("{} {}", Value::Null, Value::Null)).or_insert((json!({}), BTreeMap::new()));
    }
    for row in rows {
        let group = groups.entry(format!("{} {}", row["host"], row["dc"]));
        let (_, rows) = group.or_insert((row.clone(), BTreeMap::new()));
        rows.insert(row["b"].as_i64().expect("a bucket"), row.clone());
    }
    let mut all = Vec::new();
    for (key, rows) in groups.into_values() {
        let (mut last, mut last_known) = (Value::Null, Value::Null);
        for bucket in buckets {
            let mut row = match rows.get(bucket) {
                Some(row) => {
                    last = row["v"].clone();
                    row.clone()
                }
                None => {
                    let mut row = key.clone();
                    for name in ["v", "l", "m", "i", "c"] {
                        row[name] = Value::Null;
                    }
                    row["b"] = json!(bucket);
                    row["l"] = last.clone();
                    let before = rows.range(..bucket).next_back();
                    let after = rows.range(bucket..).next();
                    if let (Some((x0, y0)), Some((x1, y1))) = (before, after)
                        && let (Some(y0), Some(y1)) = (y0["v"].as_f64(), y1["v"].as_f64())
                    {
                        let ns = |seconds: i64| (seconds * 1_000_000_000) as f64;
                        let (x, x0, x1) = (ns(*bucket - x0), 0.0, ns(x1 - x0));
                        row["i"] =
                            json!(if y0 == y1 { y0 } else { (y0 * (x1 - x) + y1 * (x - x0)) / (x1 - x0) });
                    }
                    row
                }
            };
            if !row["v"].is_null() {
                last_known = row["v"].clone();
            }
            row["m"] = last_known.clone();
            all.push(row);
        }
    }
    all
}

fn trades() -> String {
    let seconds = |s: i64| s * 1_000_000_000;
    let points = [
        ("trade,sym=a p=1", 10),
        ("trade,sym=a p=2", 20),
        ("trade,sym=b p=3", 20),
        ("trade,sym=c p=4", 30),
        ("trade p=5", 30),
        ("quote,sym=a,venue=x bid=100", 5),
        ("quote,sym=a,venue=x bid=101", 20),
        ("quote,sym=a,venue=y bid=102", 25),
        ("quote,sym=b,venue=x bid=200", 21),
        ("quote bid=300", 1),
    ];
    points.iter().map(|(point, at)| format!("{point} {}\n", seconds(*at))).collect()
}

#[test]
fn rows_are_joined_with_the_newest_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &trades());
    let cases = [
        // DuckDB: without a partner there is no row.
        ("trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time >= q.time", "1.0,100.0 2.0,101.0"),
        ("trade t ASOF JOIN quote q ON q.time < t.time AND q.sym = t.sym", "1.0,100.0 2.0,100.0"),
        (
            "trade t ASOF LEFT JOIN quote q ON t.sym = q.sym AND t.time >= q.time",
            "1.0,100.0 2.0,101.0 3.0, 4.0, 5.0,",
        ),
        ("trade t ASOF JOIN quote q USING (sym, time)", "1.0,100.0 2.0,101.0"),
        // The other way: the earliest that is not earlier.
        ("trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time <= q.time", "1.0,101.0 2.0,101.0 3.0,200.0"),
        ("trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time < q.time", "1.0,101.0 2.0,102.0 3.0,200.0"),
        // Without a key, over all rows.
        ("trade t ASOF JOIN quote q ON t.time > q.time", "1.0,100.0 2.0,100.0 3.0,100.0 4.0,102.0 5.0,102.0"),
        // A condition on the right side chooses among the rows that satisfy it.
        (
            "trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time >= q.time AND q.bid < 101",
            "1.0,100.0 2.0,100.0",
        ),
        // Snowflake and QuestDB: all rows of the left side.
        (
            "trade t ASOF JOIN quote q MATCH_CONDITION (t.time >= q.time) ON t.sym = q.sym",
            "1.0,100.0 2.0,101.0 3.0, 4.0, 5.0,",
        ),
        ("trade t ASOF JOIN quote q ON (sym)", "1.0,100.0 2.0,101.0 3.0, 4.0, 5.0,"),
        ("trade t ASOF JOIN quote q", "1.0,100.0 2.0,101.0 3.0,101.0 4.0,102.0 5.0,102.0"),
        (
            "(SELECT * FROM trade WHERE p < 3) t ASOF JOIN (SELECT sym, time, max(bid) AS bid FROM quote \
             GROUP BY sym, time) q ON t.sym = q.sym AND t.time >= q.time JOIN (SELECT 1 AS one) x ON true",
            "1.0,100.0 2.0,101.0",
        ),
        // What is asked of the joined rows does not choose the partner.
        (
            "trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time >= q.time WHERE q.bid < 101 AND t.p < 9",
            "1.0,100.0",
        ),
    ];
    for (from, expected) in cases {
        let query = format!("SELECT p, bid FROM {from} ORDER BY p");
        assert_eq!(lines(&server, &query).join(" "), expected, "{query}");
    }
    // Conditions on the left side reach its scan, and unneeded columns are not read.
    let plan = "EXPLAIN SELECT p, bid FROM trade t ASOF JOIN quote q ON t.sym = q.sym AND t.time >= q.time \
                WHERE t.time > '1970-01-01T00:00:15Z'";
    let plan = sql::answer(&server, plan).to_string();
    assert!(plan.contains("AsofJoinExec") && !plan.contains("FilterExec"), "{plan}");
    for (from, words) in [
        ("trade t ASOF JOIN quote q ON t.time >= q.time AND t.time <= q.time", "only one comparison"),
        ("trade t ASOF JOIN quote q ON t.time >= q.time AND t.sym <> q.sym", "no equality"),
        ("trade t ASOF LEFT JOIN quote q ON t.time >= q.time AND t.p > 1", "no equality"),
        ("trade t ASOF JOIN quote q MATCH_CONDITION (t.time = q.time)", "compared with"),
        ("trade t ASOF JOIN quote q ON t.time >= t.time", "no comparison of times"),
    ] {
        let (code, message) = refused(&server, &format!("SELECT 1 FROM {from}"));
        assert!(code == "0A000" && message.contains(words), "{from}: {code} {message}");
    }
    sql::done(&server, "CREATE VIEW joined AS SELECT p, bid FROM trade t ASOF JOIN quote q ON (sym)");
    assert_eq!(
        sql::answer(&server, "SELECT count(*) AS c, count(bid) AS b FROM joined"),
        json!([{"c": 5, "b": 2}])
    );
}

/// Random rows, joined by the program and by a join of all pairs.
#[test]
fn joins_by_time_equal_those_of_all_pairs() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = StdRng::seed_from_u64(47);
    let mut points = String::new();
    for (name, count) in [("l", 3_000), ("r", 20_000)] {
        for number in 0..count {
            let host = if random.random_bool(0.9) {
                format!(",host=h{}", random.random_range(0..9))
            } else {
                String::new()
            };
            points.push_str(&format!("{name}{host} v={number}i {}\n", random.random_range(0..1_000_000) * 7));
        }
    }
    let server = started(dir.path(), &points);
    for (key, compare, aggregate) in [
        ("l.host = r.host AND", ">=", "max"),
        ("l.host = r.host AND", "<", "min"),
        ("l.host = r.host AND", ">", "max"),
        ("", "<=", "min"),
    ] {
        let narrow = "l.time_ns < 700000";
        let joined = format!(
            "SELECT l.v AS v, r.time_ns AS t FROM l ASOF LEFT JOIN r ON {key} l.time {compare} r.time WHERE {narrow} \
             ORDER BY l.v"
        );
        let pairs = format!(
            "SELECT l.v AS v, {aggregate}(r.time_ns) AS t FROM l LEFT JOIN r ON {key} l.time {compare} r.time \
             WHERE {narrow} GROUP BY l.v ORDER BY l.v"
        );
        assert_eq!(sql::answer(&server, &joined), sql::answer(&server, &pairs), "{joined}");
        let all = format!(
            "SELECT count(*) AS c, count(r.v) AS m FROM l ASOF JOIN r ON {key} l.time {compare} r.time"
        );
        let counts = sql::answer(&server, &all);
        assert_eq!(counts[0]["c"], counts[0]["m"], "{counts}");
    }
}
