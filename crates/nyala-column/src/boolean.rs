//! Boolean blocks: one bit per row.
//!
//! Bytes: version, kind, count (u16), bits (see [`crate::bits`]).

use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::bits::{Bits, push_bits};
use crate::directory::{Kind, parse_start, push_start};
use crate::error::{Result, ensure};

/// Appends a block of `values` (at most 8192) to `out`.
///
/// # Panics
/// If there are too many values.
pub fn encode_booleans(values: &Bitmap, out: &mut Vec<u8>) {
    push_start(out, Kind::Boolean, values.len());
    push_bits(values, out);
}

/// A parsed boolean block. Rows beyond the block are a caller's bug and panic.
#[derive(Debug, Clone, Copy)]
pub struct BooleanBlock<'a> {
    count: u32,
    bits: Bits<'a>,
}

impl<'a> BooleanBlock<'a> {
    /// Checks everything: reading afterwards cannot fail.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        let (count, mut reader) = parse_start(block, Kind::Boolean)?;
        let bits = Bits::parse(&mut reader, count)?;
        ensure(reader.rest().is_empty(), "bytes after the booleans")?;
        Ok(Self { count, bits })
    }

    /// Values in the block.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the values of `rows`.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut Bitmap) {
        self.bits.decode(rows, out);
    }
}
