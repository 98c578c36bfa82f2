//! Since when what definitions name is whole in the store.
//!
//! The entries of rows that are there already come with the commit that publishes an index, so do the values of a new column, and
//! the rows of a table that takes the place of another one. A snapshot before it has none of them, though it may know the table and
//! the column of the store. So a transaction that began before can neither read nor write by the new definition.
//!
//! This is known of what this server has published since its start. Older snapshots do not outlive a start.

use super::{Definition, Relations};
use nyala_core::store::Freshness;
use nyala_core::{ColumnId, Result, Sequence, TableId};
use std::collections::{HashMap, HashSet};

/// The first sequences at which things are whole.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// By the tables of the store for their entries.
    indexes: HashMap<TableId, Sequence>,
    /// Of tables that took the place of others.
    tables: HashMap<TableId, Sequence>,
    columns: HashMap<(TableId, ColumnId), Sequence>,
    /// Tables of the store in whose place there are others without rows.
    truncated: HashSet<TableId>,
}

/// What a definition has and did not have before.
#[derive(Default)]
pub(super) struct New {
    /// Indexes whose tables have had rows before.
    indexes: Vec<TableId>,
    /// Those of tables that are as new.
    whole_indexes: Vec<TableId>,
    tables: Vec<TableId>,
    columns: Vec<(TableId, ColumnId)>,
    truncated: Option<TableId>,
}

impl New {
    /// What a definition has and did not have before.
    pub(super) fn of(before: Option<&Definition>, after: Option<&Definition>) -> Self {
        let mut new = Self::default();
        let Some(table) = after.and_then(Definition::table) else { return new };
        let own = before.and_then(Definition::table);
        let had = |index: TableId| own.is_some_and(|own| own.stores().any(|own| own == index));
        let indexes = table.indexes.iter().map(|index| index.table).filter(|index| !had(*index)).collect();
        let Some(own) = own else { return Self { whole_indexes: indexes, ..new } };
        if own.table != table.table {
            (new.whole_indexes, new.tables) = (indexes, vec![table.table]);
            let stores: Vec<TableId> = table.stores().collect();
            let is_truncated = own.with_stores(&stores) == *table;
            new.truncated = is_truncated.then_some(own.table);
            return new;
        }
        let columns = table.columns.iter().filter(|column| own.columns.iter().all(|own| own.id != column.id));
        new.columns = columns.map(|column| (table.table, column.id)).collect();
        Self { indexes, ..new }
    }
}

impl Relations {
    /// The first sequence at which the index in a table of the store is known to be whole; `None` if nobody else has it yet.
    pub fn index_since(&self, table: TableId) -> Option<Sequence> {
        self.published.read().indexes.get(&table).copied()
    }

    /// The first sequence at which a table of the store has its rows, and they have their values of these columns.
    pub fn whole_since(&self, table: TableId, columns: impl IntoIterator<Item = ColumnId>) -> Sequence {
        let published = self.published.read();
        let columns = columns.into_iter().filter_map(|column| published.columns.get(&(table, column)));
        let since = columns.chain(published.tables.get(&table)).max();
        since.copied().unwrap_or(Sequence(0))
    }

    /// Whether another table without rows took the place of a table of the store.
    pub fn was_truncated(&self, table: TableId) -> bool {
        self.published.read().truncated.contains(&table)
    }

    /// Notes what is new: it is committed, and nobody sees it yet.
    pub(super) async fn note_published(&self, new: Vec<New>) -> Result<()> {
        let is_needed =
            |new: &New| !(new.indexes.is_empty() && new.tables.is_empty() && new.columns.is_empty());
        let now = match new.iter().any(is_needed) {
            true => self.store.snapshot(Freshness::Latest).await?.sequence(),
            false => Sequence(0),
        };
        let mut published = self.published.write();
        for New { indexes, whole_indexes, tables, columns, truncated } in new {
            published.indexes.extend(indexes.into_iter().map(|index| (index, now)));
            published.indexes.extend(whole_indexes.into_iter().map(|index| (index, Sequence(0))));
            published.tables.extend(tables.into_iter().map(|table| (table, now)));
            published.columns.extend(columns.into_iter().map(|column| (column, now)));
            published.truncated.extend(truncated);
        }
        Ok(())
    }

    /// Notes indexes of temporary tables, by their tables of the store: whoever sees these sees all of their rows.
    pub fn note_temporary(&self, indexes: impl IntoIterator<Item = TableId>) {
        let indexes = indexes.into_iter().map(|index| (index, Sequence(0)));
        self.published.write().indexes.extend(indexes);
    }

    /// Forgets tables of the store that were temporary.
    pub fn forget_temporary(&self, tables: &[TableId]) {
        let mut published = self.published.write();
        for table in tables {
            published.indexes.remove(table);
        }
    }

    /// Notes all indexes that there are at the start.
    pub(super) async fn note_all_published(&self) -> Result<()> {
        let all = self.all();
        let indexes = all.iter().filter_map(|own| own.table()).flat_map(|table| &table.indexes);
        let tables: Vec<TableId> = indexes.map(|index| index.table).collect();
        if !tables.is_empty() {
            let now = self.store.snapshot(Freshness::Latest).await?.sequence();
            self.published.write().indexes.extend(tables.into_iter().map(|table| (table, now)));
        }
        Ok(())
    }
}
