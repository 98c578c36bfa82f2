//! Temporary relations: those that a session has for itself, and that go with it.
//!
//! They are relations that are never committed, in a database of their own ([`TEMPORARY`]). A transaction begins with those of
//! its session, and its commit leaves the session what they have become then. Names without a schema mean them first.

use super::Session;
use super::definition::table_of;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::is_temporary_schema;
use crate::target::Place;
use crate::transaction::Transaction;
use crate::uncommitted_tables::UncommittedTables;
use crate::waits::TransactionLocks;
use datafusion::sql::sqlparser::ast::{self, ObjectName};
use nyala_core::TableId;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{OnCommit, Relation, TEMPORARY, UncommittedRelations};
use nyala_db::users::Privilege;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The temporary relations of a session outside of its transaction. They are dropped with this.
#[derive(Default)]
pub(super) struct Temporary {
    pub(super) relations: Arc<UncommittedRelations>,
    /// Their tables in the store.
    tables: UncommittedTables,
    /// Where the counters of their sequences are.
    catalog: Option<Arc<Catalog>>,
}

impl Temporary {
    /// The counters of their sequences.
    fn counters(&self) -> Vec<u64> {
        self.relations.of_temporary().filter_map(|own| Some(own.sequence()?.id)).collect()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(catalog) = self.catalog.take() {
            catalog.relations().forget_temporary(self.tables.ids());
            forget(catalog, self.counters());
        }
    }
}

/// Forgets the counters of sequences that are gone.
fn forget(catalog: Arc<Catalog>, counters: Vec<u64>) {
    if let (false, Ok(runtime)) = (counters.is_empty(), Handle::try_current()) {
        runtime.spawn(async move { catalog.relations().sequences().forget(&counters).await });
    }
}

impl Session {
    /// A transaction of this session that begins now.
    pub(super) fn new_transaction(&self, is_read_only: bool) -> Transaction {
        let locks = TransactionLocks::of(&self.waits);
        Transaction::begin(is_read_only, locks, self.temporary.relations.clone())
    }

    /// Commits a transaction that has ended.
    pub(super) async fn commit(&mut self, mut transaction: Transaction) -> SqlResult<()> {
        self.end_rows(&mut transaction).await?;
        let relations = transaction.relations.clone();
        transaction.commit(&self.server.catalog).await?;
        if !Arc::ptr_eq(&relations, &self.temporary.relations) {
            self.keep_temporary(&relations);
        }
        Ok(())
    }

    /// Does what temporary tables say that a commit does.
    async fn end_rows(&self, transaction: &mut Transaction) -> SqlResult<()> {
        let temporary: Vec<Arc<Relation>> = transaction.relations.of_temporary().cloned().collect();
        let catalog = &self.server.catalog;
        for relation in temporary {
            let Some(table) = relation.table() else { continue };
            match table.on_commit {
                OnCommit::DeleteRows if transaction.has_written => {
                    let mut stores = Vec::new();
                    for schema in self.schemas_without_rows(&relation)? {
                        let (database, name) = (&self.database, &relation.name);
                        let store = catalog.create_uncommitted_table(database, name, schema).await?;
                        transaction.add_table(catalog, store).await?;
                        stores.push(store);
                    }
                    let definition = relation.definition.with_stores(&stores);
                    let own = Arc::make_mut(&mut transaction.relations);
                    own.put(catalog.relations(), TEMPORARY, &relation.name, Some(definition));
                }
                OnCommit::Drop => {
                    let own = Arc::make_mut(&mut transaction.relations);
                    let sequences = table.columns.iter().filter_map(|own| own.sequence.as_ref());
                    let names = sequences.map(|own| &own.name).chain([&relation.name]);
                    names.for_each(|name| own.put(catalog.relations(), TEMPORARY, name, None));
                }
                OnCommit::DeleteRows | OnCommit::PreserveRows => {}
            }
        }
        Ok(())
    }

    /// Empties a table whose rows are gone after each commit, behind a statement that was a transaction of its own.
    pub(super) async fn end_rows_of(&mut self, relation: &Relation) -> SqlResult<()> {
        let deletes =
            |own: &Relation| table_of(own).is_ok_and(|table| table.on_commit == OnCommit::DeleteRows);
        if self.transaction.is_some() || !deletes(relation) {
            return Ok(());
        }
        let mut transaction = self.new_transaction(false);
        let freshness = self.server.catalog.follow().await?;
        transaction.open(self.server.catalog.store(), freshness).await?;
        transaction.has_written = true;
        self.commit(transaction).await
    }

