//! Running queries: SHOW QUERIES, KILL QUERY, timeouts and other limits. The form of answers is in
//! `testdata/influx/limits_*.script`.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::{Request, percent_encode};
use process::Process;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const LONG: &str = "SELECT * FROM m";

/// A server with more rows than fit into the buffers between it and a client.
fn server(directory: &Path, arguments: &[&str], login: &str) -> Process {
    let server = Process::start(&directory.join("data"), arguments);
    ask(&server, "", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES");
    ask(&server, login, "CREATE DATABASE d");
    for batch in 0..20_i64 {
        let row = |row: i64| format!("m text=\"{}\" {}\n", "x".repeat(1000), batch * 1000 + row);
        let lines: String = (0..1000).map(row).collect();
        let target = format!("/write?db=d&{login}");
        assert_eq!(server.send("POST", &target, lines.as_bytes()).expect("an answer").status, 204);
    }
    server
}

fn ask(server: &Process, login: &str, query: &str) -> Value {
    let target = format!("/query?db=d&{login}&q={}", percent_encode(query));
    let answer = server.send("POST", &target, b"").expect("an answer");
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// A client that asks for many rows and reads nothing.
fn begin(server: &Process, login: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let target = format!("/query?db=d&chunked=true&chunk_size=100&{login}&q={}", percent_encode(LONG));
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    stream
}

/// The same, for a server that runs one query at a time.
fn begin_alone(server: &Process) -> TcpStream {
    for _ in 0..50 {
        let stream = begin(server, "");
        // Another query may run before it, but none runs for long.
        let stays = (0..10).all(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let answer = ask(server, "", "SHOW DATABASES");
            answer["results"][0]["error"] == "max-concurrent-queries limit exceeded(1, 1)"
        });
        if stays {
            return stream;
        }
    }
    panic!("others are let in again and again")
}

/// The texts and ids of the queries that a user is shown.
fn shown(server: &Process, login: &str) -> Vec<(u64, String)> {
    let answer = ask(server, login, "SHOW QUERIES");
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| (row[0].as_u64().expect("a number"), row[1].as_str().expect("a text").to_owned());
    rows.iter().map(row).filter(|(_, text)| text != "SHOW QUERIES").collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The rest of an answer.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // An aborted connection ends in an error.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_query_is_shown_to_its_owner_and_killed_by_an_administrator() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = "u=ann&p=a";
    let server = server(directory.path(), &["--auth-enabled"], ann);
    for name in ["bob", "cid"] {
        ask(&server, ann, &format!("CREATE USER {name} WITH PASSWORD 'b'; GRANT READ ON d TO {name}"));
    }
    let client = begin(&server, "u=bob&p=b");
    wait_for("the query is shown", || shown(&server, ann).iter().any(|(_, text)| text == LONG));
    assert_eq!(shown(&server, "u=bob&p=b").len(), 1);
    assert_eq!(shown(&server, "u=cid&p=b"), []);
    let number = shown(&server, ann)[0].0;
    let kill = format!("KILL QUERY {number}");
    assert!(ask(&server, "u=bob&p=b", &kill)["error"].as_str().expect("refused").contains("admin privilege"));
    assert!(ask(&server, ann, &kill)["results"][0].get("error").is_none());
    wait_for("the query is gone", || shown(&server, ann).is_empty());
    let answer = rest(client);
    assert!(answer.contains("query interrupted"), "{}", &answer[answer.len().saturating_sub(500)..]);
    // Afterwards it is one of the slowest, for those who could see it.
    let slowest = |login: &str| {
        let answer = ask(&server, login, "SHOW SLOWEST QUERIES");
        let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
        rows.into_iter().filter(|row| row[1] == LONG).collect::<Vec<Value>>()
    };
    wait_for("the query is among the slowest", || !slowest(ann).is_empty());
    for login in [ann, "u=bob&p=b"] {
        let found = slowest(login);
        assert_eq!(found.len(), 1, "{found:?}");
        let [id, _, database, user, duration, ended, status] = &found[0].as_array().expect("a row")[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(
            (id.as_u64(), database, user, status),
            (Some(number), &"d".into(), &"bob".into(), &"killed".into())
        );
        assert!(duration.as_str().is_some_and(|text| text.contains('s')), "{duration}");
        assert!(ended.as_str().is_some_and(|text| text.starts_with("20") && text.ends_with('Z')), "{ended}");
    }
    assert_eq!(slowest("u=cid&p=b"), [] as [Value; 0]);
}

#[test]
fn a_query_ends_after_its_time_and_when_it_reads_too_much() {
    let directory = tempfile::tempdir().expect("a directory");
    // Long enough for the queries below on a slow machine.
    let limits = ["--query-timeout", "15s", "--max-select-point", "30000", "--max-concurrent-queries", "1"];
    let server = server(directory.path(), &limits, "");
    let client = begin_alone(&server);
    wait_for("the first query ends", || ask(&server, "", "SHOW DATABASES")["results"][0]["error"].is_null());
    assert!(rest(client).contains("query-timeout limit exceeded"));
    let counted = ask(&server, "", "SELECT count(text) FROM m");
    assert_eq!(counted["results"][0]["series"][0]["values"][0][1], 20_000, "{counted}");
    let refused = ask(&server, "", "SELECT count(text) FROM m, (SELECT text FROM m)");
    let words = refused["results"][0]["error"].as_str().unwrap_or_default();
    assert!(words.starts_with("max-select-point limit exceeed: ("), "{refused}");
}

#[test]
fn a_continuous_query_computes_windows_that_it_missed_because_of_too_many_queries() {
    const SECOND_NS: i64 = 1_000_000_000;
    let now_ns = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later");
        since.as_nanos() as i64
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path(), &["--max-concurrent-queries", "1"], "");
    let create =
        "CREATE CONTINUOUS QUERY c ON d BEGIN SELECT count(v) INTO counted FROM n GROUP BY time(1s) END";
    ask(&server, "", create);
    let write = |time_ns: i64| {
        let line = format!("n v=1i {time_ns}");
        assert_eq!(server.send("POST", "/write?db=d", line.as_bytes()).expect("an answer").status, 204);
    };
    // The only query that may run shall mostly be the continuous one.
    let ask_rarely = |query: &str| -> Value {
        std::thread::sleep(Duration::from_millis(500));
        let target = format!("/query?db=d&epoch=ns&q={}", percent_encode(query));
        let answer = server.send("GET", &target, b"").expect("an answer");
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        answer["results"][0]["series"][0]["values"].clone()
    };
    // Before it has run once, it has missed nothing.
    wait_for("it runs", || {
        write(now_ns());
        ask_rarely("SELECT count(\"count\") FROM counted").is_array()
    });
    let slow = begin_alone(&server);
    let first_ns = (now_ns() / SECOND_NS + 1) * SECOND_NS;
    for second in 0..3 {
        std::thread::sleep(Duration::from_nanos((first_ns + second * SECOND_NS - now_ns()).max(0) as u64));
        write(first_ns + second * SECOND_NS);
    }
    std::thread::sleep(Duration::from_millis(2_500));
    drop(slow);
    let expected =
        serde_json::json!([[first_ns, 1], [first_ns + SECOND_NS, 1], [first_ns + 2 * SECOND_NS, 1]]);
    let query = format!("SELECT \"count\" FROM counted WHERE time >= {first_ns} AND \"count\" > 0");
    wait_for("every window has its result", || ask_rarely(&query) == expected);
}

#[test]
fn queries_that_need_too_much_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "128MiB"]);
    ask(&server, "", "CREATE DATABASE d");
    assert_eq!(server.send("POST", "/write?db=d", b"m v=1 1").expect("an answer").status, 204);
    // Each is refused before it is computed, which would take longer than the client waits.
    let refused = |query: &str, words: &str| {
        // Too long for a URL.
        let request = Request {
            method: "POST".to_owned(),
            target: "/query?db=d".to_owned(),
            headers: vec![("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned())],
            body: format!("q={}", percent_encode(query)).into_bytes(),
        };
        let answer = client::send(server.address, &request).expect("an answer").body;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(words), "{}: {answer}", &query[..query.len().min(100)]);
    };
    let windows = "SELECT median(v) FROM m WHERE time >= 0 AND time < 4s GROUP BY time(1ns)";
    refused(&format!("{windows} LIMIT 4000000000"), "windows of time in one query");
    refused(&format!("{windows} LIMIT 1 OFFSET 4000000000"), "windows of time in one query");
    refused(&format!("{windows} LIMIT 16000000"), "query needs more than its");
    let names: Vec<String> = (0..20_000).map(|number| format!("f{number}")).collect();
    refused(&format!("SELECT {} FROM m", names.join(",")), "columns in one query");
    let sources = vec!["m"; 10_000].join(",");
    refused(&format!("SELECT {} FROM {sources}", names[..1000].join(",")), "measurements in one query");
}

