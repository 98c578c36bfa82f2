//! Creating, changing and dropping relations of databases.

use super::Catalog;
use crate::records::Entry;
use crate::relations::{Definition, Relation, RelationChange, UncommittedRelations, existing};
use nyala_core::store::{Alteration, Stage};
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use std::sync::Arc;

impl Catalog {
    /// Creates a table. `schemas` are those of its rows and of its indexes, with any names; `define` makes its definition of the
    /// tables of the store that were created for them.
    ///
    /// # Errors
    /// Conflict if there is a relation or an index of this name. Missing if there is no such database.
    pub async fn create_relation_table(
        &self,
        database: &str,
        name: &str,
        schemas: Vec<TableSchema>,
        define: impl FnOnce(&[TableId]) -> Definition,
    ) -> Result<Arc<Relation>> {
        let _changing = self.lock_databases().await;
        self.existing_database(database)?;
        let relations = self.relations();
        let exists = || Error::conflict(format!("relation {name:?} exists"));
        relations.check_readable()?;
        if relations.has_name(database, name) {
            return Err(exists());
        }
        let tables = relations.create_tables(database, name, schemas).await?;
        let definition = define(&tables);
        let decide = |before: Option<&Arc<Relation>>| match before {
            Some(_) => Err(exists()),
            None => Ok(Some(definition.clone())),
        };
        match relations.change(database, name, decide).await {
            Ok((_, created)) => {
                self.announce(Entry::Relations).await?;
                Ok(created.expect("it was just created"))
            }
            Err(error) if error.kind() == ErrorKind::Unknown => Err(error),
            Err(error) => {
                // If this fails too, the next start drops them.
                let _ = self.store().drop_tables(tables).await;
                Err(error)
            }
        }
    }

    /// Creates a view or a sequence, or replaces a view by another if `replace`.
    ///
    /// # Errors
    /// Conflict if there is a relation of this name that is not replaced. Missing if there is no such database.
    pub async fn create_relation(
        &self,
        database: &str,
        name: &str,
        definition: Definition,
        replace: bool,
    ) -> Result<Arc<Relation>> {
        let _changing = self.lock_databases().await;
        self.existing_database(database)?;
        let exists = || Error::conflict(format!("relation {name:?} exists"));
        let decide = |before: Option<&Arc<Relation>>| match before {
            Some(before) if !replace || before.view().is_none() => Err(exists()),
            None if self.relations().has_name(database, name) => Err(exists()),
            _ => Ok(Some(definition.clone())),
        };
        let (_, created) = self.relations().change(database, name, decide).await?;
        self.announce(Entry::Relations).await?;
        Ok(created.expect("it was just created"))
    }

    /// Changes the definition of a relation, if `change` returns another. If another server was faster, `change` is called
    /// again.
    ///
    /// # Errors
    /// Missing if there is no such relation.
    pub async fn alter_relation(
        &self,
        database: &str,
        name: &str,
        change: impl Fn(&Relation) -> Result<Definition>,
    ) -> Result<Arc<Relation>> {
        let decide = |before: Option<&Arc<Relation>>| change(existing(before, name)?).map(Some);
        let (_, after) = self.relations().change(database, name, decide).await?;
        self.announce(Entry::Relations).await?;
        Ok(after.expect("it was changed and is there"))
    }

    /// Makes changes of relations together.
    ///
    /// # Errors
    /// Missing if there is no such relation, retry if one is not as it was, conflict if there is one of a new name.
    pub async fn change_relations(&self, changes: &[RelationChange]) -> Result<()> {
        let _changing = self.lock_databases().await;
        self.relations().change_all(changes).await?;
        self.announce(Entry::Relations).await?;
        for change in changes {
            // It is done. What is left over the next start drops.
            let _ = self.relations().drop_unused(&change.before, change.after.as_ref()).await;
        }
        Ok(())
    }

    /// Drops columns of the store that belong to tables of a past which nobody can ask for any more. Returns how many there
    /// were.
    pub async fn drop_past_columns(&self, now_ns: i64) -> Result<u64> {
        let dropped = self.relations().drop_past_columns(now_ns).await?;
        if dropped > 0 {
            self.announce(Entry::Relations).await?;
        }
        Ok(dropped)
    }

