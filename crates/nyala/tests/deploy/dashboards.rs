//! The dashboards: Grafana can read them, and every panel shows something of a real server.

use crate::monitored::Monitored;
use crate::{file, peers, root, succeed};
use serde_json::Value;
use std::process::Command;

const DASHBOARDS: [&str; 2] = ["deploy/grafana/overview.json", "deploy/grafana/storage.json"];

/// Parts of expressions that are empty as long as all is well, and why.
const MAY_BE_EMPTY: [(&str, &str); 4] = [
    ("ALERTS{", "no alert fires"),
    ("nyala_backup_last_time_seconds", "there was no backup"),
    ("deriv(", "the free space does not shrink"),
    ("flushed_bytes_total", "nothing is flushed while the test runs"),
];

fn read(path: &str) -> Value {
    serde_json::from_str(&file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The expressions of a dashboard, as Grafana would send them for all servers.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations").iter();
    let texts = targets.chain(annotations).map(|target| target["expr"].as_str().expect("an expression"));
    let filled =
        |text: &str| text.replace("$job", ".+").replace("$instance", ".+").replace("$__rate_interval", "50s");
    texts.map(filled).collect()
}

#[test]
fn every_panel_shows_something() {
    let Some(monitored) = Monitored::start() else { return };
    let mut all = 0;
    for path in DASHBOARDS {
        let dashboard = read(path);
        for expression in expressions(&dashboard) {
            all += 1;
            assert!(!expression.contains('$'), "{expression}");
            let may_be_empty = MAY_BE_EMPTY.iter().any(|(part, _)| expression.contains(part));
            monitored.wait_until(&expression, || may_be_empty || monitored.count(&expression) > 0);
            // Even if it may be empty it must be understood.
            monitored.count(&expression);
            if !expression.starts_with("ALERTS") {
                monitored.check_names(&expression);
            }
        }
        for variable in dashboard["templating"]["list"].as_array().expect("variables") {
            if variable["type"] == "query" {
                let query = variable["query"]["query"].as_str().expect("a query").replace("$job", ".+");
                let within = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
                let (metric, label) = within.and_then(|rest| rest.rsplit_once(", ")).expect("two arguments");
                let labels = format!("group by ({label}) ({metric})");
                monitored.wait_until(&query, || monitored.count(&labels) > 0);
            }
        }
    }
    assert!(all > 50, "only {all} expressions were found");
}

#[test]
fn grafanas_own_types_know_them() {
    let program = std::env::var("NYALA_GRAFANA").unwrap_or_default();
    // Without arguments it reads nothing and succeeds.
    let found = peers::works(&program, &[]).then_some(());
    if peers::require("Grafana's types", "build crates/nyala/tests/clients/grafana as .ci/run does", found)
        .is_none()
    {
        return;
    }
    succeed(Command::new(&program).args(DASHBOARDS.map(|path| root().join(path))));
    let directory = tempfile::tempdir().expect("a directory");
    let broken = directory.path().join("broken.json");
    let text = file(DASHBOARDS[0]).replace("\"schemaVersion\"", "\"scemaVersion\"");
    std::fs::write(&broken, text).expect("written");
    let refused = Command::new(&program).arg(&broken).output().expect("it runs");
    assert!(!refused.status.success(), "it knows everything");
}

#[test]
fn the_files_are_what_the_script_writes() {
    let found = peers::works("python3", &["--version"]).then_some(());
    if peers::require("python3", "install python3", found).is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    succeed(Command::new("python3").arg(root().join("deploy/grafana/dashboards.py")).arg(directory.path()));
    for path in DASHBOARDS {
        let name = path.rsplit('/').next().expect("a name");
        let written = std::fs::read_to_string(directory.path().join(name)).expect("written");
        assert!(written == file(path), "{path} is not what deploy/grafana/dashboards.py writes: run it");
    }
}

#[test]
fn every_metric_of_the_page_is_on_a_dashboard_or_left_out_on_purpose() {
    // What only servers over Kudu have, and no panel so far.
    const LEFT_OUT: [&str; 2] = ["nyala_kudu_", "nyala_daemons"];
    let shown: String = DASHBOARDS.iter().flat_map(|path| expressions(&read(path))).collect();
    let alerts = file("deploy/prometheus/alerts.yml");
    for line in file("docs/operations/monitoring.md").lines() {
        let Some(rest) = line.strip_prefix("| `nyala_") else { continue };
        if !rest.contains("| gauge |") && !rest.contains("| counter |") && !rest.contains("| histogram |") {
            continue;
        }
        let name = format!("nyala_{}", rest.split(['`', '{']).next().expect("a name"));
        let is_left_out = LEFT_OUT.iter().any(|start| name.starts_with(start)) || name == "nyala_leads";
        assert!(is_left_out || shown.contains(&name) || alerts.contains(&name), "{name} is shown nowhere");
    }
}
