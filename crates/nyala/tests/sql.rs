//! SQL over `POST /api/sql`, through the real program: what measurements look like, which rows conditions select, forms of
//! answers, errors, privileges, and how a statement is ended.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::{Request, Response};
use process::Process;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn send(server: &Process, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let request = Request {
        method: "POST".to_owned(),
        target: target.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.as_bytes().to_vec(),
    };
    client::send(server.address, &request).expect("an answer")
}

fn parsed(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&response.body));
    })
}

/// The rows that a query of the database `d` answers.
fn rows(server: &Process, query: &str) -> Value {
    let response = send(server, "/api/sql?db=d", &[], query);
    assert_eq!(response.status, 200, "{query}: {}", String::from_utf8_lossy(&response.body));
    parsed(&response)
}

/// The status of a refused query, its code and the beginning of its message.
fn refused(server: &Process, query: &str) -> (u16, String, String) {
    let response = send(server, "/api/sql?db=d", &[], query);
    let body = parsed(&response);
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (response.status, text("code"), text("error"))
}

const POINTS: &str = "\
m,host=a,dc=eu v=1.5,n=1i,ok=true,s=\"x\" 1000000001
m,host=a,dc=eu v=2.5 2000000000
m,host=b v=-3,n=7i 3000000000
m,host=c,dc=us u=18446744073709551615u 4000000000
";

fn started(dir: &std::path::Path, arguments: &[&str]) -> Process {
    let server = Process::start(dir, arguments);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

#[test]
fn a_measurement_is_a_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    assert_eq!(
        rows(&server, "SELECT * FROM m ORDER BY time LIMIT 2"),
        json!([
            {"time": "1970-01-01T00:00:01.000000001Z", "dc": "eu", "host": "a", "n": 1, "ok": true, "s": "x",
             "u": null, "v": 1.5, "time_ns": 1_000_000_001},
            {"time": "1970-01-01T00:00:02Z", "dc": "eu", "host": "a", "n": null, "ok": null, "s": null,
             "u": null, "v": 2.5, "time_ns": 2_000_000_000},
        ])
    );
    assert_eq!(rows(&server, "SELECT u FROM m WHERE u > 5"), json!([{"u": u64::MAX}]));
    // A row whose fields are all NULL exists.
    server.query("DELETE FIELD v FROM m WHERE time = 2s");
    assert_eq!(rows(&server, "SELECT count(*) AS c, count(v) AS v FROM m"), json!([{"c": 4, "v": 2}]));
    // Policies are schemas.
    server.query("CREATE RETENTION POLICY other ON d DURATION INF REPLICATION 1");
    let written = send(&server, "/write?db=d&rp=other", &[], "m v=9 5\n");
    assert_eq!(written.status, 204);
    assert_eq!(rows(&server, "SELECT v FROM other.m"), json!([{"v": 9.0}]));
    let join = "SELECT a.v + b.v AS v FROM d.autogen.m a JOIN other.m b ON a.host = 'b' AND b.time_ns = 5";
    assert_eq!(rows(&server, join), json!([{"v": 6.0}]));
    // What is written is seen at once.
    assert_eq!(server.write("m,host=d v=4 5000000000\n").status, 204);
    assert_eq!(rows(&server, "SELECT v FROM m WHERE host = 'd'"), json!([{"v": 4.0}]));
}

#[test]
fn names_that_several_columns_have_lose_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let week = 8 * 86_400_000_000_000_u64;
    assert_eq!(
        server.write(&format!("two,host=a f=1.5,host=\"field\" 1\ntwo,host=a f=7i {week}\n")).status,
        204
    );
    let query = "SELECT host, f, \"f::integer\", \"host::string\" FROM two ORDER BY time";
    assert_eq!(
        rows(&server, query),
        json!([
            {"host": "a", "f": 1.5, "f::integer": null, "host::string": "field"},
            {"host": "a", "f": null, "f::integer": 7, "host::string": null},
        ])
    );
}

