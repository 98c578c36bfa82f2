//! The same packets for nyala and InfluxDB: what both have stored then.

use super::client::{self, Request};
use super::process::Process;
use super::{rows, wait_until};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const ALL_ROWS: &str = "SELECT * FROM /.*/ GROUP BY *";

/// Sends to nyala, and compares what is stored with the recorded rows of a real InfluxDB, which `NYALA_RECORD=1` asks again.
/// `nyala` are settings without `--`, `influxdb` is a part of InfluxDB's file. `ADDRESS` in them is where `send` sends to.
pub(super) fn same_rows(
    name: &str,
    database: &str,
    nyala: &[(&str, &str)],
    influxdb: &str,
    send: impl Fn(&str),
) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/inputs/{name}.json"));
    if std::env::var_os("NYALA_RECORD").is_some_and(|value| value == "1") {
        let recorded = record(database, influxdb, &send);
        let text = serde_json::to_string_pretty(&recorded).expect("JSON");
        std::fs::write(&path, text + "\n").expect("the recording is writable");
    }
    let text = std::fs::read_to_string(&path).expect("a recording: NYALA_RECORD=1 makes one");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let directory = tempfile::tempdir().expect("a directory");
    let address = client::free_address().to_string();
    let arguments: Vec<String> = nyala
        .iter()
        .map(|(setting, value)| format!("--{setting}={}", value.replace("ADDRESS", &address)))
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Process::start(directory.path(), &arguments);
    send(&address);
    let wanted = count(&recorded);
    wait_until(&format!("{wanted} rows of {name}"), || count(&rows(&server, database, ALL_ROWS)) >= wanted);
    let stored = rows(&server, database, ALL_ROWS);
    assert_eq!(stored["series"], recorded["series"], "{name}: {stored}");
}

/// The rows of an answer.
fn count(result: &Value) -> usize {
    let series = result["series"].as_array().map(Vec::as_slice).unwrap_or_default();
    series.iter().map(|series| series["values"].as_array().map_or(0, Vec::len)).sum()
}

/// A real InfluxDB; killed when dropped.
struct Influxdb(Child);

impl Drop for Influxdb {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(database: &str, settings: &str, send: impl Fn(&str)) -> Value {
    let program = std::env::var_os("NYALA_INFLUXD").expect("NYALA_INFLUXD names a real InfluxDB 1.8.10");
    let directory = tempfile::tempdir().expect("a directory");
    let address: SocketAddr = client::free_address();
    let input = client::free_address().to_string();
    let mut command = Command::new(program);
    command
        .env("INFLUXDB_HTTP_BIND_ADDRESS", address.to_string())
        .env("INFLUXDB_BIND_ADDRESS", client::free_address().to_string())
        .env("INFLUXDB_DATA_DIR", directory.path().join("data"))
        .env("INFLUXDB_DATA_WAL_DIR", directory.path().join("wal"))
        .env("INFLUXDB_META_DIR", directory.path().join("meta"))
        .env("INFLUXDB_REPORTING_DISABLED", "true")
        .env("INFLUXDB_MONITOR_STORE_ENABLED", "false");
    let file = directory.path().join("influxdb.conf");
    std::fs::write(&file, settings.replace("ADDRESS", &input)).expect("written");
    command.arg("-config").arg(file);
    let _influxdb = Influxdb(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    let send_request = |method: &str, target: String| {
        client::send(
            address,
            &Request { method: method.into(), target, headers: Vec::new(), body: Vec::new() },
        )
    };
    wait_until("InfluxDB is ready", || {
        send_request("GET", "/ping".into()).is_ok_and(|response| response.status == 204)
    });
    // It answers before its other listeners are there, and nothing tells when they are.
    std::thread::sleep(std::time::Duration::from_secs(2));
    send(&input);
    // It writes after a second, or ten (collectd), and how much is not known before.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let target = format!("/query?db={database}&epoch=ns&q={}", client::percent_encode(ALL_ROWS));
    let response = send_request("POST", target).expect("an answer");
    let answer: Value = serde_json::from_slice(&response.body).expect("JSON");
    assert!(count(&answer["results"][0]) > 0, "InfluxDB has stored nothing: {answer}");
    answer["results"][0].clone()
}
