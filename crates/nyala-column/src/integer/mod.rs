//! Integer blocks: `i64` and everything mapped to it (times, series ids, unsigned numbers, dictionary codes).
//!
//! [`IntegerEncoder`] cuts values into vectors and writes each in its own encoding; [`IntegerBlock`] reads any
//! rows back. Aggregates take whole vectors from the directory and decode the rest into the narrowest type that
//! holds the vector's range. Read on in [`vector`], then in the file of each encoding.

mod block;
mod delta;
mod dictionary;
mod encode;
mod encoding;
mod entropy;
mod frame;
mod history;
mod nested;
mod patches;
mod plan;
mod runs;
mod scratch;
mod search;
mod vector;

pub use block::{IntegerBlock, IntegerLayout, VectorSummary};
use encode::encode_verified;
pub use encoding::Encoding;
pub(crate) use history::IntegerHistory;
pub(crate) use nested::{NestedVector, push_nested_vector};
pub(crate) use scratch::IntegerScratch;

use crate::cpu::CpuFeatures;
use crate::directory::{BlockScratch, Entry, Kind, push_block, vector_ranges};
use crate::kernels::profile::Profile;
use crate::preference::Preference;

/// Statistics of the values of a block, which the encoder found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerSummary {
    /// The smallest value; the largest integer if there is none.
    pub min: i64,
    /// The largest value; the smallest integer if there is none.
    pub max: i64,
    /// All values added up.
    pub sum: i128,
}

/// Encodes blocks of integers, and keeps its buffers from one to the next.
#[derive(Debug, Clone)]
pub(crate) struct IntegerEncoder {
    pub(crate) cpu: CpuFeatures,
    pub(crate) block: BlockScratch,
    pub(crate) vector: IntegerScratch,
}

impl IntegerEncoder {
    pub(crate) fn new(cpu: CpuFeatures) -> Self {
        Self { cpu, block: BlockScratch::default(), vector: IntegerScratch::default() }
    }

    /// Appends a block of `values`; see [`encode_integers`](crate::encode_integers).
    pub(crate) fn encode(
        &mut self,
        values: &[i64],
        breaks: &[u32],
        preference: Preference,
        out: &mut Vec<u8>,
    ) -> IntegerSummary {
        let (entries, payload) = (&mut self.block.entries, &mut self.block.payload);
        entries.clear();
        payload.clear();
        let mut summary = IntegerSummary { min: i64::MAX, max: i64::MIN, sum: 0 };
        for rows in vector_ranges(values.len(), breaks) {
            let (row_end, count) = (rows.end as u32, rows.len());
            let encoded = encode_verified(self.cpu, &values[rows], preference, &mut self.vector, payload);
            let Profile { min, max, sum_offset, .. } = encoded.profile;
            summary.min = summary.min.min(min);
            summary.max = summary.max.max(max);
            summary.sum += i128::from(min) * count as i128 + sum_offset as i128;
            entries.push(Entry {
                tag: encoded.tag,
                row_end,
                payload_end: payload.len(),
                min,
                range: encoded.profile.range(),
                sum_offset,
            });
        }
        push_block(out, Kind::Integer, values.len(), entries, payload);
        summary
    }
}

/// An unsigned number as the integer that keeps its order: 0 becomes `i64::MIN`.
///
/// Minimum, maximum and comparisons carry over; a sum of `n` mapped numbers is the sum of the numbers − n·2⁶³.
#[inline]
pub fn from_unsigned(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

/// The inverse of [`from_unsigned`].
#[inline]
pub fn to_unsigned(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}
