//! Definitions in a transaction: nobody else sees them before its commit, which makes all of them and its rows visible
//! at once.

use crate::error::{SqlError, SqlResult};
use crate::session::Session;
use nyala_core::store::Feature;
use nyala_core::{TableId, TableSchema};
use nyala_db::relations::{Definition, RelationChange};
use std::sync::Arc;

impl Session {
    /// Fails if a statement cannot be a part of the transaction, which is the statement's own if it `is_alone`.
    pub(super) async fn begin_defining(&mut self, is_alone: bool) -> SqlResult<()> {
        let capabilities = self.server.catalog.store().capabilities();
        capabilities.need(Feature::StagedWrites).map_err(|error| {
            SqlError::from(error).with_hint(match is_alone {
                true => "Temporary tables, sequences, and statements that define several things need them.",
                false => "Transactions can only read in this store: execute it before BEGIN.",
            })
        })?;
        self.open_transaction().await.map(drop)
    }

    /// Creates a table of the store for rows of the transaction.
    pub(super) async fn create_uncommitted(
        &mut self,
        database: &str,
        name: &str,
        schema: TableSchema,
    ) -> SqlResult<TableId> {
        let (catalog, of) = (self.server.catalog.clone(), self.rights_of(database));
        let table = catalog.create_uncommitted_table(of, name, schema).await?;
        if let Some(transaction) = &mut self.transaction {
            transaction.add_table(&catalog, table).await?;
        }
        Ok(table)
    }

    /// Notes what the transaction makes of a relation; `None`: it drops it.
    pub(super) fn put_uncommitted(&mut self, database: &str, name: &str, definition: Option<Definition>) {
        let committed = self.server.catalog.relations();
        if let Some(transaction) = &mut self.transaction {
            Arc::make_mut(&mut transaction.relations).put(committed, database, name, definition);
        }
        self.note_definitions();
    }

    /// Notes changes that the transaction makes.
    pub(super) fn put_uncommitted_changes(&mut self, changes: &[RelationChange]) {
        let committed = self.server.catalog.relations();
        if let Some(transaction) = &mut self.transaction {
            let own = Arc::make_mut(&mut transaction.relations);
            changes.iter().for_each(|change| own.change(committed, change));
        }
        self.note_definitions();
    }
}
