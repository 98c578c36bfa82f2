//! How far the source had come when it was opened, and what has to be read of it again that was read before.

use crate::handover::{Changed, Mark};
use nyala_core::{Sequence, TableId, TimeRange};

/// The epoch of stores that nobody changes while they are read. Their number is their sequence.
const STILL: u64 = 0;

/// A state of the source.
#[derive(Debug, Clone)]
pub struct Position {
    epoch: u64,
    number: u64,
    /// What was changed in this epoch.
    changed: Changed,
}

/// What is known of rows that are in the target: as which state of the source they were, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    /// The table in the source.
    pub(super) table: TableId,
    pub(super) epoch: u64,
    pub(super) number: u64,
    pub(super) rows: u64,
}

impl Position {
    /// A store that stands still. If it has another sequence than before, anything may have changed.
    pub fn still(sequence: Sequence) -> Self {
        Self { epoch: STILL, number: sequence.0, changed: Changed::default() }
    }

    /// A copy that was made of a server after a mark, and what its handover told after the copy was made.
    pub fn of_copy(mark: Mark, changed: Changed) -> Self {
        Self { epoch: mark.epoch, number: mark.number, changed }
    }

    /// States of different epochs say nothing about each other.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn done(&self, table: TableId, rows: u64) -> Done {
        Done { table, epoch: self.epoch, number: self.number, rows }
    }

    /// What of a range of times of a table may be other than it was.
    pub(super) fn changed_since(&self, done: &Done, table: TableId, range: TimeRange) -> Vec<TimeRange> {
        if !self.knows(done, table) {
            return vec![range];
        }
        let parts = self.changed.rows_since(table, done.number, range);
        match range == TimeRange::ALL && !parts.is_empty() {
            // A table whose rows have no time is read as a whole.
            true => vec![range],
            false => parts,
        }
    }

    /// Whether the records of the series of a table may be others than they were.
    pub(super) fn is_series_changed(&self, done: &Done, table: TableId) -> bool {
        !self.knows(done, table) || self.changed.is_series_changed(table, done.number)
    }

    /// Whether it is known what was changed since then. The target may have had another table of this name.
    fn knows(&self, done: &Done, table: TableId) -> bool {
        let is_comparable = self.epoch != STILL || done.number == self.number;
        done.table == table && done.epoch == self.epoch && is_comparable
    }
}