#[test]
fn show_and_select_into_can_be_killed_and_deletions_cannot() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path(), &[], "");
    for batch in 0..5 {
        let row = |row: u32| format!("many,h={} v=1\n", batch * 10_000 + row);
        let lines: String = (0..10_000).map(row).collect();
        assert_eq!(server.send("POST", "/write?db=d", lines.as_bytes()).expect("an answer").status, 204);
    }
    // Kills it while it copies. This is repeated, because the query may end first.
    let copy = "SELECT text INTO copied FROM m";
    let mut killed = false;
    while !killed {
        killed = std::thread::scope(|scope| {
            let copying = scope.spawn(|| ask(&server, "", &format!("{copy}; SHOW DATABASES")));
            while !copying.is_finished() {
                if let Some((number, _)) = shown(&server, "").first() {
                    ask(&server, "", &format!("KILL QUERY {number}"));
                }
            }
            let answer = copying.join().expect("no panic");
            answer.to_string().contains("query interrupted") || answer.to_string().contains("not executed")
        });
    }
    assert!(server.stop().success());

    let server = Process::start(&directory.path().join("data"), &["--query-timeout", "1ms"]);
    for statement in [
        "SHOW SERIES",
        "SHOW SERIES EXACT CARDINALITY; SHOW SERIES; SHOW SERIES",
        "SHOW TAG VALUES FROM many WITH KEY = h; SHOW TAG VALUES WITH KEY = h; SHOW SERIES",
        "SELECT text INTO other FROM m",
    ] {
        let answer = ask(&server, "", statement).to_string();
        assert!(
            answer.contains("query-timeout limit exceeded") || answer.contains("not executed"),
            "{answer}"
        );
    }
    let deleted = ask(&server, "", "DELETE FROM m; SHOW DATABASES");
    assert!(deleted["results"][0].get("error").is_none(), "{deleted}");
    assert_eq!(deleted["results"][1]["error"], "not executed", "{deleted}");
    assert!(server.stop().success());
    let server = Process::start(&directory.path().join("data"), &[]);
    let left = ask(&server, "", "SELECT count(text) FROM m");
    assert!(left["results"][0]["series"].is_null(), "a deletion that has begun is finished: {left}");
    let copied = ask(&server, "", "SELECT count(text) FROM other");
    assert_ne!(copied["results"][0]["series"][0]["values"][0][1], 20_000, "{copied}");
}
