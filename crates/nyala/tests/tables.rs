//! Tables of SQL over `POST /api/sql`, through the real program: what a crash leaves, statements that run at the same time,
//! rights, and what is refused by its name. What single statements answer is compared with a real PostgreSQL in
//! `postgres/psql.rs`.

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
use serde_json::json;
use sql::{answer, changed, code, done, number, post};

fn started(dir: &std::path::Path) -> Process {
    let server = Process::start(dir, &[]);
    server.query("CREATE DATABASE d");
    server
}

#[test]
fn rows_are_inserted_found_changed_and_deleted() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    done(
        &server,
        "CREATE TABLE host (name text PRIMARY KEY, rack int NOT NULL, watts numeric(8,2) DEFAULT 1.5)",
    );
    assert_eq!(changed(&server, "INSERT INTO host VALUES ('a', 1, 2.345), ('b', 2, DEFAULT)"), 2);
    assert_eq!(
        answer(&server, "INSERT INTO host (name, rack) VALUES ('c', 2) RETURNING *"),
        json!([{"name": "c", "rack": 2, "watts": 1.50}])
    );
    assert_eq!(answer(&server, "SELECT rack FROM host WHERE name = 'b'"), json!([{"rack": 2}]));
    assert_eq!(answer(&server, "SELECT rack FROM host WHERE name = 'nobody'"), json!([]));
    assert_eq!(changed(&server, "UPDATE host SET watts = watts + 1 WHERE rack = 2"), 2);
    assert_eq!(changed(&server, "UPDATE host SET watts = 0 WHERE false"), 0);
    // A condition with a query is no reason to change all rows.
    assert_eq!(changed(&server, "DELETE FROM host WHERE name IN (SELECT 'nobody')"), 0);
    assert_eq!(changed(&server, "DELETE FROM host WHERE name IN (SELECT name FROM host WHERE rack = 1)"), 1);
    assert_eq!(changed(&server, "UPSERT INTO host VALUES ('b', 7, 7), ('d', 7, 7)"), 2);
    // A table is joined with a measurement.
    assert_eq!(server.write("cpu,host=b usage=50 1000000000\ncpu,host=x usage=1 1000000000\n").status, 204);
    assert_eq!(
        answer(&server, "SELECT h.rack, c.usage FROM cpu c JOIN host h ON h.name = c.host"),
        json!([{"rack": 7, "usage": 50.0}])
    );
    // A table hides a measurement of its name, which the name of its policy still finds.
    done(&server, "CREATE TABLE cpu (id int PRIMARY KEY)");
    assert_eq!(number(&server, "SELECT count(*) FROM cpu"), 0);
    assert_eq!(number(&server, "SELECT count(*) FROM autogen.cpu"), 2);
    done(&server, "DROP TABLE cpu");
    assert_eq!(number(&server, "SELECT count(*) FROM cpu"), 2);
    let busiest = "CREATE TABLE busiest AS SELECT host AS name, max(usage) AS most, max(time) AS at FROM cpu GROUP BY 1";
    assert_eq!(changed(&server, busiest), 2);
    done(&server, "CREATE TABLE IF NOT EXISTS busiest AS SELECT 1 AS a");
    assert_eq!(
        answer(&server, "SELECT * FROM busiest ORDER BY most"),
        json!([
            {"name": "x", "most": 1.0, "at": "1970-01-01T00:00:01Z"},
            {"name": "b", "most": 50.0, "at": "1970-01-01T00:00:01Z"},
        ])
    );
    assert_eq!(
        code(&server, "CREATE TABLE broken AS SELECT 1 / (CAST(usage AS int) - 1) AS a FROM cpu"),
        "22012"
    );
    assert_eq!(code(&server, "SELECT * FROM broken"), "42P01", "a table that could not be filled is dropped");
    assert_eq!(code(&server, "CREATE TABLE busiest AS SELECT 1 AS a"), "42P07");
    done(&server, "CREATE VIEW busy AS SELECT host FROM cpu WHERE usage > 10");
    assert_eq!(answer(&server, "SELECT * FROM busy"), json!([{"host": "b"}]));
    assert_eq!(server.write("cpu,host=y usage=99 2000000000\n").status, 204);
    assert_eq!(answer(&server, "SELECT * FROM busy ORDER BY host"), json!([{"host": "b"}, {"host": "y"}]));
}

