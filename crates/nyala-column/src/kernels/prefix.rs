//! Prefix sums (running sums): from differences back to values.

use crate::cpu::{CpuFeatures, Feature};
use crate::narrow::Narrow;

/// Turns differences into values in place: the first becomes `base`, each later one its predecessor plus `step`
/// plus its difference. Arithmetic wraps (see [`Narrow`]).
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
#[inline]
pub(crate) fn running_sum<T: Narrow>(cpu: CpuFeatures, values: &mut [T], base: T, step: T) {
    match cpu.feature() {
        Feature::Portable => running_sum_portable(values, base, step),
        // SAFETY: a CpuFeatures exists only for instructions that the processor has, and both hold AVX2.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx2 | Feature::Avx512 => unsafe { x86::running_sum_avx2(values, base, step) },
    }
}

#[inline(always)]
fn running_sum_portable<T: Narrow>(values: &mut [T], base: T, step: T) {
    let Some((first, rest)) = values.split_first_mut() else { return };
    *first = base;
    let mut last = base;
    for value in rest {
        last = last.wrapping_add(value.wrapping_add(step));
        *value = last;
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "intrinsics on whole 32-byte chunks of a slice, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::narrow::Narrow;

    /// Sums by doubling inside each half, carries the low half's total into the high one, then the total of
    /// everything before.
    #[target_feature(enable = "avx2")]
    pub(super) fn running_sum_avx2<T: Narrow>(values: &mut [T], base: T, step: T) {
        let per_step = 256 / T::BITS as usize;
        let Some(first) = values.first().copied() else { return };
        // The value before the first element, chosen so that the first becomes `base`.
        let negated = T::truncate(step.wrapping_add(first).widen().wrapping_neg());
        let before = base.wrapping_add(negated);
        let (chunks, tail_start) = (values.len() / per_step, values.len() / per_step * per_step);
        let steps = splat(step);
        let mut carry = splat(before);
        // Within each half: the bytes of its last element, repeated.
        let last = match T::BITS {
            8 => _mm256_set1_epi8(15),
            16 => _mm256_set1_epi16(0x0f0e),
            32 => _mm256_set1_epi32(0x0f0e_0d0c),
            _ => _mm256_set1_epi64x(0x0f0e_0d0c_0b0a_0908),
        };
        for chunk in values[..tail_start].chunks_exact_mut(per_step) {
            // SAFETY: `chunk` is 32 bytes.
            let input = unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) };
            let mut sums = add::<T>(input, steps);
            if T::BITS <= 8 {
                sums = add::<T>(sums, _mm256_slli_si256::<1>(sums));
            }
            if T::BITS <= 16 {
                sums = add::<T>(sums, _mm256_slli_si256::<2>(sums));
            }
            if T::BITS <= 32 {
                sums = add::<T>(sums, _mm256_slli_si256::<4>(sums));
            }
            sums = add::<T>(sums, _mm256_slli_si256::<8>(sums));
            let low_total = _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x08>(sums, sums), last);
            // The low half of the permutation is zero, and so is what the shuffle makes of it.
            sums = add::<T>(sums, low_total);
            let total = _mm256_shuffle_epi8(_mm256_permute4x64_epi64::<0xff>(sums), last);
            let output = add::<T>(sums, carry);
            carry = add::<T>(carry, total);
            // SAFETY: `chunk` is 32 bytes.
            unsafe { _mm256_storeu_si256(chunk.as_mut_ptr().cast(), output) };
        }
        let previous = if chunks == 0 { before } else { values[tail_start - 1] };
        let mut last = previous;
        for value in &mut values[tail_start..] {
            last = last.wrapping_add(value.wrapping_add(step));
            *value = last;
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn splat<T: Narrow>(value: T) -> __m256i {
        let value = value.widen();
        match T::BITS {
            8 => _mm256_set1_epi8(value as i8),
            16 => _mm256_set1_epi16(value as i16),
            32 => _mm256_set1_epi32(value as i32),
            _ => _mm256_set1_epi64x(value as i64),
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add<T: Narrow>(left: __m256i, right: __m256i) -> __m256i {
        match T::BITS {
            8 => _mm256_add_epi8(left, right),
            16 => _mm256_add_epi16(left, right),
            32 => _mm256_add_epi32(left, right),
            _ => _mm256_add_epi64(left, right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Narrow>() {
        for count in [0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 100, 127, 128] {
            let differences: Vec<T> = (0..count as u64)
                .map(|index| T::truncate(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                .collect();
            let (base, step) = (T::truncate(0xdead_beef_1234_5678), T::truncate(u64::MAX - 2));
            let mut expected = differences.clone();
            running_sum_portable(&mut expected, base, step);
            for cpu in CpuFeatures::available() {
                let mut sums = differences.clone();
                running_sum(cpu, &mut sums, base, step);
                assert_eq!(sums, expected, "{cpu:?} {count}");
            }
        }
    }

    #[test]
    fn every_instruction_set_agrees_with_the_plain_loop() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }
}
