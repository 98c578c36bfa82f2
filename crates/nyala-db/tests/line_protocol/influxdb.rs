//! What InfluxDB 1.8.10 answers to lines, and what it stores of them.
//!
//! `testdata/line_protocol.txt` holds cases of four kinds of lines:
//!
//! ```text
//! # why
//! > precision "body as a JSON string"
//! 400 "error as a JSON string"
//! row measurement {tags} {"field": ["type", value]} time
//! ```
//!
//! Only the lines with `#` and `>` are written by hand; the answers are the server's:
//! `NYALA_INFLUXD=/path/to/influxd cargo test -p nyala-db --test line_protocol -- --ignored record`

use crate::Reader;
use crate::naive::{Row, Value};
use nyala_db::ingest::{ParseOptions, Precision};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/line_protocol.txt");

struct Case {
    comments: String,
    precision: String,
    body: String,
    answers: Vec<String>,
}

fn read_cases() -> Vec<Case> {
    let text = std::fs::read_to_string(PATH).unwrap();
    let (mut cases, mut comments) = (Vec::<Case>::new(), String::new());
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("> ") {
            let (precision, body) = case.split_once(' ').expect(line);
            cases.push(Case {
                comments: std::mem::take(&mut comments),
                precision: precision.to_owned(),
                body: serde_json::from_str(body).expect(line),
                answers: Vec::new(),
            });
        } else if line.is_empty() || line.starts_with('#') {
            writeln!(comments, "{line}").unwrap();
        } else {
            cases.last_mut().expect("a case before its answers").answers.push(line.to_owned());
        }
    }
    cases
}

fn json_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn row_line(measurement: &str, tags: &Map<String, Json>, fields: &Map<String, Json>, time: &str) -> String {
    format!("row {} {} {} {time}", json!(measurement), json!(tags), json!(fields))
}

/// The parser's result for a case, in the words of the file.
fn answers_of_reader(case: &Case, now_ns: i64) -> Vec<String> {
    let precision = Precision::from_parameter(&case.precision).expect(&case.precision);
    let options = ParseOptions { precision, now_ns, ..ParseOptions::default() };
    let (rows, request) = Reader::new().read(case.body.as_bytes(), options);
    let mut answers = Vec::new();
    let errors = json_text(&request.errors().text());
    answers.push(match (request.errors().is_empty(), rows.is_empty()) {
        (true, _) => "204 \"\"".to_owned(),
        (false, true) => format!("400 {}", json!(errors)),
        (false, false) => format!("400 {}", json!(format!("partial write: {errors} dropped=0"))),
    });
    let mut lines: Vec<String> =
        merge(rows).iter().map(|row| line_of_row(row, precision.truncate(now_ns))).collect();
    lines.sort();
    answers.extend(lines);
    answers
}

/// Rows of the same series and time are one row. Later fields win.
fn merge(rows: Vec<Row>) -> Vec<Row> {
    let mut merged = BTreeMap::<_, Row>::new();
    for row in rows {
        let key = (row.measurement.clone(), row.tags.clone(), row.time_ns);
        match merged.get_mut(&key) {
            Some(earlier) => earlier.fields.extend(row.fields),
            None => drop(merged.insert(key, row)),
        }
    }
    merged.into_values().collect()
}

fn line_of_row(row: &Row, now_ns: i64) -> String {
    let tags = row.tags.iter().map(|(key, value)| (json_text(key), json!(json_text(value)))).collect();
    let fields = row.fields.iter().map(|((name, _), value)| {
        let value = match value {
            Value::Float(bits) => json!(["float", f64::from_bits(*bits)]),
            Value::Integer(value) => json!(["integer", value]),
            Value::Unsigned(value) => json!(["unsigned", value]),
            Value::Boolean(value) => json!(["boolean", value]),
            Value::String(value) => json!(["string", json_text(value)]),
        };
        (json_text(name), value)
    });
    let time = if row.time_ns == now_ns { "now".to_owned() } else { row.time_ns.to_string() };
    row_line(&json_text(&row.measurement), &tags, &fields.collect(), &time)
}

