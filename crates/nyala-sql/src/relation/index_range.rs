//! The index that finds the rows which conditions leave.

use super::columns::TableColumns;
use super::filter::Conditions;
use super::key_range::{KeyRanges, key_ranges};
use nyala_core::{ColumnId, Sequence, TableId};
use nyala_db::relations::Index;
use std::cmp::Reverse;

/// An index, and the entries of it that conditions leave.
#[derive(Debug, Clone)]
pub(super) struct IndexRange {
    pub(super) index: Index,
    pub(super) entries: KeyRanges,
    /// Whether there is one entry at most in each range.
    pub(super) is_unique: bool,
    /// The first sequence at which each row has its entry.
    pub(super) since: Sequence,
}

impl IndexRange {
    /// The best index for some conditions; `None` if there is none, or if rows are found by their key.
    pub(super) fn of(
        indexes: &[Index],
        columns: &TableColumns,
        conditions: &Conditions,
        since: impl Fn(TableId) -> Option<Sequence>,
    ) -> Option<Self> {
        if !conditions.keys.is_all() {
            return None;
        }
        let of_one = |index: &Index| Self::of_one((index, since(index.table)?), columns, conditions);
        let found = indexes.iter().filter_map(of_one);
        found.min_by_key(|own| (Reverse(own.is_unique), Reverse(own.entries.fixed)))
    }

    fn of_one(
        (index, since): (&Index, Sequence),
        columns: &TableColumns,
        conditions: &Conditions,
    ) -> Option<Self> {
        let entries = key_ranges(&index.columns, columns, &mut conditions.predicates.clone());
        let judged = entries.prefix();
        // A row that has NULL in a column of the index has no entry. What was declared about NULL since the rows were as they
        // are read says nothing.
        let is_never_null = |id: &ColumnId| columns.key.contains(id);
        if judged == 0 || !index.columns[judged..].iter().all(is_never_null) {
            return None;
        }
        let is_unique = index.is_unique && entries.are_points(index.columns.len());
        Some(Self { index: index.clone(), entries, is_unique, since })
    }
}
