//! Thirty days of series that come and go: the memory of the index, how long it blocks others, and the cost of a query
//! of the existing series at the end.
//!
//! `cargo bench -p nyala-db --bench series_churn` simulates 20 000 series, of which 10 % end and are replaced every
//! hour; `-- --series 1000000` simulates a million. Series leave the index when their last points do, so it holds the
//! active series and those that ended within the retention time. The first line is an index of the active series alone,
//! as the base of comparison. Besides the index's own estimate there is the growth of resident memory, which includes
//! the data of the simulation.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use nyala_db::series::{SeriesIndex, TagFilter};
use roaring::RoaringBitmap;
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

const HOURS: usize = 30 * 24;
/// Series that are added or removed under one lock of the index.
const BATCH: usize = 1000;

/// The resident memory of the process.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    resident.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// The tags of a container: its own id, and tags that it shares with others.
fn tags(number: u64) -> [(&'static str, String); 4] {
    let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [
        ("container", format!("{id:016x}{number:016x}")),
        ("image", format!("registry.example/service-{}:1.{}", number % 200, number % 7)),
        ("namespace", format!("team-{}", number % 50)),
        ("node", format!("node-{:04}", id % 2000)),
    ]
}

#[derive(Default)]
struct Pauses {
    longest: Duration,
    all: Duration,
    count: u32,
}

impl Pauses {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        let took = begun.elapsed();
        (self.longest, self.all, self.count) = (self.longest.max(took), self.all + took, self.count + 1);
        result
    }
}

/// The query: the series with a tag, grouped by another tag.
fn query(index: &SeriesIndex) -> Duration {
    let filter = TagFilter::Equal("namespace".into(), "team-7".into());
    let times = (0..21).map(|_| {
        let begun = Instant::now();
        let ids = index.select(&filter);
        black_box(index.group(&ids, &["container".to_owned()]));
        begun.elapsed()
    });
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |name: &str| arguments.iter().position(|argument| argument == name).map(|at| &arguments[at + 1]);
    let active: usize = after("--series").map_or(20_000, |text| text.parse().expect("a number of series"));
    let before = resident_kib();
    let mut fresh = SeriesIndex::default();
    for number in 0..active as u64 {
        fresh.insert(&tags(number));
    }
    let fresh_bytes = fresh.memory_bytes();
    println!("{active} series alone: {} KiB, resident {} KiB", fresh_bytes >> 10, resident_kib() - before);
    println!("query of them: {:?}", query(&fresh));
    drop(fresh);
    println!(
        "kept h | KiB day 1, day 30, most, resident | of active alone | query day 1, day 30 | insert, remove of {BATCH}: longest, mean"
    );
    for kept_hours in [1, 6, 24] {
        churn(active, kept_hours, fresh_bytes);
    }
}

fn churn(active: usize, kept_hours: usize, fresh_bytes: usize) {
    let before = resident_kib();
    let mut index = SeriesIndex::default();
    let (mut inserts, mut removals) = (Pauses::default(), Pauses::default());
    let mut numbers = 0_u64..;
    let mut arrive = |index: &mut SeriesIndex, inserts: &mut Pauses, count: usize| {
        let all: Vec<_> = numbers.by_ref().take(count).map(tags).collect();
        let mut ids = Vec::with_capacity(count);
        for batch in all.chunks(BATCH) {
            inserts.time(|| ids.extend(batch.iter().map(|tags| index.insert(tags).0.0)));
        }
        ids
    };
    let mut living: Vec<u32> = arrive(&mut index, &mut inserts, active);
    // The series that ended in each hour. Their points expire later.
    let mut ended: VecDeque<Vec<u32>> = VecDeque::new();
    let (mut day_1, mut most) = (None, 0);
    let mut random = 88_172_645_463_325_252_u64;
    for hour in 1..=HOURS {
        let mut gone = Vec::with_capacity(active / 10);
        for _ in 0..active / 10 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            gone.push(living.swap_remove(random as usize % living.len()));
        }
        living.extend(arrive(&mut index, &mut inserts, active / 10));
        ended.push_back(gone);
        if ended.len() > kept_hours {
            let expired: RoaringBitmap = ended.pop_front().into_iter().flatten().collect();
            let ids: Vec<u32> = expired.iter().collect();
            for batch in ids.chunks(BATCH) {
                let batch = batch.iter().copied().collect();
                removals.time(|| index.remove(&batch));
            }
        }
        let bytes = index.memory_bytes();
        most = most.max(bytes);
        if hour == 24 {
            day_1 = Some((bytes, query(&index)));
        }
        if hour == HOURS {
            let (bytes_1, query_1) = day_1.expect("a day has passed");
            println!(
                "{kept_hours:6} | {}, {}, {}, {} | {:.2} | {:?}, {:?} | {:?}, {:?} | {:?}, {:?}",
                bytes_1 >> 10,
                bytes >> 10,
                most >> 10,
                resident_kib().saturating_sub(before),
                most as f64 / fresh_bytes as f64,
                query_1,
                query(&index),
                inserts.longest,
                inserts.all / inserts.count,
                removals.longest,
                removals.all / removals.count.max(1),
            );
        }
    }
}
