//! The form of the log, its level, which changes while the server runs, and slow queries.

use crate::client::percent_encode;
use crate::process::Process;
use crate::{send_with, text};
use std::path::Path;
use std::time::Duration;

fn wait_for_log(server: &Process, words: &str) {
    for _ in 0..12_000 {
        if server.log().contains(words) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no {words:?} in {}", server.log());
}

/// A failed log-in with a name that wants to be more than a name.
fn fail_to_log_in(server: &Process) {
    let name = percent_encode("mallory\nts=1 lvl=error \"msg\"\u{85}\u{7f}\x1b[31m");
    assert_eq!(send_with(server, "GET", &format!("/query?q=SHOW+DATABASES&u={name}&p=x"), &[]).status, 401);
    wait_for_log(server, "a log-in failed");
}

#[test]
fn each_form_has_one_event_per_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |form: &str| {
        let arguments = ["--log-format", form, "--auth-enabled"];
        let server = Process::start(&directory.path().join(form), &arguments);
        // Before there is an administrator, nobody can fail to log in.
        let create = percent_encode("CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES");
        assert_eq!(send_with(&server, "POST", &format!("/query?q={create}"), &[]).status, 200);
        fail_to_log_in(&server);
        assert_eq!(send_with(&server, "POST", "/debug/log?level=info&u=ann&p=a", &[]).status, 200);
        wait_for_log(&server, "the level of the log was changed");
        server.log()
    };
    let log = start("json");
    for line in log.lines() {
        let event: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["timestamp"].is_string() && event["message"].is_string(), "{line}");
        // No field of an event takes the place of its level.
        assert!(event["level"] == "INFO" || event["level"] == "WARN", "{line}");
        if event["message"] == "a log-in failed" {
            assert_eq!(event["level"], "WARN");
            assert_eq!(event["user"], "mallory\nts=1 lvl=error \"msg\"\u{85}\u{7f}\x1b[31m");
            assert_eq!(event["client"], "127.0.0.1");
        }
    }
    let first: serde_json::Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert!(first["message"] == "nyala starts" && first["authentication"] == "on", "{first}");
    let log = start("logfmt");
    for line in log.lines() {
        assert!(line.starts_with("ts=20") && line.contains("Z lvl=") && line.contains(" msg="), "{line}");
        assert!(!line.contains(|letter: char| letter.is_control()), "{line:?}");
    }
    let failed = log.lines().find(|line| line.contains("a log-in failed")).expect("a line");
    assert!(
        failed
            .contains(" lvl=warn msg=\"a log-in failed\" target=nyala::server::audit user=\"mallory\\nts=1"),
        "{failed}"
    );
    assert!(failed.contains(" client=127.0.0.1 protocol=http left_out=0"), "{failed}");
}

#[test]
fn the_level_changes_while_the_server_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("nyala.toml");
    let write =
        |level: &str| std::fs::write(&settings, format!("log-level = \"{level}\"\n")).expect("written");
    write("warn");
    let arguments = ["--config", settings.to_str().expect("UTF-8")];
    let server = Process::start(&directory.path().join("data"), &arguments);
    assert!(!server.log().contains("nyala starts"), "{}", server.log());
    let drop = || {
        server.query("CREATE DATABASE x");
        server.query("DROP DATABASE x");
        server.log().matches("DROP DATABASE").count()
    };
    assert_eq!(drop(), 0);
    write("info");
    server.signal("HUP");
    wait_for_log(&server, "the level of the log was read again");
    assert_eq!(drop(), 1);
    write("loud,,=");
    server.signal("HUP");
    wait_for_log(&server, "cannot read the level of the log again");
    assert_eq!(drop(), 2);

    let ask = |method: &str, target: &str| {
        let answer = send_with(&server, method, target, &[]);
        (answer.status, text(&answer))
    };
    assert_eq!(ask("GET", "/debug/log"), (200, "{\"level\":\"info\"}\n".to_owned()));
    assert_eq!(ask("POST", "/debug/log?level=error"), (200, "{\"level\":\"error\"}\n".to_owned()));
    assert_eq!(drop(), 2);
    assert_eq!(ask("POST", "/debug/log?level=nyala=debug,info").1, "{\"level\":\"nyala=debug,info\"}\n");
    assert_eq!(drop(), 3);
    for wrong in ["", "?level=", "?level=nyala=loud"] {
        assert_eq!(ask("POST", &format!("/debug/log{wrong}")).0, 400, "{wrong}");
    }
    assert_eq!(ask("GET", "/debug/log").1, "{\"level\":\"nyala=debug,info\"}\n");
    assert_eq!(ask("PUT", "/debug/log?level=off").0, 405);
}

#[test]
fn only_an_administrator_changes_the_level() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let ask = |login: &str, statement: &str| {
        send_with(&server, "POST", &format!("/query?{login}&q={}", percent_encode(statement)), &[]).status
    };
    assert_eq!(ask("", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES"), 200);
    assert_eq!(ask("u=ann&p=a", "CREATE USER bob WITH PASSWORD 'b'"), 200);
    let change =
        |login: &str| send_with(&server, "POST", &format!("/debug/log?level=debug&{login}"), &[]).status;
    assert_eq!((change(""), change("u=bob&p=b"), change("u=ann&p=a")), (401, 403, 200));
}

#[test]
fn slow_queries_are_logged_without_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |data_dir: &Path, arguments: &[&str]| Process::start(data_dir, arguments);
    let server = start(&directory.path().join("data"), &["--auth-enabled", "--slow-query-threshold", "1u"]);
    let ask = |login: &str, statement: &str| {
        send_with(&server, "POST", &format!("/query?db=d&{login}&q={}", percent_encode(statement)), &[])
            .status
    };
    assert_eq!(ask("", "CREATE USER ann WITH PASSWORD 'canary' WITH ALL PRIVILEGES"), 200);
    let admin = "u=ann&p=canary";
    assert_eq!(
        ask(admin, "CREATE DATABASE d; SET PASSWORD FOR ann = 'canary'; SELECT v FROM m WHERE t = 'x'"),
        200
    );
    let sql = format!("/api/sql?db=d&{admin}");
    assert_eq!(
        server.send("POST", &sql, b"SELECT count(*) FROM d.autogen.m, m").expect("an answer").status,
        400
    );
    assert_eq!(server.send("POST", &sql, b"SELECT 17 + 4").expect("an answer").status, 200);
    wait_for_log(&server, "17 + 4");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a slow query")).collect();
    let line = |words: &str| {
        *lines.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {log}"))
    };
    let several = line("SELECT v FROM");
    assert!(
        several.contains("SET PASSWORD FOR ann = [REDACTED]") && several.contains("duration_ms="),
        "{several}"
    );
    assert!(several.contains("database=\"d\" user=\"ann\"") && several.contains("WARN"), "{several}");
    assert!(line("CREATE USER ann").contains("WITH PASSWORD [REDACTED]"), "{log}");
    assert!(line("17 + 4").contains("database=\"d\" user=\"ann\""), "{log}");
    assert!(!log.contains("canary"), "{log}");
    let metrics = text(&send_with(&server, "GET", &format!("/metrics?{admin}"), &[]));
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("nyala_slow_queries_total ")).expect("a metric");
    assert!(counted.parse::<usize>().expect("a number") >= lines.len(), "{counted}");

    // Nothing is slow by default, and what is fast is not slow.
    for arguments in [&[][..], &["--slow-query-threshold", "1h"]] {
        let server = start(&directory.path().join("other"), arguments);
        server.query("SHOW DATABASES");
        assert!(!server.log().contains("a slow query"), "{}", server.log());
    }
}
