//! Blocks written once and kept: what an older build wrote stays readable, byte for byte.
//!
//! A fixture is never rewritten; a changed format gets a new version, new names and new files beside the old
//! ones. `cargo test -p nyala-column --test fixtures -- --ignored` writes those that are missing.

use std::fs;
use std::path::PathBuf;

use nyala_column::*;

/// Deterministic on every machine: integers only.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound) as i64
    }
}

enum Column {
    Integers { values: Vec<i64>, breaks: Vec<u32>, encoding: Encoding },
    Floats { values: Vec<f64>, encoding: FloatEncoding },
    Booleans(Vec<bool>),
    States(Vec<CellState>),
    Strings { values: Vec<Vec<u8>>, dictionary: bool },
}

fn integers(encoding: Encoding, values: impl IntoIterator<Item = i64>) -> Column {
    Column::Integers { values: values.into_iter().collect(), breaks: vec![], encoding }
}

fn floats(encoding: FloatEncoding, values: impl IntoIterator<Item = f64>) -> Column {
    Column::Floats { values: values.into_iter().collect(), encoding }
}

fn strings(dictionary: bool, values: impl IntoIterator<Item = String>) -> Column {
    Column::Strings { values: values.into_iter().map(String::into_bytes).collect(), dictionary }
}

