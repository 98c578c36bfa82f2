//! Queries of InfluxQL as tables of SQL.
//!
//! Rows are shown as lines of CSV.

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

use process::Process;
use serde_json::{Value, json};
use sql::lines;

/// Points of seven and a half hours, of trades and quotes within half a minute, and one whose names are those of other columns.
const POINTS: &str = "\
g,host=a v=1,n=10i 4320000000000
g,host=a v=4,n=11i 15480000000000
g,host=a w=1 19800000000000
g,host=b v=8 9000000000000
g,host=b v=9 27000000000000
trade,sym=a p=1 10000000000
trade,sym=a p=2 20000000000
trade,sym=b p=3 20000000000
trade,sym=c p=4 30000000000
trade p=5 30000000000
quote,sym=a,venue=x bid=100 5000000000
quote,sym=a,venue=x bid=101 20000000000
quote,sym=a,venue=y bid=102 25000000000
quote,sym=b,venue=x bid=200 21000000000
quote bid=300 1000000000
t,name=n time_of=\"x\",name=2i 5
";

#[test]
fn queries_of_influxql_are_tables() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    let cases = [
        (
            "SELECT * FROM influxql('SELECT mean(v), count(v) FROM g WHERE time < 8h GROUP BY time(4h), host fill(0)') \
             ORDER BY host, time",
            "1970-01-01T00:00:00Z,g,a,1.0,1 1970-01-01T04:00:00Z,g,a,4.0,1 1970-01-01T00:00:00Z,g,b,8.0,1 \
             1970-01-01T04:00:00Z,g,b,9.0,1",
        ),
        ("SELECT name, last FROM influxql('SELECT last(v) FROM g')", "g,9.0"),
        ("SELECT count(*), count(dc) FROM influxql('SELECT * FROM g GROUP BY dc')", "5,0"),
        (
            "SELECT name, x.v FROM influxql('SELECT v FROM g WHERE host = ''b''') AS x ORDER BY v LIMIT 1",
            "g,8.0",
        ),
        // Rows of several measurements, a function that only InfluxQL has, and a join.
        ("SELECT count(*) FROM influxql('SELECT p, bid FROM trade, quote')", "10"),
        ("SELECT max(d) FROM influxql('SELECT derivative(v, 1h) AS d FROM g WHERE host = ''b''')", "0.2"),
        (
            "SELECT t.sym, i.max FROM (SELECT DISTINCT sym FROM trade) t \
             JOIN influxql('SELECT max(bid) FROM quote GROUP BY sym') i ON i.sym = t.sym ORDER BY 1",
            "a,102.0 b,200.0",
        ),
        ("SELECT count(*) FROM influxql('SELECT nothing FROM g')", "0"),
        ("SELECT count(*) FROM influxql('SELECT v FROM nowhere')", "0"),
        (
            "SELECT \"name::tag\", \"name::column\" FROM influxql('SELECT \"name\"::field FROM t GROUP BY \"name\"::tag')",
            "n,2",
        ),
        ("SELECT min(v) FROM influxql('SELECT mean(v) AS v FROM g GROUP BY host')", "2.5"),
    ];
    for (query, expected) in cases {
        assert_eq!(lines(&server, query).join(" "), expected, "{query}");
    }
    for (query, code) in [
        ("SELECT * FROM influxql('SELEC v FROM g')", "42601"),
        ("SELECT * FROM influxql('DROP MEASUREMENT g')", "0A000"),
        ("SELECT * FROM influxql('SELECT v INTO h FROM g')", "0A000"),
        ("SELECT * FROM influxql('SELECT v FROM g; SELECT v FROM g')", "0A000"),
        ("SELECT * FROM influxql(5)", "0A000"),
        ("SELECT nothing FROM influxql('SELECT v FROM g')", "42703"),
    ] {
        assert_eq!(sql::code(&server, query), code, "{query}");
    }
}

#[test]
fn queries_of_influxql_need_rights() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--auth-enabled"]);
    let influx = |query: &str| {
        let target = format!("/query?u=root&p=pw&q={}", client::percent_encode(query));
        assert_eq!(server.send("POST", &target, b"").expect("an answer").status, 200, "{query}");
    };
    influx("CREATE USER root WITH PASSWORD 'pw' WITH ALL PRIVILEGES");
    for query in ["CREATE DATABASE d", "CREATE DATABASE e", "CREATE USER ann WITH PASSWORD 'pw'"] {
        influx(query);
    }
    influx("GRANT READ ON d TO ann");
    for database in ["d", "e"] {
        let target = format!("/write?db={database}&u=root&p=pw");
        assert_eq!(server.send("POST", &target, b"m v=1 1\n").expect("an answer").status, 204);
    }
    let ask = |user: &str, query: &str| -> Value {
        let response = sql::post(&server, &format!("/api/sql?db=d&u={user}&p=pw"), query);
        serde_json::from_slice(&response.body).expect("JSON")
    };
    let own = "SELECT v FROM influxql('SELECT v FROM m')";
    let foreign = "SELECT v FROM influxql('SELECT v FROM e.autogen.m')";
    assert_eq!(ask("ann", own), json!([{"v": 1.0}]));
    assert_eq!(ask("ann", foreign)["code"], "42501");
    assert_eq!(ask("root", foreign), json!([{"v": 1.0}]));
}
