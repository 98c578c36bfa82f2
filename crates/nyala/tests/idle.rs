//! Idle series that leave memory, through the real program: every statement answers as before.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use std::time::{Duration, Instant};

const SERIES: u64 = 20_000;
const STATEMENTS: &[&str] = &[
    "SELECT count(v), sum(v) FROM m GROUP BY zone",
    "SELECT v FROM m WHERE host = 'h77'",
    "SELECT * FROM m WHERE host =~ /^h1999.$/ AND time < 100000000000",
    "SELECT last(v) FROM m WHERE zone = 'z1' GROUP BY host SLIMIT 3",
    "SELECT max(s) FROM (SELECT sum(v) AS s FROM m WHERE time < 50000000000 GROUP BY host) GROUP BY zone",
    "SELECT mean(v) FROM m WHERE time >= 1600000000s GROUP BY zone, time(1h) fill(none)",
    "SELECT nothing FROM m",
    "SELECT v, extra FROM m WHERE extra = 'x' LIMIT 2",
    "SHOW TAG KEYS",
    "SHOW TAG KEYS FROM m WHERE host = 'h5'",
    "SHOW FIELD KEYS",
    "SHOW MEASUREMENTS",
    "SHOW MEASUREMENTS WHERE zone = 'z2'",
    "SHOW SERIES WHERE host = 'h3'",
    "SHOW SERIES FROM m WHERE time > 1600000000s LIMIT 2",
    "SHOW SERIES CARDINALITY",
    "SHOW SERIES EXACT CARDINALITY FROM m WHERE zone = 'z2'",
    "SHOW TAG VALUES FROM m WITH KEY = zone",
    "SHOW TAG VALUES FROM m WITH KEY = host WHERE zone = 'z3' LIMIT 3",
    "SHOW TAG VALUES EXACT CARDINALITY FROM m WITH KEY = host",
];

/// Lines of all series at a time, some seconds after 1970.
fn lines(seconds: u64) -> String {
    let line = |host: u64| {
        let extra = if host.is_multiple_of(5000) { ",extra=x" } else { "" };
        format!("m,host=h{host}{extra},zone=z{} v={host} {}\n", host % 4, seconds * 1_000_000_000)
    };
    (0..SERIES).map(line).collect()
}

fn wait_until_away(server: &Process, count: u64) {
    let begun = Instant::now();
    while server.metric("nyala_series_away") < count {
        assert!(begun.elapsed() < Duration::from_secs(120), "{} away", server.metric("nyala_series_away"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn answers(server: &Process) -> Vec<serde_json::Value> {
    STATEMENTS.iter().map(|statement| server.query(statement)).collect()
}

fn assert_answers(server: &Process, expected: &[serde_json::Value], when: &str) {
    for ((statement, answer), expected) in STATEMENTS.iter().zip(answers(server)).zip(expected) {
        assert_eq!(answer, *expected, "{statement} {when}");
    }
}

#[test]
fn idle_series_leave_memory_and_every_statement_answers_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Process::start(dir.path(), &["--series-idle-after", "0s"]);
    server.query("CREATE DATABASE d");
    for seconds in [10, 60] {
        assert_eq!(server.write(&lines(seconds)).status, 204);
    }
    let expected = answers(&server);
    assert!(expected.iter().all(|answer| answer["results"][0].get("error").is_none()), "{expected:?}");
    assert!(server.metric("nyala_series_away") == 0 && server.metric("nyala_series") == SERIES);
    server.kill();

    // They are on disk, so a kill changes nothing.
    let mut server = Process::start(dir.path(), &["--series-idle-after", "200ms"]);
    assert_eq!(server.query(STATEMENTS[1]), expected[1]);
    wait_until_away(&server, SERIES);
    assert_answers(&server, &expected, "when they were away");
    wait_until_away(&server, SERIES);
    server.kill();
    let server = Process::start(dir.path(), &["--series-idle-after", "200ms"]);
    assert_eq!(server.query("SHOW SERIES CARDINALITY"), expected[15]);
    assert_eq!(server.metric("nyala_series_away"), SERIES, "a start reads none of them");
    assert_eq!(
        server.query("SELECT v FROM m WHERE time > now() - 1h"),
        server.query("SELECT v FROM nothing")
    );
    assert_eq!(server.metric("nyala_series_away"), SERIES, "nor does a query of other times");
    assert_answers(&server, &expected, "after a start");

    // Writes and deletions find them.
    wait_until_away(&server, SERIES);
    assert_eq!(
        server.write("m,host=h77,zone=z1 v=5 60000000000\nm,host=h78,zone=z2 v=1 70000000000").status,
        204
    );
    assert_eq!(server.number("SELECT sum(v) FROM m WHERE host = 'h77'"), 77 + 5);
    assert_eq!(server.number("SELECT count(v) FROM m WHERE host = 'h78'"), 3);
    assert_eq!(server.query("SHOW SERIES CARDINALITY"), expected[15], "they are the same series");
    wait_until_away(&server, SERIES);
    assert_eq!(server.query("DROP SERIES FROM m WHERE zone = 'z1'"), server.query("DROP SERIES FROM none"));
    assert_eq!(server.number("SELECT count(v) FROM m"), 2 * (SERIES as i64 - SERIES as i64 / 4) + 1);
    // One series is in memory again; the others leave memory again.
    wait_until_away(&server, SERIES - SERIES / 4 - 1);
    server.query("DELETE FROM m");
    assert_eq!(server.query("SHOW SERIES"), server.query("SHOW SERIES FROM none"));
    assert_eq!((server.metric("nyala_series"), server.metric("nyala_series_away")), (0, 0));
    // Field types are free again, although an idle series had them.
    assert_eq!(server.write("m,host=h1 v=\"text\" 10000000000").status, 204);
    assert!(server.stop().success());
}
