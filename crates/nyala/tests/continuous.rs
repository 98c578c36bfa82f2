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
    /// Points are ahead of the clock, so that they are stored before their window ends, though a request may take long.
    const AHEAD_NS: i64 = 5 * SECOND_NS;
    const WAIT: Duration = Duration::from_secs(120);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    server.query(
        "CREATE CONTINUOUS QUERY c ON d BEGIN SELECT count(v) AS n INTO counted FROM m GROUP BY time(1s) END",
    );
    let begun = Instant::now();
    // How many points of a second were stored before it was over, and how many there are.
    let mut written: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut kills = 0;
    while begun.elapsed() < Duration::from_secs(7) || kills < 2 || written.len() < 5 {
        assert!(begun.elapsed() < WAIT, "{kills} kills, {written:?}");
        let time_ns = now_ns() + AHEAD_NS;
        assert_eq!(server.write(&format!("m v=1i {time_ns}")).status, 204);
        let second = time_ns.div_euclid(SECOND_NS);
        let (in_time, all) = written.entry(second).or_default();
        *in_time += i64::from(now_ns() < (second + 1) * SECOND_NS);
        *all += 1;
        std::thread::sleep(Duration::from_millis(25));
        if begun.elapsed() > Duration::from_secs(2 * (kills + 1)) && kills < 2 {
            kills += 1;
            server.kill();
            std::thread::sleep(Duration::from_millis(1_300));
            server = Process::start(&data_dir, &[]);
        }
    }
    let last = *written.iter().rfind(|(_, (in_time, _))| *in_time > 0).expect("a point was in time").0;
    let begun = Instant::now();
    let counted = loop {
        let counted = rows(&server, "SELECT n FROM counted");
        if counted.last().is_some_and(|(time_ns, _)| *time_ns >= last * SECOND_NS) {
            break counted;
        }
        assert!(begun.elapsed() < WAIT, "the last window is missing: {counted:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let counted = counted.into_iter().filter(|(_, count)| *count > 0);
    let shown: BTreeMap<i64, i64> = counted.map(|(time_ns, count)| (time_ns / SECOND_NS, count)).collect();
    // The first windows may have ended before the query was seen for the first time.
    let first = *shown.keys().next().expect("a window");
    for (second, (in_time, all)) in written.range(first..=last) {
        let count = shown.get(second).copied().unwrap_or(0);
        assert!((*in_time..=*all).contains(&count), "{second}: {count} of {written:?} in {shown:?}");
    }
    assert!(shown.keys().all(|second| written.contains_key(second)), "{shown:?} of {written:?}");
    assert!(shown.len() >= 3, "{shown:?}");
    server.query("DROP CONTINUOUS QUERY c ON d");
    // A run that had begun before may still go on, with windows that had ended before.
    let dropped_ns = now_ns().div_euclid(SECOND_NS) * SECOND_NS;
    assert_eq!(server.write(&format!("m v=1i {}", dropped_ns + SECOND_NS)).status, 204);
    std::thread::sleep(Duration::from_millis(4_500));
    let rows = rows(&server, "SELECT n FROM counted");
    let later: Vec<_> = rows.iter().filter(|(time_ns, _)| *time_ns >= dropped_ns).collect();
    assert!(later.is_empty(), "it is dropped: {later:?}");
}
