//! Authentication as operators and attackers see it, through the real program over HTTP. The form of answers is in
//! `testdata/influx/authentication.script`, privileges are in `nyala-query/tests/privileges.rs`, and clients of Arrow Flight in
//! `flight.rs` beside this folder.

mod audit;
mod log_ins;
mod quotas;
mod requests;
mod sender;
mod tokens;

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "../support/prometheus.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod prometheus;

use client::{Request, Response, percent_encode};
use process::Process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CANARY: &str = "canary-Zq7";

fn ask(server: &Process, user: &str, password: &str, query: &str) -> Response {
    let target = format!("/query?db=d&u={user}&p={password}&q={}", percent_encode(query));
    server.send("POST", &target, b"").expect("an answer")
}

fn text(response: &Response) -> String {
    format!("{:?} {}", response.headers, String::from_utf8_lossy(&response.body))
}

#[test]
fn answers_are_kept_by_nobody() {
    let server = sender::Server::start(&[]);
    let home = "db=home&u=ann&p=pencil";
    let wrong = "db=home&u=ann&p=wrong";
    for (target, status) in [
        (format!("/query?{home}&q=SHOW%20USERS"), 200),
        (format!("/query?{wrong}&q=SHOW%20USERS"), 401),
        (format!("/api/sql?{home}&q="), 400),
        (format!("/write?{home}"), 400),
        ("/nowhere".to_owned(), 404),
    ] {
        let answer = server.send("POST", &target, &[], "SELECT");
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(answer.header("Cache-Control"), Some("no-store"), "{target}");
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"), "{target}");
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).expect("readable").map(|entry| entry.expect("readable").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn passwords_appear_nowhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let variables =
        [("NYALA_LOG", "trace"), ("NYALA_SHARED_SECRET", "0123456789abcdef-canary-Zq7-0123456789")];
    let server = Process::spawn_in(&data_dir, &["--auth-enabled"], &variables);
    server.wait_until_ready(Duration::from_secs(120));
    let create = format!("CREATE USER ann WITH PASSWORD '{CANARY}' WITH ALL PRIVILEGES");
    let mut answers = vec![ask(&server, "", "", &create)];
    let statements = [
        "CREATE DATABASE d".to_owned(),
        format!("CREATE USER bob WITH PASSWORD '{CANARY}'"),
        format!("SET PASSWORD FOR bob = '{CANARY}2'"),
        format!("SET PASSWORD FOR nobody = '{CANARY}'"),
        "SHOW USERS".into(),
        "SHOW GRANTS FOR bob".into(),
        "SHOW QUERIES".into(),
        "SHOW DIAGNOSTICS".into(),
        "SHOW STATS".into(),
        "SHOW TOKENS".into(),
    ];
    answers.extend(statements.iter().map(|statement| ask(&server, "ann", CANARY, statement)));
    // Answers to unauthorized statements, and InfluxDB's warnings, show the statement.
    let target = format!("/query?u=ann&p={CANARY}&q={}", percent_encode(&statements[1]));
    answers.push(server.send("GET", &target, b"").expect("an answer"));
    answers.push(ask(&server, "bob", &format!("{CANARY}2"), &statements[2]));
    answers.push(ask(&server, "bob", CANARY, "SHOW DATABASES"));
    for path in ["/metrics", "/debug/vars", "/debug/requests?seconds=0"] {
        let target = format!("{path}{}u=ann&p={CANARY}", if path.contains('?') { '&' } else { '?' });
        answers.push(server.send("GET", &target, b"").expect("an answer"));
    }
    for answer in &answers {
        assert!(!text(answer).contains(CANARY), "{}", text(answer));
    }
    assert_eq!(answers[1].status, 200, "{}", text(&answers[1]));
    assert!(!server.log().contains(CANARY), "{}", server.log());
    assert!(server.stop().success());
    for file in files(&data_dir) {
        let bytes = std::fs::read(&file).expect("readable");
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{} holds a password", file.display());
    }
}

#[test]
fn pages_about_the_server_are_for_administrators() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    assert_eq!(server.status("/metrics"), 403, "there is no administrator yet");
    ask(&server, "", "", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES");
    ask(&server, "ann", "a", "CREATE USER bob WITH PASSWORD 'b'");
    for (path, answer) in
        [("/metrics", 200), ("/debug/vars", 200), ("/debug/requests", 200), ("/debug/pprof/all", 501)]
    {
        let status = |login: &str| server.status(&format!("{path}?seconds=0&{login}"));
        assert_eq!((status(""), status("u=bob&p=b"), status("u=ann&p=a")), (401, 403, answer), "{path}");
    }
    ask(&server, "ann", "a", "CREATE DATABASE d");
    let written =
        server.send("POST", "/write?db=d&u=ann&p=a", b"m,h=a v=1\nm,h=b v=1\nn v=1").expect("an answer");
    assert_eq!(written.status, 204);
    let vars = server.send("GET", "/debug/vars?u=ann&p=a", b"").expect("an answer");
    let vars: serde_json::Value = serde_json::from_slice(&vars.body).expect("JSON");
    let counts = &vars["database:d"]["values"];
    assert_eq!((&counts["numMeasurements"], &counts["numSeries"]), (&2.into(), &3.into()), "{vars}");
    let httpd = &vars[format!("httpd:{}", server.address)]["values"];
    assert_eq!((&httpd["writeReq"], &httpd["authFail"]), (&1.into(), &4.into()), "{vars}");
    // Pages that show only that the server runs are open, as in InfluxDB.
    for (path, status) in [("/ping", 204), ("/health", 200), ("/status", 204), ("/ready", 200)] {
        assert_eq!(server.status(path), status, "{path}");
    }
    let packed = Request {
        method: "POST".into(),
        target: "/write?db=d".into(),
        headers: vec![("Content-Encoding".into(), "gzip".into())],
        body: b"not even gzip".to_vec(),
    };
    let refused = client::send(server.address, &packed).expect("an answer");
    assert_eq!(refused.status, 401, "nothing of a body is read for nobody");
}

#[test]
fn settings_that_would_protect_nothing_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |arguments: &[&str], secret: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        command.arg("serve").args(arguments).arg("--data-dir").arg(directory.path().join("data"));
        command.env_remove("NYALA_SHARED_SECRET");
        secret.map(|secret| command.env("NYALA_SHARED_SECRET", secret));
        let ended = command.output().expect("it runs");
        (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let local = ["--http-bind", "127.0.0.1:0", "--auth-enabled"];
    for weak in ["", "weak-canary", "31-bytes-are-too-short-a-secret"] {
        let (started, words) = start(&local, Some(weak));
        assert!(!started && words.contains("shared-secret"), "{weak:?}: {words}");
        assert!(weak.is_empty() || !words.contains(weak), "{words}");
    }
    let (started, words) = start(&local[..2], Some("0123456789abcdef0123456789abcdef"));
    assert!(!started && words.contains("auth-enabled"), "{words}");
    let (started, words) = start(&["--http-bind", "0.0.0.0:0"], None);
    assert!(!started && words.contains("authentication is off"), "{words}");
}

#[test]
fn requests_are_counted_by_client_while_somebody_watches() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    ask(&server, "", "", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES");
    ask(&server, "ann", "a", "CREATE USER bob WITH PASSWORD 'b'");
    ask(&server, "ann", "a", "CREATE DATABASE d");
    let watched_for = |seconds: u64| {
        let target = format!("/debug/requests?seconds={seconds}&u=ann&p=a");
        std::thread::scope(|scope| {
            let watch = || server.send("GET", &target, b"").expect("an answer");
            let watching = scope.spawn(watch);
            std::thread::sleep(Duration::from_secs(seconds) / 4);
            for _ in 0..3 {
                ask(&server, "bob", "b", "SHOW DATABASES");
            }
            ask(&server, "bob", "wrong", "SHOW DATABASES");
            server.send("POST", "/write?db=d&u=ann&p=a", b"m v=1").expect("an answer");
            server.send("POST", "/api/v2/write?bucket=d&u=ann&p=a", b"m v=1").expect("an answer");
            server.status("/ping");
            String::from_utf8(watching.join().expect("no panic").body).expect("UTF-8")
        })
    };
    let wanted = "{\n\"ann:127.0.0.1\": {\"writes\":1,\"queries\":0},\n\"bob:127.0.0.1\": {\"writes\":0,\"queries\":3}\n}\n";
    // A slow machine may do less in that time than was to be counted.
    let mut watched = String::new();
    for seconds in [2, 8, 40] {
        watched = watched_for(seconds);
        if watched == wanted {
            break;
        }
    }
    assert_eq!(watched, wanted);
}
