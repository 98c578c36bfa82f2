//! The interface of InfluxDB 2 for its clients: deleting, and buckets. Writing is in `testdata/influx/write_v2.script`;
//! for the rest InfluxDB 1.8 has no answers to compare with.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::percent_encode;
use process::Process;
use serde_json::{Value, json};

fn delete(server: &Process, bucket: &str, body: &Value) -> (u16, String) {
    let target = format!("/api/v2/delete?bucket={}", percent_encode(bucket));
    let answer = server.send("POST", &target, body.to_string().as_bytes()).expect("an answer");
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn rows(server: &Process, from: &str) -> i64 {
    server.number(&format!("SELECT count(v) FROM {from}"))
}

#[test]
fn points_are_deleted_by_time_and_predicate() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    server.query("CREATE RETENTION POLICY r ON d DURATION INF REPLICATION 1");
    let lines: String = (0..10_i64)
        .map(|second| format!("m,h=a v=1i {0}\nm,h=b v=1i {0}\nn,h=a v=1i {0}\n", second * 1_000_000_000))
        .collect();
    assert_eq!(server.write(&lines).status, 204);
    assert_eq!(server.send("POST", "/write?db=d&rp=r", lines.as_bytes()).expect("an answer").status, 204);
    let asked = |start: &str, stop: &str, predicate: &str| json!({"start": start, "stop": stop, "predicate": predicate});
    let (first, last) = ("1970-01-01T00:00:02Z", "1970-01-01T00:00:05Z");

    let both = asked(first, last, "_measurement=\"m\" AND h=\"a\"");
    assert_eq!(delete(&server, "d", &both), (204, String::new()));
    assert_eq!((rows(&server, "m"), rows(&server, "n"), rows(&server, "r.m")), (16, 10, 20));
    assert_eq!(delete(&server, "d/r", &asked(first, last, "h='b'")).0, 204);
    assert_eq!((rows(&server, "m"), rows(&server, "r.m"), rows(&server, "r.n")), (16, 16, 10));
    assert_eq!(delete(&server, "d/r", &json!({"start": first, "stop": last})).0, 204);
    assert_eq!((rows(&server, "m"), rows(&server, "r.m"), rows(&server, "r.n")), (16, 12, 6));

    for (bucket, body, status) in [
        ("d", asked(first, last, "h=\"a\" OR h=\"b\""), 400),
        ("d", asked(first, last, "h!=\"a\""), 400),
        ("d", asked(first, last, "time=\"a\""), 400),
        ("d", asked(first, last, "_measurement=\"m\" AND _measurement=\"n\""), 400),
        ("d", asked(first, last, "v=\"1\""), 400),
        ("d", asked(first, last, "h="), 400),
        ("d", asked(first, "now", ""), 400),
        ("d", json!({"start": first}), 400),
        ("d", json!([]), 400),
        ("nowhere", asked(first, last, ""), 404),
        ("d/nope", asked(first, last, ""), 404),
        ("", asked(first, last, ""), 404),
    ] {
        let (answered, words) = delete(&server, bucket, &body);
        assert_eq!(answered, status, "{bucket} {body}: {words}");
        assert!(words.contains("\"error\":"), "{words}");
    }
    assert_eq!((rows(&server, "m"), rows(&server, "n"), rows(&server, "r.m")), (16, 10, 12));
}

#[test]
fn buckets_are_retention_policies() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    let ask = |method: &str, path: &str, body: &str| -> (u16, Value) {
        let answer = server.send(method, path, body.as_bytes()).expect("an answer");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    };
    let (status, made) = ask(
        "POST",
        "/api/v2/buckets",
        r#"{"orgID":"o","name":"d/p","retentionRules":[{"type":"expire","everySeconds":7200}]}"#,
    );
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["buckets"][0]["retentionRules"][0]["everySeconds"], 7200, "{made}");
    assert_eq!(ask("POST", "/api/v2/buckets", r#"{"name":"d/p"}"#).0, 422);
    assert_eq!(ask("POST", "/api/v2/buckets", r#"{"name":"d/q"}"#).0, 201);
    assert_eq!(ask("POST", "/api/v2/buckets", r#"{"name":"e"}"#).0, 201);
    assert_eq!(ask("POST", "/api/v2/buckets", r#"{"name":""}"#).0, 404);
    assert_eq!(
        ask("POST", "/api/v2/buckets", r#"{"name":"d/z","retentionRules":[{"everySeconds":5}]}"#).0,
        400
    );
    assert_eq!(
        ask("POST", "/api/v2/buckets", r#"{"name":"d/z","retentionRules":[{"everySeconds":-1}]}"#).0,
        400
    );
    let names = |path: &str| -> Vec<String> {
        let (_, answer) = ask("GET", path, "");
        let all = answer["buckets"].as_array().expect("a list");
        all.iter().map(|bucket| bucket["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("/api/v2/buckets"), ["d/p", "d/q", "e/autogen"]);
    assert_eq!(names("/api/v2/buckets?name=d"), ["d/p"]);
    assert_eq!(ask("DELETE", "/api/v2/buckets/d/q", "").0, 204);
    assert_eq!(ask("DELETE", "/api/v2/buckets/d%2Fq", "").0, 404);
    assert_eq!(names("/api/v2/buckets"), ["d/p", "e/autogen"]);
    let shown = server.query("SHOW RETENTION POLICIES ON d").to_string();
    assert!(shown.contains(r#"["p","2h0m0s","1h0m0s",1,true]"#), "{shown}");
}
