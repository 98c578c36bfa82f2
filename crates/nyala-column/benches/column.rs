//! What encodings cost: values per second to write, to read, and to aggregate, on data like TSBS' and others.
//!
//! `cargo bench -p nyala-column`; sizes are printed first.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nyala_column::kernels::CompareOp;
use nyala_column::*;

const VALUES: usize = BLOCK_VALUES;

fn main() {
    sizes();
    divan::main();
}

/// A generator of its own, so that the data never changes.
fn random() -> impl FnMut() -> f64 {
    let mut state = 42_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn normal(random: &mut impl FnMut() -> f64) -> f64 {
    (-2.0 * random().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random()).cos()
}

/// TSBS' cpu fields: a clamped random walk of floats, cut to integers.
fn walk() -> Vec<i64> {
    let mut random = random();
    let mut value = 50.0_f64;
    (0..VALUES)
        .map(|_| {
            value = (value + normal(&mut random)).clamp(0.0, 100.0);
            value as i64
        })
        .collect()
}

fn counter() -> Vec<i64> {
    let mut random = random();
    let mut value = 1_000_000;
    (0..VALUES)
        .map(|_| {
            value += (random() * 2000.0) as i64;
            value
        })
        .collect()
}

fn regular() -> Vec<i64> {
    (0..VALUES as i64).map(|index| 1_700_000_000_000_000_000 + index * 10_000_000_000).collect()
}

fn jitter() -> Vec<i64> {
    let mut random = random();
    regular()
        .into_iter()
        .map(|time| if random() < 0.001 { time + (random() * 1e9) as i64 } else { time })
        .collect()
}

fn two_digits() -> Vec<f64> {
    let mut random = random();
    (0..VALUES).map(|_| (random() * 10_000.0).round() / 100.0).collect()
}

/// A temperature: two digits, close to the one before.
fn drifting() -> Vec<f64> {
    let mut random = random();
    let mut value = 20.0;
    (0..VALUES)
        .map(|_| {
            value += normal(&mut random) * 0.3;
            (value * 100.0_f64).round() / 100.0
        })
        .collect()
}

fn full_precision() -> Vec<f64> {
    let mut random = random();
    let mut value = 20.0;
    (0..VALUES)
        .map(|_| {
            value += normal(&mut random) * 0.01;
            value
        })
        .collect()
}

fn integers(values: &[i64], preference: Preference) -> Vec<u8> {
    let mut out = Vec::new();
    encode_integers(values, &[], preference, &mut Scratch::new(), &mut out);
    out
}

fn floats(values: &[f64], preference: Preference) -> Vec<u8> {
    let mut out = Vec::new();
    encode_floats(values, &[], preference, &mut Scratch::new(), &mut out);
    out
}

#[allow(clippy::print_stdout, reason = "a report")]
fn sizes() {
    println!("bytes per value: speed, balanced, size");
    let preferences = [Preference::Speed, Preference::Balanced, Preference::Size];
    let columns = [("walk", walk()), ("counter", counter()), ("regular", regular()), ("jitter", jitter())];
    for (name, values) in columns {
        let bytes = preferences.map(|preference| integers(&values, preference).len() as f64 / VALUES as f64);
        let block = integers(&values, Preference::Balanced);
        let encoding =
            IntegerBlock::parse(&block).expect("our own").vectors().next().map(|vector| vector.encoding);
        println!("  {name:16} {:.4} {:.4} {:.4} {encoding:?}", bytes[0], bytes[1], bytes[2]);
    }
    for (name, values) in
        [("two digits", two_digits()), ("drifting", drifting()), ("full precision", full_precision())]
    {
        let bytes = preferences.map(|preference| floats(&values, preference).len() as f64 / VALUES as f64);
        let block = floats(&values, Preference::Balanced);
        let encoding =
            FloatBlock::parse(&block).expect("our own").vectors().next().map(|vector| vector.encoding);
        println!("  {name:16} {:.4} {:.4} {:.4} {encoding:?}", bytes[0], bytes[1], bytes[2]);
    }
}

fn integer_column(name: &str) -> Vec<i64> {
    match name {
        "walk" => walk(),
        "counter" => counter(),
        "regular" => regular(),
        _ => jitter(),
    }
}

fn float_column(name: &str) -> Vec<f64> {
    match name {
        "two digits" => two_digits(),
        "drifting" => drifting(),
        _ => full_precision(),
    }
}

fn preference(name: &str) -> Preference {
    match name {
        "speed" => Preference::Speed,
        "balanced" => Preference::Balanced,
        _ => Preference::Size,
    }
}

const INTEGERS: [&str; 4] = ["walk", "counter", "regular", "jitter"];
const FLOATS: [&str; 3] = ["two digits", "drifting", "full precision"];
const PREFERENCES: [&str; 3] = ["speed", "balanced", "size"];

/// Window bounds of `size` rows over a whole block.
fn bounds(size: usize) -> Vec<u32> {
    (0..=VALUES as u32).step_by(size).chain([VALUES as u32]).collect()
}

#[divan::bench(args = INTEGERS, consts = [0, 1, 2])]
fn encode_integer<const PREFERENCE: usize>(bencher: Bencher, name: &str) {
    let values = integer_column(name);
    let mut scratch = Scratch::new();
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        out.clear();
        encode_integers(black_box(&values), &[], preference(PREFERENCES[PREFERENCE]), &mut scratch, &mut out);
    });
}

