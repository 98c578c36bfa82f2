//! Changes of relations.

use super::names::Named;
use super::published::New;
use super::{Definition, Relation, Relations, TABLE_PREFIX, key_of};
use crate::records::Change;
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What becomes of a relation.
#[derive(Debug, Clone)]
pub struct RelationChange {
    /// The relation when the change was decided on.
    pub before: Arc<Relation>,
    /// Its name from now on.
    pub name: String,
    /// Its definition from now on; `None`: it is dropped.
    pub after: Option<Definition>,
}

impl RelationChange {
    /// Whether it gets another name.
    fn is_move(&self) -> bool {
        self.after.is_some() && self.name != self.before.name
    }
}

impl Relations {
    /// Changes the record of a relation to what `decide` returns; see [`crate::records::VersionedRecords::change_by`].
    /// `None` removes it. Returns the relation as it was before and as it is now.
    pub(crate) async fn change(
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
        let new = New::of(before.as_ref().map(|own| &own.definition), after.as_ref());
        self.note_published(vec![new]).await?;
        let after = self.put(database, name, before.as_ref(), after);
        Ok((before, after))
    }

    /// Notes what a relation is now.
    pub(super) fn put(
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
            self.drop_tables(&relation).await?;
        }
        Ok(())
    }

    /// Makes changes of relations of one store together, as far as the store can.
    ///
    /// # Errors
    /// Missing if there is no such relation, retry if one is not as it was, conflict if a new name is taken.
    pub(crate) async fn change_all(&self, changes: &[RelationChange]) -> Result<()> {
        let records = self.records()?;
        let _changing = self.changing.lock().await;
        let decide = || {
            let named = changes.iter().filter_map(|own| {
                let (database, name, before) = (&*own.before.database, &*own.name, Some(&*own.before));
                Some(Named { database, name, definition: own.after.as_ref()?, before })
            });
            self.check_names(&named.collect::<Vec<_>>(), |database, name| {
                changes.iter().any(|own| own.before.database == database && own.before.name == name)
            })?;
            let mut decided: Vec<Change> = Vec::with_capacity(changes.len());
            for change in changes {
                let before = &change.before;
                let now = self.find(&before.database, &before.name);
                if existing(now.as_ref(), &before.name)?.definition != before.definition {
                    return Err(Error::retry(format!("relation {:?} was changed meanwhile", before.name)));
                }
                decided.push((key_of(&before.database, &change.name), change.after.as_ref().map(json)));
                if change.is_move() {
                    decided.push((key_of(&before.database, &before.name), None));
                }
            }
            Ok(Some((decided, ())))
        };
        let what = changes.first().map(|first| format!("relation {}", first.before.name));
        let learn = |records: &[(Vec<u8>, Vec<u8>)]| self.learn(records);
        records.change_by(&what.unwrap_or_default(), decide, learn).await?;
        let of_change = |own: &RelationChange| New::of(Some(&own.before.definition), own.after.as_ref());
        let new = changes.iter().map(of_change).collect();
        self.note_published(new).await?;
        for RelationChange { before, name, after } in changes {
            if *name != before.name {
                self.put(&before.database, &before.name, Some(before), None);
            }
            self.put(&before.database, name, Some(before), after.clone());
        }
        Ok(())
    }

    /// Fails if the records cannot be read.
    pub(crate) fn check_readable(&self) -> Result<()> {
        self.records().map(drop)
    }

    /// Creates a table of the store for the rows of a relation, or for entries of an index.
    pub(crate) async fn create_table(
        &self,
        database: &str,
        name: &str,
        schema: TableSchema,
    ) -> Result<TableId> {
        create_table(&self.store, &format!("{TABLE_PREFIX}{database}.{name}"), schema).await
    }

    /// Creates the tables of the store for a relation; if one cannot be created, none remains.
    pub(crate) async fn create_tables(
        &self,
        database: &str,
        name: &str,
        schemas: Vec<TableSchema>,
    ) -> Result<Vec<TableId>> {
        let mut created = Vec::with_capacity(schemas.len());
        for schema in schemas {
            match self.create_table(database, name, schema).await {
                Ok(table) => created.push(table),
                Err(error) => {
                    // If this fails too, the next start drops them.
                    let _ = self.store.drop_tables(created).await;
                    return Err(error);
                }
            }
        }
        Ok(created)
    }

    /// Drops the tables of the store that belong to a relation.
    pub(crate) async fn drop_tables(&self, relation: &Relation) -> Result<()> {
        let Some(table) = relation.table() else { return Ok(()) };
        for table in table.stores() {
            drop_table(&self.store, table).await?;
        }
        Ok(())
    }

    /// Drops the tables of the store that a relation has no more.
    pub(crate) async fn drop_unused(&self, before: &Relation, after: Option<&Definition>) -> Result<()> {
        let Some(before) = before.table() else { return Ok(()) };
        let used: Vec<TableId> =
            after.and_then(Definition::table).map_or_else(Vec::new, |after| after.stores().collect());
        for table in before.stores().filter(|table| !used.contains(table)) {
            drop_table(&self.store, table).await?;
        }
        Ok(())
    }
}

/// A relation that was found, or the error that there is none.
pub(crate) fn existing<'a>(found: Option<&'a Arc<Relation>>, name: &str) -> Result<&'a Arc<Relation>> {
    found.ok_or_else(|| Error::missing(format!("relation {name:?} does not exist")))
}

pub(super) fn json(definition: &Definition) -> Vec<u8> {
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

async fn drop_table(store: &StoreRef, table: TableId) -> Result<()> {
    match store.drop_table(table).await {
        // Another server has seen it without a record.
        Err(error) if error.kind() == ErrorKind::Missing => Ok(()),
        done => done,
    }
}
