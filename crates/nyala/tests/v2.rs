//! The API of InfluxDB 2: deleting points, and buckets. Writing is in `testdata/influx/write_v2.script`; for the rest
//! InfluxDB 1.8 has no answers to compare with.

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
    assert_eq!(ask("DELETE", "/api/v2/buckets/d%2Fq", "").0, 204);
    assert_eq!(ask("DELETE", "/api/v2/buckets/d/q", "").0, 404);
    assert_eq!(names("/api/v2/buckets"), ["d/p", "e/autogen"]);
    let shown = server.query("SHOW RETENTION POLICIES ON d").to_string();
    assert!(shown.contains(r#"["p","2h0m0s","1h0m0s",1,true]"#), "{shown}");
}

#[test]
fn only_the_named_bucket_is_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    for bucket in ["a b/p", "a+b/p", "d/q", "d/q&r", "d/q%"] {
        let body = json!({"name": bucket}).to_string();
        let made = server.send("POST", "/api/v2/buckets", body.as_bytes()).expect("an answer");
        assert_eq!(made.status, 201, "{bucket}");
    }
    let drop = |escaped: &str| {
        let answer = server.send("DELETE", &format!("/api/v2/buckets/{escaped}"), b"").expect("an answer");
        let left = server.send("GET", "/api/v2/buckets", b"").expect("an answer");
        let left: Value = serde_json::from_slice(&left.body).expect("JSON");
        let names = left["buckets"].as_array().expect("a list").iter();
        let names: Vec<_> = names.map(|bucket| bucket["name"].as_str().expect("a name").to_owned()).collect();
        (answer.status, names.join(" "))
    };
    let all = "a b/p a+b/p d/q d/q&r d/q%";
    for (escaped, status) in
        [("d/q%", 400), ("d/q%2", 400), ("d/q%zz", 400), ("d", 400), ("d/", 400), ("", 404), ("d/q&s", 404)]
    {
        assert_eq!(drop(escaped), (status, all.to_owned()), "{escaped}");
    }
    assert_eq!(drop("a+b/p"), (204, "a b/p d/q d/q&r d/q%".to_owned()));
    assert_eq!(drop("d/q&r"), (204, "a b/p d/q d/q%".to_owned()));
    assert_eq!(drop("d%2fq%25"), (204, "a b/p d/q".to_owned()));
    assert_eq!(drop("a%20b/p"), (204, "d/q".to_owned()));
}

#[test]
fn answers_show_nothing_of_buckets_that_a_user_may_not_see() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let ask = |login: &str, method: &str, path: &str, body: &str| {
        let separator = if path.contains('?') { '&' } else { '?' };
        let answer = server.send(method, &format!("{path}{separator}{login}"), body.as_bytes());
        let answer = answer.expect("an answer");
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    for (login, statement) in [
        ("", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES"),
        ("u=ann&p=a", "CREATE DATABASE secret"),
        ("u=ann&p=a", "CREATE USER bob WITH PASSWORD 'b'"),
    ] {
        assert_eq!(ask(login, "POST", &format!("/query?q={}", percent_encode(statement)), "").0, 200);
    }
    let same = |method: &str, path: &str, body: &str| {
        let answers = ["secret", "nowhere"].map(|database| {
            let (path, body) = (path.replace('$', database), body.replace('$', database));
            let (status, words) = ask("u=bob&p=b", method, &path, &body);
            (status, words.replace(database, "$"))
        });
        assert_eq!(answers[0].0, 403, "{}", answers[0].1);
        assert_eq!(answers[0], answers[1]);
    };
    same("POST", "/api/v2/buckets", "{\"name\":\"$\"}");
    same("POST", "/api/v2/buckets", "{\"name\":\"$/autogen\"}");
    same("DELETE", "/api/v2/buckets/$/autogen", "");
    same("POST", "/api/v2/delete?bucket=$", "nothing of it is read");
    assert_eq!(ask("u=ann&p=a", "DELETE", "/api/v2/buckets/secret/autogen", "").0, 204);
}