#[test]
fn few_rows_of_many_columns_are_found_by_any_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    let columns: String = (0..12).map(|number| format!(", c{number} int")).collect();
    done(&server, &format!("CREATE TABLE wide (a int, b int, n int{columns}, PRIMARY KEY (a, b))"));
    let rows = "INSERT INTO wide (a, b, n, c0, c11) SELECT v / 10, v % 10, v % 500, v, -v FROM generate_series(0, 9999) AS t(v)";
    assert_eq!(changed(&server, rows), 10_000);
    assert_eq!(changed(&server, "UPDATE wide SET c3 = 1, n = 7 WHERE n = 8"), 20);
    assert_eq!(changed(&server, "DELETE FROM wide WHERE n = 9"), 20);
    // The store judges the first form of each condition; the second one is computed for all rows.
    for (judged, computed) in [("n = 7", "n + 0 = 7"), ("n < 10", "n + 0 < 10"), ("n = 9", "n + 0 = 9")] {
        for end in ["", " AND a > 300"] {
            for order in ["a, b", "a DESC, b DESC", "a, b LIMIT 5", "a DESC, b DESC LIMIT 3 OFFSET 4"] {
                let select =
                    |condition| format!("SELECT * FROM wide WHERE {condition}{end} ORDER BY {order}");
                assert_eq!(
                    answer(&server, &select(judged)),
                    answer(&server, &select(computed)),
                    "{}",
                    select(judged)
                );
            }
        }
    }
    assert_eq!(number(&server, "SELECT count(*) FROM (SELECT * FROM wide WHERE n = 7)"), 40);
}

#[test]
fn a_statement_is_done_as_a_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n < 5))");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (1, 1), (2, 2)"), 2);
    let wrong = [
        ("INSERT INTO t VALUES (3, 3), (1, 1)", "23505"),
        ("INSERT INTO t VALUES (3, 3), (3, 3)", "23505"),
        ("INSERT INTO t VALUES (3, 3), (4, NULL)", "23502"),
        ("INSERT INTO t VALUES (3, 3), (4, 9)", "23514"),
        ("UPDATE t SET n = n + 3", "23514"),
        ("UPDATE t SET n = NULL WHERE id = 1", "23502"),
        ("UPDATE t SET id = 1", "23505"),
        ("INSERT INTO t VALUES (3, 3), (1, 1) ON CONFLICT (id) DO UPDATE SET n = 9", "23514"),
        ("UPDATE t SET n = 4 / (id - 2)", "22012"),
        ("INSERT INTO t SELECT n, 1 / (70000 - n) FROM generate_series(10, 70000) AS n", "22012"),
        ("INSERT INTO t SELECT n, 1 FROM generate_series(70000, 2, -1) AS n", "23505"),
    ];
    for (statement, expected) in wrong {
        assert_eq!(code(&server, statement), expected, "{statement}");
        let rows = json!([{"id": 1, "n": 1}, {"id": 2, "n": 2}]);
        assert_eq!(answer(&server, "SELECT * FROM t ORDER BY id"), rows, "{statement}");
    }
    // More rows than one batch of the store holds.
    let many = "INSERT INTO t SELECT n, 1 FROM generate_series(10, 100009) AS n";
    assert_eq!(changed(&server, many), 100_000);
    assert_eq!(changed(&server, "UPDATE t SET n = n + 1 WHERE id >= 10"), 100_000);
    assert_eq!(number(&server, "SELECT sum(n) FROM t WHERE id >= 10"), 200_000);
    assert_eq!(changed(&server, "UPDATE t SET id = id + 1 WHERE id >= 10"), 100_000);
    assert_eq!(changed(&server, "DELETE FROM t WHERE id % 2 = 0"), 50_001);
    assert_eq!(number(&server, "SELECT count(*) FROM t"), 50_001);
}

