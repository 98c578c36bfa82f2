//! Continuous queries, run by the real program: every window has a result, however often the server is killed.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_nanos() as i64
}

/// Times and values of a query's first series.
fn rows(server: &Process, query: &str) -> Vec<(i64, i64)> {
    let answer = server.query(query);
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| (row[0].as_i64().expect("a time"), row[1].as_i64().expect("a number"))).collect()
}

#[test]
fn every_window_has_one_result_across_kills() {
    const SECOND_NS: i64 = 1_000_000_000;
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    server.query(
        "CREATE CONTINUOUS QUERY c ON d BEGIN SELECT count(v) AS n INTO counted FROM m GROUP BY time(1s) END",
    );
    let begun = Instant::now();
    let mut written: BTreeMap<i64, i64> = BTreeMap::new();
    let mut kills = 0;
    while begun.elapsed() < Duration::from_secs(7) {
        let time_ns = now_ns();
        // Points are late or early by no more than the time a request takes.
        assert_eq!(server.write(&format!("m v=1i {time_ns}")).status, 204);
        *written.entry(time_ns.div_euclid(SECOND_NS)).or_default() += 1;
        std::thread::sleep(Duration::from_millis(25));
        if begun.elapsed() > Duration::from_secs(2 * (kills + 1)) && kills < 2 {
            kills += 1;
            server.kill();
            std::thread::sleep(Duration::from_millis(1_300));
            server = Process::start(&data_dir, &[]);
        }
    }
    let last = *written.keys().last().expect("something was written");
    let deadline = Instant::now() + Duration::from_secs(10);
    let counted = loop {
        let counted = rows(&server, "SELECT n FROM counted");
        if counted.last().is_some_and(|(time_ns, _)| *time_ns >= last * SECOND_NS) {
            break counted;
        }
        assert!(Instant::now() < deadline, "the last window is missing: {counted:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    // The first window may have begun before the query existed.
    let first = counted[0].0 / SECOND_NS;
    let expected: Vec<(i64, i64)> =
        written.range(first..).map(|(second, count)| (second * SECOND_NS, *count)).collect();
    let shown: Vec<(i64, i64)> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(shown, expected);
    assert!(shown.len() >= 3, "{shown:?}");
    server.query("DROP CONTINUOUS QUERY c ON d");
    std::thread::sleep(Duration::from_millis(1_200));
    let before = rows(&server, "SELECT n FROM counted").len();
    assert_eq!(server.write(&format!("m v=1i {}", now_ns())).status, 204);
    std::thread::sleep(Duration::from_millis(2_300));
    assert_eq!(rows(&server, "SELECT n FROM counted").len(), before, "it is dropped");
}
