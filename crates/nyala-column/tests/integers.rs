//! Integer blocks: what goes in comes out, by every range, preference and instruction set.

use std::ops::Range;

use nyala_column::kernels::CompareOp;
use nyala_column::*;
use proptest::prelude::*;

const PREFERENCES: [Preference; 3] = [Preference::Speed, Preference::Balanced, Preference::Size];

type Holds = fn(&i64, &i64) -> bool;
const OPS: [(CompareOp, Holds); 6] = [
    (CompareOp::Equal, i64::eq),
    (CompareOp::NotEqual, i64::ne),
    (CompareOp::Less, i64::lt),
    (CompareOp::LessOrEqual, i64::le),
    (CompareOp::Greater, i64::gt),
    (CompareOp::GreaterOrEqual, i64::ge),
];

/// Shapes that lead to every encoding, and the shapes between them.
fn shapes() -> impl Strategy<Value = Vec<i64>> {
    let length = prop_oneof![0..20_usize, 100..140_usize, 1000..2100_usize];
    let shape = 0..14_u32;
    // Some rows are replaced by extremes: outliers at the ends and in between.
    let outliers = prop::collection::vec((any::<prop::sample::Index>(), 0..6_usize), 0..6);
    (length, shape, any::<u64>(), any::<i64>(), outliers).prop_map(|(length, shape, seed, base, outliers)| {
        let mut state = seed | 1;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut walk = base;
        let mut values: Vec<i64> = (0..length as i64)
            .map(|index| match shape {
                0 => base,
                1 => base.wrapping_add(index * 10_000_000_000),
                2 => base.wrapping_add(index * 7 + if random(50) == 0 { random(1 << 40) as i64 } else { 0 }),
                3 => base.wrapping_add(random(100) as i64),
                4 => {
                    walk = walk.wrapping_add(random(7) as i64 - 3);
                    walk
                }
                5 => {
                    walk =
                        walk.wrapping_add(random(5_000) as i64 + if random(80) == 0 { 1 << 33 } else { 0 });
                    walk
                }
                6 => {
                    if random(40) == 0 {
                        walk = walk.wrapping_add(random(1 << 20) as i64);
                    }
                    walk
                }
                7 => (random(9) as i64).wrapping_mul(base),
                8 => (random(1 << 31) as i64) << 33 | random(1 << 31) as i64,
                9 => [i64::MIN, i64::MAX, 0, -1, base][random(5) as usize],
                10 => base.wrapping_add(index * 1000 + random(30) as i64),
                // Multiples: a clock of milliseconds in nanoseconds, pages, the widest there are.
                11 => base.wrapping_add((index * 10_000 + random(20) as i64) * 1_000_000),
                12 => (random(1 << 20) as i64 - 1000) * 4096,
                _ => (base | 1 << 40).wrapping_mul(random(3) as i64),
            })
            .collect();
        for (at, pick) in outliers.iter().filter(|_| length > 0) {
            // Every other one lands on an end.
            let row = [at.index(length.max(1)), 0, length - 1][pick % 3];
            values[row] = [i64::MIN, i64::MAX, 0, base, i64::MIN + 1, -1][*pick];
        }
        values
    })
}

fn encode(values: &[i64], breaks: &[u32], preference: Preference) -> Vec<u8> {
    let mut block = vec![0xaa];
    encode_integers(values, breaks, preference, &mut Scratch::new(), &mut block);
    block.split_off(1)
}

fn breaks(length: usize, seed: &[u32]) -> Vec<u32> {
    let mut breaks: Vec<u32> = seed.iter().map(|at| at % 2100).filter(|at| (*at as usize) < length).collect();
    breaks.retain(|at| *at > 0);
    breaks.sort_unstable();
    breaks.dedup();
    breaks
}

fn range(length: usize, (start, end): (u32, u32)) -> Range<u32> {
    let (start, end) = (start % (length as u32 + 1), end % (length as u32 + 1));
    start.min(end)..start.max(end)
}

fn naive_sum(values: &[i64]) -> i128 {
    values.iter().map(|value| i128::from(*value)).sum()
}

fn naive_min_max(values: &[i64]) -> Option<(i64, i64)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

fn slice(values: &[i64], rows: Range<u32>) -> &[i64] {
    &values[rows.start as usize..rows.end as usize]
}