#[test]
fn conditions_mean_what_they_mean_in_sql() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    // (condition, whether the store judges it, times in seconds of the rows that are there)
    let cases = [
        ("host = 'a'", true, vec![1, 2]),
        ("host != 'a'", true, vec![3, 4]),
        ("dc != 'eu'", true, vec![4]),
        ("dc = ''", true, vec![]),
        ("dc IS NULL", true, vec![3]),
        ("dc IS NOT NULL AND host IN ('a', 'c')", true, vec![1, 2, 4]),
        ("host NOT IN ('a', 'c')", true, vec![3]),
        ("dc NOT IN ('eu', NULL)", true, vec![]),
        ("host LIKE 'a%' OR dc LIKE '_s'", true, vec![1, 2, 4]),
        ("dc NOT LIKE 'e%'", true, vec![4]),
        ("host ~ '^[bc]$'", true, vec![3, 4]),
        ("dc !~ 'e'", true, vec![4]),
        ("host > 'a' AND host < 'c'", false, vec![3]),
        ("host = 'a' OR v < 0", false, vec![1, 2, 3]),
        ("time > '1970-01-01 00:00:02'", true, vec![3, 4]),
        ("time BETWEEN '1970-01-01 00:00:02' AND '1970-01-01 00:00:03'", true, vec![2, 3]),
        ("time_ns = 1000000001", true, vec![1]),
        ("time_ns <= 9223372036854775807 AND time_ns > 3000000000", true, vec![4]),
        ("v > 1.5", true, vec![2]),
        ("v >= 1 AND n = 1", true, vec![1]),
        ("n <> 1", true, vec![3]),
        ("n IN (1, 7)", true, vec![1, 3]),
        ("v IS NULL", true, vec![4]),
        ("ok", true, vec![1]),
        ("NOT ok", true, vec![]),
        ("s = 'x'", true, vec![1]),
        ("n + 1 = 8", false, vec![3]),
        ("v = NULL", true, vec![]),
    ];
    for (condition, judged, expected) in cases {
        let query = format!("SELECT time_ns FROM m WHERE {condition} ORDER BY time_ns");
        let found = rows(&server, &query);
        let found: Vec<i64> = found
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["time_ns"].as_i64().expect("a time") / 1_000_000_000)
            .collect();
        assert_eq!(found, expected, "{condition}");
        let plan = rows(&server, &format!("EXPLAIN {query}")).to_string();
        assert_eq!(!plan.contains("FilterExec"), judged, "{condition}: {plan}");
    }
    // As parameters, too.
    let body = json!({
        "query": "SELECT time_ns FROM m WHERE host = $1 AND v < $2 AND time >= $3 LIMIT $4",
        "db": "d",
        "params": ["a", 2, "1970-01-01T00:00:01Z", 5],
    });
    let answer = send(&server, "/api/sql", &[("Content-Type", "application/json")], &body.to_string());
    assert_eq!(parsed(&answer), json!([{"time_ns": 1_000_000_001}]));
}

#[test]
fn answers_come_in_every_form() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let query = "SELECT host, n FROM m WHERE n IS NOT NULL ORDER BY time";
    let ask = |accept: &str| {
        let response = send(&server, "/api/sql?db=d", &[("Accept", accept)], query);
        let kind = response.header("Content-Type").unwrap_or_default().to_owned();
        (response.status, kind, response.body)
    };
    let text = |accept| {
        let (status, kind, body) = ask(accept);
        (status, kind, String::from_utf8(body).expect("text"))
    };
    let lines = "{\"host\":\"a\",\"n\":1}\n{\"host\":\"b\",\"n\":7}\n".to_owned();
    assert_eq!(text("application/jsonl"), (200, "application/jsonl".to_owned(), lines));
    assert_eq!(text("text/csv;q=1, */*"), (200, "text/csv".to_owned(), "host,n\na,1\nb,7\n".to_owned()));
    assert_eq!(text("*/*").1, "application/json");
    let (status, kind, body) = ask("application/vnd.apache.arrow.stream");
    assert_eq!((status, &*kind, body.is_empty()), (200, "application/vnd.apache.arrow.stream", false));
    assert_eq!(ask("image/png").0, 406);
    // A long answer comes in segments, compressed or not.
    let many: String = (0..40_000).map(|n| format!("long,host=h{} v={n} {n}\n", n % 7)).collect();
    assert_eq!(server.write(&many).status, 204);
    for encoding in ["identity", "gzip"] {
        let headers = [("Accept", "application/jsonl"), ("Accept-Encoding", encoding)];
        let all = send(&server, "/api/sql?db=d", &headers, "SELECT * FROM long");
        assert_eq!(all.body.iter().filter(|byte| **byte == b'\n').count(), 40_000, "{encoding}");
    }
}

