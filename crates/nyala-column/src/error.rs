//! The one error of this crate: bytes that cannot be a block.
//!
//! Callers add the file and offset; this crate knows only what was wrong inside the bytes it was given.

use std::fmt;

/// Bytes that are not a valid block of the expected kind. The caller knows which file they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorruptBlock {
    reason: &'static str,
}

impl CorruptBlock {
    pub(crate) const fn new(reason: &'static str) -> Self {
        Self { reason }
    }

    /// What was wrong, for the log line that also names file and offset.
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for CorruptBlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "corrupt column block: {}", self.reason)
    }
}

impl std::error::Error for CorruptBlock {}

/// Result of reading a block.
pub type Result<T, E = CorruptBlock> = std::result::Result<T, E>;

/// Fails with `reason` unless `condition` holds.
#[inline]
pub(crate) fn ensure(condition: bool, reason: &'static str) -> Result<()> {
    if condition { Ok(()) } else { Err(CorruptBlock::new(reason)) }
}