#[divan::bench(args = FLOATS)]
fn encode_float(bencher: Bencher, name: &str) {
    let values = float_column(name);
    let mut scratch = Scratch::new();
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        out.clear();
        encode_floats(black_box(&values), &[], Preference::Balanced, &mut scratch, &mut out);
    });
}

#[divan::bench(args = INTEGERS, consts = [0, 1, 2])]
fn decode_integer<const PREFERENCE: usize>(bencher: Bencher, name: &str) {
    let bytes = integers(&integer_column(name), preference(PREFERENCES[PREFERENCE]));
    let block = IntegerBlock::parse(&bytes).expect("our own");
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        out.clear();
        black_box(&block).decode_range(0..block.len(), &mut out).expect("our own");
    });
}

#[divan::bench(args = FLOATS)]
fn decode_float(bencher: Bencher, name: &str) {
    let bytes = floats(&float_column(name), Preference::Balanced);
    let block = FloatBlock::parse(&bytes).expect("our own");
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        out.clear();
        black_box(&block).decode_range(0..block.len(), &mut out).expect("our own");
    });
}

/// Sum per window: by instruction set (0 portable …), preference and window size.
#[divan::bench(args = [(0, 0, 360), (1, 0, 360), (2, 0, 360), (2, 0, 60), (2, 0, 6),
    (0, 1, 360), (1, 1, 360), (2, 1, 360), (2, 1, 60), (2, 1, 6), (0, 2, 360), (1, 2, 360), (2, 2, 360)])]
fn sum_windows_walk(bencher: Bencher, (cpu, preferred, size): (usize, usize, usize)) {
    let Some(cpu) = CpuFeatures::available().get(cpu).copied() else { return };
    let bytes = integers(&walk(), preference(PREFERENCES[preferred]));
    let block = IntegerBlock::parse(&bytes).expect("our own").with_cpu_features(cpu);
    let bounds = bounds(size);
    let mut sums = vec![0; bounds.len() - 1];
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&block).sum_windows(black_box(&bounds), &mut sums).expect("our own");
    });
}

#[divan::bench(args = [(0, 360), (1, 360), (1, 60), (1, 6)])]
fn min_max_windows_walk(bencher: Bencher, (preferred, size): (usize, usize)) {
    let bytes = integers(&walk(), preference(PREFERENCES[preferred]));
    let block = IntegerBlock::parse(&bytes).expect("our own");
    let bounds = bounds(size);
    let mut extremes = vec![(0, 0); bounds.len() - 1];
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        black_box(&block).min_max_windows(black_box(&bounds), &mut extremes).expect("our own");
    });
}

/// What a light query does with one field: parse, 360 rows in 6 windows.
#[divan::bench(args = PREFERENCES)]
fn short_query(bencher: Bencher, name: &str) {
    let bytes = integers(&walk(), preference(name));
    let mut sums = [0; 6];
    bencher.counter(ItemsCount::new(360_usize)).bench_local(|| {
        let block = IntegerBlock::parse(black_box(&bytes)).expect("our own");
        block.sum_windows(&[3000, 3060, 3120, 3180, 3240, 3300, 3360], &mut sums).expect("our own");
    });
}

/// Window edges in a time column: by arithmetic, and by search.
#[divan::bench(args = ["regular", "jitter"])]
fn time_edges(bencher: Bencher, name: &str) {
    let values = integer_column(name);
    let bytes = integers(&values, Preference::Balanced);
    let block = IntegerBlock::parse(&bytes).expect("our own");
    let edges: Vec<i64> = (0..7).map(|edge| values[3000] + edge * 600_000_000_000).collect();
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        black_box(&block).lower_bounds(0..block.len(), black_box(&edges), &mut out).expect("our own");
    });
}

#[divan::bench(args = PREFERENCES)]
fn compare_walk(bencher: Bencher, name: &str) {
    let bytes = integers(&walk(), preference(name));
    let block = IntegerBlock::parse(&bytes).expect("our own");
    let mut found = Bitmap::new();
    bencher.counter(ItemsCount::new(VALUES)).bench_local(|| {
        found.clear();
        black_box(&block).compare(0..block.len(), CompareOp::Greater, 60, &mut found).expect("our own");
    });
}
