//! Kills the real process at random moments while clients write and delete and the server flushes and compacts. Under
//! every sync policy, every acknowledged batch is there afterwards, and every batch is complete. Deleted, dropped or
//! expired points do not come back.
//!
//! `NYALA_CRASH_ROUNDS` sets how many times (24), `NYALA_CRASH_SEED` repeats a run.

#[path = "support/churn.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod churn;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use churn::Churn;
use process::Process;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

const WRITERS: usize = 3;
const BATCH_ROWS: usize = 200;
/// A writer cycles through this many keys, so that most batches overwrite rows.
const KEYS: usize = 40;
/// So long a slow machine may take to recover, to maintain the store, or to drop what has expired.
const WAIT: Duration = Duration::from_secs(120);
/// Every so many rounds a server lives until something was flushed and merged.
const ROUNDS_WITHOUT_MERGE_MAX: u64 = 8;
/// What is checked after a kill grows with the rounds before.
const ROUNDS_PER_DIRECTORY: usize = 48;
const HOUR_NS: i64 = 3_600_000_000_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// A kill loses nothing that was acknowledged, with any sync policy.
const POLICIES: [&str; 3] = ["always", "interval:10ms", "never"];

/// A server that flushes all the time, and therefore compacts.
fn start(data_dir: &Path, round: u64) -> Process {
    let policy = POLICIES[round as usize % POLICIES.len()];
    let server =
        Process::spawn(data_dir, &["--memory-limit", "64MiB", "--wal-limit", "1MiB", "--wal-sync", policy]);
    server.wait_until_ready(WAIT);
    server
}

/// Batch `number` of a writer: rows of several keys with the batch's number as their value, and rows that no other
/// batch writes.
fn batch(writer: usize, number: u64) -> String {
    let mut body = format!("mark,writer={writer} rows={BATCH_ROWS}i {number}\n");
    for row in 0..BATCH_ROWS {
        let key = (number as usize * 7 + row) % KEYS;
        let time = row / KEYS;
        body.push_str(&format!("state,writer={writer},key={key} batch={number}i,text=\"{number}\" {time}\n"));
        body.push_str(&format!(
            "history,writer={writer} batch={number}i {}\n",
            number as usize * BATCH_ROWS + row
        ));
    }
    body
}

/// Writes batches until the server is killed; returns the first batch that was not acknowledged.
fn write(server: &Process, writer: usize, first: u64) -> u64 {
    let mut number = first;
    loop {
        match server.send("POST", "/write?db=d", batch(writer, number).as_bytes()) {
            Ok(response) if response.status == 204 => number += 1,
            // Memory is full: the server says when to retry.
            Ok(response) if response.status == 503 => std::thread::sleep(Duration::from_millis(20)),
            Ok(response) => panic!("a write was answered with {}", response.status),
            Err(_) => return number,
        }
    }
}

fn numbers(server: &Process, query: &str) -> Vec<Vec<i64>> {
    let json = server.query(query);
    let result = &json["results"][0];
    assert!(result.get("error").is_none(), "{query}: {result}");
    let values = result["series"][0]["values"].as_array().cloned().unwrap_or_default();
    let row = |row: &serde_json::Value| {
        row.as_array().expect("a row").iter().map(|cell| cell.as_i64().expect("an integer")).collect()
    };
    values.iter().map(row).collect()
}

/// Checks one writer's rows; returns the first batch that is missing.
fn check(server: &Process, writer: usize, acknowledged: u64) -> u64 {
    let marks = numbers(server, &format!("SELECT rows FROM mark WHERE writer = '{writer}'"));
    let present = marks.len() as u64;
    let times: Vec<i64> = marks.iter().map(|row| row[0]).collect();
    assert_eq!(times, (0..present as i64).collect::<Vec<_>>(), "writer {writer}: batches without gaps");
    assert!(
        (acknowledged..=acknowledged + 1).contains(&present),
        "writer {writer}: {acknowledged} batches were acknowledged, {present} are there"
    );
    let mut rows_by_batch: BTreeMap<i64, usize> = BTreeMap::new();
    for row in numbers(server, &format!("SELECT batch FROM history WHERE writer = '{writer}'")) {
        assert_eq!(row[0] / BATCH_ROWS as i64, row[1]);
        *rows_by_batch.entry(row[1]).or_default() += 1;
    }
    assert_eq!(rows_by_batch.len() as u64, present, "writer {writer}: whole batches only");
    assert!(rows_by_batch.values().all(|rows| *rows == BATCH_ROWS), "writer {writer}: {rows_by_batch:?}");
    if let Some(last) = present.checked_sub(1) {
        let least =
            numbers(server, &format!("SELECT min(batch), max(batch) FROM state WHERE writer = '{writer}'"));
        // The last batch writes every key, so no row may be older.
        assert_eq!(least[0][1..], [last as i64, last as i64], "writer {writer}: the newest values");
    }
    present
}

/// A retention policy that is made shorter and longer again: expired points are dropped and do not come back.
struct Retention {
    /// The age in hours of the row of each round, and whether the row was found to be gone.
    gone: BTreeMap<u64, bool>,
    now_ns: i64,
}

impl Retention {
    fn new(server: &Process) -> Retention {
        server.query("CREATE DATABASE kept WITH DURATION 30d SHARD DURATION 1h NAME short");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        Retention { gone: BTreeMap::new(), now_ns: now.as_nanos() as i64 }
    }