#[test]
fn answers_and_rows_are_those_of_influxdb() {
    let cases = read_cases();
    assert!(cases.len() > 100, "the file is complete");
    let mut failures = String::new();
    for case in &cases {
        assert!(!case.answers.is_empty(), "recorded: {}", case.body);
        let answers = answers_of_reader(case, 1_700_000_000_123_456_789);
        if answers != case.answers {
            let (expected, found) = (case.answers.join("\n  "), answers.join("\n  "));
            write!(failures, "{:?}\nexpected\n  {expected}\nfound\n  {found}\n", case.body).unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// A server on a free port. It stops when this is dropped.
struct Influxdb {
    process: Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Influxdb {
    fn start(path: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let free_address = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (address, backup_address) = (free_address(), free_address());
        let directory = |name: &str| data.path().join(name);
        let process = Command::new(path)
            .env("INFLUXDB_HTTP_BIND_ADDRESS", &address)
            .env("INFLUXDB_BIND_ADDRESS", &backup_address)
            .env("INFLUXDB_DATA_DIR", directory("data"))
            .env("INFLUXDB_DATA_WAL_DIR", directory("wal"))
            .env("INFLUXDB_META_DIR", directory("meta"))
            .env("INFLUXDB_REPORTING_DISABLED", "true")
            .env("INFLUXDB_MONITOR_STORE_ENABLED", "false")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address, _data: data };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&server.address).is_err() {
            assert!(Instant::now() < deadline, "influxd does not listen on {}", server.address);
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn post(&self, target: &str, body: &[u8]) -> (u16, Json) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let form = "application/x-www-form-urlencoded";
        let head = format!(
            "POST {target} HTTP/1.0\r\nContent-Type: {form}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).unwrap_or(Json::Null))
    }

    fn query(&self, database: &str, query: &str) -> Vec<Json> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (status, answer) =
            self.post(&format!("/query?db={database}&epoch=ns"), format!("q={query}").as_bytes());
        assert_eq!(status, 200, "{answer}");
        answer["results"][0]["series"].as_array().cloned().unwrap_or_default()
    }

    /// Writes a case into a new database, and reads what was stored.
    fn answers(&self, number: usize, case: &Case) -> Vec<String> {
        let database = format!("case{number}");
        self.query("", &format!("CREATE DATABASE {database}"));
        let target = format!("/write?db={database}&precision={}", case.precision);
        let (status, answer) = self.post(&target, case.body.as_bytes());
        let mut lines = Vec::new();
        for measurement in self.query(&database, "SHOW FIELD KEYS") {
            let name = measurement["name"].as_str().unwrap();
            let types: BTreeMap<&str, &Json> =
                pairs(&measurement["values"]).map(|(key, value)| (key.as_str().unwrap(), value)).collect();
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            for series in self.query(&database, &format!("SELECT * FROM \"{quoted}\" GROUP BY *")) {
                lines.extend(rows_of_series(name, &types, &series));
            }
        }
        lines.sort();
        let error = answer["error"].as_str().unwrap_or_default();
        lines.insert(0, format!("{status} {}", json!(error)));
        lines
    }
}

impl Drop for Influxdb {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn pairs(values: &Json) -> impl Iterator<Item = (&Json, &Json)> {
    values.as_array().unwrap().iter().map(|pair| (&pair[0], &pair[1]))
}

fn rows_of_series(name: &str, types: &BTreeMap<&str, &Json>, series: &Json) -> Vec<String> {
    // A series that lacks a tag of other series shows it as empty.
    let tags = series["tags"].as_object().cloned().unwrap_or_default();
    let tags = tags.into_iter().filter(|(_, value)| value != "").collect();
    let columns = series["columns"].as_array().unwrap();
    let row = |values: &Json| {
        let named =
            columns.iter().map(|column| column.as_str().unwrap()).zip(values.as_array().unwrap()).skip(1);
        let present = named.filter(|(_, value)| !value.is_null());
        let fields = present.map(|(column, value)| {
            let value = match types[column].as_str() {
                Some("float") => json!(value.as_f64()),
                _ => value.clone(),
            };
            (column.to_owned(), json!([types[column], value]))
        });
        let time_ns = values[0].as_i64().unwrap();
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let time =
            if now_ns.abs_diff(time_ns) < 3_700_000_000_000 { "now".to_owned() } else { time_ns.to_string() };
        row_line(name, &tags, &fields.collect(), &time)
    };
    series["values"].as_array().unwrap().iter().map(row).collect()
}

#[test]
#[ignore = "records the answers of the server that NYALA_INFLUXD names"]
fn record() {
    let server =
        Influxdb::start(&std::env::var("NYALA_INFLUXD").expect("NYALA_INFLUXD: path of influxd 1.8.10"));
    let mut text = String::new();
    for (number, case) in read_cases().iter().enumerate() {
        writeln!(text, "{}> {} {}", case.comments, case.precision, json!(case.body)).unwrap();
        for answer in server.answers(number, case) {
            writeln!(text, "{answer}").unwrap();
        }
    }
    std::fs::write(PATH, text).unwrap();
}
