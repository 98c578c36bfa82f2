//! Kernels of other crates, compiled per instruction set without unsafe code of their own.
//!
//! A [`Kernel`] is plain Rust that [`CpuFeatures::run`] compiles once per instruction set. Where the compiler does not keep
//! values in AVX-512's registers by itself, a kernel computes with [`Floats`]. These are made from an [`Avx512`] alone,
//! which only [`CpuFeatures::run`] hands out, where the processor has the instructions: that is the invariant behind every
//! `SAFETY: token` note below.

use crate::cpu::{CpuFeatures, dispatched};

/// Work that is compiled once per instruction set. Only what is inlined is: both functions, and what they call in their
/// loops, should be `#[inline(always)]`.
pub trait Kernel: Sized {
    /// What the work gives.
    type Output;

    /// Does the work in plain Rust.
    fn run(self) -> Self::Output;

    /// Does the same work with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_avx512(self, _registers: Avx512) -> Self::Output {
        self.run()
    }
}

dispatched! {
    fn run_by_level<K: Kernel>(kernel: K) -> K::Output = K::run;
}

impl CpuFeatures {
    /// Does a kernel's work with the instructions of this level.
    #[allow(unsafe_code, reason = "calls of the per-level copies, see SAFETY")]
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.feature() {
            // SAFETY: level; it is only handed out where the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            crate::cpu::Feature::Avx512 => unsafe { x86::run(kernel) },
            _ => run_by_level(self, kernel),
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx512, Floats, Mask};

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "intrinsics, see SAFETY")]
mod x86 {
    use super::Kernel;
    use std::arch::x86_64::*;
    use std::ops::{Add, BitAnd, BitOrAssign, Div, Mul, Sub};