#[test]
fn errors_have_postgresqls_codes() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let cases = [
        ("SELECT nope FROM m", 400, "42703"),
        ("SELECT * FROM nix", 400, "42P01"),
        ("SELECT * FRM m", 400, "42601"),
        ("SELECT nofunction(v) FROM m", 400, "42883"),
        ("SELECT 1 / 0", 400, "22012"),
        ("SELECT CAST('x' AS integer)", 400, "22P02"),
        ("", 400, "42601"),
        ("SELECT 1; SELECT 2", 400, "42601"),
        ("SELECT $1", 400, "42P02"),
        ("COPY m TO '/tmp/stolen'", 403, "42501"),
        ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", 400, "42601"),
        ("SET work_mem = '1GB'", 400, "42704"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", 501, "0A000"),
    ];
    for (query, status, code) in cases {
        let (found, found_code, message) = refused(&server, query);
        assert_eq!((found, &*found_code), (status, code), "{query}: {message}");
    }
    let response = send(&server, "/api/sql?db=d", &[], "SELECT v,\n  nope FROM m");
    assert_eq!(parsed(&response)["position"], 13);
    let nested = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(refused(&server, &nested).1, "54001");
    assert_eq!(server.status("/api/sql"), 405);
}

/// What the parser knows and nyala does not do, and what it does not know itself, is named, and never read over.
#[test]
fn what_would_have_no_effect_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    rows(&server, "CREATE TABLE t (id int PRIMARY KEY, auto_increment int, n int)");
    let refused_by_name = [
        ("SELECT * FROM t TABLESAMPLE SYSTEM (10)", "TABLESAMPLE"),
        ("SELECT * FROM t AS a TABLESAMPLE BERNOULLI (10) REPEATABLE (1)", "TABLESAMPLE"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM t TABLESAMPLE SYSTEM (1))", "TABLESAMPLE"),
        ("SELECT * FROM t WITH (NOLOCK)", "WITH (…)"),
        ("SELECT id INTO UNLOGGED u FROM t", "INTO"),
        ("SELECT 1 AS a INTO u UNION SELECT 2", "INTO"),
        ("CREATE OR REPLACE TABLE u AS SELECT 1 AS a", "OR REPLACE"),
        ("CREATE TABLE u (id int PRIMARY KEY AUTO_INCREMENT)", "AUTO_INCREMENT"),
        ("CREATE TABLE u (n bigint NOT NULL AUTOINCREMENT, k int)", "AUTOINCREMENT"),
        ("ALTER TABLE t ADD COLUMN k int auto_increment", "auto_increment"),
        ("CREATE TABLE u (id int PRIMARY KEY DEFERRABLE)", "DEFERRABLE"),
        ("CREATE TABLE u (id int, PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED)", "DEFERRABLE"),
        ("CREATE TABLE u (id int CHECK (id > 0) NOT ENFORCED)", "NOT ENFORCED"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0) NOT ENFORCED", "NOT ENFORCED"),
        ("DO $$ BEGIN NULL; END $$", "DO"),
        ("REINDEX TABLE t", "REINDEX"),
        ("CREATE RULE r AS ON INSERT TO t DO NOTHING", "CREATE RULE"),
        ("CREATE UNLOGGED TABLE u (id int)", "CREATE UNLOGGED"),
        ("ALTER DATABASE d SET timezone = 'UTC'", "ALTER DATABASE"),
    ];
    for (query, name) in refused_by_name {
        let (_, code, message) = refused(&server, query);
        assert!(code == "0A000" && message.contains(name), "{query}: {code} {message}");
    }
    assert_eq!(refused(&server, "REINDX TABLE t").1, "42601");
    assert_eq!(refused(&server, "CREATE RULLE r").1, "42601");
    // These say what is so anyway, and a name is a name.
    rows(
        &server,
        "CREATE TABLE w (id int PRIMARY KEY NOT DEFERRABLE INITIALLY IMMEDIATE, n int UNIQUE NOT DEFERRABLE)",
    );
    rows(&server, "ALTER TABLE t RENAME COLUMN auto_increment TO autoincrement");
    rows(&server, "SELECT autoincrement FROM t");
}

