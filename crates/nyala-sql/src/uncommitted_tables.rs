//! Tables of the store that a transaction has created.

use nyala_core::TableId;
use nyala_core::store::StoreRef;
use nyala_db::relations::UncommittedRelations;
use std::collections::HashSet;
use tokio::runtime::Handle;

/// Tables that belong to nobody yet. When this is dropped, so are those that nobody keeps.
#[derive(Default)]
pub(crate) struct UncommittedTables {
    store: Option<StoreRef>,
    tables: Vec<TableId>,
}

impl UncommittedTables {
    /// Adds one.
    pub(crate) fn add(&mut self, store: &StoreRef, table: TableId) {
        self.store = Some(store.clone());
        self.tables.push(table);
    }

    /// Keeps the tables of relations that were committed.
    pub(crate) fn keep_those_of(&mut self, relations: &UncommittedRelations) {
        let kept: HashSet<TableId> = relations.now().filter_map(|now| Some(now.table()?.table)).collect();
        self.tables.retain(|table| !kept.contains(table));
    }

    /// Keeps all of them: they may belong to somebody now, which the next start finds out.
    pub(crate) fn forget(&mut self) {
        self.tables.clear();
    }
}

impl Drop for UncommittedTables {
    fn drop(&mut self) {
        let tables = std::mem::take(&mut self.tables);
        if let (Some(store), false, Ok(runtime)) =
            (self.store.take(), tables.is_empty(), Handle::try_current())
        {
            // What is missed, because of an error or because the server ends, the next start drops.
            runtime.spawn(async move { store.drop_tables(tables).await });
        }
    }
}
