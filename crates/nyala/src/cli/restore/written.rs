//! What came of points that are restored.

/// The most refusals that are described.
const REFUSALS_MAX: usize = 10;

/// What came of points.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Points that are stored.
    pub(super) points: u64,
    /// Those that are older than their policy keeps them.
    pub(super) expired: u64,
    /// Why others are not stored.
    pub(super) refused: Vec<String>,
}

impl Written {
    pub(super) fn refuse(&mut self, words: String) {
        if self.refused.len() < REFUSALS_MAX && !self.refused.contains(&words) {
            self.refused.push(words);
        }
    }
}
