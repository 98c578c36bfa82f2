//! The log: what it says, and that errors of writing it end nothing.

use crate::client::{self, percent_encode};
use crate::process::Process;
use crate::send_with;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let full = PathBuf::from("/dev/full");
    let variables = [("NYALA_LOG", "trace")];
    let data_dir = directory.path().join("data");
    let server = Process::spawn_logging(&data_dir, client::free_address(), &[], &variables, full);
    server.wait_until_ready(Duration::from_secs(120));
    server.signal("USR1");
    server.query("CREATE DATABASE d");
    server.query("DROP DATABASE d");
    assert_eq!(server.status("/health"), 200);
    assert!(server.stop().success());
    // An error before the log exists does not panic either.
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_nyala"));
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opened");
    wrong.args(["serve", "--memory-limit", "1MiB"]).stdin(Stdio::null()).stderr(full);
    assert_eq!(wrong.status().expect("it runs").code(), Some(1));
}

#[test]
fn a_log_in_a_file_has_no_colours_and_begins_with_version_and_settings() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "100MiB"]);
    let log = server.log();
    assert!(!log.contains('\x1b'), "{log:?}");
    let first = log.lines().next().expect("a line");
    for part in [
        concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""),
        "commit=\"",
        "memory_limit=100MiB",
        "max_body_size=25000000",
        "wal_sync=always",
        "authentication=\"off\"",
        "tls=\"off\"",
    ] {
        assert!(first.contains(part), "no {part} in {first}");
    }
    assert!(server.stop().success());
    let version = Command::new(env!("CARGO_BIN_EXE_nyala")).arg("--version").output().expect("it runs");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(version.starts_with(concat!("nyala ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
}

#[test]
fn connections_that_give_way_to_others_are_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB"]);
    let most = server.metric("nyala_connections_max{listener=\"http-bind\"}") as usize;
    let connect = || std::net::TcpStream::connect(server.address).expect("the server accepts");
    let idle: Vec<_> = (0..most + 5).map(|_| connect()).collect();
    let words = "all connections of http-bind are taken";
    let begun = Instant::now();
    while !server.log().contains(words) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(idle);
    assert!(server.stop().success());
}

#[test]
fn actions_of_clients_are_logged_without_secrets_and_with_a_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let ask = |login: &str, query: &str| {
        let target = format!("/query?db=d&{login}&q={}", percent_encode(query));
        send_with(&server, "POST", &target, &[]).status
    };
    let admin = "u=ann&p=canary";
    ask("", "CREATE USER ann WITH PASSWORD 'canary' WITH ALL PRIVILEGES");
    for done in [
        "CREATE DATABASE d",
        "CREATE USER bob WITH PASSWORD 'canary'",
        "GRANT READ ON d TO bob",
        "SET PASSWORD FOR bob = 'canary'",
        "DROP USER bob",
        "DROP DATABASE \"d\\nx\"",
        "DROP DATABASE d",
    ] {
        assert_eq!(ask(admin, done), 200, "{done}");
    }
    assert_eq!(ask("u=mallory%0AFORGED%1b%5b31m&p=guessed-canary", "SHOW DATABASES"), 401);
    assert_eq!(ask("", "SHOW DATABASES"), 401, "who says nothing did not fail to log in");
    let log = server.log();
    for told in [
        r#"CREATE USER ann WITH PASSWORD [REDACTED]"#,
        r#"CREATE USER bob WITH PASSWORD [REDACTED]" database="d" user="ann" client=127.0.0.1"#,
        "GRANT READ ON d TO bob",
        "SET PASSWORD FOR bob = [REDACTED]",
        "DROP USER bob",
        "DROP DATABASE d",
        "a log-in failed",
        r"mallory\nFORGED",
    ] {
        assert!(log.contains(told), "no {told:?} in {log}");
    }
    assert!(!log.contains("canary") && !log.contains('\x1b'), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("FORGED") || line.starts_with('x')), "{log}");
    assert_eq!(log.matches("a log-in failed").count(), 1, "{log}");
    let (before, begun) = (log.len(), Instant::now());
    for number in 0..60 {
        ask(&format!("u=nobody{number}&p=x"), "SHOW DATABASES");
        ask(admin, "DROP DATABASE nothing");
    }
    let log = server.log();
    let lines = |words: &str| log[before..].matches(words).count();
    // Twenty of each kind in ten seconds, of which some had begun before and some have not ended.
    let most = 20 * (begun.elapsed().as_secs() as usize / 10 + 2);
    assert!((19..=most).contains(&lines("a log-in failed")), "{most}: {log}");
    assert!((10..=most).contains(&lines("DROP DATABASE nothing")), "{most}: {log}");
}
