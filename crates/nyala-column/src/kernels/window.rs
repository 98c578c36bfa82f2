//! Sums and extremes of windows over decoded values.
//!
//! A *window* is the rows from one bound to the next. Callers pass rising bounds in rows of a block, the rows
//! that `values` holds, and results to add to: a window that spans vectors or blocks is completed by several calls.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::cpu::Feature;
use crate::cpu::{CpuFeatures, dispatched};
use crate::narrow::{FrameOfReference, Narrow};

/// Rows of the block that a slice of decoded values holds.
pub(crate) type Rows = Range<u32>;

/// Adds the values of its rows to each window's sum.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
pub(crate) fn sum_windows<T: Narrow>(
    cpu: CpuFeatures,
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [i128],
) {
    match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::sum_windows_avx512(values, rows, bounds, reference, out) },
        _ => sum_windows_dispatched(cpu, values, rows, bounds, reference, out),
    }
}

/// Widens each window's `(min, max)` by its rows.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
pub(crate) fn min_max_windows<T: Narrow>(
    cpu: CpuFeatures,
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [(i64, i64)],
) {
    match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::min_max_windows_avx512(values, rows, bounds, reference, out) },
        _ => min_max_windows_dispatched(cpu, values, rows, bounds, reference, out),
    }
}

dispatched! {
    fn sum_windows_dispatched<T: Narrow>(values: &[T], rows: Rows, bounds: &[u32], reference: FrameOfReference, out: &mut [i128])
        = sum_windows_body;

    fn min_max_windows_dispatched<T: Narrow>(
        values: &[T], rows: Rows, bounds: &[u32], reference: FrameOfReference, out: &mut [(i64, i64)]
    ) = min_max_windows_body;

    /// Sum of all offsets.
    pub(crate) fn sum_narrow<T: Narrow>(values: &[T]) -> u128 = sum_body;
}

#[inline(always)]
fn clip<'a, T>(values: &'a [T], rows: &Rows, start: u32, end: u32) -> &'a [T] {
    let (start, end) = (start.max(rows.start), end.min(rows.end));
    if start >= end { &[] } else { &values[(start - rows.start) as usize..(end - rows.start) as usize] }
}

#[inline(always)]
fn sum_windows_body<T: Narrow>(
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [i128],
) {
    sum_windows_with(values, rows, bounds, reference, out, |values| sum_body(values));
}

#[inline(always)]
fn sum_windows_with<T: Narrow>(
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [i128],
    sum: impl Fn(&[T]) -> u128,
) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let values = clip(values, &rows, pair[0], pair[1]);
        *out += reference.sum(values.len(), sum(values));
    }
}

#[inline(always)]
fn min_max_windows_body<T: Narrow>(
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [(i64, i64)],
) {
    min_max_windows_with(values, rows, bounds, reference, out, |values| {
        let (min, max) = min_max_body(values);
        (min.widen(), max.widen())
    });
}

#[inline(always)]
fn min_max_windows_with<T: Narrow>(
    values: &[T],
    rows: Rows,
    bounds: &[u32],
    reference: FrameOfReference,
    out: &mut [(i64, i64)],
    min_max: impl Fn(&[T]) -> (u64, u64),
) {
    for (pair, out) in bounds.windows(2).zip(out) {
        let values = clip(values, &rows, pair[0], pair[1]);
        if !values.is_empty() {
            let (least, most) = min_max(values);
            *out = (out.0.min(reference.value(least)), out.1.max(reference.value(most)));
        }
    }
}

#[inline(always)]
fn sum_body<T: Narrow>(values: &[T]) -> u128 {
    match T::BITS {
        // In 32-bit lanes: a vector's 1024 values cannot overflow them.
        8 | 16 if values.len() <= 1 << 16 => {
            u128::from(values.iter().map(|value| value.widen() as u32).fold(0, u32::wrapping_add))
        }
        8 | 16 | 32 => u128::from(values.iter().map(|value| value.widen()).fold(0, u64::wrapping_add)),
        // Halves apart, so that 64-bit lanes cannot overflow.
        _ => {
            let halves =
                values.iter().map(|value| value.widen()).fold((0_u64, 0_u64), |(low, high), value| {
                    (low.wrapping_add(value & u64::from(u32::MAX)), high.wrapping_add(value >> 32))
                });
            u128::from(halves.0) + (u128::from(halves.1) << 32)
        }
    }
}

