//! Kernels on floats: smallest and largest, decimals to floats and back.
//!
//! Extremes ignore NaN and order −0.0 below 0.0, so that they do not depend on the order of rows.

use crate::cpu::dispatched;
use crate::narrow::{FrameOfReference, Narrow};

/// 1.5 · 2⁵²: adding it to a float below 2⁵¹ leaves the rounded integer in the low bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// Decimals are limited to this magnitude, for the conversion by [`ROUNDING`] to be exact.
pub(crate) const DECIMAL_LIMIT: i64 = 1 << 51;

/// How an integer becomes a float again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// `integer × factor × fraction`: powers of ten, the second negative. Fast, and mostly exact.
    Multiply { factor: f64, fraction: f64 },
    /// `integer ÷ divisor`: correctly rounded, so exact for every decimal of up to 15 digits.
    Divide { divisor: f64 },
}

dispatched! {
    /// Smallest and largest that is not NaN; `(∞, −∞)` if there is none.
    pub(crate) fn min_max_floats(values: &[f64]) -> (f64, f64) = min_max_body;

    /// Offsets to the floats they stand for.
    pub(crate) fn scale_up<T: Narrow>(offsets: &[T], reference: FrameOfReference, scale: Scale, out: &mut [f64]) = scale_up_body;

    /// Neighbours whose bits differ.
    pub(crate) fn count_changes(values: &[f64]) -> usize = count_changes_body;

    /// Whether two slices of one length hold the same bits.
    pub(crate) fn same_bits(left: &[f64], right: &[f64]) -> bool = same_bits_body;

    /// Whether some value is NaN, and whether all are.
    pub(crate) fn some_and_all_nan(values: &[f64]) -> (bool, bool) = some_and_all_nan_body;

    /// The integers that `values` come from under `scale`; returns how many do not come back bit by bit.
    pub(crate) fn scale_down(values: &[f64], powers: (f64, f64), scale: Scale, out: &mut [i64]) -> usize
        = scale_down_body;
}

/// The bits as an integer that sorts as the float does (total order, NaNs outermost).
#[inline(always)]
pub(crate) fn to_ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The inverse of [`to_ordered`].
#[inline(always)]
pub(crate) fn from_ordered(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
}

#[inline(always)]
fn min_max_body(values: &[f64]) -> (f64, f64) {
    const LOWEST: i64 = i64::MIN + 0x000f_ffff_ffff_ffff;
    const HIGHEST: i64 = 0x7ff0_0000_0000_0000;
    // Total order as integers; whatever is beyond the infinities is NaN.
    let (mut min, mut max) = (HIGHEST, LOWEST);
    for value in values {
        let ordered = to_ordered(*value);
        let is_nan = !(LOWEST..=HIGHEST).contains(&ordered);
        min = min.min(if is_nan { HIGHEST } else { ordered });
        max = max.max(if is_nan { LOWEST } else { ordered });
    }
    (from_ordered(min), from_ordered(max))
}

#[inline(always)]
fn count_changes_body(values: &[f64]) -> usize {
    let pairs = values.iter().zip(values.iter().skip(1));
    pairs.map(|(left, right)| u64::from(left.to_bits() != right.to_bits())).sum::<u64>() as usize
}

#[inline(always)]
fn same_bits_body(left: &[f64], right: &[f64]) -> bool {
    let mut different = 0;
    for (left, right) in left.iter().zip(right) {
        different |= left.to_bits() ^ right.to_bits();
    }
    different == 0 && left.len() == right.len()
}

#[inline(always)]
fn some_and_all_nan_body(values: &[f64]) -> (bool, bool) {
    let count = values.iter().map(|value| u64::from(value.is_nan())).sum::<u64>() as usize;
    (count > 0, count == values.len())
}

#[inline(always)]
fn to_float(integer: i64) -> f64 {
    f64::from_bits((integer as u64).wrapping_add(ROUNDING.to_bits())) - ROUNDING
}

#[inline(always)]
fn scale_up_body<T: Narrow>(offsets: &[T], reference: FrameOfReference, scale: Scale, out: &mut [f64]) {
    if reference.divisor == 1 {
        // A constant divisor of 1 removes the multiplication from the loop.
        return scale_up_by(offsets, FrameOfReference { divisor: 1, ..reference }, scale, out);
    }
    scale_up_by(offsets, reference, scale, out);
}

#[inline(always)]
fn scale_up_by<T: Narrow>(offsets: &[T], reference: FrameOfReference, scale: Scale, out: &mut [f64]) {
    match scale {
        Scale::Multiply { factor, fraction } => {
            for (out, offset) in out.iter_mut().zip(offsets) {
                *out = to_float(reference.value(offset.widen())) * factor * fraction;
            }
        }
        Scale::Divide { divisor } => {
            for (out, offset) in out.iter_mut().zip(offsets) {
                *out = to_float(reference.value(offset.widen())) / divisor;
            }
        }
    }
}

