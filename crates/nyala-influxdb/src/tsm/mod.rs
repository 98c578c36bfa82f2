//! TSM files: blocks of a thousand or so points of one field of one series, and an index of them.
//!
//! ```text
//! 0x16D116D1 · version 1 │ blocks: CRC-32, bytes │ index │ where the index begins (8 bytes)
//! index: key length (2) · key · type (1) · number of blocks (2) · blocks: first time (8) · last time (8) · offset (8) · size (4)
//! block: type (1) · length of times (varint) · times · values
//! ```
//!
//! All numbers have their highest byte first. Keys of the index ascend. Next: `file` (finds blocks), `block` (decodes
//! them), `tombstone` (what was deleted since the file was written).

pub mod block;
mod boolean;
pub mod file;
mod float;
mod integer;
pub mod limit;
mod simple8b;
mod string;
mod time;
pub mod tombstone;

pub(crate) use string::decompress;
