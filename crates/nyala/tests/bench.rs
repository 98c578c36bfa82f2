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
