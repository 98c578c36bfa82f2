//! Statistics of a vector, which the integer encoder chooses by.

use crate::cpu::dispatched;

/// Smallest and largest value, sum, and differences of neighbours of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) min: i64,
    pub(crate) max: i64,
    /// Sum of the values minus count × min.
    pub(crate) sum_offset: u128,
    /// Smallest and largest wrapping difference of neighbours; 0 for a single value.
    pub(crate) difference_min: i64,
    pub(crate) difference_max: i64,
    /// Neighbours that differ.
    pub(crate) changes: usize,
}

impl Profile {
    /// Maximum minus minimum.
    pub(crate) fn range(&self) -> u64 {
        self.max.wrapping_sub(self.min) as u64
    }
}

dispatched! {
    /// Profiles `values`, which are not empty.
    pub(crate) fn profile(values: &[i64]) -> Profile = profile_body;

    /// Values outside `low ..= low + span`, wrapping: what would need patches.
    pub(crate) fn count_outside(values: &[i64], low: i64, span: u64) -> usize = count_outside_body;

    /// Wrapping differences of neighbours into `out`, one less than `values`.
    pub(crate) fn differences(values: &[i64], out: &mut [i64]) = differences_body;

    /// `values[i] - first - step · i`, wrapping.
    pub(crate) fn residuals(values: &[i64], first: i64, step: i64, out: &mut [i64]) = residuals_body;

    /// `(values[i] - min) ÷ divisor`, where no division leaves a remainder.
    pub(crate) fn divide_exactly(values: &[i64], min: i64, divisor: u64, out: &mut [i64])
        = divide_exactly_body;

    /// Smallest and largest; `(i64::MAX, i64::MIN)` of nothing.
    pub fn min_max_i64(values: &[i64]) -> (i64, i64) = min_max_i64_body;
}

#[inline(always)]
fn profile_body(values: &[i64]) -> Profile {
    let (min, max) = min_max_i64_body(values);
    let range = max.wrapping_sub(min) as u64;
    // Below 2⁵³ a million offsets still fit 64 bits (a vector has 1024).
    let sum_offset = if range < 1 << 53 {
        let offsets = values.iter().map(|value| value.wrapping_sub(min) as u64);
        u128::from(offsets.fold(0_u64, u64::wrapping_add))
    } else {
        values.iter().map(|value| u128::from(value.wrapping_sub(min) as u64)).sum()
    };
    let (mut difference_min, mut difference_max, mut changes) = (i64::MAX, i64::MIN, 0_u64);
    for (left, right) in values.iter().zip(&values[1..]) {
        let difference = right.wrapping_sub(*left);
        difference_min = difference_min.min(difference);
        difference_max = difference_max.max(difference);
        changes += u64::from(difference != 0);
    }
    if values.len() == 1 {
        (difference_min, difference_max) = (0, 0);
    }
    Profile { min, max, sum_offset, difference_min, difference_max, changes: changes as usize }
}

#[inline(always)]
fn min_max_i64_body(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(*value), max.max(*value)))
}

#[inline(always)]
fn count_outside_body(values: &[i64], low: i64, span: u64) -> usize {
    values.iter().map(|value| u64::from(value.wrapping_sub(low) as u64 > span)).sum::<u64>() as usize
}

#[inline(always)]
fn differences_body(values: &[i64], out: &mut [i64]) {
    for (out, (left, right)) in out.iter_mut().zip(values.iter().zip(&values[1..])) {
        *out = right.wrapping_sub(*left);
    }
}

#[inline(always)]
fn residuals_body(values: &[i64], first: i64, step: i64, out: &mut [i64]) {
    for (index, (out, value)) in out.iter_mut().zip(values).enumerate() {
        *out = value.wrapping_sub(first).wrapping_sub(step.wrapping_mul(index as i64));
    }
}

#[inline(always)]
fn divide_exactly_body(values: &[i64], min: i64, divisor: u64, out: &mut [i64]) {
    let twos = divisor.trailing_zeros();
    let odd = divisor >> twos;
    // Newton's iteration: an odd number is its own inverse in the low 3 bits, and each step doubles them.
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    for (out, value) in out.iter_mut().zip(values) {
        let offset = value.wrapping_sub(min) as u64;
        *out = (offset >> twos).wrapping_mul(inverse) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    #[test]
    fn every_instruction_set_divides_exactly() {
        for divisor in [2, 3, 1000, 1_000_000, 4096, 10_000_000_000, (1 << 62) - 1] {
            let quotients: Vec<i64> = (0..4)
                .chain([i64::MAX / divisor])
                .filter(|quotient| *quotient <= i64::MAX / divisor)
                .collect();
            let values: Vec<i64> =
                quotients.iter().map(|quotient| (quotient * divisor).wrapping_add(i64::MIN + 7)).collect();
            for cpu in CpuFeatures::available() {
                let mut divided = vec![0; values.len()];
                divide_exactly(cpu, &values, i64::MIN + 7, divisor as u64, &mut divided);
                assert_eq!(divided, quotients, "{divisor}");
            }
        }
    }

    #[test]
    fn every_instruction_set_profiles_alike() {
        let cases: [Vec<i64>; 4] = [
            vec![5],
            (0..1000).map(|index| index * index % 37 - 5).collect(),
            vec![i64::MIN, i64::MAX, 0, i64::MIN],
            vec![i64::MAX; 1024],
        ];
        for values in &cases {
            let min = *values.iter().min().unwrap();
            let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
            for cpu in CpuFeatures::available() {
                let profile = profile(cpu, values);
                assert_eq!((profile.min, Some(&profile.max)), (min, values.iter().max()));
                assert_eq!(profile.sum_offset as i128 + i128::from(min) * values.len() as i128, sum);
                let pairs = values.windows(2);
                assert_eq!(profile.changes, pairs.filter(|pair| pair[0] != pair[1]).count());
                let steps: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
                assert_eq!(profile.difference_min, steps.iter().min().copied().unwrap_or(0));
                assert_eq!(profile.difference_max, steps.iter().max().copied().unwrap_or(0));
                let outside = values.iter().filter(|value| !(0..=30).contains(*value)).count();
                assert_eq!(count_outside(cpu, values, 0, 30), outside);
            }
        }
    }
}
