//! Traces: what a collector of OpenTelemetry gets of requests and of maintenance, as its own messages decode it
//! (`clients/trace_collector.py`).
//!
//! `NYALA_PYTHON` names a Python with `opentelemetry-proto` and `adbc_driver_flightsql`, else `python3` is tried.

use crate::client::{self, Request};
use crate::peers;
use crate::process::Process;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn python(modules: &str) -> Option<String> {
    let python = std::env::var("NYALA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = peers::works(&python, &["-c", &format!("import {modules}")]);
    peers::require("opentelemetry-proto", "pip install opentelemetry-proto", found.then_some(python))
}

/// A collector that runs.
struct Collector {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    endpoint: String,
}

impl Collector {
    fn start(arguments: &[&str]) -> Option<Self> {
        let python = python("opentelemetry.proto.collector.trace.v1.trace_service_pb2")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/trace_collector.py");
        let mut child = Command::new(python)
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped"));
        let mut port = String::new();
        lines.read_line(&mut port).expect("a port");
        let endpoint = format!("http://127.0.0.1:{}/v1/traces", port.trim());
        Some(Self { child, lines, endpoint })
    }

    /// All spans that it got.
    fn end(mut self) -> Vec<Value> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.lines.read_to_string(&mut text).expect("UTF-8");
        assert!(self.child.wait().expect("ended").success());
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// The spans of a server that was stopped, or `None` without a collector. The end of a server waits two seconds at most for what
/// it sends last: if the collector had no turn, all is done again.
fn spans_of(serve: impl Fn(&str), is_complete: impl Fn(&[Value]) -> bool) -> Option<Vec<Value>> {
    const TRIES_MAX: usize = 5;
    let mut tries = 0;
    loop {
        let collector = Collector::start(&[])?;
        serve(&collector.endpoint);
        let spans = collector.end();
        tries += 1;
        if tries == TRIES_MAX || is_complete(&spans) {
            return Some(spans);
        }
    }
}

fn send(server: &Process, target: &str, body: &str, traceparent: &str) -> u16 {
    let headers = [("traceparent", traceparent)].into_iter().filter(|(_, value)| !value.is_empty());
    let request = Request {
        method: "POST".to_owned(),
        target: target.to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        body: body.as_bytes().to_vec(),
    };
    client::send(server.address, &request).expect("an answer").status
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

/// The names of the spans directly below one.
fn below<'a>(spans: &'a [Value], parent: &Value) -> Vec<&'a str> {
    let own =
        |span: &&Value| span["parentSpanId"] == parent["spanId"] && span["traceId"] == parent["traceId"];
    let mut names: Vec<&str> =
        spans.iter().filter(own).map(|span| span["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn request<'a>(spans: &'a [Value], path: &str) -> &'a Value {
    let requests = named(spans, "HTTP request");
    let found = requests.iter().find(|span| span["attributes"]["url.path"] == path);
    found.unwrap_or_else(|| panic!("{path}: {spans:?}"))
}

/// A span below another one, with this name.
fn child<'a>(spans: &'a [Value], parent: &Value, name: &str) -> &'a Value {
    let is_it = |span: &&Value| span["parentSpanId"] == parent["spanId"] && span["name"] == name;
    spans.iter().find(is_it).unwrap_or_else(|| panic!("{name} below {parent}: {spans:?}"))
}

#[test]
fn a_collector_gets_what_requests_and_maintenance_spend_their_time_with() {
    let serve = |endpoint: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Process::start(&directory.path().join("data"), &["--traces-endpoint", endpoint]);
        server.query("CREATE DATABASE d");
        let context = format!("00-{TRACE}-{PARENT}-01");
        assert_eq!(send(&server, "/write?db=d", "m,t=a v=1,secret=\"hush\" 1\nm,t=b v=2 2", &context), 204);
        assert_eq!(send(&server, "/query?db=d&q=SELECT+mean(v)+FROM+m", "", ""), 200);
        assert_eq!(send(&server, "/query?db=d&q=SELECT+v+FROM+m+WHERE+secret='hush'", "", ""), 200);
        assert_eq!(send(&server, "/api/sql?db=d", "SELECT v FROM m", ""), 200);
        // Its client does not want this one to be recorded.
        let unsampled = format!("00-{}-{PARENT}-00", TRACE.replace('4', "5"));
        assert_eq!(send(&server, "/query?q=SHOW+DATABASES", "", &unsampled), 200);
        assert!(server.stop().success());
    };
    // A shutdown flushes last.
    let Some(spans) = spans_of(serve, |spans| !named(spans, "flush").is_empty()) else { return };

    let write = request(&spans, "/write");
    assert_eq!((&write["traceId"], &write["parentSpanId"]), (&TRACE.into(), &PARENT.into()), "{write}");
    assert_eq!(
        (&write["kind"], &write["attributes"]["http.request.method"]),
        (&"SPAN_KIND_SERVER".into(), &"POST".into())
    );
    assert_eq!(write["attributes"]["http.response.status_code"], "204");
    assert_eq!((&write["resource"]["service.name"], &write["status"]), (&"nyala".into(), &Value::Null));
    assert_eq!(below(&spans, write), ["parse", "write"]);
    let batches = spans.iter().filter(|span| span["name"] == "write" && span["traceId"] == TRACE);
    let parts: Vec<&str> = batches.flat_map(|batch| below(&spans, batch)).collect();
    for part in ["apply", "log", "wait for locks", "wait for memory"] {
        assert!(parts.contains(&part), "{part}: {parts:?}");
    }
    let aggregated = spans.iter().find(|span| span["name"] == "aggregate").expect("an aggregate");
    let execute = spans.iter().find(|span| span["spanId"] == aggregated["parentSpanId"]).expect("its parent");
    assert_eq!(execute["name"], "execute");
    let query = spans.iter().find(|span| span["spanId"] == execute["parentSpanId"]).expect("its parent");
    assert_eq!((&query["attributes"]["url.path"], &query["parentSpanId"]), (&"/query".into(), &"".into()));
    assert_eq!(below(&spans, query), ["execute", "parse"]);
    assert_eq!(below(&spans, execute), ["aggregate", "plan"]);
    let scans = named(&spans, "scan");
    assert!(scans.iter().any(|scan| scan["attributes"]["rows"] == "1"), "{scans:?}");
    let sql = request(&spans, "/api/sql");
    assert_eq!(child(&spans, sql, "plan")["kind"], "SPAN_KIND_INTERNAL");
    child(&spans, sql, "execute");
    let flush = named(&spans, "flush");
    assert!(!flush.is_empty() && flush[0]["parentSpanId"] == "", "{flush:?}");

    // Every parent is there but the client's, and no part is outside of the times of its whole.
    let time =
        |span: &Value, name: &str| span[name].as_str().expect("a time").parse::<u64>().expect("a number");
    for span in spans.iter().filter(|span| span["parentSpanId"] != "" && span["parentSpanId"] != PARENT) {
        let parent = spans.iter().find(|parent| parent["spanId"] == span["parentSpanId"]);
        let parent = parent.unwrap_or_else(|| panic!("no parent of {span}"));
        assert_eq!(parent["traceId"], span["traceId"]);
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{span}");
    }
    let mut ids: Vec<&Value> = spans.iter().map(|span| &span["spanId"]).collect();
    ids.sort_by_key(|id| id.as_str());
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
    let text = serde_json::to_string(&spans).expect("JSON");
    assert!(!text.contains("hush") && !text.contains(&TRACE.replace('4', "5")), "{text}");
}

