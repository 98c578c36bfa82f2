//! Tables that are altered over `POST /api/sql`, through the real program: what a crash leaves, writers at the same time, the
//! past, and what is refused by its name. What single statements answer is compared with a real PostgreSQL in
//! `postgres/catalog.rs`.

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
use sql::{answer, changed, code, done, number};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

fn started(dir: &std::path::Path, arguments: &[&str]) -> Process {
    let server = Process::start(dir, arguments);
    server.query("CREATE DATABASE d");
    server
}

#[test]
fn definitions_outlast_a_crash() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path(), &[]);
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text)");
    done(&server, "CREATE TABLE plain (s varchar(3))");
    done(&server, "CREATE VIEW v AS SELECT id, a FROM t");
    let insert = "INSERT INTO t SELECT n, n, 'x' FROM generate_series(1, 100000) AS n";
    assert_eq!(changed(&server, insert), 100_000);
    assert_eq!(changed(&server, "INSERT INTO plain VALUES ('a'), ('a')"), 2);
    done(
        &server,
        "ALTER TABLE t ADD COLUMN c bigint NOT NULL DEFAULT 7, ALTER b TYPE varchar(5), DROP COLUMN IF EXISTS d",
    );
    assert_eq!(code(&server, "ALTER TABLE t ALTER a TYPE bigint"), "0A000", "the view uses it");
    done(&server, "CREATE VIEW whole AS SELECT * FROM t");
    done(&server, "ALTER TABLE t RENAME COLUMN a TO amount");
    done(&server, "ALTER TABLE t RENAME TO u");
    done(&server, "ALTER TABLE u ADD COLUMN d text");
    done(&server, "ALTER TABLE plain ADD n smallint DEFAULT 1, ALTER s TYPE text");
    let check = |server: &Process, when: &str| {
        let query = "SELECT count(*) AS n, sum(c) AS c, sum(amount) AS a, min(b) AS b FROM u";
        let expected = json!([{"n": 100_000, "c": 700_000, "a": 5_000_050_000_i64, "b": "x"}]);
        assert_eq!(answer(server, query), expected, "{when}");
        assert_eq!(answer(server, "SELECT * FROM v WHERE id = 3"), json!([{"id": 3, "a": 3}]), "{when}");
        let row = json!([{"id": 3, "a": 3, "b": "x", "c": 7}]);
        assert_eq!(answer(server, "SELECT * FROM whole WHERE id = 3"), row, "{when}");
        assert_eq!(answer(server, "SELECT c FROM u WHERE id = 5"), json!([{"c": 7}]), "{when}");
        assert_eq!(code(server, "SELECT * FROM t"), "42P01", "{when}");
        assert_eq!(code(server, "INSERT INTO u (id, amount, c) VALUES (0, 0, NULL)"), "23502", "{when}");
        assert_eq!(code(server, "INSERT INTO u VALUES (0, 0, 'too long')"), "22001", "{when}");
        let rows = json!([{"s": "a", "n": 1}, {"s": "a", "n": 1}]);
        assert_eq!(answer(server, "SELECT * FROM plain"), rows, "{when}");
    };
    check(&server, "at once");
    server.kill();
    drop(server);
    server = Process::start(dir.path(), &[]);
    check(&server, "after a crash");
    assert!(server.stop().success());
    server = Process::start(dir.path(), &[]);
    check(&server, "after a restart");
    assert_eq!(code(&server, "ALTER TABLE u DROP COLUMN amount"), "2BP01");
    done(&server, "ALTER TABLE u DROP COLUMN amount CASCADE, DROP d, DROP c CASCADE");
    assert_eq!(code(&server, "SELECT * FROM whole"), "42P01");
    assert_eq!(changed(&server, "INSERT INTO u VALUES (0, 'y')"), 1);
    assert_eq!(answer(&server, "SELECT * FROM u WHERE id = 0"), json!([{"id": 0, "b": "y"}]));
    drop(server);
    server = Process::start(dir.path(), &[]);
    assert_eq!(number(&server, "SELECT count(*) FROM u"), 100_001);
    assert_eq!(code(&server, "SELECT c FROM u"), "42703");
    done(&server, "TRUNCATE u");
    assert_eq!(changed(&server, "INSERT INTO u VALUES (0, 'y')"), 1);
}

