//! The real process, killed at random moments while it is written to: every acknowledged batch is there
//! afterwards, every batch that is there is whole, and the server is ready within seconds.
//!
//! `NYALA_CRASH_ROUNDS` sets how many times (12), `NYALA_CRASH_SEED` repeats a run.

use nyala_bench::client::connection::Connection;
use nyala_bench::client::response::Body;
use nyala_bench::client::target::{Target, influx_statement, query_escape};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 4;
const BATCH_ROWS: usize = 200;
/// Batches of a writer go round this many keys, so that most of them change rows that are there.
const KEYS: usize = 40;
const READY_LIMIT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

struct Server {
    child: Child,
    target: Target,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn start(data_dir: &Path) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let child = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["serve", "--memory-limit", "64MiB", "--http-bind", &address.to_string(), "--data-dir"])
        .arg(data_dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    let target = Target::parse(&format!("http://{address}")).expect("a target");
    let server = Server { child, target };
    let begun = Instant::now();
    loop {
        let mut connection = Connection::new(&server.target, TIMEOUT);
        if connection
            .request("GET", "/health", "", b"", Body::Drop)
            .is_ok_and(|response| response.status == 200)
        {
            return server;
        }
        assert!(begun.elapsed() < READY_LIMIT, "not ready {READY_LIMIT:?} after it was started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Batch `number` of a writer: rows of one key each, all with the batch's number as their value, and a mark of
/// the batch that is never written again.
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

/// Writes batches until the server goes; returns the number of the first batch that was not acknowledged.
fn write(target: &Target, writer: usize, first: u64, stop: &AtomicBool) -> u64 {
    let mut connection = Connection::new(target, TIMEOUT);
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let body = batch(writer, number);
        match connection.request("POST", "/write?db=d", "", body.as_bytes(), Body::Drop) {
            Ok(response) if response.status == 204 => number += 1,
            Ok(response) => {
                panic!("a write was answered with {}: {}", response.status, connection.error_text())
            }
            Err(_) => break,
        }
    }
    number
}

fn numbers(target: &Target, query: &str) -> Vec<Vec<i64>> {
    let mut connection = Connection::new(target, TIMEOUT);
    let mut answer = Vec::new();
    let path = format!("/query?db=d&epoch=ns&q={}", query_escape(query));
    let body = Body::Collect { into: &mut answer, limit_bytes: 256 << 20 };
    let response = connection.request("GET", &path, "", b"", body).expect("an answer");
    assert_eq!(response.status, 200, "{query}");
    let json: serde_json::Value = serde_json::from_slice(&answer).expect("whole JSON");
    let result = &json["results"][0];
    assert!(result.get("error").is_none(), "{query}: {result}");
    let values = result["series"][0]["values"].as_array().cloned().unwrap_or_default();
    let row = |row: &serde_json::Value| {
        row.as_array().expect("a row").iter().map(|cell| cell.as_i64().expect("an integer")).collect()
    };
    values.iter().map(row).collect()
}

/// Checks one writer's rows; returns the first batch that is not there.
fn check(target: &Target, writer: usize, acknowledged: u64) -> u64 {
    let marks = numbers(target, &format!("SELECT rows FROM mark WHERE writer = '{writer}'"));
    let present = marks.len() as u64;
    let times: Vec<i64> = marks.iter().map(|row| row[0]).collect();
    assert_eq!(times, (0..present as i64).collect::<Vec<_>>(), "writer {writer}: batches without gaps");
    assert!(
        (acknowledged..=acknowledged + 1).contains(&present),
        "writer {writer}: {acknowledged} batches were acknowledged, {present} are there"
    );
    let mut rows_by_batch: BTreeMap<i64, usize> = BTreeMap::new();
    for row in numbers(target, &format!("SELECT batch FROM history WHERE writer = '{writer}'")) {
        assert_eq!(row[0] / BATCH_ROWS as i64, row[1]);
        *rows_by_batch.entry(row[1]).or_default() += 1;
    }
    assert_eq!(rows_by_batch.len() as u64, present, "writer {writer}: whole batches only");
    assert!(rows_by_batch.values().all(|rows| *rows == BATCH_ROWS), "writer {writer}: {rows_by_batch:?}");
    if let Some(last) = present.checked_sub(1) {
        let least =
            numbers(target, &format!("SELECT min(batch), max(batch) FROM state WHERE writer = '{writer}'"));
        // The last batch writes every key, so no row may be older.
        assert_eq!(least[0][1..], [last as i64, last as i64], "writer {writer}: the newest values");
    }
    present
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let rounds = setting("NYALA_CRASH_ROUNDS", 12);
    let seed = setting("NYALA_CRASH_SEED", u64::from(std::process::id()));
    let mut random = SmallRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut next = [0_u64; WRITERS];
    for round in 0..rounds {
        let mut server = start(&data_dir);
        if round == 0 {
            let mut connection = Connection::new(&server.target, TIMEOUT);
            influx_statement(&mut connection, "CREATE DATABASE d").expect("a database");
        }
        for (writer, next) in next.iter_mut().enumerate() {
            *next = check(&server.target, writer, *next);
        }
        let stop = AtomicBool::new(false);
        let life = Duration::from_millis(random.random_range(20..700));
        std::thread::scope(|scope| {
            let target = server.target.clone();
            let stop = &stop;
            let writers: Vec<_> = next
                .iter()
                .enumerate()
                .map(|(writer, first)| {
                    let (target, first) = (target.clone(), *first);
                    scope.spawn(move || write(&target, writer, first, stop))
                })
                .collect();
            std::thread::sleep(life);
            server.child.kill().expect("killed");
            server.child.wait().expect("gone");
            stop.store(true, Ordering::Relaxed);
            for (writer, handle) in writers.into_iter().enumerate() {
                next[writer] =
                    handle.join().unwrap_or_else(|_| panic!("round {round}, seed {seed}: a writer failed"));
            }
        });
    }
    let server = start(&data_dir);
    for (writer, next) in next.iter().enumerate() {
        check(&server.target, writer, *next);
    }
}
