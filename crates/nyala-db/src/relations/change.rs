//! Changes of relations.

use super::{Body, Definition, Relation, Relations, TABLE_PREFIX, key_of};
use crate::catalog::Catalog;
use crate::records::{Change, Entry};
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Relations {
    /// Changes the record of a relation to what `decide` returns; see [`crate::records::VersionedRecords::change_by`].
    /// `None` removes it. Returns the relation as it was before and as it is now.
    async fn change(
        &self,
        database: &str,
        name: &str,
        decide: impl Fn(Option<&Arc<Relation>>) -> Result<Option<Definition>>,
    ) -> Result<(Option<Arc<Relation>>, Option<Arc<Relation>>)> {
        let records = self.records()?;
        let _changing = self.changing.lock().await;
        let what = format!("relation {name}");
        let decided = || {
            let before = self.find(database, name);
            let after = decide(before.as_ref())?;
            let value = after.as_ref().map(json);
            let change: Change = (key_of(database, name), value);
            Ok(Some((vec![change], (before, after))))
        };
        let changed = records.change_by(&what, decided, |records| self.learn(records)).await?;
        let (before, after) = changed.expect("a change was decided on");
        let after = self.put(database, name, before.as_ref(), after);
        Ok((before, after))
    }

    /// Notes what a relation is now.
    fn put(
        &self,
        database: &str,
        name: &str,
        before: Option<&Arc<Relation>>,
        after: Option<Definition>,
    ) -> Option<Arc<Relation>> {
        let mut state = self.state.write();
        let place = (database.to_owned(), name.to_owned());
        let next = state.relations.values().map(|own| own.created + 1).max().unwrap_or(0);
        let after = after.map(|definition| {
            let (database, name) = place.clone();
            let created = before.map_or(next, |before| before.created);
            let lock = before.map_or_else(Arc::default, |before| before.lock.clone());
            Arc::new(Relation { database, name, created, definition, lock })
        });
        match &after {
            Some(after) => drop(state.relations.insert(place, after.clone())),
            None => drop(state.relations.remove(&place)),
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        after
    }

    /// Drops all relations of a database.
    pub(crate) async fn drop_database(&self, database: &str) -> Result<()> {
        for relation in self.of(database) {
            self.change(database, &relation.name, |_| Ok(None)).await?;
            drop_table(&self.store, &relation).await?;
        }
        Ok(())
    }
}

impl Catalog {
    /// Creates a table. `define` makes its definition of the id that its rows are stored under. `schema` has any name.
    ///
    /// # Errors
    /// Conflict if there is a relation of this name. Missing if there is no such database.
    pub async fn create_relation_table(
        &self,
        database: &str,
        name: &str,
        schema: TableSchema,
        define: impl FnOnce(TableId) -> Definition,
    ) -> Result<Arc<Relation>> {
        let _changing = self.lock_databases().await;
        self.existing_database(database)?;
        let relations = self.relations();
        let exists = || Error::conflict(format!("relation {name:?} exists"));
        relations.records()?;
        if relations.find(database, name).is_some() {
            return Err(exists());
        }
        let table = create_table(self.store(), &format!("{TABLE_PREFIX}{database}.{name}"), schema).await?;
        let definition = define(table);
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
                // If this fails too, the next start drops it.
                let _ = self.store().drop_table(table).await;
                Err(error)
            }
        }
    }

    /// Creates a view, or replaces one by another if `replace`.
    ///
    /// # Errors
    /// Conflict if there is a relation of this name that is not replaced. Missing if there is no such database.
    pub async fn create_relation_view(
        &self,
        database: &str,
        name: &str,
        definition: Definition,
        replace: bool,
    ) -> Result<Arc<Relation>> {
        let _changing = self.lock_databases().await;
        self.existing_database(database)?;
        let decide = |before: Option<&Arc<Relation>>| match before {
            Some(before) if !replace || before.view().is_none() => {
                Err(Error::conflict(format!("relation {name:?} exists")))
            }
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

    /// Gives a relation another name.
    ///
    /// # Errors
    /// Missing if there is no such relation, conflict if there is one of the new name.
    pub async fn rename_relation(&self, database: &str, name: &str, new_name: &str) -> Result<()> {
        let _changing = self.lock_databases().await;
        let relations = self.relations();
        let _relation = relations.changing.lock().await;
        let decide = || {
            let before = relations.find(database, name);
            let before = existing(before.as_ref(), name)?;
            if relations.find(database, new_name).is_some() {
                return Err(Error::conflict(format!("relation {new_name:?} exists")));
            }
            let added: Change = (key_of(database, new_name), Some(json(&before.definition)));
            Ok(Some((vec![added, (key_of(database, name), None)], before.clone())))
        };
        let what = format!("relation {name}");
        let learn = |records: &[(Vec<u8>, Vec<u8>)]| relations.learn(records);
        let before = relations.records()?.change_by(&what, decide, learn).await?;
        let before = before.expect("a change was decided on");
        relations.put(database, name, Some(&before), None);
        relations.put(database, new_name, Some(&before), Some(before.definition.clone()));
        self.announce(Entry::Relations).await
    }

    /// Drops a relation. Returns false if there is none.
    pub async fn drop_relation(&self, database: &str, name: &str) -> Result<bool> {
        let (before, _) = self.relations().change(database, name, |_| Ok(None)).await?;
        self.announce(Entry::Relations).await?;
        let Some(before) = before else { return Ok(false) };
        drop_table(self.store(), &before).await?;
        Ok(true)
    }

    /// Replaces the rows of a table by none: a new table of the store takes the place of the old one, which is dropped.
    /// `schema` is that of the new one.
    pub async fn truncate_relation(&self, relation: &Relation, schema: TableSchema) -> Result<()> {
        let (database, name) = (&*relation.database, &*relation.name);
        let table = create_table(self.store(), &format!("{TABLE_PREFIX}{database}.{name}"), schema).await?;
        let decide = |before: Option<&Arc<Relation>>| {
            let before = existing(before, name)?;
            if before.definition != relation.definition {
                return Err(Error::retry(format!("relation {name:?} was changed meanwhile")));
            }
            let mut definition = before.definition.clone();
            if let Body::Table(own) = &mut definition.body {
                own.table = table;
            }
            Ok(Some(definition))
        };
        match self.relations().change(database, name, decide).await {
            Ok((before, _)) => {
                self.announce(Entry::Relations).await?;
                let before = before.expect("it existed");
                drop_table(self.store(), &before).await
            }
            Err(error) if error.kind() == ErrorKind::Unknown => Err(error),
            Err(error) => {
                let _ = self.store().drop_table(table).await;
                Err(error)
            }
        }
    }
}

fn existing<'a>(found: Option<&'a Arc<Relation>>, name: &str) -> Result<&'a Arc<Relation>> {
    found.ok_or_else(|| Error::missing(format!("relation {name:?} does not exist")))
}

fn json(definition: &Definition) -> Vec<u8> {
    serde_json::to_vec(definition).expect("definitions are plain data")
}

/// Creates a table of the store under a name like the one given: that one may be taken by the table of a relation that was
/// renamed.
async fn create_table(store: &StoreRef, name: &str, schema: TableSchema) -> Result<TableId> {
    let mut number = 1;
    loop {
        let name = if number == 1 { name.to_owned() } else { format!("{name}/{number}") };
        match store.create_table(TableSchema { name, ..schema.clone() }).await {
            Err(error) if error.kind() == ErrorKind::Conflict => number += 1,
            created => return created,
        }
    }
}

async fn drop_table(store: &StoreRef, relation: &Relation) -> Result<()> {
    let Some(table) = relation.table() else { return Ok(()) };
    match store.drop_table(table.table).await {
        // Another server has seen it without a record.
        Err(error) if error.kind() == ErrorKind::Missing => Ok(()),
        done => done,
    }
}