    fn time_of(&self, round: u64) -> i64 {
        // From 5 hours on, an hour apart: each round has a shard of its own.
        self.now_ns - (5 + round as i64 % 600) * HOUR_NS
    }

    /// Writes the row of a round, and then makes the policy shorter or longer than its age.
    fn act(&mut self, server: &Process, round: u64) {
        server.query("ALTER RETENTION POLICY short ON kept DURATION 30d");
        let line = format!("row,round={round} v={round}i {}", self.time_of(round));
        let begun = Instant::now();
        loop {
            let written = server.send("POST", "/write?db=kept", line.as_bytes()).expect("an answer");
            // Memory may be full of what was recovered.
            if written.status != 503 || begun.elapsed() > WAIT {
                assert_eq!(written.status, 204, "{}", String::from_utf8_lossy(&written.body));
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.gone.insert(round, false);
        if round % 3 == 2 {
            server.query("ALTER RETENTION POLICY short ON kept DURATION 2h");
            self.gone.values_mut().for_each(|gone| *gone = true);
            // Expired shards are dropped at every start, and twice a minute.
        }
    }

    /// Soon after the start, rows within the policy are there, and expired rows are not.
    fn check(&self, server: &Process) {
        let begun = Instant::now();
        loop {
            let rows = numbers(server, "SELECT v FROM kept.short.row");
            let found: Vec<u64> = rows.iter().map(|row| row[1] as u64).collect();
            for (round, _) in self.gone.iter().filter(|(_, gone)| !**gone) {
                assert!(found.contains(round), "the row of round {round} is lost: {found:?}");
            }
            let outlived: Vec<_> = found.iter().filter(|round| self.gone.get(round) == Some(&true)).collect();
            if outlived.is_empty() {
                return;
            }
            assert!(begun.elapsed() < WAIT, "these rows have outlived their policy: {outlived:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Rounds of kills of one data directory; returns how many flushes and compactions there were.
fn kill_in_rounds(rounds: u64, seed: u64) -> (u64, u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut next = [0_u64; WRITERS];
    let mut server = start(&data_dir, 0);
    server.query("CREATE DATABASE d");
    let (mut churn, mut retention) = (Churn::new(&server), Retention::new(&server));
    let (mut flushes, mut compactions) = (0, 0);
    for round in 0..rounds {
        let words = format!("round {round}, NYALA_CRASH_SEED={seed}");
        retention.act(&server, round);
        let life = Duration::from_millis(random.random_range(20..700));
        let mut churn_random = SmallRng::seed_from_u64(random.random());
        std::thread::scope(|scope| {
            let running = &server;
            let writers: Vec<_> = next
                .iter()
                .enumerate()
                .map(|(writer, first)| {
                    let first = *first;
                    scope.spawn(move || write(running, writer, first))
                })
                .collect();
            let churner = scope.spawn(|| churn.act(running, &mut churn_random));
            std::thread::sleep(life);
            let counted = || {
                let count = |name: &str| server.metric(name);
                (flushes + count("nyala_flushes_total"), compactions + count("nyala_compactions_total"))
            };
            let (mut so_far, begun) = (counted(), Instant::now());
            let must_merge = round % ROUNDS_WITHOUT_MERGE_MAX == ROUNDS_WITHOUT_MERGE_MAX - 1;
            while must_merge && (so_far.0 == 0 || so_far.1 == 0) && begun.elapsed() < WAIT {
                std::thread::sleep(Duration::from_millis(20));
                so_far = counted();
            }
            (flushes, compactions) = so_far;
            server.kill_9();
            for (writer, handle) in writers.into_iter().enumerate() {
                next[writer] = handle.join().unwrap_or_else(|_| panic!("{words}: a writer failed"));
            }
            churner.join().unwrap_or_else(|_| panic!("{words}: the churner failed"));
        });
        server = start(&data_dir, round + 1);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (writer, next) in next.iter_mut().enumerate() {
                *next = check(&server, writer, *next);
            }
            churn.check(&server);
            retention.check(&server);
        }));
        assert!(checked.is_ok(), "{words}");
    }
    assert!(server.stop().success());
    let checked =
        std::process::Command::new(env!("CARGO_BIN_EXE_nyala")).arg("check").arg(&data_dir).output();
    let checked = checked.expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    (flushes, compactions)
}

#[test]
#[allow(clippy::print_stderr, reason = "long runs show progress")]
fn nothing_acknowledged_is_lost_and_nothing_deleted_comes_back() {
    let rounds = setting("NYALA_CRASH_ROUNDS", 24);
    let seed = setting("NYALA_CRASH_SEED", u64::from(std::process::id()));
    let (mut flushes, mut compactions) = (0, 0);
    for first in (0..rounds).step_by(ROUNDS_PER_DIRECTORY) {
        let own = (rounds - first).min(ROUNDS_PER_DIRECTORY as u64);
        let counted = kill_in_rounds(own, seed + first);
        (flushes, compactions) = (flushes + counted.0, compactions + counted.1);
        eprintln!("{} of {rounds} rounds of kills", first + own);
    }
    assert!(rounds < 20 || (flushes > 0 && compactions > 0), "{flushes} flushes, {compactions} compactions");
}