/// Smallest and largest; `(MAX, 0)` of nothing.
#[inline(always)]
fn min_max_body<T: Narrow>(values: &[T]) -> (T, T) {
    values.iter().fold((T::MAX, T::default()), |(min, max), value| (min.min(*value), max.max(*value)))
}

/// Bytes and halfwords by hand. Windows are often shorter than a register, and there the compiler's loops are mostly
/// loop ends. These use masked loads instead.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "masked loads inside a slice, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Rows, min_max_body, min_max_windows_with, sum_body, sum_windows_with};
    use crate::narrow::{FrameOfReference, Narrow};

    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi2,popcnt,lzcnt")]
    pub(super) fn sum_windows_avx512<T: Narrow>(
        values: &[T],
        rows: Rows,
        bounds: &[u32],
        reference: FrameOfReference,
        out: &mut [i128],
    ) {
        if T::BITS > 16 {
            return sum_windows_with(values, rows, bounds, reference, out, |values| sum_body(values));
        }
        sum_windows_with(values, rows, bounds, reference, out, |values| sum_small(values));
    }

    /// Sums bytes; of halfwords the low and high bytes apart.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,sse4.1")]
    #[inline]
    fn sum_small<T: Narrow>(values: &[T]) -> u128 {
        if T::BITS == 8 && values.len() <= 16 {
            let mask = u32::MAX.checked_shr(32 - values.len() as u32).unwrap_or(0) as u16;
            // SAFETY: the mask keeps the load inside `values` (0..=16 bytes).
            let loaded = unsafe { _mm_maskz_loadu_epi8(mask, values.as_ptr().cast()) };
            let sums = _mm_sad_epu8(loaded, _mm_setzero_si128());
            return (_mm_cvtsi128_si64(sums) + _mm_extract_epi64::<1>(sums)) as u128;
        }
        let zero = _mm512_setzero_si512();
        let (mut low, mut high) = (zero, zero);
        for chunk in values.chunks(512 / T::BITS as usize) {
            let mask = u64::MAX >> (64 - size_of_val(chunk) as u32);
            // SAFETY: the mask keeps the load inside `chunk` (1..=64 bytes).
            let loaded = unsafe { _mm512_maskz_loadu_epi8(mask, chunk.as_ptr().cast()) };
            if T::BITS == 8 {
                low = _mm512_add_epi64(low, _mm512_sad_epu8(loaded, zero));
            } else {
                let low_bytes = _mm512_and_si512(loaded, _mm512_set1_epi16(0xff));
                low = _mm512_add_epi64(low, _mm512_sad_epu8(low_bytes, zero));
                high = _mm512_add_epi64(high, _mm512_sad_epu8(_mm512_srli_epi16::<8>(loaded), zero));
            }
        }
        let sums = _mm512_add_epi64(low, _mm512_slli_epi64::<8>(high));
        _mm512_reduce_add_epi64(sums) as u64 as u128
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi2,popcnt,lzcnt")]
    pub(super) fn min_max_windows_avx512<T: Narrow>(
        values: &[T],
        rows: Rows,
        bounds: &[u32],
        reference: FrameOfReference,
        out: &mut [(i64, i64)],
    ) {
        if T::BITS > 16 {
            return min_max_windows_with(values, rows, bounds, reference, out, |values| {
                let (min, max) = min_max_body(values);
                (min.widen(), max.widen())
            });
        }
        min_max_windows_with(values, rows, bounds, reference, out, |values| min_max_small(values));
    }

    /// Smallest and largest of bytes or halfwords. `values` is not empty.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,sse4.1")]
    #[inline]
    fn min_max_small<T: Narrow>(values: &[T]) -> (u64, u64) {
        if size_of_val(values) <= 16 {
            let mask = (u32::MAX >> (32 - size_of_val(values) as u32)) as u16;
            // SAFETY: the mask keeps the loads inside `values` (1..=16 bytes).
            let (for_min, for_max) = unsafe {
                let pointer = values.as_ptr().cast();
                (_mm_mask_loadu_epi8(_mm_set1_epi8(-1), mask, pointer), _mm_maskz_loadu_epi8(mask, pointer))
            };
            return (least::<T>(for_min), most::<T>(for_max));
        }
        let mut min = _mm512_set1_epi8(-1);
        let mut max = _mm512_setzero_si512();
        for chunk in values.chunks(512 / T::BITS as usize) {
            let mask = u64::MAX >> (64 - size_of_val(chunk) as u32);
            // SAFETY: the mask keeps the loads inside `chunk` (1..=64 bytes).
            let (for_min, for_max) = unsafe {
                let pointer = chunk.as_ptr().cast();
                (
                    _mm512_mask_loadu_epi8(_mm512_set1_epi8(-1), mask, pointer),
                    _mm512_maskz_loadu_epi8(mask, pointer),
                )
            };
            if T::BITS == 8 {
                min = _mm512_min_epu8(min, for_min);
                max = _mm512_max_epu8(max, for_max);
            } else {
                min = _mm512_min_epu16(min, for_min);
                max = _mm512_max_epu16(max, for_max);
            }
        }
        let half = |both: __m512i| (_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both));
        let quarter = |both: __m256i| (_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let ((min_low, min_high), (max_low, max_high)) = (half(min), half(max));
        if T::BITS == 8 {
            let min = quarter(_mm256_min_epu8(min_low, min_high));
            let max = quarter(_mm256_max_epu8(max_low, max_high));
            (least::<T>(_mm_min_epu8(min.0, min.1)), most::<T>(_mm_max_epu8(max.0, max.1)))
        } else {
            let min = quarter(_mm256_min_epu16(min_low, min_high));
            let max = quarter(_mm256_max_epu16(max_low, max_high));
            (least::<T>(_mm_min_epu16(min.0, min.1)), most::<T>(_mm_max_epu16(max.0, max.1)))
        }
    }

    /// The least element of a register.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,sse4.1")]
    #[inline]
    fn least<T: Narrow>(values: __m128i) -> u64 {
        let halfwords = if T::BITS == 8 {
            // The lesser byte of each pair, zero-extended: what is shifted in from above is zero.
            _mm_min_epu8(_mm_and_si128(values, _mm_set1_epi16(0xff)), _mm_srli_epi16::<8>(values))
        } else {
            values
        };
        (_mm_cvtsi128_si32(_mm_minpos_epu16(halfwords)) & 0xffff) as u64
    }

    /// The greatest element of a register: the complement of the least complement.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,sse4.1")]
    #[inline]
    fn most<T: Narrow>(values: __m128i) -> u64 {
        let complement = least::<T>(_mm_xor_si128(values, _mm_set1_epi8(-1)));
        !complement & (u64::MAX >> (64 - T::BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    fn check<T: Narrow>() {
        let values: Vec<T> =
            (0..900_u64).map(|index| T::truncate(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let bounds = [90, 100, 100, 101, 108, 300, 700, 1000, 1200];
        let reference = FrameOfReference { min: -3, divisor: 5 };
        for cpu in CpuFeatures::available() {
            let mut sums = [7_i128; 8];
            sum_windows(cpu, &values, 100..1000, &bounds, reference, &mut sums);
            let mut extremes = [(i64::MAX, i64::MIN); 8];
            min_max_windows(cpu, &values, 100..1000, &bounds, reference, &mut extremes);
            for (index, pair) in bounds.windows(2).enumerate() {
                // Naive: row by row.
                let rows = (pair[0]..pair[1]).filter(|row| (100..1000).contains(row));
                let window: Vec<i64> = rows
                    .map(|row| values[row as usize - 100].widen() as i64)
                    .map(|value| value.wrapping_mul(5).wrapping_sub(3))
                    .collect();
                if T::BITS < 64 {
                    assert_eq!(sums[index], 7 + window.iter().map(|value| i128::from(*value)).sum::<i128>());
                    let expected = (window.iter().min().copied(), window.iter().max().copied());
                    let expected = (expected.0.unwrap_or(i64::MAX), expected.1.unwrap_or(i64::MIN));
                    assert_eq!(extremes[index], expected);
                }
            }
            let sum: u128 = values.iter().map(|value| u128::from(value.widen())).sum();
            assert_eq!(sum_narrow(cpu, &values), sum);
        }
    }

    #[test]
    fn every_instruction_set_agrees_with_row_by_row() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }
}
