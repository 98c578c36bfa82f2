//! Metrics of OpenTelemetry, which come to the usual port.

use super::client::{self, Request, Response};
use super::process::Process;
use super::{input_metric, peers, rows};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A request with one metric and these data points.
fn request(name: &str, data_points: &str) -> String {
    format!(
        r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"a shop"}}}}]}},
            "scopeMetrics":[{{"metrics":[{{"name":"{name}","gauge":{{"dataPoints":[{data_points}]}}}}]}}]}}]}}"#
    )
}

fn post(server: &Process, headers: &[(&str, &str)], body: Vec<u8>) -> Response {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let request = Request { method: "POST".into(), target: "/v1/metrics".into(), headers, body };
    client::send(server.address, &request).expect("an answer")
}

const JSON: (&str, &str) = ("Content-Type", "application/json");
const BINARY: (&str, &str) = ("Content-Type", "application/x-protobuf");

#[test]
fn data_points_are_stored_before_the_answer_and_what_is_not_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(directory.path(), &["--otlp-database", "metrics"]);
    let body = request("temperature", r#"{"timeUnixNano":"5","asDouble":1.5}"#);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(body.as_bytes()).expect("packed");
    let packed = packed.finish().expect("packed");
    let answer = post(&server, &[JSON, ("Content-Encoding", "gzip")], packed);
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
    let stored = rows(&server, "metrics", "SELECT * FROM temperature");
    assert_eq!(stored["series"][0]["columns"], serde_json::json!(["time", "gauge", "service.name"]));
    assert_eq!(stored["series"][0]["values"], serde_json::json!([[5, 1.5, "a shop"]]));
    // One that has no number, one of another type than the field, and one that is stored.
    let body = request(
        "temperature",
        r#"{"timeUnixNano":"6","asDouble":"NaN"},{"timeUnixNano":"7","asInt":"1"},{"timeUnixNano":"8","asDouble":2}"#,
    );
    let answer = post(&server, &[JSON], body.into_bytes());
    let partial: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!((answer.status, &partial["partialSuccess"]["rejectedDataPoints"]), (200, &"2".into()));
    let words = partial["partialSuccess"]["errorMessage"].as_str().expect("words");
    assert!(words.contains("not a finite number") && words.contains("field type conflict"), "{words}");
    let labels = |reason: &str| format!("input=\"otlp\",reason=\"{reason}\"");
    let rejected = |reason: &str| input_metric(&server, "rejected", &labels(reason));
    assert_eq!((rejected("not_a_number"), rejected("refused")), (1, 1));
    assert_eq!(input_metric(&server, "points_written", "input=\"otlp\""), 2);
    let measured = "nyala_http_request_duration_seconds_count{path=\"/v1/metrics\"}";
    assert_eq!(server.metric(measured), 2);
    // An empty request of protocol buffers has an empty answer; a broken one a status, whose second field is its message.
    let answer = post(&server, &[BINARY], Vec::new());
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    let answer = post(&server, &[BINARY], b"\x0a\x7f".to_vec());
    assert_eq!((answer.status, answer.body[0]), (400, 0x12));
    assert_eq!(answer.header("Content-Type"), Some("application/x-protobuf"));
    let answer = post(&server, &[JSON], b"[".to_vec());
    assert_eq!(answer.status, 400);
    assert!(answer.body.starts_with(b"{\"message\":\"not a request of OTLP in JSON"));
    assert_eq!(rejected("unreadable"), 2);
    assert_eq!(post(&server, &[("Content-Type", "text/plain")], b"{}".to_vec()).status, 415);
    assert_eq!(post(&server, &[JSON, ("Origin", "http://evil.example")], b"{}".to_vec()).status, 403);
}

#[test]
fn it_is_off_unless_it_is_asked_for_and_needs_the_right_to_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("off"), &[]);
    let answer = post(&server, &[JSON], b"{}".to_vec());
    assert_eq!(answer.status, 404);
    assert!(String::from_utf8_lossy(&answer.body).contains("otlp-database is not set"));
    drop(server);
    let server =
        Process::start(&directory.path().join("on"), &["--otlp-database", "metrics", "--auth-enabled"]);
    for (credentials, query) in [
        ("", "CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES"),
        ("u=ann&p=secret&", "CREATE USER bob WITH PASSWORD 'secret'"),
        ("u=ann&p=secret&", "CREATE DATABASE metrics"),
        ("u=ann&p=secret&", "CREATE USER eve WITH PASSWORD 'secret'"),
        ("u=ann&p=secret&", "GRANT WRITE ON metrics TO bob"),
        ("u=ann&p=secret&", "GRANT READ ON metrics TO eve"),
    ] {
        let target = format!("/query?{credentials}q={}", client::percent_encode(query));
        assert_eq!(server.send("POST", &target, b"").expect("an answer").status, 200, "{query}");
    }
    let body = || request("m", r#"{"timeUnixNano":"5","asInt":"1"}"#).into_bytes();
    let status = |headers: &[(&str, &str)]| post(&server, &[&[JSON], headers].concat(), body()).status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Authorization", "Token bob:wrong")]), 401);
    assert_eq!(status(&[("Authorization", "Token eve:secret")]), 403);
    assert_eq!(status(&[("Authorization", "Token bob:secret")]), 200);
}

/// Python's own SDK and exporter.
#[test]
fn the_exporter_of_python_sends() {
    let python = std::env::var("NYALA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = peers::works(&python, &["-c", "import opentelemetry.exporter.otlp.proto.http"]);
    let remedy = "pip install opentelemetry-exporter-otlp-proto-http, and set NYALA_PYTHON";
    let found = has.then_some(python);
    let Some(python) = peers::require("OpenTelemetry's exporter", remedy, found) else { return };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/opentelemetry_metrics.py");
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(directory.path(), &["--otlp-database", "metrics"]);
    let url = format!("http://{}/v1/metrics", server.address);
    let output = Command::new(&python).arg(program).arg(url).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let values = |query: &str| rows(&server, "metrics", query)["series"][0]["values"][0].clone();
    let counter = values("SELECT counter, method FROM requests");
    assert_eq!(counter, serde_json::json!([counter[0], 7, "GET"]));
    let gauge = values("SELECT gauge, \"service.name\" FROM level");
    assert_eq!(gauge, serde_json::json!([gauge[0], 2.5, "shop"]));
    let latency = values("SELECT count, sum, \"5\", \"10\", \"+Inf\" FROM latency");
    assert_eq!(latency, serde_json::json!([latency[0], 3, 110, 1, 2, 3]));
}