#[test]
fn only_a_share_is_recorded_and_what_a_client_asks_for() {
    let serve = |endpoint: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let traced = ["--traces-endpoint", endpoint, "--traces-ratio", "0", "--log-level", "debug"];
        let server = Process::start(&directory.path().join("data"), &traced);
        for _ in 0..20 {
            assert_eq!(send(&server, "/query?q=SHOW+USERS", "", ""), 200);
        }
        assert_eq!(send(&server, "/query?q=SHOW+DATABASES", "", &format!("00-{TRACE}-{PARENT}-01")), 200);
        assert!(!server.log().contains("nyala_trace"), "spans are not in the log: {}", server.log());
        assert!(server.stop().success());
    };
    let Some(spans) = spans_of(serve, |spans| !named(spans, "HTTP request").is_empty()) else { return };
    assert!(!spans.is_empty() && spans.iter().all(|span| span["traceId"] == TRACE), "{spans:?}");
    request(&spans, "/query");
}

#[test]
fn a_collector_that_fails_disturbs_nobody() {
    let Some(collector) = Collector::start(&["refuse"]) else { return };
    let (directory, begun) = (tempfile::tempdir().expect("a directory"), Instant::now());
    let server =
        Process::start(&directory.path().join("refused"), &["--traces-endpoint", &collector.endpoint]);
    // Nobody listens there.
    let nowhere = format!("http://{}", client::free_address());
    let other = Process::start(&directory.path().join("nowhere"), &["--traces-endpoint", &nowhere]);
    // A name without an address does not keep a server from starting.
    let unknown = ["--traces-endpoint", "http://collector.invalid:4318"];
    let unknown = Process::start(&directory.path().join("unknown"), &unknown);
    unknown.query("CREATE DATABASE d");
    for server in [&server, &other] {
        server.query("CREATE DATABASE d");
        let told = || server.log().matches("traces could not be sent").count();
        // What is lost is counted first, and told then.
        while server.metric("nyala_trace_spans_lost_total ") == 0 || told() == 0 {
            assert_eq!(server.write("m v=1").status, 204);
            std::thread::sleep(Duration::from_millis(20));
            assert!(begun.elapsed() < Duration::from_secs(180), "no span was lost: {}", server.log());
        }
        assert_eq!(server.metric("nyala_trace_spans_sent_total "), 0);
        // Once in a minute.
        assert!(told() <= 1 + begun.elapsed().as_secs() as usize / 60, "{}", server.log());
    }
    assert!(server.stop().success() && other.stop().success() && unknown.stop().success());
    assert_eq!(collector.end(), Vec::<Value>::new());
}

