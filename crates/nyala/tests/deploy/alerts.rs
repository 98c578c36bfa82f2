//! The alerts: Prometheus understands them, what they ask exists, each has a test, and the pages tell of them.

use crate::monitored::Monitored;
use crate::{file, peers, root, succeed, text};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

const ALERTS: &str = "deploy/prometheus/alerts.yml";

fn has_promtool() -> bool {
    let found = peers::works("promtool", &["--version"]).then_some(());
    peers::require("promtool", "install Debian's package prometheus", found).is_some()
}

/// The values of a key in the file, as they stand there.
fn values(key: &str) -> Vec<String> {
    let start = format!("{key}: ");
    let found = file(ALERTS);
    let lines = found.lines().map(|line| line.trim().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

#[test]
fn promtool_approves_of_rules_tests_and_metrics() {
    if !has_promtool() {
        return;
    }
    let folder = root().join("deploy/prometheus");
    succeed(Command::new("promtool").current_dir(&folder).args(["check", "rules", "alerts.yml"]));
    succeed(Command::new("promtool").current_dir(&folder).args(["test", "rules", "alerts.test.yml"]));
    // The tests can fail: with a rule that is changed they do.
    let directory = tempfile::tempdir().expect("a directory");
    for (name, change) in [("alerts.yml", ("== 2", "== 3")), ("alerts.test.yml", ("", ""))] {
        let text = file(&format!("deploy/prometheus/{name}")).replace(change.0, change.1);
        std::fs::write(directory.path().join(name), text).expect("written");
    }
    let tested = Command::new("promtool")
        .current_dir(directory.path())
        .args(["test", "rules", "alerts.test.yml"])
        .output();
    let tested = tested.expect("it runs");
    assert!(!tested.status.success() && text(&tested).contains("NyalaFails"), "{}", text(&tested));
    let Some(monitored) = Monitored::start() else { return };
    let mut checking = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    checking.stdin.take().expect("piped").write_all(monitored.metrics().as_bytes()).expect("it reads");
    let checked = checking.wait_with_output().expect("it ends");
    assert!(checked.status.success() && text(&checked).is_empty(), "{}", text(&checked));
}

#[test]
fn what_alerts_ask_exists() {
    let Some(monitored) = Monitored::start() else { return };
    monitored.wait_until("writes were counted", || {
        monitored.count("nyala_http_requests_total{path=\"/write\",status=\"400\"}") > 0
    });
    let rules = || -> Vec<Value> {
        let answer: Value =
            serde_json::from_str(&monitored.prometheus.get("/api/v1/rules")).unwrap_or_default();
        answer["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default()
    };
    monitored.wait_until("rules were evaluated", || {
        let rules = rules();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")
    });
    let rules = rules();
    assert_eq!(rules.len(), values("alert").len());
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning"].contains(&severity), "{rule}");
        assert!(rule["annotations"]["summary"].is_string() && rule["annotations"]["description"].is_string());
        monitored.check_names(rule["query"].as_str().expect("an expression"));
    }
    // What is compared has values, apart from statuses that no request has got.
    for expression in values("expr") {
        let compared = expression.rsplit_once(" > ").or_else(|| expression.rsplit_once(" < "));
        let compared = compared.or_else(|| expression.rsplit_once(" == ")).expect("a comparison").0;
        if !compared.contains("status=\"503\"") {
            // In less time than the rule has, and in more than a slow machine takes for two scrapes.
            let soon = compared.replace("m])", "0s])");
            monitored.wait_until(compared, || monitored.count(&soon) > 0 || compared.contains("h]"));
        }
    }
}

#[test]
fn each_alert_has_a_test_a_page_and_a_line_in_the_table() {
    let tests = file("deploy/prometheus/alerts.test.yml");
    for name in values("alert") {
        assert!(
            tests.contains(&format!("alertname: {name}\n        exp_alerts:\n")),
            "no test has {name} fire"
        );
    }
    let page = file("docs/operations/monitoring.md");
    for (name, expression) in values("alert").iter().zip(values("expr")) {
        let line = page.lines().find(|line| line.starts_with(&format!("| `{name}` | `")));
        let line = line.unwrap_or_else(|| panic!("the table of alerts has no {name}"));
        // That is how a bar stands in a table.
        let line = line.replace("\\|", "|");
        assert!(line.contains(&format!("`{expression}`")), "{name} is {expression}, not {line}");
    }
    for link in values("documentation") {
        let (path, anchor) = link.split_once('#').expect("a page and a heading");
        let headings: Vec<String> =
            file(path).lines().filter(|line| line.starts_with('#')).map(anchor_of).collect();
        assert!(headings.iter().any(|own| own == anchor), "{link}: {headings:?}");
    }
}

/// The anchor of a heading.
fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
