//! Clients of Arrow Flight SQL by other authors, against the real process, if they are installed.
//!
//! - `NYALA_PYTHON` names a Python with adbc-driver-flightsql and pyarrow (`pip install adbc-driver-flightsql pyarrow`), else
//!   `python3` is tried.
//! - `NYALA_FLIGHT_JDBC` names a directory with the JDBC driver (`clients/flight_jdbc.xml`), for `java`.
//!
//! A client that is missing skips its tests (`support/peers.rs`).

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::percent_encode;
use process::Process;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Points of every type, with tags and fields that some lack.
const POINTS: &str = "cpu,host=a usage=1.5,n=3i,s=\"x y\",up=true 1000000000\n\
                      cpu,host=b usage=2.5 2000000000\n\
                      cpu usage=-0.1,n=-5i 3000000001";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// HS256, user ann, far in the future: signed with [`SECRET`] by `token` below.
const TOKEN_BODY: &str = r#"{"username":"ann","exp":4000000000}"#;

/// A server that listens for clients of Flight, with points in its database `d`.
struct Server {
    process: Process,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Server {
    /// If it asks for log-ins, `ann` is its administrator, and her password `pencil`.
    fn start(arguments: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        let address = client::free_address();
        let bind = address.to_string();
        let arguments = [&["--flight-bind", &bind], arguments].concat();
        let process = Process::start(&directory.path().join("data"), &arguments);
        let server = Server { process, address, _directory: directory };
        if arguments.contains(&"--auth-enabled") {
            server.ask("CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES");
        }
        server.ask("CREATE DATABASE d");
        server.write("d", POINTS);
        server
    }

    fn write(&self, database: &str, lines: &str) {
        let target = format!("/write?db={database}&u=ann&p=pencil");
        let written = self.process.send("POST", &target, lines.as_bytes());
        assert_eq!(written.expect("an answer").status, 204);
    }

    /// Executes InfluxQL as the administrator.
    fn ask(&self, text: &str) -> String {
        let target = format!("/query?u=ann&p=pencil&q={}", percent_encode(text));
        let answer = self.process.send("POST", &target, b"").expect("an answer");
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && !body.contains("error"), "{text}: {body}");
        body
    }

    /// A metric without labels, which only an administrator may see.
    fn metric(&self, name: &str) -> u64 {
        let answer = self.process.send("GET", "/metrics?u=ann&p=pencil", b"").expect("an answer");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric {name}: {}", answer.status))
    }

