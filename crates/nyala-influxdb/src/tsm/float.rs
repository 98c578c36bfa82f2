//! Floats of a block: what changes from one to the next by exclusive or, without its zeros on both sides (Gorilla).
//!
//! ```text
//! 0                                                  the same again
//! 10 · bits                                          with as many zeros on both sides as the one before
//! 11 · zeros before (5) · number of bits (6) · bits  0 bits stand for 64
//! ```
//!
//! The end is a NaN with certain bits.

use super::limit::{POINTS_MAX, Problem};
use crate::varint::big_endian_64;

/// The bits that end a block.
const END: u64 = 0x7FF8_0000_0000_0001;

/// Appends the floats.
pub(super) fn decode(bytes: &[u8], into: &mut Vec<f64>) -> Result<(), Problem> {
    let (&head, body) = bytes.split_first().ok_or("there are no floats")?;
    if head >> 4 != 1 {
        return Err(Problem::from(format!("encoding {} of floats is unknown", head >> 4)));
    }
    let mut value = big_endian_64(body).ok_or("the first float is cut off")?;
    let mut bits = Bits { bytes: &body[8..], at: 0 };
    let end = 8 * bits.bytes.len();
    let count_max = into.len() + POINTS_MAX;
    let (mut width, mut trailing) = (64, 0);
    while value != END {
        if into.len() >= count_max {
            return Err(Problem::from(format!("more than {POINTS_MAX} floats: at most that many are read")));
        }
        into.push(f64::from_bits(value));
        let head = bits.peek();
        if head >> 63 == 0 {
            bits.at += 1;
        } else {
            bits.at += 2;
            if head >> 62 == 3 {
                let leading = (head >> 57) as u32 & 31;
                width = match (head >> 51) as u32 & 63 {
                    0 => 64,
                    width => width,
                };
                bits.at += 11;
                trailing = 64_u32
                    .checked_sub(leading + width)
                    .or((width == 64).then_some(0))
                    .ok_or("a float has more than 64 bits")?;
            }
            value ^= bits.take(width) << trailing;
        }
        if bits.at > end {
            return Err("the floats are cut off".into());
        }
    }
    Ok(())
}

/// Reads bits, the highest of each byte first. Behind the end are zeros.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// At least the next 57 bits, from the highest on.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let first = self.at / 8;
        let word = match self.bytes.get(first..first + 8) {
            Some(word) => u64::from_be_bytes(word.try_into().expect("eight bytes")),
            None => self.last_word(first),
        };
        word << (self.at % 8)
    }

    #[cold]
    fn last_word(&self, first: usize) -> u64 {
        let mut word = [0; 8];
        let rest = self.bytes.get(first..).unwrap_or(&[]);
        let length = rest.len().min(8);
        word[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(word)
    }

    /// The next bits, 1 to 64 of them.
    #[inline(always)]
    fn take(&mut self, count: u32) -> u64 {
        if count <= 57 {
            let taken = self.peek() >> (64 - count);
            self.at += count as usize;
            return taken;
        }
        let high = self.peek() >> 32;
        self.at += 32;
        let low_bits = count - 32;
        let low = self.peek() >> (64 - low_bits);
        self.at += low_bits as usize;
        high << low_bits | low
    }
}
