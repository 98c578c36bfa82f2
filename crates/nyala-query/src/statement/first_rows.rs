//! The rows of a SHOW statement that come first in their order: as many as it may show, charged as they come.

use nyala_core::Result;
use nyala_exec::QueryMemory;
use std::collections::BTreeSet;

/// What a row takes beside its texts: their places, and its own in a tree.
const ROW_BYTES: usize = 96;
/// A text is there three times at most: in the tree, as it is shown, and in a column.
const TEXT_COPIES: usize = 3;

/// Distinct rows in order, no more than there is use for.
pub(super) struct FirstRows<'a, Row> {
    rows: BTreeSet<Row>,
    most: usize,
    memory: &'a QueryMemory,
}

impl<'a, Row: Ord> FirstRows<'a, Row> {
    /// None yet, and never more than `most`.
    pub(super) fn new(most: usize, memory: &'a QueryMemory) -> Self {
        Self { rows: BTreeSet::new(), most, memory }
    }

    /// Adds a row with texts of so many bytes, if it is new and not behind those that are shown.
    pub(super) fn insert(&mut self, row: Row, text_bytes: usize) -> Result<()> {
        let is_full = self.rows.len() >= self.most;
        if is_full && self.rows.last().is_none_or(|last| row >= *last) {
            return Ok(());
        }
        if !self.rows.insert(row) {
            return Ok(());
        }
        if is_full {
            self.rows.pop_last();
            return Ok(());
        }
        self.memory.charge(ROW_BYTES + TEXT_COPIES * text_bytes)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

impl<Row> IntoIterator for FirstRows<'_, Row> {
    type Item = Row;
    type IntoIter = std::collections::btree_set::IntoIter<Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

/// As many rows as a LIMIT and an OFFSET have use for; a LIMIT of 0 is none.
pub(super) fn rows_wanted(limit: u64, offset: u64) -> usize {
    match limit {
        0 => usize::MAX,
        _ => usize::try_from(limit.saturating_add(offset)).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;

    #[test]
    fn only_rows_that_are_shown_are_kept_and_charged() {
        let memory = QueryMemory::new(1_000, &MemoryBudget::new(1 << 30));
        let mut rows = FirstRows::new(rows_wanted(2, 1), &memory);
        for row in [5, 3, 5, 9, 1, 4, 2, 8, 7] {
            rows.insert(row, 30).unwrap();
        }
        assert_eq!((rows.len(), rows.into_iter().collect::<Vec<_>>()), (3, vec![1, 2, 3]));
        let mut rows = FirstRows::new(rows_wanted(0, 1), &memory);
        let refused = (0..10).find(|row| rows.insert(*row, 30).is_err());
        assert_eq!(refused, Some(2), "186 bytes each, and three were charged before");
        assert!(FirstRows::new(0, &memory).insert(1, 1).is_ok());
    }
}