/// However deeply a statement is nested, the server answers it or refuses it, and lives on.
#[test]
fn a_request_that_only_reads_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &["--history", "15m"]);
    for statement in ["CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE SEQUENCE s"] {
        rows(&server, statement);
    }
    for statement in [
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET a = 3",
        "DELETE FROM t WHERE a = 1",
        "WITH gone AS (DELETE FROM t RETURNING a) SELECT * FROM gone",
        "TRUNCATE t",
        "DROP TABLE t",
        "CREATE TABLE u AS SELECT * FROM t",
        "CREATE VIEW w AS SELECT * FROM t",
        "ALTER TABLE t ADD COLUMN b int",
        "CREATE INDEX ON t (a)",
        "SELECT nextval('s')",
        "SELECT setval('s', 777)",
        "DELETE FROM m WHERE v < 0",
        "UPDATE m SET v = 1",
        "COPY t FROM STDIN",
        "UNDO 1",
    ] {
        let response = send(&server, "/api/sql?db=d&read_only=true", &[], statement);
        let body = String::from_utf8_lossy(&response.body).into_owned();
        assert!(response.status >= 400 && body.contains("25006"), "{statement}: {body}");
    }
    let read = send(&server, "/api/sql?db=d&read_only=true", &[], "SELECT count(*) AS c FROM t");
    assert_eq!(parsed(&read), json!([{"c": 1}]));
    assert_eq!(rows(&server, "SELECT nextval('s') AS n"), json!([{"n": 1}]));
    // The same in InfluxQL; what stands before it is answered.
    for statement in
        ["DROP MEASUREMENT m", "SELECT * INTO copied FROM m", "CREATE USER eve WITH PASSWORD 'secret'"]
    {
        let query = client::percent_encode(&format!("SHOW DATABASES; {statement}"));
        let response = send(&server, &format!("/query?db=d&read_only=true&q={query}"), &[], "");
        let body = String::from_utf8_lossy(&response.body).into_owned();
        assert!(body.contains("read_only: ") && !body.contains("secret"), "{statement}: {body}");
    }
    assert_eq!(rows(&server, "SELECT count(*) AS c FROM m"), json!([{"c": 4}]));
}

#[test]
fn nested_statements_do_not_overflow_the_stack() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    // The planner takes twice as long for each level of some shapes, which are not nested deeply here.
    let deep = ["(SELECT v FROM ", "CASE WHEN true THEN ", "- (1 + ", "(SELECT 1 UNION ", "(m JOIN "];
    let shapes = [
        ("SELECT ", "coalesce(", "1", ")", ""),
        ("SELECT ", "(SELECT ", "1", ")", ""),
        ("SELECT v FROM ", "(SELECT v FROM ", "m", ") AS s", ""),
        ("SELECT ", "array_to_string(ARRAY(SELECT ", "'a'", "), '')", ""),
        ("SELECT ", "CASE WHEN true THEN ", "1", " END", ""),
        ("SELECT 1 WHERE ", "NOT EXISTS (SELECT 1 WHERE ", "true", ")", ""),
        ("", "WITH c AS (", "SELECT 1", ") SELECT * FROM c", ""),
        ("SELECT ", "- (1 + ", "1", ")", ""),
        ("", "(SELECT 1 UNION ", "SELECT 2", ")", ""),
        ("SELECT 1 FROM m JOIN ", "(m JOIN ", "m AS z ON true", ") ON true", " ON true"),
    ];
    for (start, open, inner, close, end) in shapes {
        let depths: &[usize] = if deep.contains(&open) { &[10, 48, 96, 200] } else { &[8, 400] };
        for depth in depths.iter().copied() {
            let text = [start, &open.repeat(depth), inner, &close.repeat(depth), end].concat();
            let response = send(&server, "/api/sql?db=d", &[], &text);
            assert!([200, 400, 422, 501].contains(&response.status), "{depth} × {open}: {}", response.status);
        }
        assert_eq!(send(&server, "/api/sql?db=d", &[], "SELECT 1").status, 200, "{open}");
    }
}

/// However many operators follow each other, the server answers or refuses, and lives on.
#[test]
fn long_chains_of_operators_do_not_overflow_the_stack() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    for (start, first, more, most) in [
        ("SELECT ", "1", " + 1", 100),
        ("SELECT ", "1", "::int8", 190),
        ("SELECT v FROM m WHERE ", "v", " IS NULL", 190),
        ("SELECT v FROM m WHERE ", "v = 1", " OR v = 1", 490),
        ("SELECT v FROM m WHERE ", "v = 1", " AND v + 1 = 2", 490),
        ("UPDATE m SET v = ", "1", " + 1", 100),
        ("", "SELECT 1", " UNION ALL SELECT 1", 190),
    ] {
        for count in [most, 2_000, 100_000] {
            let text = [start, first, &more.repeat(count)].concat();
            let answer = parsed(&send(&server, "/api/sql?db=d", &[], &text));
            assert_eq!(answer["code"] == "54001", count > most, "{count} × {more}: {answer}");
        }
        assert_eq!(send(&server, "/api/sql?db=d", &[], "SELECT 1").status, 200, "{more}");
    }
}

