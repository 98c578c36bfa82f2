//! The real program with fewer file descriptors than it has shards and connections. This is a separate test program,
//! because processes inherit the limit.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fmt::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const OPEN_FILES_MAX: u64 = 160;
const MEASUREMENTS: u64 = 20;
const WEEKS: u64 = 30;
const WEEK_S: u64 = 7 * 86400;

#[test]
fn many_shards_and_connections_work_with_few_descriptors() {
    let limit = Rlimit { current: Some(OPEN_FILES_MAX / 2), maximum: Some(OPEN_FILES_MAX) };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered");
    let directory = tempfile::tempdir().expect("a directory");
    // The smallest log limit, so that rows are flushed often.
    let server = Process::start(directory.path(), &["--wal-limit", "4MiB"]);
    server.query("CREATE DATABASE d");
    // Beyond half of the limit connections wait, and leave descriptors to the store.
    let idle: Vec<_> = (0..50).map(|_| TcpStream::connect(server.address).expect("connects")).collect();
    let mut rounds = 0;
    let begun = Instant::now();
    while server.metric("nyala_flushes_total") < 4 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it flushes: {}", server.log());
        let mut lines = String::new();
        for measurement in 0..MEASUREMENTS {
            for week in 0..WEEKS {
                let (time_s, text) = (week * WEEK_S + rounds, "x".repeat(1000));
                writeln!(lines, "m{measurement},host=a v={rounds}i,t=\"{text}\" {time_s}000000000")
                    .expect("writing to memory does not fail");
            }
        }
        let response = server.write(&lines);
        assert_eq!(response.status, 204, "{}", String::from_utf8_lossy(&response.body));
        rounds += 1;
    }
    for measurement in 0..MEASUREMENTS {
        let counted = server.number(&format!("SELECT count(v) FROM m{measurement}"));
        assert_eq!(counted as u64, WEEKS * rounds);
    }
    assert_eq!(server.metric("nyala_flush_failures_total"), 0, "{}", server.log());
    drop(idle);
    assert!(server.stop().success());
}