/// Name, preference it was written with, and what it holds. The number in front is the format's version.
fn fixtures() -> Vec<(&'static str, Preference, Column)> {
    let mut random = Random(1);
    let mut walk = 0;
    let mut steps = |bound: u64, rare: i64| {
        walk += random.below(bound) - bound as i64 / 2 + if random.below(60) == 0 { rare } else { 0 };
        walk
    };
    let walk: Vec<i64> = (0..300).map(|_| steps(7, 5000)).collect();
    let counter: Vec<i64> =
        (0..300).scan(0, |sum, _| Some(std::mem::replace(sum, *sum + random.below(900)))).collect();
    let (speed, balanced, size) = (Preference::Speed, Preference::Balanced, Preference::Size);
    let state = |row: i64| [CellState::Value, CellState::Null, CellState::Absent][row as usize % 3];
    vec![
        ("1-integer-empty", balanced, integers(Encoding::Constant, [])),
        ("1-integer-constant", balanced, integers(Encoding::Constant, [-7; 200])),
        ("1-integer-frame", speed, integers(Encoding::Frame, (0..300).map(|_| random.below(100) - 50))),
        ("1-integer-line", balanced, integers(Encoding::Frame, (0..300).map(|row| 1_700_000_000 - row * 15))),
        (
            "1-integer-line-patched",
            balanced,
            integers(
                Encoding::Frame,
                (0..300).map(|row| row * 1000 - if row % 90 == 40 { 123_456_789 } else { 0 }),
            ),
        ),
        (
            "1-integer-wide",
            balanced,
            integers(Encoding::Frame, (0..70).map(|row| random.below(1 << 31).wrapping_shl(33) ^ row)),
        ),
        ("1-integer-delta", balanced, integers(Encoding::Delta, walk.clone())),
        ("1-integer-delta-counter", balanced, integers(Encoding::Delta, counter.clone())),
        ("1-integer-runs", balanced, integers(Encoding::Runs, (0..300).map(|row| row / 50 * 999_999_937))),
        (
            "1-integer-dictionary",
            balanced,
            integers(
                Encoding::Dictionary,
                (0..300).map(|_| [3, 1 << 40, -(1 << 50)][random.below(3) as usize]),
            ),
        ),
        (
            "1-integer-entropy",
            size,
            integers(Encoding::Entropy, (0..900).map(|_| random.below(30) * random.below(30))),
        ),
        (
            "1-integer-divisor",
            balanced,
            integers(Encoding::Frame, (0..300).map(|row| (row * 10_000 + row * row % 19) * 1_000_000)),
        ),
        (
            "1-integer-breaks",
            balanced,
            Column::Integers {
                values: (0..1500).collect(),
                breaks: vec![1, 77, 1400],
                encoding: Encoding::Constant,
            },
        ),
        (
            "1-float-raw",
            balanced,
            floats(
                FloatEncoding::Raw,
                (1..40_u64).map(|row| f64::from_bits(row.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            ),
        ),
        (
            "1-float-ordered",
            balanced,
            floats(FloatEncoding::Ordered, (0..300).map(|row| if row < 100 { 1.0 / 3.0 } else { f64::NAN })),
        ),
        (
            "1-float-decimal",
            balanced,
            floats(FloatEncoding::Decimal, (0..300).map(|_| random.below(9000) as f64 / 100.0)),
        ),
        (
            "1-float-decimal-divided",
            balanced,
            floats(
                FloatEncoding::Decimal,
                (0..300).map(|_| (10_i64.pow(15) + random.below(1 << 31) * 65_537) as f64 / 1e9),
            ),
        ),
        (
            "1-float-decimal-exceptions",
            balanced,
            floats(
                FloatEncoding::Decimal,
                (0..300).map(|row| match row {
                    50 => f64::from_bits(0x7ff8_0000_0000_1234),
                    99 => -0.0,
                    200 => f64::NEG_INFINITY,
                    _ => random.below(5000) as f64 / 10.0,
                }),
            ),
        ),
        (
            "1-float-split",
            balanced,
            floats(
                FloatEncoding::Split,
                (0..300).map(|_| (400.0 + random.below(1 << 30) as f64 / 7e7).sqrt()),
            ),
        ),
        ("1-boolean-uniform", balanced, Column::Booleans(vec![true; 99])),
        ("1-boolean-bitmap", balanced, Column::Booleans((0..99).map(|_| random.below(2) == 1).collect())),
        ("1-boolean-runs", balanced, Column::Booleans((0..999).map(|row| row / 300 % 2 == 1).collect())),
        ("1-states-dense", balanced, Column::States(vec![CellState::Value; 99])),
        ("1-states-mixed", balanced, Column::States((0..99).map(|_| state(random.below(3))).collect())),
        ("1-states-runs", balanced, Column::States((0..999).map(|row| state(row / 200)).collect())),
        ("1-bytes-raw", balanced, strings(false, (0..20).map(|row| format!("{row}")))),
        (
            "1-bytes-dictionary",
            balanced,
            strings(true, (0..300).map(|_| format!("host_{}", random.below(20)))),
        ),
        (
            "1-bytes-symbols",
            speed,
            strings(false, (0..300).map(|row| format!("https://example.org/{}", row * row * 7919))),
        ),
        (
            "1-bytes-compressed",
            size,
            strings(
                false,
                (0..300).map(|row| {
                    format!("{{\"id\":{row},\"took_ms\":{},\"level\":\"info\"}}", random.below(9))
                }),
            ),
        ),
        (
            "1-integer-entropy-differences",
            size,
            integers(
                Encoding::Entropy,
                (0..900).scan(50, |walk, _| {
                    *walk += random.below(3) + random.below(3) - 2;
                    Some(*walk)
                }),
            ),
        ),
    ]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn encode(column: &Column, preference: Preference) -> Vec<u8> {
    let mut out = Vec::new();
    let mut scratch = Scratch::new();
    match column {
        Column::Integers { values, breaks, .. } => {
            encode_integers(values, breaks, preference, &mut scratch, &mut out);
        }
        Column::Floats { values, .. } => encode_floats(values, &[], preference, &mut scratch, &mut out),
        Column::Booleans(values) => encode_booleans(&values.iter().copied().collect(), &mut out),
        Column::States(states) => encode_validity(states, &mut out),
        Column::Strings { values, .. } => {
            let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
            encode_bytes(&values, preference, &mut scratch, &mut out);
        }
    }
    out
}

/// Reads `bytes` and compares with what they must hold.
fn check(name: &str, column: &Column, bytes: &[u8]) {
    match column {
        Column::Integers { values, breaks, encoding } => {
            let block = IntegerBlock::parse(bytes).unwrap();
            let mut decoded = Vec::new();
            block.decode_range(0..block.len(), &mut decoded).unwrap();
            assert_eq!(&decoded, values, "{name}");
            assert!(block.vectors().next().is_none_or(|vector| vector.encoding == *encoding), "{name}");
            let starts: Vec<u32> = block.vectors().map(|vector| vector.rows.start).collect();
            assert!(breaks.iter().all(|position| starts.contains(position)), "{name}");
        }
        Column::Floats { values, encoding } => {
            let block = FloatBlock::parse(bytes).unwrap();
            let mut decoded = Vec::new();
            block.decode_range(0..block.len(), &mut decoded).unwrap();
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&decoded), bits(values), "{name}");
            assert_eq!(block.vectors().next().unwrap().encoding, *encoding, "{name}");
        }
        Column::Booleans(values) => {
            let block = BooleanBlock::parse(bytes).unwrap();
            let mut decoded = Bitmap::new();
            block.decode_range(0..block.len(), &mut decoded);
            assert_eq!(decoded, values.iter().copied().collect(), "{name}");
        }
        Column::States(states) => {
            let block = ValidityBlock::parse(bytes).unwrap();
            let mut decoded = Vec::new();
            block.decode_range(0..block.len(), &mut decoded);
            assert_eq!(&decoded, states, "{name}");
        }
        Column::Strings { values, dictionary } => {
            let block = BytesBlock::parse(bytes).unwrap();
            let mut decoded = ByteValues::new();
            block.decode_range(0..block.len(), &mut decoded).unwrap();
            assert!(decoded.iter().eq(values.iter().map(|value| &value[..])), "{name}");
            // The byte after the start is the form: 1, dictionary.
            assert_eq!(bytes[4] == 1, *dictionary, "{name}");
        }
    }
}

#[test]
fn what_was_written_stays_readable() {
    for (name, _, column) in fixtures() {
        let bytes = fs::read(path(name)).unwrap_or_else(|error| panic!("fixture {name}: {error}"));
        check(name, &column, &bytes);
    }
}

#[test]
fn what_is_written_now_reads_the_same() {
    for (name, preference, column) in fixtures() {
        check(name, &column, &encode(&column, preference));
    }
}

#[test]
#[ignore = "writes the fixtures that are missing"]
fn write_missing() {
    for (name, preference, column) in fixtures() {
        if !path(name).exists() {
            fs::write(path(name), encode(&column, preference)).unwrap();
        }
    }
}
