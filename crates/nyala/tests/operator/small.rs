//! The smallest memory limit: everything works that needs little memory.

use crate::process::Process;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Writes lines. As long as flushes are behind, memory may be full.
fn store(server: &Process, lines: &str) {
    let begun = Instant::now();
    loop {
        match server.write(lines).status {
            204 => return,
            503 => assert!(begun.elapsed() < Duration::from_secs(180), "{}", server.log()),
            other => panic!("{other}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn everything_works_at_the_least_memory_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB"]);
    let ok = |query: &str| {
        let answer = server.query(query);
        assert!(answer["results"][0]["error"].is_null(), "{query}: {answer}");
        answer
    };
    ok("CREATE DATABASE d");
    for batch in 0..10_i64 {
        let mut lines = String::new();
        for row in 0..20_000 {
            let second = batch * 20_000 + row;
            writeln!(lines, "cpu,host=h{} v={row},w=1i {}", row % 50, second * 1_000_000_000)
                .expect("memory");
        }
        assert!(lines.len() > 700_000, "a write of about a megabyte");
        store(&server, &lines);
    }
    assert_eq!(server.number("SELECT count(v) FROM cpu"), 200_000);
    assert_eq!(server.number("SELECT * INTO copy FROM cpu GROUP BY *"), 200_000);
    assert_eq!(server.number("SELECT sum(w) FROM copy"), 200_000);
    let written = server.number(
        "SELECT mean(v), max(v) INTO m5 FROM cpu WHERE time >= 0 AND time < 200000s GROUP BY time(5m), host",
    );
    assert_eq!(written, server.number("SELECT sum(n) FROM (SELECT count(mean) AS n FROM m5 GROUP BY host)"));
    // Long lines.
    let long = "x".repeat(60_000);
    for number in 0..20 {
        store(&server, &format!("wide s=\"{long}\" {number}"));
    }
    assert_eq!(server.number("SELECT * INTO wide2 FROM wide"), 20);
    let groups =
        ok("SELECT mean(v), percentile(v, 90) FROM cpu WHERE time < 20000s GROUP BY time(10m), host");
    assert_eq!(groups["results"][0]["series"].as_array().map(Vec::len), Some(50));
    ok("CREATE CONTINUOUS QUERY c ON d BEGIN SELECT mean(v) INTO cq FROM now GROUP BY time(1s), * END");
    let mut computed = 0;
    for _ in 0..600 {
        store(&server, "now,host=a v=1");
        computed = server.number("SELECT count(mean) FROM cq");
        if computed > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(computed > 0, "{}", server.log());
    ok("DELETE FROM cpu WHERE time < 1000s");
    ok("DELETE FROM cpu WHERE host = 'h2'");
    ok("DROP SERIES FROM cpu WHERE host = 'h1'");
    assert_eq!(server.number("SELECT count(v) FROM cpu"), 48 * (200_000 - 1_000) / 50);
    ok("DROP MEASUREMENT copy");
    ok("DROP DATABASE d");
    server.assert_within_memory_limit(64);
    assert!(server.stop().success());
}

/// A file of each measurement and week, whose footer says of 300 columns where they are.
#[test]
fn footers_of_many_files_stay_within_the_least_memory_limit() {
    const MEASUREMENTS: i64 = 16;
    const WEEKS: i64 = 25;
    let directory = tempfile::tempdir().expect("a directory");
    let start = || {
        Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB", "--wal-limit", "4MiB"])
    };
    let server = start();
    server.query("CREATE DATABASE d");
    let (mut rounds, begun) = (0, Instant::now());
    while server.metric("nyala_flushes_total") < 2 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it flushes: {}", server.log());
        // More than enough for two flushes.
        if rounds == 20 {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        }
        for week in 0..WEEKS {
            let mut lines = String::new();
            for measurement in 0..MEASUREMENTS {
                let fields = (0..300).fold(String::new(), |mut fields, field| {
                    write!(fields, "{}f{field}={}i", if field == 0 { "" } else { "," }, week + field)
                        .expect("memory");
                    fields
                });
                let time_s = week * 7 * 86_400 + rounds;
                writeln!(lines, "m{measurement} {fields} {time_s}000000000").expect("memory");
            }
            store(&server, &lines);
        }
        rounds += 1;
    }
    assert!(server.stop().success());
    let server = start();
    let sum_of = |field: i64| (0..WEEKS).map(|week| (week + field) * rounds).sum::<i64>();
    let mut index_bytes = 0;
    for _ in 0..2 {
        for measurement in 0..MEASUREMENTS {
            let sum = server.number(&format!("SELECT sum(f299) FROM m{measurement}"));
            assert_eq!(sum, sum_of(299));
            index_bytes = index_bytes.max(server.metric("nyala_memory_bytes{component=\"rowset_index\"}"));
        }
    }
    // They do not all fit: what is kept has a bound, and is charged.
    assert!((1 << 20..8 << 20).contains(&index_bytes), "{index_bytes} bytes of footers");
    server.assert_within_memory_limit(64);
    assert!(server.stop().success());
}

#[test]
fn one_more_thread_flushes_unless_there_is_little_memory() {
    for (limit, flushes) in [(None, true), (Some("256MiB"), true), (Some("128MiB"), false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments: Vec<&str> = limit.iter().flat_map(|limit| ["--memory-limit", limit]).collect();
        let server = Process::start(&directory.path().join("data"), &arguments);
        let has = |wanted: &str| server.threads().iter().any(|name| name == wanted);
        // A thread gets its name when it begins to run.
        let begun = Instant::now();
        while !has("nyala-work-0") || (flushes && !has("nyala-flush")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{limit:?}: {:?}", server.threads());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(has("nyala-flush"), flushes, "{limit:?}: {:?}", server.threads());
    }
}