    /// The proof that the processor has AVX-512.
    #[derive(Clone, Copy)]
    pub struct Avx512(());

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
        kernel.run_avx512(Avx512(()))
    }

    /// Sixteen floats in two registers: one is computed while the other waits for a division.
    #[derive(Clone, Copy)]
    pub struct Floats(__m512d, __m512d);

    /// Some of sixteen floats: a bit each, those of the lower register first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Mask(pub(super) u8, pub(super) u8);

    impl BitAnd for Mask {
        type Output = Self;

        #[inline(always)]
        fn bitand(self, other: Self) -> Self {
            Self(self.0 & other.0, self.1 & other.1)
        }
    }

    impl BitOrAssign for Mask {
        #[inline(always)]
        fn bitor_assign(&mut self, other: Self) {
            *self = Self(self.0 | other.0, self.1 | other.1);
        }
    }

    impl Avx512 {
        /// Floats from memory.
        #[inline(always)]
        pub fn load(self, from: &[f64; 16]) -> Floats {
            // SAFETY: token; sixteen floats.
            unsafe { Floats(_mm512_loadu_pd(from.as_ptr()), _mm512_loadu_pd(from.as_ptr().add(8))) }
        }

        /// One float sixteen times.
        #[inline(always)]
        pub fn splat(self, value: f64) -> Floats {
            // SAFETY: token.
            unsafe { Floats(_mm512_set1_pd(value), _mm512_set1_pd(value)) }
        }
    }

    macro_rules! operations {
        ($($trait:ident::$name:ident = $operation:ident;)*) => {$(
            impl $trait for Floats {
                type Output = Self;

                #[inline(always)]
                fn $name(self, other: Self) -> Self {
                    // SAFETY: token.
                    unsafe { Self($operation(self.0, other.0), $operation(self.1, other.1)) }
                }
            }
        )*};
    }

    operations! {
        Add::add = _mm512_add_pd;
        Sub::sub = _mm512_sub_pd;
        Mul::mul = _mm512_mul_pd;
        Div::div = _mm512_div_pd;
    }

    macro_rules! comparisons {
        ($($(#[$meta:meta])* $name:ident = $predicate:ident;)*) => {$(
            $(#[$meta])*
            #[inline(always)]
            pub fn $name(self, other: Self) -> Mask {
                // SAFETY: token.
                unsafe {
                    let low = _mm512_cmp_pd_mask::<$predicate>(self.0, other.0);
                    Mask(low, _mm512_cmp_pd_mask::<$predicate>(self.1, other.1))
                }
            }
        )*};
    }

    impl Floats {
        /// Floats to memory.
        #[inline(always)]
        pub fn store(self, to: &mut [f64; 16]) {
            // SAFETY: token; sixteen floats.
            unsafe {
                _mm512_storeu_pd(to.as_mut_ptr(), self.0);
                _mm512_storeu_pd(to.as_mut_ptr().add(8), self.1);
            }
        }

        /// The bits of floats to memory.
        #[inline(always)]
        pub fn store_bits(self, to: &mut [u64; 16]) {
            // SAFETY: token; sixteen floats' bits.
            unsafe {
                _mm512_storeu_pd(to.as_mut_ptr().cast(), self.0);
                _mm512_storeu_pd(to.as_mut_ptr().add(8).cast(), self.1);
            }
        }

        /// Each clamped to 0 to 1; NaN and the sign of zero stay.
        #[inline(always)]
        pub fn clamp_to_unit(self) -> Self {
            // SAFETY: token.
            unsafe {
                let (zero, one) = (_mm512_setzero_pd(), _mm512_set1_pd(1.0));
                // If one is NaN, or both are zeros, these give the second.
                let low = _mm512_min_pd(one, _mm512_max_pd(zero, self.0));
                Self(low, _mm512_min_pd(one, _mm512_max_pd(zero, self.1)))
            }
        }

        comparisons! {
            /// Which are greater than the others.
            greater = _CMP_GT_OQ;
            /// Which are less.
            less = _CMP_LT_OQ;
            /// Which are not comparable, because one is NaN.
            unordered = _CMP_UNORD_Q;
        }

        /// The others where the mask says so, these elsewhere; bits of floats stay as they are.
        #[inline(always)]
        pub fn replaced(self, mask: Mask, others: Self) -> Self {
            // SAFETY: token.
            unsafe {
                let high = _mm512_mask_mov_pd(self.1, mask.1, others.1);
                Self(_mm512_mask_mov_pd(self.0, mask.0, others.0), high)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Compute([f64; 16], [f64; 16]);

    impl Kernel for Compute {
        type Output = ([[f64; 16]; 6], [u16; 3]);

        fn run(self) -> Self::Output {
            let Self(a, b) = self;
            let each = |f: fn(f64, f64) -> f64| std::array::from_fn(|place| f(a[place], b[place]));
            let bits = |f: fn(f64, f64) -> bool| {
                (0..16).fold(0, |bits, place| bits | u16::from(f(a[place], b[place])) << place)
            };
            let replaced = |a: f64, b: f64| if a > b { b } else { a };
            let results = [
                each(|a, b| a + b),
                each(|a, b| a - b),
                each(|a, b| a * b),
                each(|a, b| a / b),
                each(|a, _| a.clamp(0.0, 1.0)),
                each(replaced),
            ];
            (results, [bits(|a, b| a > b), bits(|a, b| a < b), bits(|a, b| a.is_nan() | b.is_nan())])
        }

        #[cfg(target_arch = "x86_64")]
        fn run_avx512(self, registers: Avx512) -> Self::Output {
            let (a, b) = (registers.load(&self.0), registers.load(&self.1));
            let masks = [a.greater(b), a.less(b), a.unordered(b)];
            let results = [a + b, a - b, a * b, a / b, a.clamp_to_unit(), a.replaced(masks[0], b)];
            let stored = results.map(|floats| {
                let mut stored = [0.0; 16];
                floats.store(&mut stored);
                stored
            });
            (stored, masks.map(|mask| u16::from_le_bytes([mask.0, mask.1])))
        }
    }

    #[test]
    fn every_level_computes_what_plain_rust_does() {
        let odd = [0.0, -0.0, 1.0, -1.0, 0.3, 2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 1e308];
        for shift in 0..odd.len() {
            let a = std::array::from_fn(|place| odd[place % odd.len()]);
            let b = std::array::from_fn(|place| odd[(place + shift) % odd.len()]);
            let (expected, expected_bits) = Compute(a, b).run();
            for level in CpuFeatures::available() {
                let (results, bits) = level.run(Compute(a, b));
                let shown = |results: [[f64; 16]; 6]| {
                    results.as_flattened().iter().map(|value| value.to_string()).collect::<Vec<_>>()
                };
                assert_eq!((shown(results), bits), (shown(expected), expected_bits), "{level:?}");
            }
        }
    }
}
