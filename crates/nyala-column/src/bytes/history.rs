//! What an encoder of strings remembers from one block to the next.

use super::symbols::TrainedSymbols;
use crate::preference::Preference;
use std::sync::Arc;

/// So many blocks in a row were stored as they are before others are not tried at all, …
const RAW_BLOCKS: u32 = 4;
/// … except one in so many: what comes later may compress.
const TRIED_EVERY: u32 = 16;

/// How the last blocks of a column of strings were encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct StringHistory {
    /// The symbol table of the last block.
    pub(super) symbols: Option<Arc<TrainedSymbols>>,
    /// Blocks since the last one that was worth compressing.
    raw_blocks: u32,
}

impl StringHistory {
    /// Whether to try to compress a block. Trying costs twenty times as much as storing it as it is.
    pub(super) fn is_worth_trying(&self, preference: Preference) -> bool {
        preference == Preference::Size
            || self.raw_blocks < RAW_BLOCKS
            || self.raw_blocks.is_multiple_of(TRIED_EVERY)
    }

    /// Notes how a block was stored.
    pub(super) fn note(&mut self, is_raw: bool) {
        self.raw_blocks = if is_raw { self.raw_blocks.saturating_add(1) } else { 0 };
    }
}

/// Compressors by level. Making one costs more than compressing a small block.
#[derive(Default)]
pub(crate) struct Compressors(Vec<(i32, zstd::bulk::Compressor<'static>)>);

impl Compressors {
    /// The one of a level; `None` if there is no memory for it.
    pub(super) fn get(&mut self, level: i32) -> Option<&mut zstd::bulk::Compressor<'static>> {
        let position = match self.0.iter().position(|(known, _)| *known == level) {
            Some(position) => position,
            None => {
                self.0.push((level, zstd::bulk::Compressor::new(level).ok()?));
                self.0.len() - 1
            }
        };
        Some(&mut self.0[position].1)
    }
}

impl Clone for Compressors {
    /// The copy makes its own when it needs them.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Compressors {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.iter().map(|(level, _)| level)).finish()
    }
}
