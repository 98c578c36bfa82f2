//! Runs small benchmarks with `--verify`, which checks every answer.

use std::path::Path;
use std::process::Command;

fn verified(arguments: &[&str]) {
    let shown = shown(&[arguments, &["--verify"]].concat());
    assert!(shown.contains(", 0 wrong"), "it says what it verified: {shown}");
}

/// What a benchmark prints.
fn shown(arguments: &[&str]) -> String {
    // So little memory that rowsets are flushed and merged while rows arrive. An unoptimised build holds up to 21 MiB beside
    // the account, so at 64 MiB one query in many runs found too little.
    shown_within("80MiB", arguments)
}

fn shown_within(memory_limit: &str, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .arg("bench")
        .args(arguments)
        .env("NYALA_MEMORY_LIMIT", memory_limit)
        .current_dir(directory.path())
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn late_rows_of_many_series_are_stored_exactly_once() {
    verified(&["narrow", "--series", "5000", "--interval", "10s", "--duration", "30m", "--settle", "1s"]);
}

#[test]
fn all_tsbs_queries_are_answered_as_computed_independently_in_influxql_and_in_sql() {
    let queries = ["--query-count", "3", "--language", "own,sql"];
    verified(&[&["tsbs", "--scale", "10", "--duration", "13h"][..], &queries].concat());
}

#[test]
fn ycsb_runs_in_sql() {
    let rows = ["--rows", "500", "--fields", "2", "--field-bytes", "10", "--batch", "7", "--threads", "2"];
    let shown = shown(&[&["ycsb", "--seconds", "1s", "a", "d", "e", "f", "upsert"][..], &rows].concat());
    for phase in ["load: ", "a: ", "d: ", "e: ", "f: ", "upsert: "] {
        assert!(shown.contains(&format!("\n{phase}")) || shown.starts_with(phase), "{phase} in {shown}");
    }
}

/// Asks a benchmark's queries and compares with answers that DuckDB has given. `NYALA_RECORD=1` has it answer again: the one of
/// the Python that `NYALA_PYTHON` names.
fn answered_as_by_duckdb(arguments: &[&str], recording: &str, queries: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/duckdb").join(recording);
    let path = path.to_str().expect("a path in UTF-8");
    let python = std::env::var("NYALA_PYTHON").unwrap_or("python3".to_owned());
    let judge = match std::env::var_os("NYALA_RECORD").is_some_and(|value| value == "1") {
        true => vec!["--duckdb", &python, "--record", path],
        false => vec!["--expected", path],
    };
    let arguments = [&["sql"], arguments, &["--no-cold", "--warm", "0"], &judge].concat();
    // Joins keep a side in memory.
    let shown = shown_within("192MiB", &arguments);
    let summary = format!("{queries} queries, {queries} answers equal, 0 wrong or refused");
    assert!(shown.contains(&summary), "{shown}");
}

#[test]
fn all_queries_of_tpch_are_answered_as_by_duckdb() {
    answered_as_by_duckdb(&["tpch", "--scale", "0.01"], "tpch.json", 22);
}

#[test]
fn a_star_is_joined_as_by_duckdb_and_changed_and_read_out() {
    let small = ["--rows", "3000", "--columns", "100", "--operations", "3", "--update-percent", "0"];
    answered_as_by_duckdb(&[&["star"], &small[..]].concat(), "star.json", 7);
}

/// What a page of YCSB has of each phase.
const YCSB_PLOTS: [&str; 15] = [
    "Throughput",
    "Median latency",
    "95th percentile of latency",
    "99th percentile of latency",
    "Slowest action",
    "Memory in use, as the server counts it",
    "Resident memory",
    "Flushed",
    "Merged",
    "Rejected writes",
    "Slowed writes",
    "Bloom filter look-ups",
    "Write amplification, as the system counts",
    "Write amplification, as the server counts",
    "Distribution of latency: insert",
];

#[test]
fn ycsb_draws_what_happened_with_each_setting() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (json, html, both) = (path("ycsb.json"), path("ycsb.html"), path("both.html"));
    // Four times the log, so that rows are flushed while they are loaded.
    let rows = ["ycsb", "--rows", "4000", "--threads", "4", "--set", "wal-limit=1MiB", "--seconds", "2s"];
    let sweep = ["--sweep", "maintenance-threads=1,2", "--json", &json, "--html", &html];
    shown(&[&rows[..], &sweep, &["--requests", "uniform", "a"]].concat());

    let page = std::fs::read_to_string(&html).expect("a page");
    let phases: Vec<&str> = page.split("<h2>").skip(1).collect();
    assert_eq!(phases.len(), 2, "loading, and a workload");
    for plot in YCSB_PLOTS {
        let title = format!("<h3>{plot}</h3><svg");
        assert!(phases[0].contains(&title), "{plot} is not drawn of loading");
        assert!(phases[1].contains(&title) || plot.ends_with("insert"), "{plot} is not drawn of a workload");
    }
    for name in ["maintenance-threads 1", "maintenance-threads 2"] {
        assert!(page.contains(&format!("<b>{name}</b>")), "{name}");
    }
    let text = std::fs::read_to_string(&json).expect("a file");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for run in report["runs"].as_array().expect("runs") {
        let phases = run["results"].as_array().expect("phases");
        let sum = |member: &str| -> f64 {
            let windows = phases.iter().flat_map(|phase| phase["windows"].as_array().expect("windows"));
            windows.map(|window| window[member].as_f64().unwrap_or(0.0)).sum()
        };
        assert_eq!(phases[0]["actions"], 4000, "{run}");
        // A busy machine may end a flush of loaded rows while they are read; then filters are asked for them.
        assert!(sum("flushed_bytes_per_second") > 0.0 && sum("memory_bytes") > 0.0, "{run}");
        assert!(sum("store_write_amplification") > 1.0, "{run}");
        assert!(sum("filter_lookups_per_action") > 0.0, "{run}");
    }

    // A later run beside the earlier ones.
    let again =
        ["ycsb", "--rows", "200", "--batch", "1", "--label", "single", "--beside", &json, "--html", &both];
    shown(&again);
    let page = std::fs::read_to_string(&both).expect("a page");
    for name in ["single", "maintenance-threads 1", "maintenance-threads 2"] {
        assert!(page.contains(&format!("<b>{name}</b>")), "{name}");
    }

    let wrong = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["bench", "ycsb", "--rows", "10", "--sweep", "no-such-setting=1"])
        .current_dir(directory.path())
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("--no-such-setting"), "{said}");
}

#[test]
fn corrections_change_what_they_say_and_nothing_else() {
    let small =
        ["--scale", "10", "--duration", "1h", "--query-count", "3", "--heavy-count", "1", "--settle", "1s"];
    let shown = shown(&[&["corrections", "--batch-size", "500"][..], &small].concat());
    for part in ["update of one series", "delete by field value while loading", ", 0 wrong"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}