#[test]
fn no_update_is_lost() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 25;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (1, 0), (2, 0)"), 2);
    let inserted = std::thread::scope(|scope| {
        let work = || {
            (0..ROUNDS).fold(0, |inserted, round| {
                assert_eq!(changed(&server, "UPDATE t SET n = n + 1 WHERE id = 1"), 1);
                let upsert = "INSERT INTO t VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1";
                assert_eq!(changed(&server, upsert), 1);
                let transfer = "UPDATE t SET n = CASE id WHEN 1 THEN n - 1 ELSE n + 1 END WHERE id <= 2";
                assert_eq!(changed(&server, transfer), 2);
                let insert = format!("INSERT INTO t VALUES ({}, 1) ON CONFLICT DO NOTHING", 100 + round);
                inserted + changed(&server, &insert)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|own| own.join().expect("a thread")).sum::<u64>()
    });
    assert_eq!(inserted, ROUNDS as u64);
    let rounds = (THREADS * ROUNDS) as i64;
    let rows = json!([{"id": 1, "n": 0}, {"id": 2, "n": 2 * rounds}]);
    assert_eq!(answer(&server, "SELECT * FROM t WHERE id <= 2 ORDER BY id"), rows);
}

#[test]
fn tables_outlast_a_crash() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path());
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, s text)");
    done(&server, "CREATE TABLE gone (id int PRIMARY KEY)");
    done(&server, "CREATE TABLE plain (s text)");
    assert_eq!(changed(&server, "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) AS n"), 1000);
    assert_eq!(changed(&server, "INSERT INTO plain VALUES ('a'), ('a')"), 2);
    assert_eq!(changed(&server, "UPDATE t SET s = 'y' WHERE id <= 10"), 10);
    assert_eq!(changed(&server, "DELETE FROM t WHERE id > 500"), 500);
    done(&server, "DROP TABLE gone");
    server.kill();
    drop(server);
    let server = Process::start(dir.path(), &[]);
    let query = "SELECT count(*) AS c, count(*) FILTER (WHERE s = 'y') AS y FROM t";
    assert_eq!(answer(&server, query), json!([{"c": 500, "y": 10}]));
    assert_eq!(code(&server, "SELECT * FROM gone"), "42P01");
    assert_eq!(code(&server, "INSERT INTO t VALUES (1, 'z')"), "23505");
    assert_eq!(changed(&server, "INSERT INTO plain VALUES ('a')"), 1);
    assert_eq!(number(&server, "SELECT count(*) FROM plain"), 3);
    // After an orderly stop as well; and the tables of a database go with it.
    assert!(server.stop().success());
    let server = Process::start(dir.path(), &[]);
    assert_eq!(number(&server, "SELECT count(*) FROM t"), 500);
    server.query("DROP DATABASE d");
    server.query("CREATE DATABASE d");
    assert_eq!(code(&server, "SELECT * FROM t"), "42P01");
}

