//! The unsigned types of decoded offsets.
//!
//! A vector's values are decoded as offsets from the vector's minimum, counted in the vector's divisor, in the
//! narrowest type that holds the largest offset. Every final offset fits, so all arithmetic on the way (deltas,
//! slopes, patches) may wrap in that type. Sums and comparisons are fast because a value mostly takes one byte
//! instead of eight.

use crate::directory::VECTOR_VALUES;

/// A decoded vector: offsets by row. Only the rows that were asked for are meaningful.
pub(crate) type Offsets<T> = [T; VECTOR_VALUES];

/// How offsets become values: `min + divisor · offset`, wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameOfReference {
    pub(crate) min: i64,
    /// Each value minus the minimum is a multiple of it; not 0.
    pub(crate) divisor: u64,
}

impl FrameOfReference {
    #[inline(always)]
    pub(crate) fn value(self, offset: u64) -> i64 {
        self.min.wrapping_add_unsigned(self.divisor.wrapping_mul(offset))
    }

    /// The sum of `count` values whose offsets sum to `offsets`.
    #[inline(always)]
    pub(crate) fn sum(self, count: usize, offsets: u128) -> i128 {
        // At most 1024 offsets below 2³² times the largest true one: far from overflow even on hostile bytes.
        i128::from(self.min) * i128::from(count as i64) + offsets as i128 * i128::from(self.divisor)
    }
}

/// An unsigned type for offsets from a vector's minimum.
///
/// # Safety
/// The type is `BITS` / 8 bytes wide, with `BITS` 8, 16, 32 or 64. It has no padding, every pattern of bits is a value
/// of it, and its order and arithmetic are those of an unsigned number of that width. Kernels rely on this when
/// they load and store slices of it through vector registers and choose instructions by `BITS`.
#[allow(unsafe_code, reason = "a promise about the type's layout, see Safety")]
pub(crate) unsafe trait Narrow:
    Copy + Ord + Default + std::fmt::Debug + Send + Sync + 'static
{
    const BITS: u32;
    const MAX: Self;
    fn truncate(value: u64) -> Self;
    fn widen(self) -> u64;
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
}

macro_rules! narrow {
    ($($type:ty),*) => {$(
        // SAFETY: an unsigned integer of the language, whose width is `BITS`.
        #[allow(unsafe_code, reason = "see SAFETY")]
        unsafe impl Narrow for $type {
            const BITS: u32 = <$type>::BITS;
            const MAX: Self = <$type>::MAX;
            #[inline(always)]
            fn truncate(value: u64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                <$type>::wrapping_add(self, other)
            }
            #[inline(always)]
            fn wrapping_mul(self, other: Self) -> Self {
                <$type>::wrapping_mul(self, other)
            }
        }
    )*};
}
narrow!(u8, u16, u32, u64);

/// Runs `$body` with `$T` bound to the narrowest type that holds `$largest` (a `u64`).
macro_rules! with_narrow {
    ($largest:expr, $T:ident => $body:expr) => {
        match $largest {
            0..=0xff => {
                type $T = u8;
                $body
            }
            0x100..=0xffff => {
                type $T = u16;
                $body
            }
            0x1_0000..=0xffff_ffff => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(crate) use with_narrow;

/// `offset` truncated to the narrowest type for `largest`.
///
/// In a valid vector nothing is lost. In a corrupt one, reading one row gives the same value as reading many.
#[inline]
pub(crate) fn narrowed(largest: u64, offset: u64) -> u64 {
    with_narrow!(largest, T => T::truncate(offset).widen())
}
