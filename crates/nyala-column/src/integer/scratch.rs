//! Buffers that the encoder of integers reuses from vector to vector.

use super::history::IntegerHistory;
use super::plan::PatchedScratch;

/// One integer vector being encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntegerScratch {
    pub(super) quotients: Vec<i64>,
    pub(super) differences: Vec<i64>,
    pub(super) residuals: Vec<i64>,
    pub(super) sample: Vec<i64>,
    pub(super) packed: Vec<u64>,
    pub(super) amounts: Vec<u64>,
    pub(super) patched: PatchedScratch,
    pub(super) distinct: Vec<u64>,
    pub(super) trial: Vec<u8>,
    pub(super) inner: Vec<u8>,
    pub(crate) history: IntegerHistory,
}
