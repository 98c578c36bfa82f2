//! Float sums in fixed lanes: what [`FloatSum`] adds with.
//!
//! Lanes and the order within each are part of the result, so every level does the same additions; only how
//! values get to their lanes differs.

use super::float::window;
use super::window::Rows;
use crate::float::{FloatSum, LANES};
use crate::level::{Feature, Level, dispatched};

/// Adds `values` to lanes in turn, the first to lane `phase`.
#[allow(unsafe_code, reason = "calls of the per-level copies, see SAFETY")]
pub(crate) fn add_to_lanes(level: Level, lanes: &mut [f64; LANES], phase: usize, values: &[f64]) {
    match level.feature() {
        // SAFETY: level; it is only handed out where the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::add_to_lanes_avx512(lanes, phase, values) },
        _ => add_to_lanes_by_level(level, lanes, phase, values),
    }
}

/// Adds each window's rows to its sum.
#[allow(unsafe_code, reason = "calls of the per-level copies, see SAFETY")]
pub(crate) fn sum_float_windows(
    level: Level,
    values: &[f64],
    rows: Rows,
    bounds: &[u32],
    out: &mut [FloatSum],
) {
    match level.feature() {
        // SAFETY: level; it is only handed out where the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::sum_float_windows_avx512(values, rows, bounds, out) },
        _ => sum_float_windows_by_level(level, values, rows, bounds, out),
    }
}

dispatched! {
    fn add_to_lanes_by_level(lanes: &mut [f64; LANES], phase: usize, values: &[f64]) = add_to_lanes_body;

    fn sum_float_windows_by_level(values: &[f64], rows: Rows, bounds: &[u32], out: &mut [FloatSum])
        = sum_float_windows_body;
}

#[inline(always)]
fn sum_float_windows_body(values: &[f64], rows: Rows, bounds: &[u32], out: &mut [FloatSum]) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let values = window(values, &rows, pair);
        let (lanes, count) = out.parts();
        add_to_lanes_body(lanes, (*count % LANES as u64) as usize, values);
        *count += values.len() as u64;
    }
}

#[inline(always)]
fn add_to_lanes_body(lanes: &mut [f64; LANES], phase: usize, values: &[f64]) {
    let (head, rest) = split_head(phase, values);
    for (lane, value) in lanes[phase..].iter_mut().zip(head) {
        *lane += value;
    }
    let (chunks, tail) = rest.as_chunks::<LANES>();
    if !chunks.is_empty() {
        // A copy, so that the lanes live in registers.
        let mut sums = *lanes;
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += value;
            }
        }
        *lanes = sums;
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane += value;
    }
}

/// The values that fill up the lanes from `phase` on, and the rest, which begins at lane 0.
#[inline(always)]
fn split_head(phase: usize, values: &[f64]) -> (&[f64], &[f64]) {
    debug_assert!(phase < LANES);
    let head = if phase == 0 { 0 } else { (LANES - phase).min(values.len()) };
    values.split_at(head)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "masked loads inside a slice, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Rows, split_head, window};
    use crate::float::FloatSum;

    #[target_feature(enable = "avx512f")]
    pub(super) fn sum_float_windows_avx512(values: &[f64], rows: Rows, bounds: &[u32], out: &mut [FloatSum]) {
        for (pair, out) in bounds.windows(2).zip(out) {
            let values = window(values, &rows, pair);
            let (lanes, count) = out.parts();
            add_to_lanes_avx512(lanes, (*count % LANES as u64) as usize, values);
            *count += values.len() as u64;
        }
    }

    /// Lanes without a value add −0.0, which changes no number.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn add_to_lanes_avx512(lanes: &mut [f64; LANES], phase: usize, values: &[f64]) {
        let nothing = _mm512_set1_pd(-0.0);
        let (head, rest) = split_head(phase, values);
        // SAFETY: eight floats.
        let mut sums = unsafe { _mm512_loadu_pd(lanes.as_ptr()) };
        if !head.is_empty() {
            let mask = ((1_u32 << head.len()) - 1) << phase;
            // SAFETY: the mask keeps the load to `head`, which begins `phase` lanes after the pointer.
            let values =
                unsafe { _mm512_mask_loadu_pd(nothing, mask as u8, head.as_ptr().wrapping_sub(phase)) };
            sums = _mm512_add_pd(sums, values);
        }
        let (chunks, tail) = rest.as_chunks::<LANES>();
        for chunk in chunks {
            // SAFETY: eight floats.
            sums = _mm512_add_pd(sums, unsafe { _mm512_loadu_pd(chunk.as_ptr()) });
        }
        if !tail.is_empty() {
            let mask = (1_u32 << tail.len()) - 1;
            // SAFETY: the mask keeps the load inside `tail` (at most seven floats).
            let values = unsafe { _mm512_mask_loadu_pd(nothing, mask as u8, tail.as_ptr()) };
            sums = _mm512_add_pd(sums, values);
        }
        // SAFETY: eight floats.
        unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), sums) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The twin: row by row, lanes as the definition says.
    fn naive(values: &[f64]) -> f64 {
        let mut lanes = [0.0; LANES];
        values.iter().enumerate().for_each(|(index, value)| lanes[index % LANES] += value);
        let [a, b, c, d, e, f, g, h] = lanes;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    fn values() -> Vec<f64> {
        (0..1000).map(|index| f64::from(index).sin() * 1e10 + 1e-7).collect()
    }

    #[test]
    fn sums_are_the_same_however_cut() {
        let values = values();
        for level in Level::available() {
            for cut in [0, 1, 7, 8, 9, 500, 999] {
                let mut sum = FloatSum::new();
                sum.add_slice(level, &values[..cut]);
                sum.add(values[cut]);
                sum.add_slice(level, &values[cut + 1..]);
                assert_eq!(sum.total().to_bits(), naive(&values).to_bits(), "{level:?} {cut}");
                assert_eq!(sum.count(), 1000);
            }
        }
    }

    #[test]
    fn windows_of_every_length_and_phase_agree() {
        let values = values();
        for level in Level::available() {
            for phase in 0..LANES {
                let bounds: Vec<u32> =
                    (0..40).scan(0, |at, size| Some(std::mem::replace(at, *at + size))).collect();
                let mut sums = vec![FloatSum::new(); bounds.len() - 1];
                sums.iter_mut().for_each(|sum| sum.add_slice(level, &values[990..990 + phase]));
                sum_float_windows(level, &values, 0..1000, &bounds, &mut sums);
                for (pair, sum) in bounds.windows(2).zip(sums) {
                    let rows =
                        [&values[990..990 + phase], &values[pair[0] as usize..pair[1] as usize]].concat();
                    assert_eq!(sum.total().to_bits(), naive(&rows).to_bits(), "{level:?} {phase} {pair:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_but_negative_zero_sums_to_zero() {
        for level in Level::available() {
            for count in 0..20 {
                let mut sum = FloatSum::new();
                sum.add_slice(level, &vec![-0.0; count]);
                assert_eq!(sum.total().to_bits(), 0.0_f64.to_bits());
            }
        }
    }
}
