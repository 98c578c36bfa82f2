//! Since when indexes have an entry for each row.
//!
//! The entries of rows that are there already come with the commit that publishes an index. A snapshot before it has none of
//! them, though it may know the table of the store: a transaction that began before can neither find rows by the index nor write
//! its entries.

use super::{Definition, Relations};
use nyala_core::store::Freshness;
use nyala_core::{Result, Sequence, TableId};
use std::collections::HashMap;

/// By the table of the store, the first sequence at which an index is whole.
pub(super) type Published = HashMap<TableId, Sequence>;

/// An index that a definition has and did not have before.
pub(super) struct NewIndex {
    table: TableId,
    /// Whether its table is as new, and so has no other rows.
    is_whole: bool,
}

/// The indexes that a definition has and did not have before.
pub(super) fn new_indexes(before: Option<&Definition>, after: Option<&Definition>) -> Vec<NewIndex> {
    let Some(table) = after.and_then(Definition::table) else { return Vec::new() };
    let before = before.and_then(Definition::table);
    let had = |index: TableId| before.is_some_and(|before| before.stores().any(|own| own == index));
    let is_whole = before.is_none_or(|before| before.table != table.table);
    let indexes = table.indexes.iter().filter(|index| !had(index.table));
    indexes.map(|index| NewIndex { table: index.table, is_whole }).collect()
}

impl Relations {
    /// The first sequence at which the index in a table of the store is known to be whole; `None` if nobody else has it yet.
    pub fn index_since(&self, table: TableId) -> Option<Sequence> {
        self.published.read().get(&table).copied()
    }

    /// Notes indexes that are new: they are committed, and nobody sees them yet.
    pub(super) async fn note_published(&self, new: Vec<NewIndex>) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let now = match new.iter().all(|own| own.is_whole) {
            true => Sequence(0),
            false => self.store.snapshot(Freshness::Latest).await?.sequence(),
        };
        let since = |own: &NewIndex| if own.is_whole { Sequence(0) } else { now };
        self.published.write().extend(new.iter().map(|own| (own.table, since(own))));
        Ok(())
    }

    /// Notes all indexes that there are at the start.
    pub(super) async fn note_all_published(&self) -> Result<()> {
        let all = self.all();
        let indexes = all.iter().filter_map(|own| own.table()).flat_map(|table| &table.indexes);
        let tables: Vec<TableId> = indexes.map(|index| index.table).collect();
        if !tables.is_empty() {
            let now = self.store.snapshot(Freshness::Latest).await?.sequence();
            self.published.write().extend(tables.into_iter().map(|table| (table, now)));
        }
        Ok(())
    }
}