#[test]
fn users_see_what_they_may_read() {
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
        let written = send(&server, &format!("/write?db={database}&u=root&p=pw"), &[], "m v=1 1\n");
        assert_eq!(written.status, 204);
    }
    let ask = |user: &str, query: &str| send(&server, &format!("/api/sql?db=d&u={user}&p=pw"), &[], query);
    assert_eq!(parsed(&ask("ann", "SELECT v FROM m")), json!([{"v": 1.0}]));
    for query in [
        "SELECT v FROM e.autogen.m",
        "SELECT * FROM m WHERE v = (SELECT max(v) FROM e.autogen.m)",
        "WITH x AS (SELECT * FROM e.autogen.m) SELECT * FROM x",
    ] {
        let answer = ask("ann", query);
        assert_eq!((answer.status, &parsed(&answer)["code"]), (400, &json!("42P01")), "{query}");
    }
    let tables = ask("ann", "SELECT table_catalog FROM information_schema.tables WHERE table_name = 'm'");
    assert_eq!(parsed(&tables), json!([{"table_catalog": "d"}]));
    assert_eq!(parsed(&ask("root", "SELECT v FROM e.autogen.m")), json!([{"v": 1.0}]));
    assert_eq!(send(&server, "/api/sql?db=d", &[], "SELECT 1").status, 401);
    assert_eq!(ask("nobody", "SELECT 1").status, 401);
}

#[test]
fn a_statement_that_runs_is_listed_and_ends_when_it_must() {
    const ENDLESS: &str = "SELECT count(*) AS c FROM m a, m b, m c, m d, m e, m f, m g, m h, m i, m j, m k, m l, m m2, \
                           m n2, m o, m p, m q, m r, m s2, m t WHERE a.v + b.v + t.v > 1e9";
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| send(&server, "/api/sql?db=d", &[], ENDLESS));
        let begun = Instant::now();
        let number = loop {
            let listed = server.query("SHOW QUERIES");
            let queries = listed["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
            let found =
                queries.iter().find(|row| row[1].as_str().is_some_and(|text| text.contains("a.v + b.v")));
            if let Some(row) = found {
                break row[0].as_u64().expect("a number");
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{listed}");
        };
        server.query(&format!("KILL QUERY {number}"));
        // Nobody waits for the answer as long as the statement would take.
        let answer = asked.join().expect("an answer");
        assert_eq!(parsed(&answer)["code"], "57014");
    });
    assert_eq!(rows(&server, "SELECT 1 AS one"), json!([{"one": 1}]), "the server goes on");
}

#[test]
fn a_statement_is_bounded_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &["--memory-limit", "192MiB", "--spill-limit", "0"]);
    for part in 0..8 {
        let first = part * 25_000;
        let many: String = (first..first + 25_000).map(|n| format!("long v={n} {n}\n")).collect();
        assert_eq!(server.write(&many).status, 204);
    }
    let pairs = "SELECT count(*) FROM (SELECT DISTINCT a.v * 1000003 + b.v AS x FROM long a, long b WHERE b.v < 100) q";
    let (status, code, message) = refused(&server, pairs);
    // Either its own share is used up, or that of the server.
    assert!([(422, "53200"), (503, "53000")].contains(&(status, &*code)), "{status} {code} {message}");
    // The allocator returns what was freed within moments.
    let begun = Instant::now();
    let count = "SELECT count(v) AS c FROM long";
    while send(&server, "/api/sql?db=d", &[], count).status == 503
        && begun.elapsed() < Duration::from_secs(120)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(rows(&server, count), json!([{"c": 200_000}]));
    server.assert_within_memory_limit(192);
}

#[test]
fn changes_that_others_make_at_the_same_time_are_all_kept() {
    const ROUNDS: usize = 25;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    rows(&server, "UPDATE m SET n = n + 1 WHERE n > 0");
                }
            });
        }
        scope.spawn(|| {
            for round in 0..ROUNDS {
                // New points, and another field of the one that is counted.
                let lines = format!("m,host=d v=9 {round}\nm,host=b v={round} 3000000000");
                assert_eq!(server.write(&lines).status, 204);
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                rows(&server, "DELETE FROM m WHERE v = 9 AND host = 'd'");
            }
        });
    });
    rows(&server, "DELETE FROM m WHERE v = 9 AND host = 'd'");
    let counted = rows(&server, "SELECT host, n, v FROM m WHERE n > 0 ORDER BY host");
    let (all, last) = (3 * ROUNDS, ROUNDS - 1);
    assert_eq!(
        counted,
        json!([{"host": "a", "n": 1 + all, "v": 1.5}, {"host": "b", "n": 7 + all, "v": last as f64}])
    );
    assert_eq!(rows(&server, "SELECT count(*) AS c FROM m WHERE host = 'd'"), json!([{"c": 0}]));
}