#[test]
fn no_row_is_stored_that_the_new_definition_forbids() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, n int, m int)");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = number * 3 + thread;
                    // The columns that there are now, whichever they are.
                    let insert = format!("INSERT INTO t (id, n) VALUES ({id}, NULLIF({}, 0))", number % 5);
                    let done = answer(server, &insert);
                    let code = done["code"].as_str().unwrap_or_default();
                    assert!(matches!(code, "" | "23502" | "23514" | "42703"), "{done}");
                    let update = format!("UPDATE t SET n = n + 1 WHERE id = {}", id / 2);
                    let done = answer(server, &update);
                    let code = done["code"].as_str().unwrap_or_default();
                    assert!(matches!(code, "" | "23514" | "42703"), "{done}");
                }
            });
        }
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(100));
            changed(&server, "DELETE FROM t WHERE n IS NULL OR n > 2");
            let strict = "ALTER TABLE t ALTER n SET NOT NULL, ADD CONSTRAINT small CHECK (n < 4)";
            let altered = answer(&server, strict);
            let code = altered["code"].as_str().unwrap_or_default();
            assert!(matches!(code, "" | "23502" | "23514"), "{altered}");
            if code.is_empty() {
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(number(&server, "SELECT count(*) FROM t WHERE n IS NULL OR n >= 4"), 0);
                done(&server, "ALTER TABLE t ALTER n DROP NOT NULL, DROP CONSTRAINT small");
            }
            done(&server, &format!("ALTER TABLE t ADD COLUMN c{round} int NOT NULL DEFAULT {round}"));
            std::thread::sleep(Duration::from_millis(50));
            let wrong = format!("SELECT count(*) FROM t WHERE c{round} IS DISTINCT FROM {round}");
            assert_eq!(number(&server, &wrong), 0);
            done(&server, "ALTER TABLE t RENAME m TO k");
            done(&server, "ALTER TABLE t ALTER k TYPE bigint");
            done(&server, "ALTER TABLE t DROP k, ADD m int");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(number(&server, "SELECT count(*) FROM t") > 0);
}

#[test]
fn the_past_has_its_definitions() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(dir.path(), &["--history", "15m"]);
    let moment = || {
        std::thread::sleep(Duration::from_millis(20));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
        std::thread::sleep(Duration::from_millis(20));
        now
    };
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, a smallint, b text)");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (1, 1, 'x')"), 1);
    for table in ["emptied", "keyed"] {
        done(&server, &format!("CREATE TABLE {table} (id int NOT NULL)"));
        assert_eq!(changed(&server, &format!("INSERT INTO {table} VALUES (1)")), 1);
    }
    let first = moment();
    done(&server, "TRUNCATE emptied");
    done(&server, "ALTER TABLE keyed ADD PRIMARY KEY (id)");
    done(&server, "ALTER TABLE t ALTER a TYPE int, ADD c int DEFAULT 5");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (2, 70000, 'y')"), 1);
    let second = moment();
    done(&server, "ALTER TABLE t DROP b, DROP a");
    done(&server, "ALTER TABLE t RENAME TO u");
    let check = |server: &Process, when: &str| {
        let at = |table: &str, time: u128| {
            answer(server, &format!("SELECT * FROM {table} ORDER BY id AS OF {time}"))
        };
        assert_eq!(at("t", first), json!([{"id": 1, "a": 1, "b": "x"}]), "{when}");
        let rows = json!([{"id": 1, "a": 1, "b": "x", "c": 5}, {"id": 2, "a": 70000, "b": "y", "c": 5}]);
        assert_eq!(at("t", second), rows, "{when}");
        assert_eq!(at("u", second)["code"], "42P01", "{when}");
        // Rows that are not kept are not said to have been none.
        for table in ["emptied", "keyed"] {
            assert_eq!(at(table, first)["code"], "40001", "{when}");
            assert_eq!(
                at(table, second).as_array().map(Vec::len),
                Some(usize::from(table == "keyed")),
                "{when}"
            );
        }
        assert_eq!(
            answer(server, "SELECT * FROM u"),
            json!([{"id": 1, "c": 5}, {"id": 2, "c": 5}]),
            "{when}"
        );
    };
    check(&server, "at once");
    assert!(server.stop().success());
    server = Process::start(dir.path(), &["--history", "15m"]);
    check(&server, "after a restart");
}

