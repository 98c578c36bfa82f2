//! The unsigned types that decoded values live in.
//!
//! A vector's values are decoded as offsets from the vector's minimum, in the narrowest type that holds the
//! vector's range. Because every offset fits, all arithmetic on the way (deltas, slopes, patches) may wrap in
//! that type: only the final offset counts. One byte per value instead of eight is what makes the sums and
//! comparisons that follow fast.

/// An unsigned type for offsets from a vector's minimum.
pub(crate) trait Narrow: Copy + Ord + Default + std::fmt::Debug + Send + Sync + 'static {
    const BITS: u32;
    const MAX: Self;
    fn truncate(value: u64) -> Self;
    fn widen(self) -> u64;
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
}

macro_rules! narrow {
    ($($type:ty),*) => {$(
        impl Narrow for $type {
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

/// Runs `$body` with `$T` bound to the narrowest type that holds `$range` (a `u64`).
macro_rules! with_narrow {
    ($range:expr, $T:ident => $body:expr) => {
        match $range {
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

/// What decoding `offset` in the narrowest type for `range` leaves of it.
///
/// Nothing is lost of a valid vector; on hostile bytes it makes reading one row agree with reading many.
#[inline]
pub(crate) fn narrowed(range: u64, offset: u64) -> u64 {
    with_narrow!(range, T => T::truncate(offset).widen())
}
