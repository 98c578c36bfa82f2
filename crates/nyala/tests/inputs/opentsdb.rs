//! OpenTSDB: lines and HTTP on one port.

use super::client::{self, Request};
use super::compared::same_rows;
use super::process::Process;
use super::{free, input_metric, rows, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;

const LINES: &str = "put sys.cpu.user 1356998400 42.5 host=webserver01 cpu=0\r
put sys.cpu.user 1356998401 43 host=webserver01 cpu=0
put sys,odd\\name 1356998400 -1e3 a=b=c
put no.tags 1356998400 7
put m 1356998402 1 wrong host=a b= =c
put bad.value 1356998400 x host=a
put short 13569984 1 host=a
unknown command
";

/// Sends a request to the port of the input.
fn put(to: &str, path: &str, headers: &[(&str, &str)], body: &str) -> client::Response {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let request =
        Request { method: "POST".into(), target: path.into(), headers, body: body.as_bytes().to_vec() };
    client::send(to.parse().expect("an address"), &request).expect("an answer")
}

#[test]
fn points_are_stored_as_influxdb_stores_them() {
    let json = r#"[{"metric":"json.load","timestamp":1356998400,"value":1.5,"tags":{"host":"a b","dc":"x,y"}},
                   {"metric":"json.load","timestamp":1356998401,"value":2,"tags":{"host":"c"}}]"#;
    same_rows(
        "opentsdb",
        "opentsdb",
        &[("opentsdb-bind", "ADDRESS")],
        "[[opentsdb]]\nenabled = true\nbind-address = \"ADDRESS\"\ndatabase = \"opentsdb\"\n",
        |to| {
            TcpStream::connect(to).expect("connected").write_all(LINES.as_bytes()).expect("sent");
            // InfluxDB has no database before it has written the lines.
            wait_until("JSON is taken", || put(to, "/api/put", &[], json).status == 204);
            let one = r#"{"metric":"json.load","timestamp":1356998402,"value":3}"#;
            assert_eq!(put(to, "/api/put", &[], one).status, 204);
        },
    );
}

#[test]
fn both_forms_say_what_is_wrong() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let server = Process::start(directory.path(), &["--opentsdb-bind", &to, "--opentsdb-database", "tsdb"]);
    let mut stream = TcpStream::connect(&to).expect("connected");
    stream.write_all(b"version\nput m 1356998400123 1 a\nput m 1 1\nput m 1356998400 nan\n").expect("sent");
    let mut answer = [0; 17];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"nyala TSDB proxy\n");
    let labels = |reason: &str| format!("input=\"opentsdb\",reason=\"{reason}\"");
    wait_until("a point", || input_metric(&server, "points_written", "input=\"opentsdb\"") == 1);
    let rejected = |reason: &str| input_metric(&server, "rejected", &labels(reason));
    assert_eq!((rejected("wrong_tag"), rejected("unreadable"), rejected("not_a_number")), (1, 1, 1));
    // Thirteen digits are milliseconds, of which InfluxDB reads the last three as microseconds.
    let values = |query: &str| rows(&server, "tsdb", query)["series"][0]["values"].clone();
    assert_eq!(values("SELECT value FROM m"), serde_json::json!([[1_356_998_400_123_000_000_i64, 1]]));
    // What is answered is stored.
    assert_eq!(put(&to, "/api/put?details", &[], r#"{"metric":"n","timestamp":1,"value":1}"#).status, 204);
    assert_eq!(values("SELECT value FROM n"), serde_json::json!([[1_000_000_000, 1]]));
    for (path, body, status) in [
        ("/api/put", "[{]", 400),
        ("/api/put", r#"{"metric":"","timestamp":1,"value":1}"#, 400),
        ("/api/put", r#"{"metric":"n","timestamp":9223372036854775807,"value":1}"#, 400),
        ("/api/metadata/put", "", 204),
        ("/api/query", "", 404),
    ] {
        assert_eq!(put(&to, path, &[], body).status, status, "{path} {body}");
    }
    // A page that a browser on this machine shows.
    let page = [("Origin", "http://evil.example")];
    assert_eq!(put(&to, "/api/put", &page, r#"{"metric":"evil","timestamp":1,"value":1}"#).status, 403);
    assert!(values("SELECT value FROM evil").is_null());
}
