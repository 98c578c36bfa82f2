//! Reading and writing little-endian fields of any width from 0 to 16 bytes.
//!
//! Headers store numbers in as many bytes as they need, the width beside them. Reading never panics: a field
//! past the end is [`CorruptBlock`].

use crate::error::{CorruptBlock, Result};

/// A cursor over the bytes of a header.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) =
            self.bytes.split_at_checked(count).ok_or(CorruptBlock::new("block ends too early"))?;
        self.bytes = tail;
        Ok(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(load(self.take(2)?) as u16)
    }

    /// An unsigned number of `width` bytes.
    #[inline]
    pub(crate) fn unsigned(&mut self, width: usize) -> Result<u64> {
        if width > 8 {
            return Err(CorruptBlock::new("field wider than 8 bytes"));
        }
        Ok(load(self.take(width)?))
    }

    /// A sign-extended number of `width` bytes.
    #[inline]
    pub(crate) fn signed(&mut self, width: usize) -> Result<i64> {
        let value = self.unsigned(width)?;
        if width == 0 {
            return Ok(0);
        }
        let shift = 64 - 8 * width as u32;
        Ok(((value << shift) as i64) >> shift)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }
}

/// The little-endian number in up to 8 bytes.
#[inline]
pub(crate) fn load(bytes: &[u8]) -> u64 {
    if let Ok(whole) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(whole);
    }
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Bytes that `value` needs unsigned: 0 for zero.
#[inline]
pub(crate) fn unsigned_width(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Bytes that `value` needs sign-extended: 0 for zero.
#[inline]
pub(crate) fn signed_width(value: i64) -> usize {
    if value == 0 {
        return 0;
    }
    let magnitude = if value < 0 { !value } else { value } as u64;
    (65 - magnitude.leading_zeros() as usize).div_ceil(8)
}

/// Appends the low `width` bytes of `value`; also right for sign-extended numbers.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(&value.to_le_bytes()[..width]);
}

/// Bits that `value` needs: 0 for zero.
#[inline]
pub(crate) fn bit_width(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Sign into the lowest bit, so that small negative numbers are narrow.
#[inline(always)]
pub(crate) fn fold_sign(value: u64) -> u64 {
    (value << 1) ^ ((value as i64 >> 63) as u64)
}

/// The inverse of [`fold_sign`].
#[inline(always)]
pub(crate) fn unfold_sign(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_own_width() {
        for value in [0, 1, -1, 127, 128, -128, -129, i64::MAX, i64::MIN, 1 << 31, -(1 << 31) - 1] {
            let width = signed_width(value);
            let mut bytes = Vec::new();
            push(&mut bytes, value as u64, width);
            assert_eq!(Reader::new(&bytes).signed(width), Ok(value));
            let width = unsigned_width(value as u64);
            let mut bytes = Vec::new();
            push(&mut bytes, value as u64, width);
            assert_eq!(Reader::new(&bytes).unsigned(width), Ok(value as u64));
        }
    }

    #[test]
    fn a_field_past_the_end_is_an_error() {
        assert!(Reader::new(&[1]).u16().is_err());
        assert!(Reader::new(&[0; 32]).unsigned(9).is_err());
    }
}
