//! Drives the web console in a real Chromium against a real server (`clients/console/`, one script per test).
//!
//! - `NYALA_CHROMIUM` names Chromium (Debian: `chromium`), else the search path is tried.
//! - `NYALA_NODE_MODULES` names a directory with puppeteer-core and axe-core (`clients/package.json`), for `node`.
//!
//! If one is missing, its tests are skipped (`support/peers.rs`).

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::{Request, Response, percent_encode};
use process::Process;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// The first second of the test data: 2016-01-01.
const BEGIN_S: u64 = 1_451_606_400;
/// One browser after the other: several at once only wait for each other.
static BROWSER: Mutex<()> = Mutex::new(());

/// The command that runs a script in node; `None` if it, the browser or a package is missing.
fn script(name: &str, server: &Process) -> Option<Command> {
    let chromium = std::env::var("NYALA_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let modules = std::env::var("NYALA_NODE_MODULES").unwrap_or_default();
    let package = |name: &str| format!("require({:?});", Path::new(&modules).join(name));
    let check = package("puppeteer-core") + &package("axe-core");
    let found = peers::works(&chromium, &["--version"]) && peers::works("node", &["-e", &check]);
    let remedy = "crates/nyala/tests/console.rs says where it is looked for";
    peers::require("Chromium with puppeteer-core and axe-core", remedy, found.then_some(()))?;
    let mut command = Command::new("node");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/console").join(name);
    command.env("NODE_PATH", modules).env("NYALA_CHROMIUM", chromium_path(&chromium)).arg(path);
    command.args([server.address.ip().to_string(), server.address.port().to_string()]);
    Some(command)
}

/// The path of a program on the search path.
fn chromium_path(program: &str) -> PathBuf {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).map(|place| place.join(program)).find(|path| path.exists());
    found.unwrap_or_else(|| program.into())
}

/// Runs a script, which succeeds if all its steps do.
fn drive(name: &str, server: &Process) {
    let _alone = BROWSER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(mut command) = script(name, server) else { return };
    let ran = command.output().expect("node runs");
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// Two hosts, an hour of points every ten seconds: host `a` rises from 0 to 59.5, `b` from 100.
fn write_hour(server: &Process) {
    server.query("CREATE DATABASE d");
    let mut lines = String::new();
    for i in 0..360 {
        let at = (BEGIN_S + i * 10) * 1_000_000_000;
        let value = (i / 3) as f64 / 2.0;
        writeln!(lines, "cpu,host=a usage={value} {at}\ncpu,host=b usage={} {at}", value + 100.0)
            .expect("memory takes every byte");
    }
    assert_eq!(server.write(&lines).status, 204);
}

#[test]
fn queries_are_written_plotted_cancelled_and_shared() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    write_hour(&server);
    drive("queries.js", &server);
}

#[test]
fn every_page_works_in_a_browser() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    write_hour(&server);
    drive("pages.js", &server);
}

#[test]
fn a_server_without_data_shows_the_first_steps() {
    let directory = tempfile::tempdir().expect("a directory");
    drive("first_steps.js", &Process::start(&directory.path().join("data"), &[]));
}

#[test]
fn a_million_points_are_plotted_and_listed() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    for batch in 0..20 {
        let mut lines = String::new();
        for i in batch * 50_000..(batch + 1) * 50_000 {
            writeln!(lines, "many v={i} {}", (BEGIN_S + i) * 1_000_000_000).expect("memory takes every byte");
        }
        assert_eq!(server.write(&lines).status, 204);
    }
    drive("million.js", &server);
}

