//! What an encoder of strings remembers from one block to the next.

use super::symbols::TrainedSymbols;
use crate::preference::Preference;
use std::sync::Arc;

/// Something that was not worth it for the last blocks is tried again after twice as many, because what comes later may
/// be different; at the latest after so many.
const TRIED_EVERY: u32 = 256;

/// How the last blocks of a column of strings were encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct StringHistory {
    /// The symbol table of the last block.
    pub(super) symbols: Option<Arc<TrainedSymbols>>,
    /// To compress. Trying costs twenty times as much as storing a block as it is.
    pub(super) compression: Attempts,
    /// To find equal strings. Trying costs as much as all else in a block of short strings.
    pub(super) dictionary: Attempts,
}

/// Whether it was worth trying something, lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    /// Blocks since the last one for which it was worth it.
    failures: u32,
}

impl Attempts {
    pub(super) fn is_due(self, preference: Preference) -> bool {
        preference == Preference::Size
            || self.failures == 0
            || self.failures.is_power_of_two()
            || self.failures.is_multiple_of(TRIED_EVERY)
    }

    /// Notes how a block was stored.
    pub(super) fn note(&mut self, was_worth_it: bool) {
        self.failures = if was_worth_it { 0 } else { self.failures.saturating_add(1) };
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
