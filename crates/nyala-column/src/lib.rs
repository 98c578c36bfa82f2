//! Column blocks: codecs and kernels, and the only unsafe code of the project.
//!
//! A *block* is a self-describing string of bytes with up to 8192 values of one column, cut into *vectors* of
//! up to 1024, each with an encoding of its own. The encoder chooses by estimate ([`Preference`] decides between
//! near equals). Reading touches only the vectors that it needs, and answers from the directory where it can.
//!
//! - [`encode_integers`] / [`IntegerBlock`]: integers, times, ids.
//! - [`encode_floats`] / [`FloatBlock`]: floats, bit by bit.
//! - [`encode_booleans`] / [`BooleanBlock`]: truth values.
//! - [`encode_bytes`] / [`BytesBlock`]: strings and binary.
//! - [`encode_validity`] / [`ValidityBlock`]: validity, that is which rows of a column have a value, NULL, or nothing.
//!
//! `docs/format/column.md` describes every byte. The caller keeps checksums. Bytes that pass them and still
//! contradict themselves give a [`CorruptBlock`], never a panic, an unbounded allocation or a read out of bounds. This
//! crate uses no other crate of the workspace.
//!
//! Unsafe code is confined to functions that carry `#[allow(unsafe_code)]` with a reason: per-instruction-set dispatch
//! ([`CpuFeatures`]), and intrinsics in `kernels` and `simd`, each compared with a naive implementation in its tests. Kernels of
//! other crates are compiled per instruction set by [`CpuFeatures::run`].

mod arbitrary;
mod bitmap;
mod bits;
mod block;
mod boolean;
mod bytes;
mod casts;
mod cpu;
mod directory;
mod encode;
mod error;
mod filter;
mod float;
mod integer;
pub mod kernels;
mod little_endian;
mod narrow;
mod part;
mod preference;
mod simd;
mod validity;

pub use arbitrary::decode_arbitrary;
pub use bitmap::Bitmap;
pub use block::{BlockLayout, NumberBlock};
pub use boolean::{BooleanBlock, encode_booleans};
pub use bytes::{BLOCK_BYTES, ByteValues, BytesBlock, BytesBounds};
pub use casts::{words_as_floats, words_as_integers};
pub use cpu::CpuFeatures;
pub use directory::{BLOCK_VALUES, VECTOR_VALUES};
pub use encode::{EncodingHistory, Scratch, encode_bytes, encode_floats, encode_integers};
pub use error::{CorruptBlock, Result};
pub use float::{FloatBlock, FloatEncoding, FloatLayout, FloatVectorSummary};
pub use integer::{
    Encoding, IntegerBlock, IntegerLayout, IntegerSummary, VectorSummary, from_unsigned, to_unsigned,
};
pub use preference::Preference;
pub use simd::Kernel;
#[cfg(target_arch = "x86_64")]
pub use simd::{Avx512, Floats, Mask};
pub use validity::{CellState, ValidityBlock, encode_validity};
