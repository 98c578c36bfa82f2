//! Statements of SQL that would take all memory, end the server or a connection, or be planned for ever: they have an error, in
//! little memory, and the connection goes on.

#![cfg(feature = "sql")]

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "sql_differential/session.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod session;

use process::Process;
use session::{Answer, Session};

const LIMIT: [&str; 2] = ["--memory-limit", "512MiB"];

/// Statements over the tables `t` (9000 rows, short texts), `wide` (a row, a text of 1 MB) and `long` (200 rows of such), and
/// their answers: the first value, or the code of the error.
const STATEMENTS: &[(&str, &str)] = &[
    // Texts and arrays as long as a number says.
    ("SELECT length(repeat(s, 100000000)) FROM t LIMIT 1", "54000"),
    ("SELECT length(repeat('x', 700000000))", "54000"),
    ("SELECT max(length(repeat(s, id * 20000))) FROM t", "54000"),
    ("SELECT max(length(repeat(s, id))) FROM t", "27000"),
    ("SELECT max(length(repeat(s, -id))) FROM t", "0"),
    ("SELECT length(lpad('x', 2147483647))", "54000"),
    ("SELECT max(length(lpad(s, id * 100000, 'xyz'))) FROM t", "54000"),
    ("SELECT max(length(lpad(s, id, 'xyz')) + length(rpad(s, -id))) FROM t", "9000"),
    ("SELECT length(replace(repeat('x', 100000), 'x', repeat('y', 100000)))", "54000"),
    ("SELECT length(replace(t, 'a', t)) FROM wide", "54000"),
    ("SELECT length(regexp_replace(t, 'a', t, 'g')) FROM wide", "54000"),
    ("SELECT length(array_to_string(string_to_array(t, NULL), t)) FROM wide", "54000"),
    ("SELECT max(length(format('%*s', id * 100, s))) FROM t", "54000"),
    ("SELECT array_length(array_repeat(1, 1000000000), 1)", "42883"),
    ("SELECT generate_series(1, 1000000000) LIMIT 3", "54000"),
    ("SELECT count(x) FROM (SELECT generate_series(id, id + 100000000) AS x FROM t) q", "54000"),
    ("SELECT coalesce(generate_series(1, 10000000000), 1)", "54000"),
    (
        "SELECT * FROM generate_series(timestamp '1677-09-22', timestamp '2262-04-11', interval '1 microsecond') LIMIT 3",
        "54000",
    ),
    (
        "SELECT * FROM generate_series(timestamp '2024-01-01', timestamp '2025-01-01', interval '1 month -30 days') LIMIT 3",
        "54000",
    ),
    (
        "SELECT count(*) FROM generate_series(timestamp '2024-01-01', timestamp '2025-01-01', interval '1 hour')",
        "8785",
    ),
    ("SELECT count(*) FROM generate_series(1, 3) AS g(x) WHERE x = generate_series(1, 10000000000)", "0A000"),
    // Long constants stand in every row.
    ("SELECT max(length(s || repeat('x', 1000000))) FROM t", "1000003"),
    ("SELECT length(string_agg(s, repeat('x', 1000000))) FROM t", "53200"),
    (
        "SELECT max(length(w)) FROM (SELECT id, repeat('x', 10000000) AS w FROM t LIMIT 50) q WHERE id + random() > 0",
        "10000000",
    ),
    // Batches of long texts.
    ("SELECT length(string_agg(t, '')) FROM wide, generate_series(1, 5000)", "53200"),
    ("SELECT max(length(t || g)) FROM wide, generate_series(1, 3000) AS g(g)", "1000004"),
    ("SELECT sum(length(wide.t)) FROM wide JOIN t ON wide.id = 1 AND t.id <= 1500", "1500000000"),
    ("SELECT sum(length(w.t)) FROM wide w JOIN t ON w.id = length(t.s) - 2 AND t.id <= 2500", "2500000000"),
    ("SELECT sum(length(t)) FROM long WHERE id % 2 = 0", "100000000"),
    ("SELECT max(length(a.t)) FROM long a JOIN long b ON a.id = b.id + 1", "1000000"),
    ("SELECT max(length(a.t)) FROM long a JOIN long b ON a.id::float8 = b.id + 1.5::float8", "53200"),
    (
        "SELECT count(*) FROM (SELECT t, rank() OVER (ORDER BY id) AS n FROM long) q WHERE n > 5 AND t > 'a'",
        "195",
    ),
    ("SELECT id FROM long ORDER BY t, id DESC LIMIT 1", "200"),
    // Numbers that the planner takes as they are.
    ("SELECT approx_percentile_cont(0.5, 1000000000) WITHIN GROUP (ORDER BY id) FROM t", "22023"),
    ("SELECT approx_percentile_cont(0.5, 9223372036854775807) WITHIN GROUP (ORDER BY id) FROM t", "22023"),
    ("SELECT arrow_cast(NULL, 'FixedSizeList(2147483647, Int64)')", "42883"),
    (
        "SELECT min(id) OVER (ORDER BY id ROWS BETWEEN 18446744073709551615 FOLLOWING AND UNBOUNDED FOLLOWING) FROM t",
        "22003",
    ),
    // What libraries refuse in their own words.
    (r"SELECT count(*) FROM t WHERE s ~ '(a)\1'", "2201B"),
    (r"SELECT count(*) FROM t WHERE s ~ '\w{2000}'", "2201B"),
    ("SELECT regexp_replace(s, '(', '') FROM t", "2201B"),
    ("SELECT sqrt(-id::real) FROM t", "2201F"),
    ("SELECT max((0 * id) ^ -1) FROM t", "2201F"),
    ("SELECT max(date '1970-01-01' + interval '-2147483648 days') FROM t WHERE id > 0", "22008"),
];