/// One value under a scale and its inverse powers: the integer, and whether it comes back.
#[inline(always)]
pub(crate) fn scale_down_one(value: f64, (power, inverse): (f64, f64), scale: Scale) -> (i64, bool) {
    let scaled = value * power * inverse;
    let rounded = scaled + ROUNDING;
    let integer = (rounded.to_bits() as i64).wrapping_sub(ROUNDING.to_bits() as i64);
    let back = match scale {
        Scale::Multiply { factor, fraction } => to_float(integer) * factor * fraction,
        Scale::Divide { divisor } => to_float(integer) / divisor,
    };
    let inside = (integer.wrapping_add(DECIMAL_LIMIT - 1) as u64) < 2 * DECIMAL_LIMIT as u64 - 1;
    (integer, inside & (back.to_bits() == value.to_bits()))
}

#[inline(always)]
fn scale_down_body(values: &[f64], powers: (f64, f64), scale: Scale, out: &mut [i64]) -> usize {
    let mut lost = 0_u64;
    for (out, value) in out.iter_mut().zip(values) {
        let (integer, exact) = scale_down_one(*value, powers, scale);
        lost += u64::from(!exact);
        *out = integer;
    }
    lost as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    fn values() -> Vec<f64> {
        let mut values: Vec<f64> =
            (0..500_u64).map(|index| f64::from_bits(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        values.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.5, -2.25]);
        values
    }

    #[test]
    fn ordering_bits_sorts_as_floats_do() {
        let mut sorted = values();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.iter().map(|value| to_ordered(*value)).is_sorted());
        assert!(sorted.iter().all(|value| from_ordered(to_ordered(*value)).to_bits() == value.to_bits()));
    }

    #[test]
    fn extremes_ignore_nan_at_every_instruction_set() {
        let values = values();
        let mut numbers: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        numbers.sort_by(f64::total_cmp);
        for cpu in CpuFeatures::available() {
            assert_eq!(min_max_floats(cpu, &values), (numbers[0], numbers[numbers.len() - 1]));
            assert_eq!(min_max_floats(cpu, &[f64::NAN]), (f64::INFINITY, f64::NEG_INFINITY));
            let zeroes = min_max_floats(cpu, &[0.0, -0.0]);
            assert_eq!((zeroes.0.to_bits(), zeroes.1.to_bits()), ((-0.0_f64).to_bits(), 0));
        }
    }

    #[test]
    fn changes_and_nan_are_counted_at_every_instruction_set() {
        let values = [1.0, 1.0, f64::NAN, f64::NAN, 0.0, -0.0];
        for cpu in CpuFeatures::available() {
            assert_eq!(count_changes(cpu, &values), 3);
            assert_eq!(count_changes(cpu, &[]), 0);
            assert!(same_bits(cpu, &values, &values));
            assert!(!same_bits(cpu, &values, &values[1..]));
            assert!(!same_bits(cpu, &values[4..5], &values[5..]));
            assert_eq!(some_and_all_nan(cpu, &values), (true, false));
            assert_eq!(some_and_all_nan(cpu, &values[..2]), (false, false));
            assert_eq!(some_and_all_nan(cpu, &values[2..4]), (true, true));
        }
    }

    #[test]
    fn decimals_scale_down_and_up_at_every_instruction_set() {
        let values: Vec<f64> = (-400..400).map(|index| f64::from(index * 37) / 100.0).collect();
        let scale = Scale::Divide { divisor: 100.0 };
        for cpu in CpuFeatures::available() {
            let mut integers = vec![0; values.len()];
            assert_eq!(scale_down(cpu, &values, (100.0, 1.0), scale, &mut integers), 0);
            let offsets: Vec<u64> =
                integers.iter().map(|integer| integer.wrapping_add(14800) as u64).collect();
            let mut back = vec![0.0; values.len()];
            scale_up(cpu, &offsets, FrameOfReference { min: -14800, divisor: 1 }, scale, &mut back);
            assert_eq!(back, values);
            let thirds: Vec<u64> = offsets.iter().map(|offset| offset / 37).collect();
            scale_up(cpu, &thirds, FrameOfReference { min: -14800, divisor: 37 }, scale, &mut back);
            assert_eq!(back, values);
            let odd = [f64::NAN, f64::INFINITY, -0.0, 1e300, 0.123_456];
            assert_eq!(scale_down(cpu, &odd, (100.0, 1.0), scale, &mut [0; 5]), 5);
        }
    }
}
