//! InfluxDB's answers, byte for byte: the scripts of `testdata/influx`, played to nyala, and to the
//! InfluxDB 1.8.10 that wrote their expected answers.
//!
//! - `NYALA_SCRIPT=name` plays only scripts whose name contains it.
//! - `NYALA_REGENERATE=1` rewrites the expected answers; only InfluxDB ever writes them.
//! - `NYALA_REQUIRE_PEERS=1` fails when there is no InfluxDB; otherwise its test is skipped and named.
//!   `NYALA_INFLUXD` names its server, else the search path and `~/go/bin` are tried.
//!
//! `testdata/influx/later` holds what nyala does not answer yet: it is played to InfluxDB only.

mod support;

use std::io::Write;
use std::path::PathBuf;

use support::cluster;
use support::peers;
use support::play::{self, Outcome};
use support::script::{self, Script};
use support::server::Program;

fn scripts(directory: &str) -> Vec<Script> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let root = root.canonicalize().expect("the test data is there");
    let filter = std::env::var("NYALA_SCRIPT").unwrap_or_default();
    script::load_directory(&root.join(directory), &filter)
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

/// Fails with every difference, after a line per script that had one.
fn judge(outcomes: &[Outcome]) {
    // A run of chosen scripts shows everything.
    let shown_failures = if std::env::var_os("NYALA_SCRIPT").is_some() { usize::MAX } else { 12 };
    let steps: usize = outcomes.iter().map(|o| o.steps).sum();
    let failed: usize = outcomes.iter().map(|o| o.failures.len()).sum();
    if failed == 0 {
        return;
    }
    let mut text = String::new();
    for outcome in outcomes.iter().filter(|o| !o.failures.is_empty()) {
        for failure in outcome.failures.iter().take(shown_failures) {
            text.push_str(failure);
            text.push('\n');
        }
        if outcome.failures.len() > shown_failures {
            let left_out = outcome.failures.len() - shown_failures;
            text.push_str(&format!("{}: … {left_out} more steps\n", outcome.name));
        }
    }
    for outcome in outcomes {
        let (name, bad, all) = (&outcome.name, outcome.failures.len(), outcome.steps);
        if bad > 0 {
            text.push_str(&format!("{name}: {bad} of {all} steps differ\n"));
        }
    }
    // Straight to the stream: a panic message of this size is unreadable in its quoted form.
    let _ = std::io::stderr().write_all(text.as_bytes());
    panic!("{failed} of {steps} steps in {} scripts differ (- expected, + actual)", outcomes.len());
}

#[test]
fn nyala_answers_as_influxdb_does() {
    if is_set("NYALA_REGENERATE") {
        return;
    }
    judge(&play::play_all(&Program::Nyala, &scripts("influx")));
}

/// Steps (by script and line) whose answers are others when the rows are in Kudu, for three reasons:
/// - A string may be longer than a cell of Kudu, which holds 65 536 bytes (`kudu.rs` has nyala's answer).
/// - A field keeps its type in a shard whose points were all deleted. So fields that InfluxDB forgets are still shown, and
///   cannot get another type there.
/// - EXPLAIN says what is asked of the servers.
const OTHERS_ON_KUDU: [(&str, &[u32]); 5] = [
    (
        "deletes",
        &[169, 183, 322, 338, 459, 561, 612, 735, 746, 788, 838, 1316, 1362, 1419, 1430, 1459, 1468, 1559],
    ),
    ("explain", &[19, 43, 69, 93, 117, 158, 205]),
    ("types_by_shard", &[337, 348, 353]),
    ("write_again", &[269]),
    ("write_limits", &[72, 77, 86, 95]),
];

#[test]
fn nyala_over_kudu_answers_as_influxdb_does() {
    if is_set("NYALA_REGENERATE") {
        return;
    }
    let Some(cluster) = cluster::start(1, 1) else { return };
    let program = Program::NyalaOnKudu(cluster.masters().to_vec());
    let mut outcomes = play::play_all(&program, &scripts("influx"));
    for outcome in &mut outcomes {
        let known = OTHERS_ON_KUDU.iter().find(|(script, _)| *script == outcome.name);
        let known = known.map_or(&[][..], |(_, lines)| lines);
        let is_known = |failure: &str| {
            known.iter().any(|line| failure.contains(&format!("{}.script:{line}: ", outcome.name)))
        };
        let others = outcome.failures.extract_if(.., |failure| is_known(failure)).count();
        assert_eq!(others, known.len(), "{}: steps are listed that answer as InfluxDB does", outcome.name);
    }
    judge(&outcomes);
}

#[test]
fn expected_answers_are_influxdbs() {
    assert!(
        peers::find_influxd().is_some() || !is_set("NYALA_REGENERATE"),
        "only InfluxDB writes expected answers: {}",
        peers::INFLUXD_REMEDY
    );
    let Some(influxd) = peers::influxd().map(Program::Influx) else { return };
    let mut all = scripts("influx");
    all.extend(scripts("influx/later"));
    let outcomes = play::play_all(&influxd, &all);
    if !is_set("NYALA_REGENERATE") {
        return judge(&outcomes);
    }
    for outcome in outcomes {
        let script = all.iter().find(|s| s.name == outcome.name);
        let script = script.expect("outcomes are of these scripts");
        assert!(outcome.errors.is_empty(), "{}", outcome.errors.join("\n"));
        let text = script.rewritten(&outcome.answers);
        std::fs::write(&script.path, text).expect("the script is writable");
    }
}
