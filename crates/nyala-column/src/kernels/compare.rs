//! Comparisons of decoded values with a constant: a bit per row.
//!
//! On integers every comparison is membership in an interval: one wrapping subtraction and one unsigned
//! comparison per value, whatever the operator. On floats the comparison is IEEE's: NaN compares as different
//! from everything, −0.0 equals 0.0.

use crate::bitmap::Bitmap;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Feature;
use crate::cpu::{CpuFeatures, dispatched};
use crate::narrow::Narrow;

/// A comparison with a constant, which stands on the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// The values that satisfy a comparison: those inside the interval, or those outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) negated: bool,
}

impl Interval {
    pub(crate) fn of(op: CompareOp, constant: i64) -> Self {
        let (low, high, negated) = match op {
            CompareOp::Equal => (constant, constant, false),
            CompareOp::NotEqual => (constant, constant, true),
            CompareOp::LessOrEqual => (i64::MIN, constant, false),
            CompareOp::Greater => (i64::MIN, constant, true),
            CompareOp::GreaterOrEqual => (constant, i64::MAX, false),
            CompareOp::Less => (constant, i64::MAX, true),
        };
        Self { low, high, negated }
    }

    /// The answer for all values of `min..=max`, where it is the same for all.
    pub(crate) fn decide(&self, min: i64, max: i64) -> Option<bool> {
        if self.low <= min && max <= self.high {
            Some(!self.negated)
        } else if max < self.low || self.high < min {
            Some(self.negated)
        } else {
            None
        }
    }
}

/// Appends a bit per value: whether `low <= value <= low + span` (wrapping), or not if `negated`.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
pub(crate) fn in_interval<T: Narrow>(
    cpu: CpuFeatures,
    values: &[T],
    low: T,
    span: T,
    negated: bool,
    out: &mut Bitmap,
) {
    let flip = if negated { u64::MAX } else { 0 };
    for values in values.chunks(64) {
        let word = match cpu.feature() {
            // SAFETY: a CpuFeatures exists only for instructions that the processor has.
            #[cfg(target_arch = "x86_64")]
            Feature::Avx512 => unsafe { x86::interval_word_avx512(values, low, span) },
            _ => interval_word(values, low, span),
        };
        out.extend_word(word ^ flip, values.len());
    }
}

/// One bit per value for up to 64 values, first lowest.
#[inline(always)]
fn interval_word<T: Narrow>(values: &[T], low: T, span: T) -> u64 {
    let mut bytes = [0_u8; 64];
    let negated_low = T::truncate(low.widen().wrapping_neg());
    for (byte, value) in bytes.iter_mut().zip(values) {
        *byte = u8::from(value.wrapping_add(negated_low) <= span);
    }
    gather_bits(&bytes)
}

/// The lowest bit of each byte.
#[inline(always)]
fn gather_bits(bytes: &[u8; 64]) -> u64 {
    let mut word = 0;
    for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // Each byte's bit is moved by the product to its own place in the top byte, without carries.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * index);
    }
    word
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "masked loads inside a slice, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::narrow::Narrow;

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn interval_word_avx512<T: Narrow>(values: &[T], low: T, span: T) -> u64 {
        let per_step = 512 / T::BITS as usize;
        let (low, span) = (low.widen(), span.widen());
        let mut word = 0;
        for (index, values) in values.chunks(per_step).enumerate() {
            let bytes = u64::MAX >> (64 - size_of_val(values) as u32);
            // SAFETY: the mask keeps the load inside `values` (1..=64 bytes).
            let loaded = unsafe { _mm512_maskz_loadu_epi8(bytes, values.as_ptr().cast()) };
            let inside = match T::BITS {
                8 => {
                    let offset = _mm512_sub_epi8(loaded, _mm512_set1_epi8(low as i8));
                    _mm512_cmple_epu8_mask(offset, _mm512_set1_epi8(span as i8))
                }
                16 => {
                    let offset = _mm512_sub_epi16(loaded, _mm512_set1_epi16(low as i16));
                    u64::from(_mm512_cmple_epu16_mask(offset, _mm512_set1_epi16(span as i16)))
                }
                32 => {
                    let offset = _mm512_sub_epi32(loaded, _mm512_set1_epi32(low as i32));
                    u64::from(_mm512_cmple_epu32_mask(offset, _mm512_set1_epi32(span as i32)))
                }
                _ => {
                    let offset = _mm512_sub_epi64(loaded, _mm512_set1_epi64(low as i64));
                    u64::from(_mm512_cmple_epu64_mask(offset, _mm512_set1_epi64(span as i64)))
                }
            };
            word |= inside << (index * per_step);
        }
        word
    }
}

