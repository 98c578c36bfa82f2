//! The same kernels on plain decoded slices: what is in memory and not in a block.

use super::compare::{CompareOp, Interval, compare_floats, in_interval};
use super::float::min_max_floats;
use super::lanes::sum_float_windows;
use crate::bitmap::Bitmap;
use crate::float::FloatSum;
use crate::level::{Level, dispatched};

dispatched! {
    /// Exact sum.
    pub fn sum_i64(values: &[i64]) -> i128 = sum_i64_body;

    /// Smallest and largest; `(i64::MAX, i64::MIN)` of nothing.
    pub fn min_max_i64(values: &[i64]) -> (i64, i64) = min_max_i64_body;

    /// Adds the sum of `values[bounds[i]..bounds[i + 1]]` to `out[i]`.
    pub fn sum_windows_i64(values: &[i64], bounds: &[u32], out: &mut [i128]) = sum_windows_i64_body;

    /// Widens `out[i]` (start with `(i64::MAX, i64::MIN)`) by `values[bounds[i]..bounds[i + 1]]`.
    pub fn min_max_windows_i64(values: &[i64], bounds: &[u32], out: &mut [(i64, i64)])
        = min_max_windows_i64_body;
}

/// Smallest and largest that is not NaN, −0.0 below 0.0; `(∞, −∞)` if there is none.
pub fn min_max_f64(level: Level, values: &[f64]) -> (f64, f64) {
    min_max_floats(level, values)
}

/// Feeds `values[bounds[i]..bounds[i + 1]]` to `out[i]`.
pub fn sum_windows_f64(level: Level, values: &[f64], bounds: &[u32], out: &mut [FloatSum]) {
    sum_float_windows(level, values, 0..values.len() as u32, bounds, out);
}

/// Widens `out[i]` (start with `(∞, −∞)`) by `values[bounds[i]..bounds[i + 1]]`, NaN ignored.
pub fn min_max_windows_f64(level: Level, values: &[f64], bounds: &[u32], out: &mut [(f64, f64)]) {
    super::float::min_max_float_windows(level, values, 0..values.len() as u32, bounds, out);
}

/// Appends a bit per value: whether the comparison holds.
#[allow(unsafe_code, reason = "a slice cast between i64 and u64, see SAFETY")]
pub fn compare_i64(level: Level, values: &[i64], op: CompareOp, constant: i64, out: &mut Bitmap) {
    let Interval { low, high, negated } = Interval::of(op, constant);
    // SAFETY: i64 and u64 have the same size, alignment and valid values.
    let values = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u64>(), values.len()) };
    in_interval(level, values, low as u64, high.wrapping_sub(low) as u64, negated, out);
}

/// Appends a bit per value: whether the comparison holds (NaN differs from everything).
pub fn compare_f64(level: Level, values: &[f64], op: CompareOp, constant: f64, out: &mut Bitmap) {
    compare_floats(level, values, op, constant, out);
}

#[inline(always)]
fn sum_i64_body(values: &[i64]) -> i128 {
    let mut sum = 0;
    // Halves apart in 64-bit lanes; a chunk is short enough that they cannot overflow.
    for chunk in values.chunks(1 << 20) {
        let (low, high) = chunk.iter().fold((0_u64, 0_i64), |(low, high), value| {
            (low.wrapping_add(*value as u64 & u64::from(u32::MAX)), high.wrapping_add(value >> 32))
        });
        sum += i128::from(low) + (i128::from(high) << 32);
    }
    sum
}

#[inline(always)]
fn min_max_i64_body(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(*value), max.max(*value)))
}

#[inline(always)]
fn sum_windows_i64_body(values: &[i64], bounds: &[u32], out: &mut [i128]) {
    for (pair, out) in bounds.windows(2).zip(out) {
        *out += sum_i64_body(&values[pair[0] as usize..pair[1] as usize]);
    }
}

#[inline(always)]
fn min_max_windows_i64_body(values: &[i64], bounds: &[u32], out: &mut [(i64, i64)]) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let (min, max) = min_max_i64_body(&values[pair[0] as usize..pair[1] as usize]);
        *out = (out.0.min(min), out.1.max(max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_agrees_with_row_by_row() {
        let values: Vec<i64> = (0..777_i64)
            .map(|index| index.wrapping_mul(0x1e37_79b9_7f4a_7c15))
            .chain([i64::MIN; 3])
            .collect();
        let bounds = [0, 0, 1, 9, 500, 780];
        for level in Level::available() {
            assert_eq!(sum_i64(level, &values), values.iter().map(|value| i128::from(*value)).sum());
            assert_eq!(min_max_i64(level, &values), (i64::MIN, *values.iter().max().unwrap()));
            let mut sums = [3; 5];
            sum_windows_i64(level, &values, &bounds, &mut sums);
            let mut extremes = [(i64::MAX, i64::MIN); 5];
            min_max_windows_i64(level, &values, &bounds, &mut extremes);
            for (index, pair) in bounds.windows(2).enumerate() {
                let window = &values[pair[0] as usize..pair[1] as usize];
                assert_eq!(sums[index], 3 + window.iter().map(|value| i128::from(*value)).sum::<i128>());
                let min = window.iter().min().copied().unwrap_or(i64::MAX);
                assert_eq!(extremes[index], (min, window.iter().max().copied().unwrap_or(i64::MIN)));
            }
            let mut bits = Bitmap::new();
            compare_i64(level, &values, CompareOp::Less, -5, &mut bits);
            assert_eq!(bits, values.iter().map(|value| *value < -5).collect::<Bitmap>());
        }
    }
}