/// Parameters stand behind the partitions, as PostgreSQL has them, or before them.
#[test]
fn tables_with_partitions_have_their_rows() {
    for table in [
        "(id int, at timestamp, v int, PRIMARY KEY (id, at))",
        "(id int, at timestamp, v int, PRIMARY KEY (id, at)) PARTITION BY HASH (id) WITH (partitions = 3, \"v.encoding\" = 'size')",
        "(id int, at timestamp, v int, PRIMARY KEY (id, at)) WITH (partitions = 3) PARTITION BY HASH (id)",
        "(id int, at timestamp, v int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at) WITH (partition_width = '1 day')",
        "(id int, at timestamp, v int, PRIMARY KEY (at, id)) PARTITION BY RANGE (at)",
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let server = started(dir.path());
        let rows = "SELECT n::int, timestamp '2024-01-01' + n % 4 * interval '1 day', n::int * 2 FROM generate_series(1, 400) n";
        done(&server, &format!("CREATE VIEW rows (id, at, v) AS {rows}"));
        done(&server, &format!("CREATE TABLE t {table}"));
        assert_eq!(changed(&server, "INSERT INTO t SELECT * FROM rows"), 400, "{table}");
        assert!(server.stop().success());
        let server = Process::start(dir.path(), &[]);
        assert_eq!(
            answer(&server, "SELECT sum(v) AS sum FROM t WHERE id > 100"),
            json!([{"sum": 150_300}]),
            "{table}"
        );
        assert_eq!(
            answer(&server, "SELECT v FROM t WHERE id = 7 AND at = '2024-01-04'"),
            json!([{"v": 14}]),
            "{table}"
        );
        assert_eq!(changed(&server, "DELETE FROM t WHERE at < '2024-01-02'"), 100, "{table}");
        assert_eq!(number(&server, "SELECT count(*) FROM t"), 300, "{table}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    for (table, expected) in [
        ("PARTITION BY RANGE (id)", "0A000"),
        ("PARTITION BY HASH (x)", "42703"),
        ("PARTITION BY HASH (id) WITH (partition_width = '1 day')", "22023"),
        ("PARTITION BY HASH (id) WITH (partitions = 1)", "22023"),
        ("PARTITION BY LIST (id)", "0A000"),
        ("WITH (partitions = 3)", "22023"),
    ] {
        assert_eq!(
            code(&server, &format!("CREATE TABLE t (id int PRIMARY KEY) {table}")),
            expected,
            "{table}"
        );
    }
}

#[test]
fn rights_of_a_database_are_those_of_its_tables() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--auth-enabled"]);
    let ask =
        |text: &str| post(&server, &format!("/query?u=ann&p=pencil&q={}", client::percent_encode(text)), "");
    let first = format!(
        "/query?q={}",
        client::percent_encode("CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES")
    );
    assert_eq!(post(&server, &first, "").status, 200);
    let commands = [
        "CREATE DATABASE d",
        "CREATE USER r WITH PASSWORD 'r'",
        "CREATE USER w WITH PASSWORD 'w'",
        "GRANT READ ON d TO r",
        "GRANT WRITE ON d TO w",
    ];
    for command in commands {
        assert_eq!(ask(command).status, 200, "{command}");
    }
    let as_user = |user: &str, text: &str| {
        let password = if user == "ann" { "pencil" } else { user };
        let response = post(&server, &format!("/api/sql?db=d&u={user}&p={password}"), text);
        String::from_utf8_lossy(&response.body).into_owned()
    };
    assert!(as_user("ann", "CREATE TABLE t (id int PRIMARY KEY)").contains("CREATE TABLE"));
    // Who may write may insert; what reads rows needs the right to read.
    assert!(as_user("w", "INSERT INTO t VALUES (1)").contains("INSERT"));
    for refused in ["INSERT INTO t VALUES (2) RETURNING *", "UPDATE t SET id = 3", "DELETE FROM t"] {
        assert!(as_user("w", refused).contains("42501"), "{refused}: {}", as_user("w", refused));
    }
    for refused in [
        "INSERT INTO t VALUES (2)",
        "DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE u (id int)",
        "CREATE TEMP TABLE u (id int)",
        "CREATE TEMP TABLE u AS SELECT 1 AS a",
        "TRUNCATE t",
    ] {
        assert!(as_user("r", refused).contains("42501"), "{refused}: {}", as_user("r", refused));
    }
    assert_eq!(as_user("r", "SELECT * FROM t").trim(), "[{\"id\":1}]");
}

#[test]
fn what_is_not_there_is_refused_by_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    assert_eq!(server.write("m v=1 1\n").status, 204);
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, n int)");
    let refused = [
        (
            "CREATE TABLE u (id serial PRIMARY KEY, n int GENERATED ALWAYS AS (id) STORED)",
            "computed from others",
        ),
        ("CREATE TABLE u (id int PRIMARY KEY, n float8 UNIQUE)", "double precision in an index"),
        ("CREATE TABLE u (id int PRIMARY KEY, n int REFERENCES t)", "FOREIGN KEY"),
        ("CREATE TABLE u (id float8 PRIMARY KEY)", "primary key"),
        ("CREATE TABLE u (id int PRIMARY KEY, n numeric)", "numeric"),
        ("MERGE INTO t USING m ON t.id = m.v WHEN MATCHED THEN UPDATE SET id = 2", "key by MERGE"),
        ("MERGE INTO m USING t ON t.id = m.v WHEN MATCHED THEN DELETE", "MERGE of points"),
        ("DRY RUN UPDATE m SET v = 2 RETURNING v", "RETURNING after DRY RUN"),
        ("INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET id = 2", "key"),
        ("CREATE INDEX i ON t (n + 1)", "expression"),
        ("CREATE INDEX i ON t (n DESC)", "n DESC in an index"),
        ("CREATE INDEX i ON t (n) WHERE n > 1", "a part of the rows"),
        ("CREATE INDEX i ON t (id) INCLUDE (n)", "INCLUDE"),
        ("CREATE INDEX i ON t USING hash (n)", "USING HASH"),
        ("CREATE INDEX i ON t (n) WITH (fillfactor = 70)", "storage parameters"),
    ];
    for (statement, name) in refused {
        let answer = answer(&server, statement);
        let words = answer["error"].as_str().unwrap_or_default();
        assert!(answer["code"] == "0A000" && words.contains(name), "{statement}: {answer}");
    }
    assert_eq!(number(&server, "SELECT count(*) FROM t"), 0);
    assert_eq!(number(&server, "SELECT count(*) FROM m"), 1);
}

