//! Two daemons over a replicated cluster of Apache Kudu (3 masters, 3 tablet servers), of which one process after the
//! other is killed or frozen while both daemons are written to and read.
//!
//! What is checked, in the order of real time, in the spirit of Jepsen's register test:
//! - A writer numbers what it writes. A read that begins after number n was acknowledged, through whichever daemon, finds
//!   all numbers up to n, each once, in every series, and none that nobody has sent.
//! - A register (one point that is written again and again) never shows a value older than the last acknowledged one.
//! - When a fault is over, every writer goes on.
//!
//! `NYALA_FAULT_ROUNDS` sets the number of faults, `NYALA_FAULT_SEED` the choice of them.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/cluster.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::{Request, Response, percent_encode};
use kudu_client::test_cluster::{ClusterOptions, Daemon, TestCluster};
use process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 3;
/// Series that each writer writes each number to. They lie in both hash buckets.
const SERIES: usize = 6;
/// How long a process is dead or frozen. Kudu elects another leader within a few seconds.
const FAULT: Duration = Duration::from_secs(6);
/// How long the writers may take to go on after a fault, which is seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What a writer has done.
#[derive(Default)]
struct Written {
    /// The last number that was sent.
    sent: AtomicI64,
    /// The last number that was acknowledged.
    acknowledged: AtomicI64,
}

/// What happened in all.
#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    failed_writes: AtomicU64,
    reads: AtomicU64,
    failed_reads: AtomicU64,
}

struct Run {
    daemons: Vec<SocketAddr>,
    written: [Written; WRITERS],
    counts: Counts,
    writers_stop: AtomicBool,
    readers_stop: AtomicBool,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn send(address: SocketAddr, target: String, body: &str) -> Result<Response, String> {
    let (method, body) = ("POST".to_owned(), body.as_bytes().to_vec());
    client::send(address, &Request { method, target, headers: Vec::new(), body })
}

/// The series of a query's answer; `None` if it was not answered.
fn series(address: SocketAddr, statement: &str) -> Option<Vec<Value>> {
    let target = format!("/query?db=d&epoch=ns&q={}", percent_encode(statement));
    let answer = send(address, target, "").ok().filter(|answer| answer.status == 200)?;
    let answer: Value = serde_json::from_slice(&answer.body).ok()?;
    let result = &answer["results"][0];
    let is_answered = result.get("error").is_none() && result.get("statement_id").is_some();
    is_answered.then(|| result["series"].as_array().cloned().unwrap_or_default())
}

impl Run {
    /// Writes numbers from 1 on, each to several series and to a register, until it is told to stop. A number that was not
    /// acknowledged is sent again, perhaps to the other daemon.
    fn write(&self, writer: usize) {
        let mut random = StdRng::seed_from_u64(writer as u64);
        for number in 1.. {
            if self.writers_stop.load(Ordering::Relaxed) {
                return;
            }
            self.written[writer].sent.store(number, Ordering::SeqCst);
            let mut lines = format!("register,writer=w{writer} v={number}i 1\n");
            for part in 0..SERIES {
                lines.push_str(&format!("m,writer=w{writer},part=p{part} v={number}i {number}\n"));
            }
            // Each number also brings a series, so that ids are given under faults.
            lines.push_str(&format!("born,writer=w{writer},number=n{number} v=1i 1\n"));
            loop {
                let daemon = self.daemons[random.random_range(0..self.daemons.len())];
                count(&self.counts.writes);
                match send(daemon, "/write?db=d".to_owned(), &lines) {
                    Ok(answer) if answer.status == 204 => break,
                    Ok(answer) => {
                        let words = String::from_utf8_lossy(&answer.body).into_owned();
                        assert!(answer.status >= 500, "{}: {words}", answer.status);
                    }
                    Err(_) => {}
                }
                count(&self.counts.failed_writes);
                std::thread::sleep(Duration::from_millis(50));
            }
            self.written[writer].acknowledged.store(number, Ordering::SeqCst);
        }
    }

