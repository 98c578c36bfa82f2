//! The first rows of a SHOW statement in sorted order: as many as it may show, charged when they are added.

use nyala_core::Result;
use nyala_exec::QueryMemory;
use std::collections::BTreeSet;

/// The bytes of a row besides its texts: their pointers, and its node in a tree.
const ROW_BYTES: usize = 96;
/// A text is in memory at most three times: in the tree, as it is shown, and in a column.
const TEXT_COPIES: usize = 3;

/// Distinct rows in order, at most as many as are shown.
pub(super) struct FirstRows<'a, Row> {
    rows: BTreeSet<Row>,
    max: usize,
    memory: &'a QueryMemory,
}

impl<'a, Row: Ord> FirstRows<'a, Row> {
    /// No rows yet, and never more than `max`.
    pub(super) fn new(max: usize, memory: &'a QueryMemory) -> Self {
        Self { rows: BTreeSet::new(), max, memory }
    }

    /// Adds a row whose texts have that many bytes, if it is new and may be shown.
    pub(super) fn insert(&mut self, row: Row, text_bytes: usize) -> Result<()> {
        let is_full = self.rows.len() >= self.max;
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

    /// The number of rows.
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

/// The number of rows that a LIMIT and an OFFSET need; a LIMIT of 0 means no limit.
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
