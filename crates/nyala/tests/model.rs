//! Compares the real process with a model. Many clients write, delete and drop at once, each in its own measurements,
//! and get answers as if they were alone, while the server flushes and compacts all the time. Other batches move
//! amounts between measurements, series and shards; no query ever sees half of such a batch.
//!
//! `NYALA_MODEL_SECONDS` sets how long (3), `NYALA_MODEL_SEED` repeats a run.

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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

const CLIENTS: u64 = 4;
const MOVERS: u64 = 2;
const ACCOUNTS: usize = 12;
const DAY_NS: i64 = 86_400_000_000_000;
/// Less than this would show nothing. A slow machine gets more time for it, …
const OPERATIONS_MIN: u64 = 50;
const SUMS_MIN: u64 = 5;
/// … up to this, which is taken for a hang.
const WAIT: Duration = Duration::from_secs(180);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Moves amounts between its own accounts, each move in one batch, until it is stopped.
fn move_amounts(server: &Process, mover: u64, random: &mut SmallRng, ended: &AtomicBool) -> u64 {
    let (mut balances, mut moves) = ([0_i64; ACCOUNTS], 0);
    while !ended.load(Ordering::Relaxed) {
        let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
        let amount = random.random_range(1..1000);
        balances[from] -= amount;
        balances[to] += amount;
        // Adjacent accounts are in other measurements, series and shards.
        let line = |account: usize| {
            let time = (account as i64 % 4) * 8 * DAY_NS + mover as i64;
            let balance = balances[account];
            format!("ledger{},mover={mover},account=a{account} v={balance}i {time}\n", account % 3)
        };
        let body = format!("{}{}", line(from), line(to));
        loop {
            let answer = server.send("POST", "/write?db=ledger", body.as_bytes()).expect("an answer");
            match answer.status {
                204 => break,
                503 => std::thread::sleep(Duration::from_millis(20)),
                other => panic!("a move was answered with {other}"),
            }
        }
        moves += 1;
    }
    moves
}

/// The sum of all balances, computed by one of several statements.
fn sum_amounts(server: &Process, random: &mut SmallRng) -> i64 {
    let text = match random.random_range(0..4) {
        0 => "SELECT sum(v) FROM ledger.autogen./ledger.*/",
        1 => {
            "SELECT sum(v) FROM ledger.autogen.ledger0, ledger.autogen.ledger1, ledger.autogen.ledger2 GROUP BY *"
        }
        2 => {
            "SELECT sum(total) FROM (SELECT sum(v) AS total FROM ledger.autogen./ledger.*/ GROUP BY account, mover)"
        }
        _ => "SELECT v FROM ledger.autogen./ledger.*/",
    };
    let answer = server.query(text);
    let result = &answer["results"][0];
    assert!(result.get("error").is_none(), "{text}: {answer}");
    let series = result["series"].as_array().into_iter().flatten();
    let rows = series.flat_map(|series| series["values"].as_array().cloned().unwrap_or_default());
    rows.map(|row| row[1].as_i64().expect("an integer")).sum()
}

/// Asks for measurements while the clients that they belong to change and drop them, or series of them: there is an answer from
/// before or after, and none that tells how they are stored.
fn ask_for_what_is_dropped(server: &Process, random: &mut SmallRng) {
    const QUERIES: [&str; 7] = [
        "SELECT * FROM /^c\\dm/",
        "SELECT count(*) FROM /^c\\dm/ GROUP BY *",
        "SELECT last(*) FROM /^c\\dm/",
        "SELECT mean(*) FROM /^c\\dm/ WHERE time >= 0 GROUP BY time(1h), * fill(none)",
        "SHOW SERIES FROM /^c\\dm/",
        "SHOW FIELD KEYS FROM /^c\\dm/",
        "SHOW TAG VALUES FROM /^c\\dm/ WITH KEY =~ /./",
    ];
    let text = QUERIES[random.random_range(0..QUERIES.len())];
    let answer = server.query(text);
    assert!(answer["results"][0].get("error").is_none() && answer.get("error").is_none(), "{text}: {answer}");
}

#[test]
fn clients_are_isolated_and_batches_are_atomic() {
    let seconds = setting("NYALA_MODEL_SECONDS", 3);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let seed = setting("NYALA_MODEL_SEED", now.as_nanos() as u64 >> 10);
    let words = format!("NYALA_MODEL_SEED={seed}");
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB", "--wal-limit", "1MiB"]);
    server.query("CREATE DATABASE d");
    server.query("CREATE DATABASE ledger");
    let (ended, operations, sums) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let random_of = |number: u64| SmallRng::seed_from_u64(seed ^ number << 40);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        std::thread::scope(|scope| {
            let (server, ended, operations, sums) = (&server, &ended, &operations, &sums);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let mut random = random_of(number);
                    scope.spawn(move || {
                        let mut churn = Churn::named(server, &format!("c{number}m"));
                        while !ended.load(Ordering::Relaxed) {
                            match random.random_range(0..10) {
                                0 | 1 => churn.check(server),
                                2..5 => churn.check_sums(server, &mut random),
                                _ => churn.act_once(server, &mut random),
                            }
                            operations.fetch_add(1, Ordering::Relaxed);
                        }
                        churn.check(server);
                    })
                })
                .collect();
            let movers: Vec<_> = (0..MOVERS)
                .map(|number| {
                    let mut random = random_of(100 + number);
                    scope.spawn(move || {
                        let moves = move_amounts(server, number, &mut random, ended);
                        operations.fetch_add(moves, Ordering::Relaxed);
                    })
                })
                .collect();
            let mut random = random_of(200);
            let reader = scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let sum = sum_amounts(server, &mut random);
                    assert_eq!(sum, 0, "amounts are seen half-moved");
                    sums.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut random = random_of(201);
            let watcher = scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    ask_for_what_is_dropped(server, &mut random);
                }
            });
            let begun = Instant::now();
            let busy = || {
                clients.iter().chain(&movers).chain([&reader, &watcher]).all(|thread| !thread.is_finished())
            };
            let is_enough = || {
                operations.load(Ordering::Relaxed) > OPERATIONS_MIN && sums.load(Ordering::Relaxed) > SUMS_MIN
            };
            let least = Duration::from_secs(seconds);
            while busy() && (begun.elapsed() < least || (begun.elapsed() < least + WAIT && !is_enough())) {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended.store(true, Ordering::Relaxed);
        });
    }));
    assert!(outcome.is_ok(), "{words}: see above");
    assert_eq!(sum_amounts(&server, &mut random_of(300)), 0, "{words}: at the end");
    let (operations, sums) = (operations.into_inner(), sums.into_inner());
    let is_enough = operations > OPERATIONS_MIN && sums > SUMS_MIN;
    assert!(is_enough, "{words}: {operations} operations, {sums} sums");
    assert!(server.metric("nyala_flushes_total") > 0 || seconds < 10, "{words}: nothing was flushed");
    assert!(server.stop().success(), "{words}");
}
