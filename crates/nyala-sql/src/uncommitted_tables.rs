//! Tables of the store that only one session knows: those that its transaction has created, and those of temporary relations.

use nyala_core::TableId;
use nyala_core::store::StoreRef;
use tokio::runtime::Handle;

/// Tables that belong to nobody yet. When this is dropped, so are they.
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

    /// Some that there are.
    pub(crate) fn of(store: &StoreRef, tables: Vec<TableId>) -> Self {
        Self { store: Some(store.clone()), tables }
    }

    /// Which they are.
    pub(crate) fn ids(&self) -> &[TableId] {
        &self.tables
    }

    /// Keeps all of them from being dropped, and says which they are.
    pub(crate) fn forget(&mut self) -> Vec<TableId> {
        std::mem::take(&mut self.tables)
    }

    /// Tables that belong to nobody after all.
    pub(crate) fn put_back(&mut self, tables: impl IntoIterator<Item = TableId>) {
        self.tables.extend(tables);
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