    /// Notes what its temporary relations are after a commit.
    pub(super) fn keep_temporary(&mut self, relations: &UncommittedRelations) {
        let relations = relations.temporary();
        let stores: Vec<TableId> = relations.stores().collect();
        let before = self.temporary.tables.forget();
        let gone: Vec<TableId> = before.into_iter().filter(|table| !stores.contains(table)).collect();
        let catalog = &self.server.catalog;
        catalog.relations().forget_temporary(&gone);
        catalog.relations().note_temporary(relations.indexes());
        drop(UncommittedTables::of(catalog.store(), gone));
        let tables = UncommittedTables::of(catalog.store(), stores);
        let now = Temporary { relations: Arc::new(relations), tables, catalog: Some(catalog.clone()) };
        let mut before = std::mem::replace(&mut self.temporary, now);
        if let Some(catalog) = before.catalog.take() {
            let kept = self.temporary.counters();
            forget(catalog, before.counters().into_iter().filter(|own| !kept.contains(own)).collect());
        }
        self.note_definitions();
    }

    /// Drops all of its temporary relations.
    pub(super) fn discard_temporary(&mut self) {
        match &mut self.transaction {
            Some(transaction) => {
                let names: Vec<String> =
                    transaction.relations.of_temporary().map(|own| own.name.clone()).collect();
                let own = Arc::make_mut(&mut transaction.relations);
                let committed = self.server.catalog.relations();
                names.iter().for_each(|name| own.put(committed, TEMPORARY, name, None));
                self.note_definitions();
            }
            None => self.keep_temporary(&UncommittedRelations::default()),
        }
    }

    /// The place of a name as this session sees it.
    ///
    /// # Errors
    /// It is no name.
    pub(crate) fn place(&self, name: &ObjectName) -> SqlResult<Place> {
        let place = Place::of(name, &self.database)?;
        let is_temporary = match place.schema.as_deref() {
            None => self.relations().has_temporary(&place.name),
            Some(schema) => is_temporary_schema(schema),
        };
        match is_temporary && place.database == self.database {
            true => Ok(Place { database: TEMPORARY.to_owned(), ..place }),
            false => Ok(place),
        }
    }

    /// The place of a name under which something is created, perhaps in words that say that it is temporary.
    ///
    /// # Errors
    /// It is no name, or has a schema of which temporary relations cannot be.
    pub(super) fn new_place(&self, name: &ObjectName, is_temporary: bool) -> SqlResult<Place> {
        let place = Place::of(name, &self.database)?;
        let is_named_so = place.schema.as_deref().is_some_and(is_temporary_schema);
        if is_named_so && place.database != self.database {
            let message = format!("cannot create temporary relations in database \"{}\"", place.database);
            return Err(SqlError::new(SqlState::UNSUPPORTED, message));
        }
        match is_named_so || (is_temporary && place.schema.is_none()) {
            true => Ok(Place { database: TEMPORARY.to_owned(), ..place }),
            false if is_temporary => {
                let words = "cannot create temporary relation in non-temporary schema";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, words))
            }
            false => Ok(place),
        }
    }

    /// The database whose rights hold for what is in a database: temporary relations are as its own to a session.
    pub(crate) fn rights_of<'a>(&'a self, database: &'a str) -> &'a str {
        if database == TEMPORARY { &self.database } else { database }
    }

    /// Whether it has a right in a database.
    pub(crate) fn may(&self, privilege: Privilege, database: &str) -> bool {
        self.principal.may(privilege, self.rights_of(database))
    }

    /// Whether a statement defines something temporary, or changes it so that a transaction has to keep it.
    pub(super) fn concerns_temporary(&self, statement: &ast::Statement) -> bool {
        let is_temporary = |name: &ObjectName| self.place(name).is_ok_and(|own| own.database == TEMPORARY);
        let is_new = |name, is_temporary| {
            self.new_place(name, is_temporary).is_ok_and(|own| own.database == TEMPORARY)
        };
        match statement {
            ast::Statement::CreateTable(create) => is_new(&create.name, create.temporary),
            // Its query may name temporary relations.
            ast::Statement::CreateView(create) => {
                is_new(&create.name, create.temporary) || !self.uncommitted().is_empty()
            }
            ast::Statement::Drop { names, .. } => names.iter().any(is_temporary),
            ast::Statement::Truncate(truncate) => {
                truncate.table_names.iter().any(|own| is_temporary(&own.name))
            }
            ast::Statement::Comment { object_type: ast::CommentObject::Column, object_name, .. } => {
                let parts = object_name.0.split_last().map(|(_, table)| ObjectName(table.to_vec()));
                parts.is_some_and(|table| is_temporary(&table))
            }
            ast::Statement::Comment { object_name, .. } => is_temporary(object_name),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::memory::MemoryStore;

    #[tokio::test]
    async fn what_is_known_of_indexes_goes_with_their_session() {
        let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
        let (index, other) = (TableId(1_000_007), TableId(1_000_008));
        catalog.relations().note_temporary([index, other]);
        let tables = UncommittedTables::of(catalog.store(), vec![index]);
        let own = Temporary { relations: Arc::default(), tables, catalog: Some(catalog.clone()) };
        assert!(catalog.relations().index_since(index).is_some());
        drop(own);
        assert_eq!(catalog.relations().index_since(index), None);
        assert!(catalog.relations().index_since(other).is_some(), "that of another session");
    }
}