#[test]
fn hostile_names_are_shown_as_text() {
    const MARKUP: &str = r#"<script>window.hacked=1</script><img src=x onerror="window.hacked=1">"#;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    let database = format!(r#"d"'{}"#, MARKUP.replace('/', ""));
    server.query(&format!("CREATE DATABASE \"{}\"", database.replace('"', "\\\"")));
    // In line protocol, spaces, commas and equals signs of names are escaped.
    let escaped = |letter: char| {
        // In the name of a field, quotes begin a text.
        let name = match letter {
            'f' => format!(r"f '\x {}", MARKUP.replace('"', "")),
            _ => format!(r#"{letter} "'\x {MARKUP}"#),
        };
        name.chars().fold(String::new(), |mut name, next| {
            if matches!(next, ' ' | ',' | '=') && !(next == '=' && letter == 'm') {
                name.push('\\');
            }
            name.push(next);
            name
        })
    };
    let line = format!("{},{}={} {}=1.5", escaped('m'), escaped('t'), escaped('v'), escaped('f'));
    let target = format!("/write?db={}", percent_encode(&database));
    let written = server.send("POST", &target, line.as_bytes()).expect("an answer");
    assert_eq!(written.status, 204, "{}", String::from_utf8_lossy(&written.body));
    drive("hostile.js", &server);
}

#[test]
fn a_log_in_is_asked_for_kept_by_the_tab_and_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    drive("log_in.js", &Process::start(&directory.path().join("data"), &["--auth-enabled"]));
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let _alone = BROWSER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Process::start(&data, &[]);
    write_hour(&server);
    let Some(mut command) = script("gone.js", &server) else { return };
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("node runs");
    let said = BufReader::new(node.stdout.take().expect("is piped"));
    for line in said.lines().map_while(Result::ok) {
        match line.as_str() {
            "stop" => server.kill(),
            "start" => {
                let log = directory.path().join("log");
                server = Process::spawn_logging(&data, server.address, &[], &[], log);
                server.wait_until_ready(Duration::from_secs(120));
            }
            other => panic!("{other}"),
        }
    }
    let mut errors = String::new();
    node.stderr.take().expect("is piped").read_to_string(&mut errors).expect("readable");
    assert!(node.wait().expect("ended").success(), "{errors}");
}

/// The answer to a GET with headers.
fn get(server: &Process, target: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request {
        method: "GET".to_owned(),
        target: target.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: Vec::new(),
    };
    client::send(server.address, &request).expect("an answer")
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.header(name).unwrap_or("")
}

#[test]
fn its_files_are_small_guarded_and_asked_for_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    // A program gets words, a browser the page.
    let words = get(&server, "/", &[("accept", "*/*")]);
    assert!(words.body.starts_with(b"nyala, a time-series database"));
    let page = get(&server, "/", &[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")]);
    assert_eq!((page.status, header(&page, "content-type")), (200, "text/html; charset=utf-8"));
    let text = String::from_utf8(page.body.clone()).expect("UTF-8");
    assert!(!text.contains("<script>") && !text.contains("style=") && !text.contains("http"), "{text}");
    let mut compressed_bytes = 0;
    for path in [
        "/console/index.html",
        "/console/app.js",
        "/console/app.css",
        "/console/worker.js",
        "/console/icon.svg",
    ] {
        let plain = get(&server, path, &[]);
        assert_eq!((plain.status, header(&plain, "content-encoding")), (200, ""), "{path}");
        assert_eq!(header(&plain, "x-content-type-options"), "nosniff");
        let policy = header(&plain, "content-security-policy");
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let gzip = get(&server, path, &[("accept-encoding", "gzip, deflate, br")]);
        assert_eq!(header(&gzip, "content-encoding"), "gzip", "{path}");
        assert_ne!(header(&gzip, "etag"), header(&plain, "etag"));
        compressed_bytes += header(&gzip, "content-length").parse::<usize>().expect("a length");
        // The client has decompressed it.
        assert_eq!(gzip.body, plain.body, "{path}");
        let again =
            get(&server, path, &[("accept-encoding", "gzip"), ("if-none-match", header(&gzip, "etag"))]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        let old = get(&server, path, &[("if-none-match", "\"old\"")]);
        assert_eq!(old.status, 200);
    }
    assert!(compressed_bytes < 400_000, "{compressed_bytes} bytes");
    for unknown in ["/console", "/console/", "/console/../app.js", "/console/app.js.gz", "/app.js"] {
        assert_eq!(get(&server, unknown, &[]).status, 404, "{unknown}");
    }
    let posted = server.send("POST", "/console/app.js", b"").expect("an answer");
    assert_eq!(posted.status, 405);
}
