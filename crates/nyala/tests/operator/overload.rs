//! More writers and heavy queries at once than the memory has room for.

use crate::client::percent_encode;
use crate::process::Process;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 6;
const READERS: u64 = 6;
const BATCH_LINES: u64 = 2_000;
const OVERLOADED_FOR: Duration = Duration::from_secs(8);

/// Rows of one writer: 100 hosts, ten fields.
fn batch(writer: u64, number: u64) -> String {
    (0..BATCH_LINES).fold(String::new(), |mut lines, line| {
        let row = number * BATCH_LINES + line;
        write!(lines, "cpu,writer=w{writer},host=h{} n=1i", row % 100).expect("memory");
        (0..9).for_each(|field| write!(lines, ",f{field}={}.{field}", row % 97).expect("memory"));
        writeln!(lines, " {}0000000", row).expect("memory");
        lines
    })
}

#[test]
fn overload_stays_within_the_memory_limit_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(&batch(WRITERS, 0)).status, 204);
    let (is_over, batches, refused) = (AtomicBool::new(false), AtomicU64::new(1), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, is_over, batches, refused) = (&server, &is_over, &batches, &refused);
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let lines = batch(writer, number);
                    // The same rows again: what a refused batch has stored counts once.
                    loop {
                        match server.write(&lines).status {
                            204 => break,
                            503 => refused.fetch_add(1, Ordering::Relaxed),
                            other => panic!("{other}"),
                        };
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    batches.fetch_add(1, Ordering::Relaxed);
                    number += 1;
                }
            });
        }
        for reader in 0..READERS {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let heavy = [
                    "SELECT mean(f0), mean(f1), max(f3) FROM cpu WHERE time >= 0 AND time < 1000s GROUP BY time(1s), host, writer",
                    "SELECT percentile(f4, 95) FROM cpu GROUP BY host",
                    "SELECT * FROM cpu WHERE f5 > 90 ORDER BY time DESC LIMIT 20000",
                ][reader as usize % 3];
                while !is_over.load(Ordering::Relaxed) {
                    // An answer, or words about memory, or one that breaks off because there was none left for the rest.
                    let target = format!("/query?db=d&q={}", percent_encode(heavy));
                    let Ok(answer) = server.send("POST", &target, b"") else { continue };
                    let text = String::from_utf8_lossy(&answer.body);
                    let error = text.split("\"error\":").nth(1).unwrap_or("");
                    assert!(error.is_empty() || error.contains("memory"), "{error}");
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < OVERLOADED_FOR {
            std::thread::sleep(Duration::from_millis(100));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let rows = batches.into_inner() * BATCH_LINES;
    assert!(rows > BATCH_LINES * WRITERS, "each writer came through, beside {refused:?} that were refused");
    // Until what was written last is in files, there may be no memory for a query.
    let (count, begun) = ("SELECT count(n) FROM cpu", Instant::now());
    while server.query(count).to_string().contains("usable memory is ") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.number(count), rows as i64);
    server.assert_within_memory_limit(64);
    assert!(server.stop().success());
}
