//! Queries that run: listed to those who may know, killed, and ended after their time. What answers look like is in
//! `testdata/influx/limits_*.script`.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::percent_encode;
use process::Process;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const LONG: &str = "SELECT * FROM m";

/// A server with more rows than fit into the buffers on the way to a client.
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
    write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
    stream
}

/// The texts of the queries that someone is shown, and their numbers.
fn shown(server: &Process, login: &str) -> Vec<(u64, String)> {
    let answer = ask(server, login, "SHOW QUERIES");
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| (row[0].as_u64().expect("a number"), row[1].as_str().expect("a text").to_owned());
    rows.iter().map(row).filter(|(_, text)| text != "SHOW QUERIES").collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The rest of an answer.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is broken off ends in an error.
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
}

#[test]
fn a_query_ends_after_its_time_and_when_it_reads_too_much() {
    let directory = tempfile::tempdir().expect("a directory");
    let limits = ["--query-timeout", "300ms", "--max-select-point", "30000", "--max-concurrent-queries", "1"];
    let server = server(directory.path(), &limits, "");
    let client = begin(&server, "");
    wait_for("the first query runs", || {
        let answer = ask(&server, "", "SHOW DATABASES");
        answer["results"][0]["error"] == "max-concurrent-queries limit exceeded(1, 1)"
    });
    wait_for("the first query ends", || ask(&server, "", "SHOW DATABASES")["results"][0]["error"].is_null());
    assert!(rest(client).contains("query-timeout limit exceeded"));
    let counted = ask(&server, "", "SELECT count(text) FROM m");
    assert_eq!(counted["results"][0]["series"][0]["values"][0][1], 20_000, "{counted}");
    let refused = ask(&server, "", "SELECT count(text) FROM m, (SELECT text FROM m)");
    let words = refused["results"][0]["error"].as_str().unwrap_or_default();
    assert!(words.starts_with("max-select-point limit exceeed: ("), "{refused}");
}