    /// Reads through both daemons until it is told to stop.
    fn read(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(100 + seed);
        while !self.readers_stop.load(Ordering::Relaxed) {
            let daemon = self.daemons[random.random_range(0..self.daemons.len())];
            self.check(daemon, random.random_range(0..WRITERS));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One read of what a writer wrote. Returns whether it was answered.
    fn check(&self, daemon: SocketAddr, writer: usize) -> bool {
        let acknowledged = self.written[writer].acknowledged.load(Ordering::SeqCst);
        let of_writer = format!("FROM {{}} WHERE writer = 'w{writer}'");
        let ask = |what: &str, measurement: &str, rest: &str| {
            count(&self.counts.reads);
            let found =
                series(daemon, &format!("SELECT {what} {} {rest}", of_writer.replace("{}", measurement)));
            if found.is_none() {
                count(&self.counts.failed_reads);
            }
            found
        };
        let numbers = ask("count(v), max(v), sum(v)", "m", "GROUP BY part");
        let sent = self.written[writer].sent.load(Ordering::SeqCst);
        let mut all = numbers.is_some();
        for series in numbers.iter().flatten() {
            let number = |column: usize| series["values"][0][column].as_i64().expect("a number");
            let (found, greatest, sum) = (number(1), number(2), number(3));
            let context = format!("{daemon} writer {writer}, {acknowledged}..={sent}: {series}");
            assert!((acknowledged..=sent).contains(&found), "{context}");
            assert!(greatest == found && sum == found * (found + 1) / 2, "a gap: {context}");
        }
        if acknowledged > 0 && all {
            assert_eq!(numbers.map_or(0, |series| series.len()), SERIES, "{daemon} writer {writer}");
        }
        let acknowledged = self.written[writer].acknowledged.load(Ordering::SeqCst);
        for (what, measurement) in [("last(v)", "register"), ("sum(v)", "born")] {
            let found = ask(what, measurement, "");
            let sent = self.written[writer].sent.load(Ordering::SeqCst);
            all &= found.is_some();
            if let Some(series) = found {
                let found = series.first().map_or(0, |series| series["values"][0][1].as_i64().unwrap_or(0));
                let context = format!("{daemon} {measurement} of writer {writer}: {found}");
                assert!((acknowledged..=sent).contains(&found), "{context}, {acknowledged}..={sent}");
            }
        }
        all
    }

    fn acknowledged(&self) -> Vec<i64> {
        self.written.iter().map(|written| written.acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every writer has gone on.
    fn wait_for_progress(&self, after: &str) {
        let (before, begun) = (self.acknowledged(), Instant::now());
        while self.acknowledged().iter().zip(&before).any(|(now, before)| *now < before + 2) {
            assert!(begun.elapsed() < TIMEOUT, "no progress after {after}: {before:?}");
            assert!(!self.writers_stop.load(Ordering::Relaxed), "a check has failed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Stops all threads if one panics.
struct StopAll<'a>(&'a Run);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.writers_stop.store(true, Ordering::Relaxed);
            self.0.readers_stop.store(true, Ordering::Relaxed);
        }
    }
}

fn spawn(cluster: &TestCluster, directory: &Path, address: SocketAddr, log: &str) -> Process {
    let masters = cluster.masters().join(",");
    let settings =
        ["--store", "kudu", "--kudu-masters", &masters, "--kudu-replicas", "3", "--kudu-buckets", "2"];
    Process::spawn_logging(&directory.join("data"), address, &settings, &[], directory.join(log))
}

/// Kills or freezes a random process for a while. Returns what it did.
fn fault(
    random: &mut StdRng,
    cluster: &mut TestCluster,
    daemons: &mut [Process],
    directory: &Path,
    run: &Run,
) -> String {
    let (kills, place) = (random.random_range(0..2) == 0, random.random_range(0..3));
    let how = if kills { "kill" } else { "freeze" };
    if random.random_range(0..3) == 0 {
        let place = place % daemons.len();
        if kills {
            daemons[place].kill();
            std::thread::sleep(FAULT / 2);
            let log = format!("{place}-{}.log", random.random::<u32>());
            daemons[place] = spawn(cluster, directory, run.daemons[place], &log);
            daemons[place].wait_until_ready(TIMEOUT);
        } else {
            daemons[place].signal("STOP");
            std::thread::sleep(FAULT);
            daemons[place].signal("CONT");
        }
        return format!("{how} daemon {place}");
    }
    let server = match random.random_range(0..3) {
        0 => Daemon::Master(place),
        _ => Daemon::TabletServer(place),
    };
    let done = match kills {
        true => cluster.kill(server).and_then(|()| {
            std::thread::sleep(FAULT);
            cluster.restart(server)
        }),
        false => cluster.pause(server).and_then(|()| {
            std::thread::sleep(FAULT);
            cluster.resume(server)
        }),
    };
    done.unwrap_or_else(|error| panic!("{how} {server:?}: {error}"));
    format!("{how} {server:?}")
}

#[test]
fn nothing_acknowledged_is_lost_when_processes_die() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("NYALA_FAULT_ROUNDS").unwrap_or(2);
    let seed = number("NYALA_FAULT_SEED").unwrap_or(1);
    let Some(mut cluster) = cluster::start_with(&ClusterOptions::new(3, 3)) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let addresses = [client::free_address(), client::free_address()];
    let mut daemons: Vec<Process> = (0..2)
        .map(|place| spawn(&cluster, directory.path(), addresses[place], &format!("{place}.log")))
        .collect();
    daemons.iter().for_each(|daemon| daemon.wait_until_ready(TIMEOUT));
    daemons[0].query("CREATE DATABASE d");
    let run = Run {
        daemons: addresses.to_vec(),
        written: Default::default(),
        counts: Counts::default(),
        writers_stop: AtomicBool::new(false),
        readers_stop: AtomicBool::new(false),
    };
    let mut faults = Vec::new();
    std::thread::scope(|scope| {
        let _stop = StopAll(&run);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let run = &run;
                scope.spawn(move || {
                    let _stop = StopAll(run);
                    run.write(writer);
                })
            })
            .collect();
        for reader in 0..2 {
            let run = &run;
            scope.spawn(move || {
                let _stop = StopAll(run);
                run.read(reader);
            });
        }
        let mut random = StdRng::seed_from_u64(seed);
        run.wait_for_progress("the start");
        for _ in 0..rounds {
            let what = fault(&mut random, &mut cluster, &mut daemons, directory.path(), &run);
            run.wait_for_progress(&what);
            faults.push(what);
        }
        run.writers_stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        run.readers_stop.store(true, Ordering::Relaxed);
    });
    // All daemons agree at the end, also one that has just started.
    let fresh = client::free_address();
    let newest = spawn(&cluster, directory.path(), fresh, "fresh.log");
    newest.wait_until_ready(TIMEOUT);
    for daemon in addresses.into_iter().chain([fresh]) {
        for writer in 0..WRITERS {
            let begun = Instant::now();
            while !run.check(daemon, writer) {
                assert!(begun.elapsed() < TIMEOUT, "{daemon} does not answer");
            }
        }
    }
    let Counts { writes, failed_writes, reads, failed_reads } = &run.counts;
    let shown = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    writeln!(
        std::io::stdout(),
        "seed {seed}: {faults:?}; acknowledged {:?}; {} of {} writes and {} of {} reads not answered",
        run.acknowledged(),
        shown(failed_writes),
        shown(writes),
        shown(failed_reads),
        shown(reads),
    )
    .expect("it is shown");
}