/// Appends a bit per value: whether the comparison holds.
pub(crate) fn compare_floats(
    cpu: CpuFeatures,
    values: &[f64],
    op: CompareOp,
    constant: f64,
    out: &mut Bitmap,
) {
    for values in values.chunks(64) {
        out.extend_word(float_word(cpu, values, op, constant), values.len());
    }
}

dispatched! {
    fn float_word(values: &[f64], op: CompareOp, constant: f64) -> u64 = float_word_body;
}

#[inline(always)]
fn float_word_body(values: &[f64], op: CompareOp, constant: f64) -> u64 {
    match op {
        CompareOp::Equal => float_bits(values, |value| value == constant),
        CompareOp::NotEqual => float_bits(values, |value| value != constant),
        CompareOp::Less => float_bits(values, |value| value < constant),
        CompareOp::LessOrEqual => float_bits(values, |value| value <= constant),
        CompareOp::Greater => float_bits(values, |value| value > constant),
        CompareOp::GreaterOrEqual => float_bits(values, |value| value >= constant),
    }
}

#[inline(always)]
fn float_bits(values: &[f64], holds: impl Fn(f64) -> bool) -> u64 {
    let mut bytes = [0_u8; 64];
    for (byte, value) in bytes.iter_mut().zip(values) {
        *byte = u8::from(holds(*value));
    }
    gather_bits(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [CompareOp; 6] = [
        CompareOp::Equal,
        CompareOp::NotEqual,
        CompareOp::Less,
        CompareOp::LessOrEqual,
        CompareOp::Greater,
        CompareOp::GreaterOrEqual,
    ];

    fn naive<T: PartialOrd>(op: CompareOp, left: &T, right: &T) -> bool {
        match op {
            CompareOp::Equal => left == right,
            CompareOp::NotEqual => left != right,
            CompareOp::Less => left < right,
            CompareOp::LessOrEqual => left <= right,
            CompareOp::Greater => left > right,
            CompareOp::GreaterOrEqual => left >= right,
        }
    }

    fn check_interval<T: Narrow>() {
        let values: Vec<T> =
            (0..205_u64).map(|index| T::truncate(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        for cpu in CpuFeatures::available() {
            for (low, high) in [(0, u64::MAX), (5, 5), (100, 250), (values[7].widen(), values[7].widen())] {
                let (low, high) = (T::truncate(low), T::truncate(high));
                for negated in [false, true] {
                    let mut found = Bitmap::filled(3, true);
                    let span = T::truncate(high.widen().wrapping_sub(low.widen()));
                    in_interval(cpu, &values, low, span, negated, &mut found);
                    let expected = values.iter().map(|value| (low..=high).contains(value) != negated);
                    let expected: Bitmap = [true; 3].into_iter().chain(expected).collect();
                    assert_eq!(found, expected, "{cpu:?}");
                }
            }
        }
    }

    #[test]
    fn intervals_agree_with_row_by_row() {
        check_interval::<u8>();
        check_interval::<u16>();
        check_interval::<u32>();
        check_interval::<u64>();
    }

    #[test]
    fn every_operator_is_an_interval() {
        for op in OPS {
            for constant in [i64::MIN, -1, 0, 7, i64::MAX] {
                let interval = Interval::of(op, constant);
                for value in [i64::MIN, -2, -1, 0, 1, 6, 7, 8, i64::MAX] {
                    assert_eq!(interval.decide(value, value), Some(naive(op, &value, &constant)), "{op:?}");
                }
            }
        }
    }

    #[test]
    fn floats_compare_as_ieee_says() {
        let values: Vec<f64> = [f64::NAN, -0.0, 0.0, 1.5, -1.5, f64::INFINITY].repeat(40);
        for cpu in CpuFeatures::available() {
            for op in OPS {
                for constant in [0.0, 1.5, f64::NAN, f64::NEG_INFINITY] {
                    let mut found = Bitmap::new();
                    compare_floats(cpu, &values, op, constant, &mut found);
                    let expected: Bitmap = values.iter().map(|value| naive(op, value, &constant)).collect();
                    assert_eq!(found, expected, "{cpu:?} {op:?} {constant}");
                }
            }
        }
    }
}
