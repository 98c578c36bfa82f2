//! Blocks of byte strings: text and binary alike.
//!
//! Few distinct strings become a sorted dictionary and codes (an integer block: packed, runs, …); others a heap
//! with their lengths (another integer block), as they are, coded by symbols (FSST: each string readable alone),
//! or compressed vector by vector (zstd). A dictionary's entries are such a heap themselves.
//!
//! Bytes: version, kind, count (u16), form (0 heap, 1 dictionary, 2 heap by symbols, 3 heap compressed), bounds,
//! then by form; see `docs/format/column.md`.

mod block;
mod encode;
mod heap;
mod history;
mod symbols;
mod values;

pub use block::{BytesBlock, BytesBounds};
pub(crate) use encode::BytesEncoder;
pub(crate) use history::{Compressors, StringHistory};
pub use values::ByteValues;

/// Bytes of a block's strings together, at most: 8192 strings of 128 KiB. Bounds what decoding may allocate.
pub const BLOCK_BYTES: usize = 1 << 30;
/// Bytes that are kept of the smallest and largest string.
const BOUND_BYTES: usize = 32;
/// The form of a dictionary block.
const DICTIONARY: u8 = 1;