/// A row that is changed by its key is found by the store; with any other condition, by a plan.
#[test]
fn a_row_is_changed_by_its_key_as_by_a_plan() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path());
    for table in ["by_key", "planned"] {
        done(
            &server,
            &format!(
                "CREATE TABLE {table} (id int, name text, n int NOT NULL DEFAULT 7, d numeric(6,2), s varchar(3), at timestamptz, \
                 PRIMARY KEY (id, name))"
            ),
        );
        let rows = format!(
            "INSERT INTO {table} VALUES (1, 'a', 1), (2, 'a', 2), (2, 'b', 3), (3, '', 4), (4, 'x', 5)"
        );
        assert_eq!(changed(&server, &rows), 5);
    }
    let outcome = |statement: &str| {
        let answer = answer(&server, statement);
        let code = answer["code"].as_str().map(str::to_owned);
        (code, answer[0]["rows_affected"].as_u64())
    };
    let mut seen = std::collections::BTreeSet::new();
    for change in [
        "UPDATE t SET n = 10 WHERE id = 1 AND name = 'a'",
        "UPDATE t AS x SET d = 1.005, s = 'abc', at = '2026-01-01T00:00:00Z' WHERE 'b' = x.name AND (x.id = 2)",
        "UPDATE t SET s = NULL, d = NULL, n = DEFAULT WHERE id = 2 AND name = 'a'",
        "UPDATE t SET n = -5, s = '' WHERE id = 3 AND name = ''",
        "UPDATE t SET n = 1 WHERE id = 3 AND name = 'nobody'",
        "UPDATE t SET n = NULL WHERE id = 3 AND name = 'nobody'",
        "UPDATE t SET n = NULL WHERE id = 1 AND name = 'a'",
        "UPDATE t SET n = 1 WHERE id = NULL AND name = 'a'",
        "UPDATE t SET n = 1 WHERE id = 99999999999 AND name = 'a'",
        "UPDATE t SET n = 99999999999 WHERE id = 1 AND name = 'a'",
        "UPDATE t SET n = 'x' WHERE id = 1 AND name = 'a'",
        "UPDATE t SET s = 'long' WHERE id = 1 AND name = 'a'",
        "UPDATE t SET d = 12345.6 WHERE id = 1 AND name = 'a'",
        "UPDATE t SET nothing = 1 WHERE id = 1 AND name = 'a'",
        "UPDATE t SET n = 1, n = 2 WHERE id = 1 AND name = 'a'",
        "UPDATE t SET n = 3 WHERE id = 2 AND id = 1 AND name = 'a'",
        "UPDATE t SET n = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 4 AND name = 'x'",
        "DELETE FROM t WHERE id = 4 AND name = 'x'",
        "DELETE FROM t AS x WHERE x.id = '1' AND x.name = 'a'",
        "DELETE FROM t WHERE id = 1.5 AND name = 'a'",
        "DELETE FROM t WHERE id = 2 AND name = 3",
    ] {
        let by_key = outcome(&change.replacen(" t ", " by_key ", 1));
        let planned = outcome(&format!("{} AND true", change.replacen(" t ", " planned ", 1)));
        assert_eq!(by_key, planned, "{change}");
        seen.extend(by_key.0);
        let rows = |table: &str| answer(&server, &format!("SELECT * FROM {table} ORDER BY id, name"));
        assert_eq!(rows("by_key"), rows("planned"), "{change}");
    }
    let codes: Vec<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(codes, ["22001", "22003", "22P02", "23502", "42601", "42703", "42883"]);
    assert_eq!(number(&server, "SELECT count(*) FROM by_key"), 3);
}
