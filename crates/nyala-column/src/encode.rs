//! Encoding a column's values into a block: the entry points, and the buffers that they reuse.

use crate::bytes::{BytesEncoder, Compressors, StringHistory};
use crate::cpu::CpuFeatures;
use crate::float::{self, FloatScratch};
use crate::integer::{IntegerEncoder, IntegerHistory, IntegerSummary};
use crate::preference::Preference;

/// Reusable memory of one encoding thread. Bounded by the largest block encoded with it.
#[derive(Debug, Clone)]
pub struct Scratch {
    integers: IntegerEncoder,
    floats: FloatScratch,
    strings: StringHistory,
    compressors: Compressors,
}

/// How the last blocks of a column were encoded. The encoder tries it first on the next block.
#[derive(Debug, Clone, Default)]
pub struct EncodingHistory {
    integers: IntegerHistory,
    strings: StringHistory,
}

impl Scratch {
    /// Empty buffers, best instruction set.
    pub fn new() -> Self {
        Self::with_cpu_features(CpuFeatures::best())
    }

    /// Empty buffers, encoding with the instructions of `cpu`. The bytes written do not depend on it.
    pub fn with_cpu_features(cpu: CpuFeatures) -> Self {
        Self {
            integers: IntegerEncoder::new(cpu),
            floats: FloatScratch::default(),
            strings: StringHistory::default(),
            compressors: Compressors::default(),
        }
    }

    /// Exchanges what is remembered of the column that was encoded last. A writer that encodes several columns in
    /// turn keeps a habit for each.
    pub fn swap_history(&mut self, habit: &mut EncodingHistory) {
        std::mem::swap(&mut self.integers.vector.history, &mut habit.integers);
        std::mem::swap(&mut self.strings, &mut habit.strings);
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends a block of `values` (at most 8192) to `out`.
///
/// A vector starts at each of `breaks` (rising, inside the block) and every 1024 values after the last start. A break
/// where a long series begins keeps the series' statistics and encodings to itself.
///
/// # Panics
/// If there are too many values or the breaks do not rise inside the block.
pub fn encode_integers(
    values: &[i64],
    breaks: &[u32],
    preference: Preference,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> IntegerSummary {
    scratch.integers.encode(values, breaks, preference, out)
}

/// Appends a block of `values` (at most 8192) to `out`; `breaks` as for [`encode_integers`].
///
/// # Panics
/// If there are too many values or the breaks do not rise inside the block.
pub fn encode_floats(
    values: &[f64],
    breaks: &[u32],
    preference: Preference,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    float::encode_block(values, breaks, preference, &mut scratch.floats, &mut scratch.integers, out);
}

/// Appends a block of `values` (at most 8192, at most 1 GiB together) to `out`.
///
/// # Panics
/// If there are too many values or bytes.
pub fn encode_bytes(values: &[&[u8]], preference: Preference, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { integers, strings: history, compressors, .. } = scratch;
    BytesEncoder { preference, integers, history, compressors }.encode(values, out);
}
