//! Tests that need a peer: another program to compare with, or something of the system. Tests of all crates include
//! this file, so that a peer that is missing is treated in one way.
//!
//! With `NYALA_REQUIRE_PEERS=1` a missing peer fails the test. Otherwise the test is skipped, which it says at once,
//! and `xtask/tests/zz_peers.rs`, the last program that `cargo test --workspace --no-fail-fast` runs, names all skipped tests again.
//! They are recorded in cargo's directory for tests, under the process id and start time of the cargo that runs them.

#![allow(dead_code, reason = "each program uses its part")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// The peer of most tests, and how to get it.
pub const INFLUXD: &str = "InfluxDB 1.8.10";
/// How to get it.
pub const INFLUXD_REMEDY: &str =
    "go install github.com/influxdata/influxdb/cmd/influxd@v1.8.10, or set NYALA_INFLUXD";

/// What was found of a peer, or `None` after the test was recorded as skipped. `remedy` says how to get the peer.
pub fn require<T>(peer: &str, remedy: &str, found: Option<T>) -> Option<T> {
    if found.is_none() {
        skip(peer, remedy);
    }
    found
}

/// InfluxDB's server, as [`require`] says.
pub fn influxd() -> Option<PathBuf> {
    require(INFLUXD, INFLUXD_REMEDY, find_influxd())
}

/// InfluxDB's server, and whether it was built with unsigned integers. If it was not, that part of the test is recorded as
/// skipped.
pub fn influxd_with_unsigned() -> Option<(PathBuf, bool)> {
    if let Some(path) = named("NYALA_INFLUXD_UNSIGNED") {
        return Some((path, true));
    }
    let found = influxd()?;
    let remedy = "go install -tags uint64 github.com/influxdata/influxdb/cmd/influxd@v1.8.10 to another place, and name it \
                  in NYALA_INFLUXD_UNSIGNED";
    let peer = "InfluxDB 1.8.10 that was built with unsigned integers";
    check_not_required(peer, remedy);
    note(peer, remedy, "unsigned integers of ");
    Some((found, false))
}

/// InfluxDB's server: what `NYALA_INFLUXD` names, else one of the search path, else the one where Go installs it.
pub fn find_influxd() -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let of_go = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    let mut places = std::env::split_paths(&search).chain(of_go).map(|place| place.join("influxd"));
    named("NYALA_INFLUXD").or_else(|| places.find(|program| program.is_file()))
}

/// The program that a variable names.
fn named(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from)?;
    assert!(path.is_file(), "{variable} names no file: {path:?}");
    Some(path)
}

/// Says that the test of this thread is skipped, and records it.
pub fn skip(peer: &str, remedy: &str) {
    check_not_required(peer, remedy);
    note(peer, remedy, "");
}

/// The same for a peer that nobody is required to have.
pub fn pass_over(peer: &str, remedy: &str) {
    note(peer, remedy, "");
}

fn check_not_required(peer: &str, remedy: &str) {
    let required = std::env::var_os("NYALA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(!required, "NYALA_REQUIRE_PEERS=1, but there is no {peer}: {remedy}");
}

/// Tells of the test of this thread that it, or a part of it, is skipped.
fn note(peer: &str, remedy: &str, part: &str) {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _hash)| name);
    // A test's thread has its name.
    let test = format!("{part}{program}: {}", std::thread::current().name().unwrap_or("a test"));
    // Not by a macro: what those print is shown of tests that fail only.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no {peer} ({remedy})");
    let _ = record(peer, remedy, &test);
}

/// Whether a program can be started with these arguments and ends well.
pub fn works(program: &str, arguments: &[&str]) -> bool {
    let output = std::process::Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn record(peer: &str, remedy: &str, test: &str) -> std::io::Result<()> {
    let directory = records();
    std::fs::create_dir_all(&directory)?;
    let name: String =
        test.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    std::fs::write(directory.join(name), format!("{peer}\n{remedy}\n{test}\n"))
}

/// Where the tests of this run are recorded that were skipped.
pub fn records() -> PathBuf {
    let parent = std::os::unix::process::parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    // The twentieth field behind the name of the program, which may hold anything.
    let started = stat.rsplit(')').next().and_then(|fields| fields.split_whitespace().nth(19));
    let started = started.unwrap_or("0");
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("skipped-tests/{parent}-{started}"))
}