#[test]
fn no_statement_takes_all_memory_or_ends_a_connection() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = client::free_address();
    let bind = address.to_string();
    let server = Process::start(directory.path(), &[&LIMIT[..], &["--postgres-bind", &bind]].concat());
    server.query("CREATE DATABASE d");
    let mut session = Session::open(address, "me", "d").expect("it listens");
    for statement in [
        "CREATE TABLE t (id int PRIMARY KEY, s text)",
        "INSERT INTO t SELECT g, 'abc' FROM generate_series(1, 9000) AS g(g)",
        "CREATE TABLE wide (id int PRIMARY KEY, t text)",
        "INSERT INTO wide VALUES (1, repeat('a', 1000000))",
        "CREATE TABLE long (id int PRIMARY KEY, t text)",
    ] {
        let done = session.ask(statement, &[]);
        assert!(matches!(done, Answer::Rows { .. }), "{statement}: {done:?}");
    }
    for first in (1..200).step_by(20) {
        let rows = format!("generate_series({first}, {}) AS g(g)", first + 19);
        let done = session.ask(&format!("INSERT INTO long SELECT g, repeat('b', 1000000) FROM {rows}"), &[]);
        assert!(matches!(done, Answer::Rows { .. }), "{done:?}");
    }
    let mut wrong = Vec::new();
    for (statement, expected) in STATEMENTS {
        let answer = match session.ask(statement, &[]) {
            Answer::Rows { rows, .. } => rows.first().and_then(|row| row[0].clone()).unwrap_or_default(),
            Answer::Error { code, message } if code != *expected => format!("{code} {message}"),
            Answer::Error { code, .. } => code,
        };
        if answer != *expected {
            wrong.push(format!("{statement}\n  {answer} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.assert_within_memory_limit(512);
}

#[test]
fn long_lists_and_deep_arrays_are_refused_before_they_are_planned() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = client::free_address();
    let server = Process::start(directory.path(), &["--postgres-bind", &address.to_string()]);
    server.query("CREATE DATABASE d");
    let mut session = Session::open(address, "me", "d").expect("it listens");
    let list = |length: usize, each: &str| vec![each; length].join(", ");
    let columns = |length: usize| (0..length).map(|own| format!("c{own} int")).collect::<Vec<_>>().join(", ");
    for (statement, expected) in [
        (format!("SELECT {}", list(100_000, "1")), Some("54011")),
        (
            format!("SELECT 1 FROM generate_series(1, 2) AS g(g) ORDER BY {}", list(10_000, "g + 1")),
            Some("54011"),
        ),
        (format!("SELECT {}1{}", "ARRAY[".repeat(100), "]".repeat(100)), Some("54001")),
        (format!("CREATE TABLE many ({})", columns(100_000)), Some("54011")),
        (format!("CREATE TABLE many ({})", columns(1600)), None),
        ("ALTER TABLE many ADD COLUMN more int".to_owned(), Some("54011")),
        ("SELECT * FROM many".to_owned(), None),
        ("SELECT 1;".repeat(10_001), Some("54001")),
    ] {
        let shown: String = statement.chars().take(60).collect();
        match (session.ask(&statement, &[]), expected) {
            (Answer::Rows { .. }, None) => {}
            (Answer::Error { code, .. }, Some(expected)) if code == expected => {}
            (other, _) => panic!("{shown}: {other:?}"),
        }
    }
    // Each view reads twice as many tables as the one before.
    let view = |number: usize| match number {
        0 => "CREATE VIEW v0 AS SELECT c0 FROM many".to_owned(),
        own => format!("CREATE VIEW v{own} AS SELECT a.c0 FROM v{0} a, v{0} b", own - 1),
    };
    let codes: Vec<Option<String>> = (0..12)
        .map(|number| match session.ask(&view(number), &[]) {
            Answer::Rows { .. } => None,
            Answer::Error { code, .. } => Some(code),
        })
        .collect();
    assert_eq!(codes.iter().position(Option::is_some), Some(11), "{codes:?}");
    assert_eq!(codes[11].as_deref(), Some("54001"));
}

#[test]
fn a_line_of_delimiters_takes_no_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(directory.path(), &["--memory-limit", "256MiB"]);
    server.query("CREATE DATABASE d");
    let send = |target: &str, headers: &[(&str, &str)], body: &[u8]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (method, target) = ("POST".to_owned(), target.to_owned());
        let request = client::Request { method, target, headers, body: body.to_vec() };
        client::send(server.address, &request).expect("an answer")
    };
    let created = send("/api/sql?db=d", &[], b"CREATE TABLE t (k text PRIMARY KEY, v int)");
    assert_eq!(created.status, 200, "{}", String::from_utf8_lossy(&created.body));
    let mut line = vec![b','; 15 << 20];
    line.push(b'\n');
    let copy = client::percent_encode("COPY t FROM STDIN (FORMAT csv)");
    let answer = send(&format!("/api/sql?db=d&q={copy}"), &[("Content-Type", "text/csv")], &line);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(
        answer.status == 400 && text.contains("22P04"),
        "{} {}",
        answer.status,
        &text[..200.min(text.len())]
    );
    server.assert_within_memory_limit(256);
}