#[test]
fn wrong_settings_are_refused_by_name() {
    for (arguments, words) in [
        (["--traces-endpoint", "collector:4318"], "has to begin with http:// or https://"),
        (["--traces-ratio", "2"], "2 is no share: give a number from 0 to 1"),
        (["--traces-ratio", "often"], "is no number from 0 to 1"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        command
            .args(["serve", "--http-bind", "127.0.0.1:0", "--data-dir"])
            .arg(directory.path())
            .args(arguments);
        let ended = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
}

/// Where the log says that clients of a protocol are served.
#[cfg(feature = "sql")]
fn address_of(server: &Process, words: &str) -> String {
    let log = server.log();
    let line = log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {log}"));
    let address = line.split("address=").nth(1).expect("an address").trim();
    address.split_whitespace().next().expect("an address").to_owned()
}

#[test]
#[cfg(feature = "sql")]
fn clients_of_postgresql_and_flight_are_traced() {
    let Some(python) = python("adbc_driver_flightsql.dbapi, psycopg") else { return };
    let serve = |endpoint: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let traced = [
            ["--traces-endpoint", endpoint],
            ["--postgres-bind", "127.0.0.1:0"],
            ["--flight-bind", "127.0.0.1:0"],
        ];
        let server = Process::start(&directory.path().join("data"), traced.as_flattened());
        server.query("CREATE DATABASE d");
        assert_eq!(server.write("m v=1").status, 204);
        let postgres = address_of(&server, "PostgreSQL's clients are served");
        let flight = address_of(&server, "clients of Arrow Flight SQL are served");
        let (host, port) = postgres.rsplit_once(':').expect("a port");
        let script = format!(
            "import psycopg, adbc_driver_flightsql.dbapi as flight
with psycopg.connect('host={host} port={port} dbname=d user=x') as connection:
    assert connection.execute('SELECT v FROM m').fetchall() == [(1.0,)]
headers = {{'adbc.flight.sql.rpc.call_header.traceparent': '00-{TRACE}-{PARENT}-01', 'adbc.flight.sql.rpc.call_header.database': 'd'}}
with flight.connect('grpc://{flight}', db_kwargs=headers) as connection, connection.cursor() as cursor:
    cursor.execute('SELECT 17 AS x')
    assert cursor.fetch_arrow_table().to_pydict() == {{'x': [17]}}
"
        );
        let ran = Command::new(&python).args(["-c", &script]).output().expect("Python runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(server.stop().success());
    };
    let is_complete = |spans: &[Value]| !named(spans, "flush").is_empty();
    let Some(spans) = spans_of(serve, is_complete) else { return };
    let statements = named(&spans, "PostgreSQL statement");
    assert!(statements.iter().all(|span| span["parentSpanId"] == ""), "{statements:?}");
    let parts: Vec<&str> = statements.iter().flat_map(|span| below(&spans, span)).collect();
    assert!(parts.contains(&"plan") && parts.contains(&"execute"), "{parts:?}");
    let calls = named(&spans, "Flight call");
    assert!(!calls.is_empty() && calls.iter().all(|span| span["traceId"] == TRACE), "{calls:?}");
    assert!(calls.iter().any(|span| span["attributes"]["rpc.method"] == "DoGet"), "{calls:?}");
}