    /// Creates a table for the rows of a relation that is to be committed later ([`Self::commit_relations`]). Until then
    /// nobody sees it, and a start drops it.
    pub async fn create_uncommitted_table(
        &self,
        database: &str,
        name: &str,
        schema: TableSchema,
    ) -> Result<TableId> {
        self.existing_database(database)?;
        self.relations().check_readable()?;
        self.relations().create_table(database, name, schema).await
    }

    /// Commits what a transaction has staged, together with the relations that it has defined. `has_looked`: it has read or
    /// written rows, maybe those of a table that it replaces, so that none may have come since.
    ///
    /// # Errors
    /// Conflict if somebody else was first to change one of them, or a row of the stage.
    pub async fn commit_relations(
        &self,
        own: &UncommittedRelations,
        mut stage: Box<dyn Stage>,
        has_looked: bool,
    ) -> Result<()> {
        // Whoever is writing rows finishes first. All who wait for several do so in order of name, and for the databases
        // after that.
        let mut locks = Vec::new();
        for before in own.before() {
            locks.push(before.lock.clone().write_owned().await);
        }
        for replaced in own.replaced().filter(|_| has_looked) {
            // What others commit from now on would go with the table, and what they have committed the stage has not seen.
            match self.bar_open_stages(replaced).await {
                Ok(_) => stage.claim_table(replaced),
                // Somebody else was first to change it, which is found below.
                Err(error) if error.kind() == ErrorKind::Missing => {}
                Err(error) => return Err(error),
            }
        }
        self.commit_locked_relations(own, stage).await
    }

    /// The same for a caller that has the locks of the relations that there were.
    pub async fn commit_locked_relations(
        &self,
        own: &UncommittedRelations,
        stage: Box<dyn Stage>,
    ) -> Result<()> {
        let _changing = self.lock_databases().await;
        own.databases().try_for_each(|database| self.existing_database(database).map(drop))?;
        self.relations().commit(own, stage).await?;
        self.announce(Entry::Relations).await?;
        let before = own.before().filter_map(|before| before.table()).flat_map(|table| table.stores());
        for unused in before.filter(|table| !own.has_table(*table)) {
            // It is committed. What is left over the next start drops.
            let _ = self.store().drop_table(unused).await;
        }
        Ok(())
    }

    /// Changes nothing of a table of the store, but whoever has written rows to it in a stage cannot commit them.
    pub async fn bar_open_stages(&self, table: TableId) -> Result<Arc<TableSchema>> {
        let schema = self.store().schema(table)?;
        let key = schema.key[0];
        let is_hidden = schema.column(key).is_some_and(|column| column.hidden);
        self.store().alter_table(table, vec![Alteration::SetHidden(key, is_hidden)]).await
    }

    /// Drops a relation. Returns false if there is none.
    pub async fn drop_relation(&self, database: &str, name: &str) -> Result<bool> {
        let (before, _) = self.relations().change(database, name, |_| Ok(None)).await?;
        self.announce(Entry::Relations).await?;
        let Some(before) = before else { return Ok(false) };
        self.relations().drop_tables(&before).await?;
        Ok(true)
    }

    /// Replaces the rows of a table by none: new tables of the store take the place of the old ones, which are dropped.
    /// `schemas` are those of the new ones.
    pub async fn truncate_relation(&self, relation: &Relation, schemas: Vec<TableSchema>) -> Result<()> {
        let (database, name) = (&*relation.database, &*relation.name);
        let tables = self.relations().create_tables(database, name, schemas).await?;
        let decide = |before: Option<&Arc<Relation>>| {
            let before = existing(before, name)?;
            if before.definition != relation.definition {
                return Err(Error::retry(format!("relation {name:?} was changed meanwhile")));
            }
            Ok(Some(before.definition.with_stores(&tables)))
        };
        match self.relations().change(database, name, decide).await {
            Ok((before, _)) => {
                self.announce(Entry::Relations).await?;
                let before = before.expect("it existed");
                self.relations().drop_tables(&before).await
            }
            Err(error) if error.kind() == ErrorKind::Unknown => Err(error),
            Err(error) => {
                let _ = self.store().drop_tables(tables).await;
                Err(error)
            }
        }
    }
}
