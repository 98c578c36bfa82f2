//! Decoding arbitrary bytes: the entry for fuzzers and mutation tests.

use crate::bitmap::Bitmap;
use crate::boolean::BooleanBlock;
use crate::bytes::{ByteValues, BytesBlock};
use crate::cpu::CpuFeatures;
use crate::directory::Kind;
use crate::error::Result;
use crate::float::FloatBlock;
use crate::integer::IntegerBlock;
use crate::kernels::CompareOp;
use crate::validity::{CellState, ValidityBlock};

/// Reads `bytes` as whatever block they claim to be, in every way there is, with the instructions of `cpu`.
///
/// Any bytes must give `Ok` or `Err`, never a panic, a read out of bounds or an unbounded allocation. It asserts that
/// a whole and a partial read of numbers agree when both succeed.
pub fn decode_arbitrary(cpu: CpuFeatures, bytes: &[u8]) -> Result<()> {
    match Kind::of(bytes)? {
        Kind::Integer => integers(IntegerBlock::parse(bytes)?.with_cpu_features(cpu)),
        Kind::Float => floats(FloatBlock::parse(bytes)?.with_cpu_features(cpu)),
        Kind::Boolean => {
            let block = BooleanBlock::parse(bytes)?;
            let mut all = Bitmap::new();
            block.decode_range(0..block.len(), &mut all);
            let mut part = Bitmap::new();
            let middle = block.len() / 3..block.len();
            block.decode_range(middle.clone(), &mut part);
            (middle.zip(0..)).for_each(|(row, at)| assert_eq!(part.get(at), all.get(row as usize)));
            Ok(())
        }
        Kind::Bytes => strings(BytesBlock::parse(bytes)?),
        Kind::States => {
            let block = ValidityBlock::parse(bytes)?;
            let mut all = Vec::new();
            block.decode_range(0..block.len(), &mut all);
            let mut part = Vec::new();
            let middle = block.len() / 3..block.len();
            block.decode_range(middle.clone(), &mut part);
            assert_eq!(part, all[middle.start as usize..]);
            let values = all.iter().filter(|state| **state == CellState::Value).count();
            assert_eq!(block.rank(block.len()) as usize, values);
            Ok(())
        }
    }
}

/// Window bounds that start and end inside vectors and groups.
fn bounds(count: u32) -> Vec<u32> {
    (0..count).step_by(61).chain([count]).collect()
}

fn integers(block: IntegerBlock<'_>) -> Result<()> {
    let count = block.len();
    let bounds = bounds(count);
    let windows = bounds.len() - 1;
    let middle = count / 3..count - count / 5;
    let mut part = Vec::new();
    let partial = block.decode_range(middle.clone(), &mut part);
    let mut sums = vec![0; windows];
    let mut extremes = vec![(i64::MAX, i64::MIN); windows];
    let mut found = Bitmap::new();
    let mut edges = Vec::new();
    let mut gathered = Vec::new();
    // All of them run before the first error is returned.
    let results = [
        block.sum_windows(&bounds, &mut sums),
        block.min_max_windows(&bounds, &mut extremes),
        block.sum(middle.clone()).map(drop),
        block.lower_bound(middle.clone(), 7).map(drop),
        block.lower_bounds(middle.clone(), &[i64::MIN, -5, 0, 7, i64::MAX], &mut edges),
        block.compare(middle.clone(), CompareOp::Less, 7, &mut found),
        block.between(middle.clone(), -3, 1 << 40, &mut found),
        block.gather(&bounds[..bounds.len() - 1], &mut gathered),
    ];
    let mut all = Vec::new();
    block.decode_range(0..count, &mut all)?;
    if partial.is_ok() {
        assert_eq!(part, all[middle.start as usize..middle.end as usize]);
    }
    for row in middle.step_by(97) {
        if let Ok(value) = block.value_at(row) {
            assert_eq!(value, all[row as usize]);
        }
    }
    results.into_iter().collect()
}

fn floats(block: FloatBlock<'_>) -> Result<()> {
    let count = block.len();
    let bounds = bounds(count);
    let middle = count / 3..count - count / 5;
    let mut part = Vec::new();
    let partial = block.decode_range(middle.clone(), &mut part);
    let mut found = Bitmap::new();
    let mut gathered = Vec::new();
    let results = [
        block.compare(middle.clone(), CompareOp::Less, 7.0, &mut found),
        block.gather(&bounds[..bounds.len() - 1], &mut gathered),
    ];
    let mut all = Vec::new();
    block.decode_range(0..count, &mut all)?;
    let same = |left: &f64, right: &f64| left.to_bits() == right.to_bits();
    if partial.is_ok() {
        let whole = &all[middle.start as usize..middle.end as usize];
        assert!(part.len() == whole.len() && part.iter().zip(whole).all(|(left, right)| same(left, right)));
    }
    for row in middle.step_by(97) {
        if let Ok(value) = block.value_at(row) {
            assert!(same(&value, &all[row as usize]));
        }
    }
    results.into_iter().collect()
}

fn strings(block: BytesBlock<'_>) -> Result<()> {
    let count = block.len();
    let middle = count / 3..count - count / 5;
    let mut part = ByteValues::new();
    // Sums of lengths say where a string begins. In changed bytes a part may therefore differ from the whole.
    let partial = block.decode_range(middle.clone(), &mut part);
    let mut all = ByteValues::new();
    block.decode_range(0..count, &mut all)?;
    let mut value = ByteValues::new();
    for row in middle.step_by(997) {
        block.decode_range(row..row + 1, &mut value)?;
    }
    partial
}
