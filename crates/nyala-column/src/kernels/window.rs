//! Sums and extremes of windows over decoded values.
//!
//! A *window* is the rows from one bound to the next. Callers pass rising bounds in rows of a block, the rows
//! that `values` holds, and results to add to: a window that spans vectors or blocks is completed piece by piece.

use std::ops::Range;

use crate::level::dispatched;
use crate::narrow::Narrow;

/// Rows of the block that a slice of decoded values holds.
pub(crate) type Rows = Range<u32>;

dispatched! {
    /// Adds to each window's sum: its rows' offsets, and `min` once per row.
    pub(crate) fn sum_windows<T: Narrow>(values: &[T], rows: Rows, bounds: &[u32], min: i64, out: &mut [i128])
        = sum_windows_body;

    /// Widens each window's `(min, max)` by its rows.
    pub(crate) fn min_max_windows<T: Narrow>(
        values: &[T], rows: Rows, bounds: &[u32], min: i64, out: &mut [(i64, i64)]
    ) = min_max_windows_body;

    /// Sum of all offsets.
    pub(crate) fn sum_narrow<T: Narrow>(values: &[T]) -> u128 = sum_body;

    /// Smallest and largest; `(MAX, 0)` of nothing.
    pub(crate) fn min_max_narrow<T: Narrow>(values: &[T]) -> (T, T) = min_max_body;
}

#[inline(always)]
fn clip<'a, T>(values: &'a [T], rows: &Rows, start: u32, end: u32) -> &'a [T] {
    let (start, end) = (start.max(rows.start), end.min(rows.end));
    if start >= end { &[] } else { &values[(start - rows.start) as usize..(end - rows.start) as usize] }
}

#[inline(always)]
fn sum_windows_body<T: Narrow>(values: &[T], rows: Rows, bounds: &[u32], min: i64, out: &mut [i128]) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let values = clip(values, &rows, pair[0], pair[1]);
        *out += i128::from(min) * values.len() as i128 + sum_body(values) as i128;
    }
}

#[inline(always)]
fn min_max_windows_body<T: Narrow>(
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    min: i64,
    out: &mut [(i64, i64)],
) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let values = clip(values, &rows, pair[0], pair[1]);
        if !values.is_empty() {
            let (least, most) = min_max_body(values);
            out.0 = out.0.min(min.wrapping_add_unsigned(least.widen()));
            out.1 = out.1.max(min.wrapping_add_unsigned(most.widen()));
        }
    }
}

#[inline(always)]
fn sum_body<T: Narrow>(values: &[T]) -> u128 {
    if T::BITS < 64 {
        return u128::from(values.iter().map(|value| value.widen()).fold(0, u64::wrapping_add));
    }
    // Halves apart, so that 64-bit lanes cannot overflow (a slice here is at most a few thousand values).
    let (low, high) = values.iter().map(|value| value.widen()).fold((0_u64, 0_u64), |(low, high), value| {
        (low + (value & u64::from(u32::MAX)), high + (value >> 32))
    });
    u128::from(low) + (u128::from(high) << 32)
}

#[inline(always)]
fn min_max_body<T: Narrow>(values: &[T]) -> (T, T) {
    values.iter().fold((T::MAX, T::default()), |(min, max), value| (min.min(*value), max.max(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    fn check<T: Narrow>() {
        let values: Vec<T> =
            (0..900_u64).map(|index| T::truncate(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let bounds = [90, 100, 100, 101, 108, 300, 700, 1000, 1200];
        for level in Level::available() {
            let mut sums = [7_i128; 8];
            sum_windows(level, &values, 100..1000, &bounds, -3, &mut sums);
            let mut extremes = [(i64::MAX, i64::MIN); 8];
            min_max_windows(level, &values, 100..1000, &bounds, -3, &mut extremes);
            for (index, pair) in bounds.windows(2).enumerate() {
                // The twin: row by row.
                let rows = (pair[0]..pair[1]).filter(|row| (100..1000).contains(row));
                let window: Vec<i64> = rows
                    .map(|row| values[row as usize - 100].widen() as i64)
                    .map(|value| value.wrapping_sub(3))
                    .collect();
                if T::BITS < 64 {
                    assert_eq!(sums[index], 7 + window.iter().map(|value| i128::from(*value)).sum::<i128>());
                    let expected = (window.iter().min().copied(), window.iter().max().copied());
                    let expected = (expected.0.unwrap_or(i64::MAX), expected.1.unwrap_or(i64::MIN));
                    assert_eq!(extremes[index], expected);
                }
            }
            let sum: u128 = values.iter().map(|value| u128::from(value.widen())).sum();
            assert_eq!(sum_narrow(level, &values), sum);
            let expected = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            assert_eq!(min_max_narrow(level, &values), expected);
        }
    }

    #[test]
    fn every_level_agrees_with_row_by_row() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }
}
