//! Runs small benchmarks with `--verify`, which checks every answer.

use std::process::Command;

fn verified(arguments: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .arg("bench")
        .args(arguments)
        .arg("--verify")
        // So little memory that rowsets are flushed and merged while rows arrive. An unoptimised build holds up to 21 MiB beside
        // the account, so at 64 MiB one query in many runs found too little.
        .env("NYALA_MEMORY_LIMIT", "80MiB")
        .current_dir(directory.path())
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains(", 0 wrong"), "it says what it verified: {}", text(&output.stdout));
}

#[test]
fn late_rows_of_many_series_are_stored_exactly_once() {
    verified(&["narrow", "--series", "5000", "--interval", "10s", "--duration", "30m", "--settle", "1s"]);
}

#[test]
fn all_tsbs_queries_are_answered_as_computed_independently() {
    verified(&["tsbs", "--scale", "10", "--duration", "13h", "--query-count", "3"]);
}
