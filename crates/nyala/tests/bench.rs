//! Runs small benchmarks with `--verify`, which checks every answer.

use std::process::Command;

fn verified(arguments: &[&str]) {
    let shown = shown(&[arguments, &["--verify"]].concat());
    assert!(shown.contains(", 0 wrong"), "it says what it verified: {shown}");
}

/// What a benchmark prints.
fn shown(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .arg("bench")
        .args(arguments)
        // So little memory that rowsets are flushed and merged while rows arrive. An unoptimised build holds up to 21 MiB beside
        // the account, so at 64 MiB one query in many runs found too little.
        .env("NYALA_MEMORY_LIMIT", "80MiB")
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
