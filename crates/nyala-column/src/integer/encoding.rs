//! How a vector of integers is encoded: the tag that the directory keeps of it.

use crate::error::{CorruptBlock, Result};

/// Set in a vector's tag where a divisor precedes the encoding's bytes.
pub(super) const TAG_DIVISOR: u8 = 0x80;

/// How a vector is encoded; the numbers are the tags on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Every value is the minimum.
    Constant = 0,
    /// A straight line plus packed residuals plus patches: frame of reference, linear.
    Frame = 1,
    /// Packed differences with a base every 128 values plus patches.
    Delta = 2,
    /// Values and where they end.
    Runs = 3,
    /// Distinct values and packed codes.
    Dictionary = 4,
    /// Numbers, or their differences, with entropy coding. (5 was another form of it, never released.)
    Entropy = 6,
}

impl Encoding {
    /// Its name, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Constant => "constant",
            Encoding::Frame => "frame",
            Encoding::Delta => "delta",
            Encoding::Runs => "runs",
            Encoding::Dictionary => "dictionary",
            Encoding::Entropy => "entropy",
        }
    }

    pub(super) fn of(tag: u8) -> Result<Encoding> {
        Ok(match tag & !TAG_DIVISOR {
            0 => Encoding::Constant,
            1 => Encoding::Frame,
            2 => Encoding::Delta,
            3 => Encoding::Runs,
            4 => Encoding::Dictionary,
            6 => Encoding::Entropy,
            _ => return Err(CorruptBlock::new("unknown integer encoding")),
        })
    }
}
