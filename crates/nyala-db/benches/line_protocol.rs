//! Line protocol into columns, in rows per second on one core: TSBS-like rows (10 tags, 10 integer fields, about 350
//! bytes) of known series in the order of the last round, shuffled, or of many hosts; and rows of other shapes.
//!
//! `cargo bench -p nyala-db --bench line_protocol`

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use nyala_db::ingest::{LineRequest, ParseOptions, ParsedBatch, SeriesCache, SeriesCacheLimits};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Write;

const ROWS_PER_BODY: usize = 10_000;

fn main() {
    divan::main();
}

fn tags(host: usize, random: &mut SmallRng) -> String {
    let region = ["us-east-1", "us-west-2", "eu-west-1", "ap-southeast-1"][random.random_range(0..4)];
    format!(
        "cpu,hostname=host_{host},region={region},datacenter={region}{},rack={},os=Ubuntu16.04LTS,arch=x64,\
         team=SF,service={},service_version={},service_environment=production",
        ["a", "b", "c"][random.random_range(0..3)],
        random.random_range(0..100),
        random.random_range(0..20),
        random.random_range(0..2),
    )
}

const USAGES: [&str; 10] =
    ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

/// The rows of all hosts at two times, cut into bodies.
fn bodies(hosts: usize, shuffled: bool, mut fields: impl FnMut(&mut String, &mut SmallRng)) -> Vec<String> {
    let mut random = SmallRng::seed_from_u64(42);
    let keys: Vec<String> = (0..hosts).map(|host| tags(host, &mut random)).collect();
    let rounds = (2 * ROWS_PER_BODY).div_ceil(hosts).max(2);
    let mut rows = Vec::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..hosts).collect();
        if shuffled {
            order.shuffle(&mut random);
        }
        for host in order {
            let mut row = keys[host].clone();
            fields(&mut row, &mut random);
            writeln!(row, " {}", 1_451_606_400_000_000_000_i64 + round as i64 * 10_000_000_000).unwrap();
            rows.push(row);
        }
    }
    rows.chunks_exact(ROWS_PER_BODY).map(<[String]>::concat).collect()
}

fn integers(row: &mut String, random: &mut SmallRng) {
    for (index, usage) in USAGES.iter().enumerate() {
        let separator = if index == 0 { ' ' } else { ',' };
        write!(row, "{separator}usage_{usage}={}i", random.random_range(0..=100)).unwrap();
    }
}

fn floats(row: &mut String, random: &mut SmallRng) {
    for (index, usage) in USAGES.iter().enumerate() {
        let separator = if index == 0 { ' ' } else { ',' };
        write!(row, "{separator}usage_{usage}={:.2}", random.random_range(0.0..100.0)).unwrap();
    }
}

fn long_floats(row: &mut String, random: &mut SmallRng) {
    for (index, usage) in USAGES.iter().enumerate() {
        let separator = if index == 0 { ' ' } else { ',' };
        write!(row, "{separator}usage_{usage}={}", random.random_range(0.0..100.0)).unwrap();
    }
}

fn one_value(row: &mut String, random: &mut SmallRng) {
    write!(row, " value={}", random.random_range(0..100_000)).unwrap();
}

fn strings(row: &mut String, random: &mut SmallRng) {
    let level = ["info", "warn", "error"][random.random_range(0..3)];
    write!(
        row,
        " level=\"{level}\",ok=true,message=\"GET /index.html?page={} took a while\"",
        random.random::<u32>()
    )
    .unwrap();
}

/// Half of ten fields, a different half each time.
fn irregular(row: &mut String, random: &mut SmallRng) {
    let mut separator = ' ';
    for (index, usage) in USAGES.iter().enumerate() {
        if index == 0 || random.random() {
            write!(row, "{separator}usage_{usage}={}i", random.random_range(0..=100)).unwrap();
            separator = ',';
        }
    }
}

/// Parses one body after the other. All series are known.
fn parse_known(bencher: Bencher<'_, '_>, bodies: &[String]) {
    let mut cache = SeriesCache::new(SeriesCacheLimits { max_entries: 2_000_000, max_key_bytes: 1 << 30 });
    let mut batch = ParsedBatch::new();
    let mut next_id = 0;
    for body in bodies.iter().chain(bodies) {
        let mut request = LineRequest::new(body.as_bytes(), ParseOptions::default());
        while request.next_batch(&mut cache, &mut batch) {
            for handle in cache.pending().to_vec() {
                cache.set_series_id(handle, next_id);
                next_id += 1;
            }
        }
        assert!(request.errors().is_empty());
    }
    let mut turn = bodies.iter().cycle();
    bencher
        .counter(ItemsCount::new(ROWS_PER_BODY))
        .counter(BytesCount::new(bodies.iter().map(String::len).sum::<usize>() / bodies.len()))
        .bench_local(|| {
            let body = turn.next().unwrap();
            let mut request = LineRequest::new(body.as_bytes(), ParseOptions::default());
            let mut rows = 0;
            while request.next_batch(&mut cache, &mut batch) {
                rows += batch.row_count();
            }
            assert_eq!(rows, ROWS_PER_BODY);
        });
}

#[divan::bench(args = [4_000, 100_000, 1_000_000])]
fn in_order(bencher: Bencher<'_, '_>, hosts: usize) {
    parse_known(bencher, &bodies(hosts, false, integers));
}

#[divan::bench(args = [4_000, 100_000])]
fn shuffled(bencher: Bencher<'_, '_>, hosts: usize) {
    parse_known(bencher, &bodies(hosts, true, integers));
}

#[divan::bench]
fn two_decimals(bencher: Bencher<'_, '_>) {
    parse_known(bencher, &bodies(4_000, false, floats));
}

#[divan::bench]
fn seventeen_digits(bencher: Bencher<'_, '_>) {
    parse_known(bencher, &bodies(4_000, false, long_floats));
}

#[divan::bench(args = [4_000, 1_000_000])]
fn narrow(bencher: Bencher<'_, '_>, hosts: usize) {
    parse_known(bencher, &bodies(hosts, false, one_value));
}

#[divan::bench]
fn strings_and_booleans(bencher: Bencher<'_, '_>) {
    parse_known(bencher, &bodies(4_000, false, strings));
}

#[divan::bench]
fn irregular_fields(bencher: Bencher<'_, '_>) {
    parse_known(bencher, &bodies(4_000, false, irregular));
}

/// Nine measurements in turn, as a collector sends them.
#[divan::bench]
fn nine_measurements(bencher: Bencher<'_, '_>) {
    let body = bodies(1_200, false, integers).swap_remove(0);
    let rows = body
        .lines()
        .enumerate()
        .map(|(index, row)| row.replacen("cpu,", &format!("cpu{},", index % 9), 1) + "\n");
    parse_known(bencher, &[rows.collect::<String>()]);
}

/// Every series is new.
#[divan::bench]
fn new_series(bencher: Bencher<'_, '_>) {
    let body = bodies(20_000, false, integers).swap_remove(0);
    let mut batch = ParsedBatch::new();
    bencher
        .counter(ItemsCount::new(ROWS_PER_BODY))
        .with_inputs(|| SeriesCache::new(SeriesCacheLimits::default()))
        .bench_local_refs(|cache| {
            let mut request = LineRequest::new(body.as_bytes(), ParseOptions::default());
            assert!(request.next_batch(cache, &mut batch));
            cache.len()
        });
}