/// Both ways of searching find what a naive search of sorted rows does.
fn check_bounds(
    block: &IntegerBlock<'_>,
    values: &[i64],
    rows: &Range<u32>,
    edges: &[i64],
) -> Result<(), TestCaseError> {
    let inside = slice(values, rows.clone());
    let expected: Vec<u32> =
        edges.iter().map(|edge| rows.start + inside.partition_point(|value| value < edge) as u32).collect();
    let single: Vec<u32> = edges.iter().map(|edge| block.lower_bound(rows.clone(), *edge).unwrap()).collect();
    prop_assert_eq!(&single, &expected);
    let mut merged = Vec::new();
    block.lower_bounds(rows.clone(), edges, &mut merged).unwrap();
    prop_assert_eq!(&merged, &expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_range_reads_back(
        values in shapes(),
        cuts in prop::collection::vec(any::<u32>(), 0..4),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 6),
        edges in prop::collection::vec(any::<u32>(), 0..40),
    ) {
        let breaks = breaks(values.len(), &cuts);
        for preference in PREFERENCES {
            let bytes = encode(&values, &breaks, preference);
            for cpu in CpuFeatures::available() {
                let block = IntegerBlock::parse(&bytes).unwrap().with_cpu_features(cpu);
                prop_assert_eq!(block.len() as usize, values.len());
                let mut all = Vec::new();
                block.decode_range(0..block.len(), &mut all).unwrap();
                prop_assert_eq!(&all, &values);
                for vector in block.vectors() {
                    let values = slice(&values, vector.rows.clone());
                    prop_assert_eq!(vector.sum, naive_sum(values));
                    prop_assert_eq!(Some((vector.min, vector.max)), naive_min_max(values));
                }
                for rows in ranges.iter().map(|pair| range(values.len(), *pair)) {
                    let expected = slice(&values, rows.clone());
                    let mut decoded = vec![5];
                    block.decode_range(rows.clone(), &mut decoded).unwrap();
                    prop_assert_eq!(&decoded[1..], expected);
                    prop_assert_eq!(block.sum(rows.clone()).unwrap(), naive_sum(expected));
                    if rows.start < block.len() {
                        prop_assert_eq!(block.value_at(rows.start).unwrap(), values[rows.start as usize]);
                    }
                }
                if !block.is_empty() {
                    let mut rows: Vec<u32> = edges.iter().map(|edge| edge % block.len()).collect();
                    rows.sort_unstable();
                    for rows in [&rows[..], &rows[..rows.len().min(3)]] {
                        let mut gathered = Vec::new();
                        block.gather(rows, &mut gathered).unwrap();
                        let expected: Vec<i64> = rows.iter().map(|row| values[*row as usize]).collect();
                        prop_assert_eq!(gathered, expected);
                    }
                    let constant = values[rows.first().map_or(0, |row| *row as usize)];
                    for (op, holds) in OPS {
                        let mut found = Bitmap::new();
                        let rows = 1..block.len();
                        block.compare(rows, op, constant, &mut found).unwrap();
                        let expected: Bitmap = values[1..].iter().map(|value| holds(value, &constant)).collect();
                        prop_assert_eq!(found, expected);
                    }
                    let (low, high) = (constant.saturating_sub(3), constant.saturating_add(1000));
                    let mut found = Bitmap::new();
                    block.between(0..block.len(), low, high, &mut found).unwrap();
                    let inside = |value| (low..=high).contains(value);
                    prop_assert_eq!(found, values.iter().map(inside).collect::<Bitmap>());
                }
                let mut bounds: Vec<u32> = edges.iter().map(|edge| edge % (block.len() + 1)).collect();
                bounds.sort_unstable();
                let windows = bounds.len().saturating_sub(1);
                let mut sums = vec![11_i128; windows];
                block.sum_windows(&bounds, &mut sums).unwrap();
                let mut extremes = vec![(i64::MAX, i64::MIN); windows];
                block.min_max_windows(&bounds, &mut extremes).unwrap();
                // What was found before stays where nothing is beyond it.
                let found = (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(0));
                let mut widened = vec![found; windows];
                block.min_max_windows(&bounds, &mut widened).unwrap();
                for (index, pair) in bounds.windows(2).enumerate() {
                    let expected = slice(&values, pair[0]..pair[1]);
                    prop_assert_eq!(sums[index], 11 + naive_sum(expected));
                    let expected = naive_min_max(expected).unwrap_or((i64::MAX, i64::MIN));
                    prop_assert_eq!(extremes[index], expected);
                    let wider = (expected.0.min(found.0), expected.1.max(found.1));
                    prop_assert_eq!(widened[index], wider);
                }
            }
        }
    }

    #[test]
    fn sorted_blocks_are_searched(
        mut values in shapes(),
        cuts in prop::collection::vec(any::<u32>(), 0..4),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 3),
        picks in prop::collection::vec((any::<u32>(), -2..3_i64), 0..30),
    ) {
        values.sort_unstable();
        let mut edges: Vec<i64> = picks
            .iter()
            .filter(|_| !values.is_empty())
            .map(|(pick, by)| values[*pick as usize % values.len()].wrapping_add(*by))
            .chain([i64::MIN, i64::MAX])
            .collect();
        edges.sort_unstable();
        let bytes = encode(&values, &breaks(values.len(), &cuts), Preference::Balanced);
        let block = IntegerBlock::parse(&bytes).unwrap();
        for rows in ranges.iter().map(|pair| range(values.len(), *pair)) {
            check_bounds(&block, &values, &rows, &edges)?;
            // What parsing found out reads the same without parsing again.
            let attached = block.layout().attach(&bytes);
            let mut words = vec![7];
            attached.decode_words(rows.clone(), &mut words).unwrap();
            let inside = slice(&values, rows.clone());
            prop_assert!(words[1..].iter().map(|word| *word as i64).eq(inside.iter().copied()));
            if let (Some(first), Some(last)) = (inside.first(), inside.last()) {
                prop_assert_eq!(attached.ends(rows).unwrap(), (*first, *last));
            }
        }
    }

    /// Rows of one series are in order, those of its neighbours in the same block begin anew.
    #[test]
    fn sorted_ranges_of_unsorted_blocks_are_searched(
        lengths in prop::collection::vec(1..900_usize, 1..12),
        step in 1..4_i64,
        gaps in any::<u64>(),
    ) {
        let mut state = gaps | 1;
        let (mut values, mut ranges) = (Vec::new(), Vec::new());
        for length in lengths {
            let start = values.len();
            let mut time = 0;
            for _ in 0..length {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                time += step * if state >> 61 == 0 { 1 + (state >> 58 & 7) as i64 } else { 1 };
                values.push(time);
            }
            ranges.push(start as u32..values.len() as u32);
        }
        let bytes = encode(&values, &[], Preference::Balanced);
        let block = IntegerBlock::parse(&bytes).unwrap();
        let edges: Vec<i64> = (-2..2000).step_by(7).collect();
        for rows in ranges {
            check_bounds(&block, &values, &rows, &edges)?;
            let inside = slice(&values, rows.clone());
            prop_assert_eq!(block.ends(rows).unwrap(), (inside[0], inside[inside.len() - 1]));
        }
    }

    #[test]
    fn the_instruction_set_does_not_change_the_bytes(values in shapes()) {
        let encodings = CpuFeatures::available().into_iter().map(|cpu| {
            let mut block = Vec::new();
            encode_integers(&values, &[], Preference::Balanced, &mut Scratch::with_cpu_features(cpu), &mut block);
            block
        });
        let encodings: Vec<_> = encodings.collect();
        prop_assert!(encodings.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn unsigned_numbers_keep_their_order() {
    let numbers = [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX];
    let mapped = numbers.map(from_unsigned);
    assert!(mapped.is_sorted());
    assert_eq!(mapped.map(to_unsigned), numbers);
}

#[test]
fn extremes_at_both_ends_of_the_range_do_not_suggest_a_level_line() {
    // Found by a random workload: first and last value 2^64 - 1 apart make a mean step of 0.
    let mut values: Vec<i64> = (0..700).map(|index| i64::MIN + (index * index) % 29).collect();
    values.iter_mut().step_by(17).for_each(|value| *value = i64::MAX);
    values[0] = i64::MIN;
    *values.last_mut().unwrap() = i64::MAX;
    let (mut scratch, mut bytes) = (nyala_column::Scratch::new(), Vec::new());
    for breaks in [&[][..], &[438][..]] {
        bytes.clear();
        let preference = nyala_column::Preference::Balanced;
        nyala_column::encode_integers(&values, breaks, preference, &mut scratch, &mut bytes);
        let mut decoded = Vec::new();
        let block = nyala_column::IntegerBlock::parse(&bytes).unwrap();
        block.decode_range(0..700, &mut decoded).unwrap();
        assert_eq!(decoded, values);
    }
}