#[test]
fn what_is_not_there_is_refused_by_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    done(&server, "CREATE TABLE t (id int PRIMARY KEY, n int, s text)");
    done(&server, "CREATE TABLE plain (n int)");
    done(&server, "CREATE VIEW v AS SELECT n FROM t");
    done(&server, "CREATE TABLE indexed (n int UNIQUE)");
    done(
        &server,
        "CREATE TABLE ranged (at timestamp PRIMARY KEY) PARTITION BY RANGE (at) WITH (partition_width = '7 days')",
    );
    let refused = [
        ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (n), ADD c int", "UNIQUE"),
        ("ALTER TABLE t ADD c int UNIQUE", "UNIQUE"),
        ("ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (n)", "NULLS NOT DISTINCT"),
        ("ALTER TABLE t ADD UNIQUE (n) DEFERRABLE", "DEFERRABLE"),
        ("ALTER TABLE indexed ALTER n TYPE text", "which is indexed"),
        ("ALTER TABLE t ADD c int REFERENCES t", "FOREIGN KEY"),
        ("ALTER TABLE t ADD c serial", "a new column with a sequence of its own"),
        ("ALTER TABLE t DROP COLUMN id", "primary key"),
        ("ALTER TABLE ranged ALTER at TYPE date", "whose ranges are the partitions"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "primary key"),
        ("ALTER TABLE plain ADD PRIMARY KEY (n), ADD c int", "primary key"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0) NOT VALID", "NOT VALID"),
        ("ALTER TABLE t OWNER TO me", "OWNER"),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ROW LEVEL SECURITY"),
        ("ALTER TABLE v RENAME n TO k", "column of a view"),
    ];
    for (statement, name) in refused {
        let answer = answer(&server, statement);
        let words = answer["error"].as_str().unwrap_or_default();
        assert!(answer["code"] == "0A000" && words.contains(name), "{statement}: {answer}");
    }
    // The name of the key stays, and the next table of the name has another one.
    done(&server, "CREATE TABLE k (id int PRIMARY KEY)");
    done(&server, "ALTER TABLE k RENAME TO old");
    done(&server, "CREATE TABLE k (id int PRIMARY KEY)");
    let keys = "SELECT conname FROM pg_constraint WHERE conname LIKE 'k_p%' ORDER BY 1";
    assert_eq!(answer(&server, keys), json!([{"conname": "k_pkey"}, {"conname": "k_pkey1"}]));
    assert_eq!(code(&server, "ALTER TABLE t RENAME n TO k, RENAME s TO r"), "42601");
    assert_eq!(code(&server, "ALTER TABLE t ALTER s TYPE int"), "42804");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (1, 1, '5')"), 1);
    done(&server, "ALTER TABLE t ALTER s TYPE int USING s::int, ADD r double precision DEFAULT random()");
    assert_eq!(answer(&server, "SELECT s + 1 AS s, r >= 0 AS r FROM t"), json!([{"s": 6, "r": true}]));
    // The rows are copied, and everything else is done on the way.
    done(&server, "ALTER TABLE t ALTER id TYPE bigint, ADD c int DEFAULT 7, DROP r, ALTER s SET NOT NULL");
    assert_eq!(changed(&server, "INSERT INTO t VALUES (3000000000, 2, 8, 9)"), 1);
    let rows = json!([{"id": 1, "n": 1, "s": 5, "c": 7}, {"id": 3_000_000_000_i64, "n": 2, "s": 8, "c": 9}]);
    assert_eq!(answer(&server, "SELECT * FROM t ORDER BY id"), rows);
    assert_eq!(code(&server, "INSERT INTO t (id, n) VALUES (2, 2)"), "23502");
}

#[test]
fn what_was_altered_or_dropped_is_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let statements = [
        "CREATE TABLE kept (id INT PRIMARY KEY)",
        "ALTER TABLE kept ADD COLUMN a INT",
        "TRUNCATE TABLE kept",
        "DROP TABLE kept",
    ];
    statements.iter().for_each(|statement| done(&server, statement));
    let log = server.log();
    let lines = |statement: &str| log.matches(&format!("statement=\"{statement}\"")).count();
    assert_eq!(statements.map(lines), [0, 1, 1, 1], "{log}");
}
