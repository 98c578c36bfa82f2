//! The last lines of the log, as the server keeps them for administrators.

use crate::client::percent_encode;
use crate::process::Process;
use crate::{send_with, text};
use serde_json::Value;

fn lines(server: &Process, query: &str) -> Vec<Value> {
    let answer = send_with(server, "GET", &format!("/debug/log/lines?{query}"), &[]);
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    answer["lines"].as_array().expect("lines").clone()
}

#[test]
fn the_last_lines_are_shown_by_level_and_to_administrators() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(
        &directory.path().join("data"),
        &["--auth-enabled", "--slow-query-threshold", "1u", "--log-level", "info"],
    );
    let ask = |login: &str, statement: &str| {
        send_with(&server, "POST", &format!("/query?{login}&q={}", percent_encode(statement)), &[]).status
    };
    assert_eq!(ask("", "CREATE USER ann WITH PASSWORD 'canary' WITH ALL PRIVILEGES"), 200);
    let admin = "u=ann&p=canary";
    assert_eq!(ask(admin, "CREATE USER bob WITH PASSWORD 'other canary'; CREATE TOKEN t FOR bob"), 200);
    assert_eq!(ask("u=ann&p=wrong+canary", "SHOW DATABASES"), 401);
    let all = lines(&server, admin);
    assert!(all[0]["message"].as_str().expect("words").starts_with("nyala starts"), "{}", all[0]);
    let failed = lines(&server, &format!("{admin}&level=warn"));
    let is_failed = |line: &Value| line["message"] == "a log-in failed";
    assert!(failed.iter().any(is_failed) && failed.iter().all(|line| line["level"] != "info"), "{failed:?}");
    // What standard error got, no more and no less.
    let log = server.log();
    for line in &all {
        let message = line["message"].as_str().expect("words");
        assert!(log.contains(message.split(" (").next().expect("a part")), "{message}: {log}");
    }
    let shown = serde_json::to_string(&all).expect("JSON");
    assert!(
        shown.contains("CREATE USER") && !shown.contains("canary") && !shown.contains("nyala_"),
        "{shown}"
    );
    // Only what is new.
    let last = all.last().expect("a line")["number"].as_u64().expect("a number");
    assert_eq!(ask(admin, "DROP USER bob"), 200);
    let new = lines(&server, &format!("{admin}&after={last}"));
    assert!(!new.is_empty() && new.iter().all(|line| line["number"].as_u64() > Some(last)), "{new:?}");
    assert!(new.iter().any(|line| line.to_string().contains("DROP USER bob")), "{new:?}");

    assert_eq!(ask(admin, "CREATE USER carl WITH PASSWORD 'c'"), 200);
    let status = |query: &str| send_with(&server, "GET", &format!("/debug/log/lines?{query}"), &[]).status;
    assert_eq!((status(""), status("u=carl&p=c")), (401, 403));
    assert_eq!(status(&format!("{admin}&level=loud")), 400);
    assert_eq!(status(&format!("{admin}&after=x")), 400);
}