    /// Waits until no query runs but the one that asks.
    fn wait_until_nothing_runs(&self) {
        wait_for("a query runs that nobody waits for", || {
            !self.ask("SHOW QUERIES").contains("generate_series")
        });
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn python() -> Option<String> {
    let program = std::env::var("NYALA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let check = ["-c", "import adbc_driver_flightsql.dbapi, pyarrow.flight"];
    let found = peers::works(&program, &check).then_some(program);
    peers::require("adbc-driver-flightsql", "crates/nyala/tests/flight.rs says where it is looked for", found)
}

/// Runs a program. It succeeds if all its steps succeed.
fn run(command: &mut Command, server: &Server, more: &[&str]) {
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let ran = command.args([host, port]).args(more).output().expect("it runs");
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{text}\n{}", server.process.log());
}

/// Runs a part of the program that makes calls by hand.
fn run_calls(part: &str, server: &Server, more: &[&str]) {
    let Some(python) = python() else { return };
    run(Command::new(python).arg(programs().join("flight_calls.py")).arg(part), server, more);
}

/// A part of that program that waits until this test has done something.
struct Paused {
    child: Child,
    /// It stays open, so that the program may say more.
    _said: BufReader<std::process::ChildStdout>,
}

impl Paused {
    fn start(part: &str, word: &str, server: &Server, more: &[&str]) -> Option<Paused> {
        let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
        let mut child = Command::new(python()?)
            .arg(programs().join("flight_calls.py"))
            .args([part, &host, &port])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("readable");
        assert_eq!(line.trim(), word, "{}", server.process.log());
        Some(Paused { child, _said: said })
    }

    fn go_on(mut self) {
        self.child.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// A JSON Web Token.
fn token() -> String {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let encoded = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
    let signed = format!("{}.{}", encoded(r#"{"alg":"HS256","typ":"JWT"}"#), encoded(TOKEN_BODY));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = Base64UrlUnpadded::encode_string(ring::hmac::sign(&key, signed.as_bytes()).as_ref());
    format!("{signed}.{signature}")
}

#[test]
fn adbc_reads_changes_and_ingests() {
    let Some(python) = python() else { return };
    let server = Server::start(&["--auth-enabled"]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON d TO bob");
    server.ask("SET QUOTA FOR bob series_per_database = 1, bytes_per_second = 1");
    run(Command::new(python).arg(programs().join("adbc_flightsql.py")), &server, &[]);
    server.wait_until_nothing_runs();
    assert!(server.metric("nyala_flight_statements_total") > 50);
    assert!(server.metric("nyala_flight_failed_statements_total") > 10);
    assert!(server.metric("nyala_flight_failed_log_ins_total") >= 3);
    assert!(server.process.log().contains("a log-in failed"));
    wait_for("a prepared statement is kept", || server.metric("nyala_flight_prepared_statements") == 0);
    // The driver ends no transaction when one of its connections is closed, and the program has closed three without autocommit.
    assert_eq!(server.metric("nyala_flight_transactions"), 3);
}

#[test]
fn the_jdbc_driver_works() {
    let jars = std::env::var("NYALA_FLIGHT_JDBC").unwrap_or_default();
    let is_there = std::fs::read_dir(&jars).is_ok_and(|mut jars| jars.next().is_some());
    let java = std::env::var("NYALA_JAVA").unwrap_or_else(|_| "java".to_owned());
    let found = (is_there && peers::works(&java, &["-version"])).then_some(java);
    let remedy = "crates/nyala/tests/flight.rs says where it is looked for";
    let Some(java) = peers::require("the JDBC driver of Arrow Flight SQL", remedy, found) else { return };
    let server = Server::start(&["--auth-enabled"]);
    let program = programs().join("FlightJdbc.java");
    let mut command = Command::new(java);
    // As the driver's manual says.
    command.args(["--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", &format!("{jars}/*")]).arg(program);
    run(&mut command, &server, &[]);
}

#[test]
fn grafana_asks_with_a_token_and_a_database() {
    run_calls("grafana", &Server::start(&["--auth-enabled", "--shared-secret", SECRET]), &[&token()]);
}

#[test]
fn nobody_calls_who_is_not_known() {
    let server = Server::start(&["--auth-enabled"]);
    run_calls("log_ins", &server, &[]);
    run_calls("types", &server, &[]);
}

#[test]
fn nobody_calls_until_there_is_an_administrator() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = client::free_address();
    let bind = address.to_string();
    let arguments = ["--flight-bind", &bind, "--auth-enabled"];
    let process = Process::start(&directory.path().join("data"), &arguments);
    run_calls("no_administrator", &Server { process, address, _directory: directory }, &[]);
}

#[test]
fn grants_hold_and_tokens_end_with_the_password() {
    let server = Server::start(&["--auth-enabled"]);
    server.ask("CREATE DATABASE e");
    server.write("e", "cpu value=1");
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT READ ON d TO bob");
    let Some(paused) = Paused::start("grants", "granted", &server, &[]) else { return };
    server.ask("SET PASSWORD FOR bob = 'stone'");
    paused.go_on();
}

#[test]
fn a_token_allows_what_it_says_until_it_is_dropped() {
    let server = Server::start(&["--auth-enabled"]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON d TO bob");
    let answer = server.ask("CREATE TOKEN reads FOR bob ON d READ");
    let secret = answer.split('"').find(|part| part.starts_with("nyala_")).expect("a secret").to_owned();
    let Some(paused) = Paused::start("tokens", "asked", &server, &[&secret]) else { return };
    server.ask("DROP TOKEN reads");
    paused.go_on();
}

#[test]
fn queries_end_when_nobody_waits_for_them() {
    let server = Server::start(&["--memory-limit", "128MiB"]);
    let Some(paused) = Paused::start("ends", "waiting", &server, &[]) else { return };
    // Only the query of the client that takes nothing goes on, and it waits.
    wait_for("a query runs that nobody waits for", || {
        server.ask("SHOW QUERIES").matches("generate_series").count() == 1
    });
    std::thread::sleep(Duration::from_secs(2));
    server.process.assert_within_memory_limit(128);
    paused.go_on();
    server.wait_until_nothing_runs();
}

#[test]
fn a_series_that_was_broken_off_is_taken_back() {
    run_calls("broken_off", &Server::start(&[]), &[]);
}

#[test]
fn an_ingest_drops_no_table_that_it_does_not_replace() {
    run_calls("ingests", &Server::start(&[]), &[]);
}

#[test]
fn hostile_requests_are_refused_within_bounds() {
    let server = Server::start(&["--memory-limit", "128MiB"]);
    run_calls("hostile", &server, &[]);
    server.process.assert_within_memory_limit(128);
    // What is no HTTP/2, and what is no gRPC.
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("writable");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(server.process.status("/health"), 200);
    assert!(!server.process.log().contains("panicked"), "{}", server.process.log());
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let server = Server::start(&["--keep-alive-timeout", "1s"]);
    let Some(paused) = Paused::start("idle", "idle", &server, &[]) else { return };
    wait_for("an idle connection stays open", || server.process.metric("nyala_flight_connections") == 0);
    paused.go_on();
}

/// One says nothing, and one only what HTTP/2 begins with, and does not answer.
#[test]
fn clients_that_do_not_speak_hold_no_shutdown_up() {
    let mut server = Server::start(&["--shutdown-timeout", "20s"]);
    let silent = TcpStream::connect(server.address).expect("it listens");
    let mut begun = TcpStream::connect(server.address).expect("it listens");
    begun.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it reads");
    wait_for("they are not accepted", || server.metric("nyala_flight_connections ") == 2);
    server.process.signal("TERM");
    assert!(server.process.wait().success());
    assert!(!server.process.log().contains("aborted"), "{}", server.process.log());
    drop((silent, begun));
}

#[test]
fn connections_are_encrypted_with_the_servers_certificate() {
    let Some(python) = python() else { return };
    if !certificate::has_openssl() {
        return;
    }
    let files = tempfile::tempdir().expect("a directory");
    let (chain, key) = (files.path().join("certificate.pem"), files.path().join("key.pem"));
    certificate::make(&chain, &key);
    let (directory, address) = (tempfile::tempdir().expect("a directory"), client::free_address());
    let process = Process::spawn(
        &directory.path().join("data"),
        &[
            "--flight-bind",
            &address.to_string(),
            "--https-certificate",
            &chain.display().to_string(),
            "--https-private-key",
            &key.display().to_string(),
        ],
    );
    wait_for("the server does not start", || process.log().contains("ready"));
    let server = Server { process, address, _directory: directory };
    let mut command = Command::new(python);
    command.arg(programs().join("flight_calls.py")).arg("tls");
    run(&mut command, &server, &[&chain.display().to_string()]);
}

#[test]
fn nobody_listens_where_that_is_off_or_open_to_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let off = Process::start(&directory.path().join("off"), &["--flight-bind", "none"]);
    assert!(!off.log().contains("Arrow Flight"));
    let refused = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["config", "--flight-bind", ":8087"])
        .output()
        .expect("it runs");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("flight-bind 0.0.0.0:8087 is reachable"), "{words}");
}
