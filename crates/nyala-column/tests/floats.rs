//! Float blocks: bits in, bits out.

use std::ops::Range;

use nyala_column::kernels::CompareOp;
use nyala_column::*;
use proptest::prelude::*;

const PREFERENCES: [Preference; 3] = [Preference::Speed, Preference::Balanced, Preference::Size];

type Holds = fn(&f64, &f64) -> bool;
const OPS: [(CompareOp, Holds); 6] = [
    (CompareOp::Equal, f64::eq),
    (CompareOp::NotEqual, f64::ne),
    (CompareOp::Less, f64::lt),
    (CompareOp::LessOrEqual, f64::le),
    (CompareOp::Greater, f64::gt),
    (CompareOp::GreaterOrEqual, f64::ge),
];

fn shapes() -> impl Strategy<Value = Vec<f64>> {
    let length = prop_oneof![0..20_usize, 100..140_usize, 1000..2100_usize];
    (length, 0..10_u32, any::<u64>()).prop_map(|(length, shape, seed)| {
        let mut state = seed | 1;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let special =
            [f64::NAN, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::from_bits(0x7ff8_dead_beef_0001), 5e-324];
        let mut walk = random(1000) as f64;
        (0..length)
            .map(|index| match shape {
                0 => 42.5,
                1 => random(10_000) as f64 / 100.0,
                2 => (random(1 << 31) as f64).sin() * 100.0,
                3 if random(30) == 0 => special[random(6) as usize],
                3 => random(1000) as f64 / 10.0 - 50.0,
                4 => f64::from_bits(random(1 << 31) << 33 | random(1 << 31)),
                5 => index as f64,
                6 => special[random(6) as usize],
                7 => {
                    walk += (random(2001) as f64 - 1000.0) / 1e4;
                    walk
                }
                8 => [1.1, 2.2, 1.0 / 3.0][random(3) as usize],
                _ => f64::NAN,
            })
            .collect()
    })
}

fn encode(values: &[f64], breaks: &[u32], preference: Preference) -> Vec<u8> {
    let mut block = Vec::new();
    encode_floats(values, breaks, preference, &mut Scratch::new(), &mut block);
    block
}

fn range(length: usize, (start, end): (u32, u32)) -> Range<u32> {
    let (start, end) = (start % (length as u32 + 1), end % (length as u32 + 1));
    start.min(end)..start.max(end)
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn naive_min_max(values: &[f64]) -> Option<(u64, u64)> {
    let numbers = || values.iter().copied().filter(|value| !value.is_nan());
    Some((numbers().min_by(f64::total_cmp)?.to_bits(), numbers().max_by(f64::total_cmp)?.to_bits()))
}

fn pair_bits(pair: Option<(f64, f64)>) -> Option<(u64, u64)> {
    pair.map(|(min, max)| (min.to_bits(), max.to_bits()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_range_reads_back(
        values in shapes(),
        cuts in prop::collection::vec(1..2100_u32, 0..4),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 6),
        edges in prop::collection::vec(any::<u32>(), 0..40),
    ) {
        let mut breaks: Vec<u32> = cuts.into_iter().filter(|cut| (*cut as usize) < values.len()).collect();
        breaks.sort_unstable();
        breaks.dedup();
        for preference in PREFERENCES {
            let bytes = encode(&values, &breaks, preference);
            for cpu in CpuFeatures::available() {
                let block = FloatBlock::parse(&bytes).unwrap().with_cpu_features(cpu);
                prop_assert_eq!(block.len() as usize, values.len());
                for vector in block.vectors() {
                    let values = &values[vector.rows.start as usize..vector.rows.end as usize];
                    prop_assert_eq!(pair_bits(vector.min_max), naive_min_max(values));
                    prop_assert_eq!(vector.has_nan, values.iter().any(|value| value.is_nan()));
                }
                for rows in ranges.iter().map(|pair| range(values.len(), *pair)).chain(std::iter::once(0..block.len())) {
                    let expected = &values[rows.start as usize..rows.end as usize];
                    let mut decoded = vec![5.0];
                    block.decode_range(rows.clone(), &mut decoded).unwrap();
                    prop_assert_eq!(bits(&decoded[1..]), bits(expected));
                    if rows.start < block.len() {
                        let value = block.value_at(rows.start).unwrap();
                        prop_assert_eq!(value.to_bits(), values[rows.start as usize].to_bits());
                    }
                }
                if !block.is_empty() {
                    let mut rows: Vec<u32> = edges.iter().map(|edge| edge % block.len()).collect();
                    rows.sort_unstable();
                    for rows in [&rows[..], &rows[..rows.len().min(3)]] {
                        let mut gathered = Vec::new();
                        block.gather(rows, &mut gathered).unwrap();
                        let expected: Vec<f64> = rows.iter().map(|row| values[*row as usize]).collect();
                        prop_assert_eq!(bits(&gathered), bits(&expected));
                    }
                    for constant in [values[rows.first().map_or(0, |row| *row as usize)], 0.0, 42.5] {
                        for (op, holds) in OPS {
                            let mut found = Bitmap::new();
                            block.compare(1..block.len(), op, constant, &mut found).unwrap();
                            let expected: Bitmap =
                                values[1..].iter().map(|value| holds(value, &constant)).collect();
                            prop_assert_eq!(found, expected);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn each_shape_finds_its_encoding() {
    let encoding = |values: &[f64]| {
        let block = encode(values, &[], Preference::Balanced);
        let encoding = FloatBlock::parse(&block).unwrap().vectors().next().unwrap().encoding;
        (encoding, block.len())
    };
    let two_digits: Vec<f64> = (0..1024).map(|index| f64::from(index * 7919 % 10_000) / 100.0).collect();
    let (found, bytes) = encoding(&two_digits);
    assert_eq!(found, FloatEncoding::Decimal);
    assert!(bytes < 1900, "{bytes}");
    let full: Vec<f64> = (0..1024).map(|index| 20.0 + (f64::from(index) * 0.7).sin()).collect();
    assert_eq!(encoding(&full).0, FloatEncoding::Split);
    let random: Vec<f64> =
        (0..1024_u64).map(|index| f64::from_bits(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    assert_eq!(encoding(&random).0, FloatEncoding::Raw);
    assert_eq!(encoding(&[1.0 / 3.0; 1024]).0, FloatEncoding::Ordered);
}
