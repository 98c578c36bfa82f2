//! What the log of changes says of the series of a table while they are being read.

use crate::records::SeriesChange;

/// So many changes are kept. If there are more, the series are read again at the end.
const CHANGES_MAX: usize = 1 << 14;

/// Changes that the log applied meanwhile, with the numbers of their entries.
#[derive(Default)]
pub(super) struct MissedChanges {
    changes: Vec<(i64, SeriesChange)>,
    are_too_many: bool,
}

impl MissedChanges {
    pub(super) fn note(&mut self, number: i64, change: &SeriesChange) {
        self.are_too_many |= self.changes.len() >= CHANGES_MAX;
        if !self.are_too_many {
            self.changes.push((number, change.clone()));
        }
    }

    /// Those that were noted since they were taken last.
    pub(super) fn take(&mut self) -> Vec<(i64, SeriesChange)> {
        std::mem::take(&mut self.changes)
    }

    /// Whether some were not kept.
    pub(super) fn are_too_many(&self) -> bool {
        self.are_too_many
    }
}
