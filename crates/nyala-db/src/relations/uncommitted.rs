//! What a session has defined and not committed: in its transaction, or for itself alone, which is never committed.
//!
//! The tables are there in the store, without a record that names them: nobody else sees them, and a start drops them. The
//! commit of a transaction writes the records together with its rows, but those of temporary relations. These are in a
//! database of their own ([`TEMPORARY`]), which each session has for itself.

use super::change::json;
use super::names::Named;
use super::published::New;
use super::{Definition, Relation, RelationChange, Relations, key_of};
use crate::records::Change;
use nyala_core::store::Stage;
use nyala_core::{Error, Result, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The database of the temporary relations of a session. No other one has such a name.
pub const TEMPORARY: &str = "\u{0}temporary";

/// The relations that a session has created, changed or dropped for itself so far.
#[derive(Debug, Clone, Default)]
pub struct UncommittedRelations {
    /// By database and name.
    changed: BTreeMap<(String, String), Uncommitted>,
}

#[derive(Debug, Clone)]
struct Uncommitted {
    /// The relation before the transaction.
    before: Option<Arc<Relation>>,
    now: Option<Arc<Relation>>,
}

/// Relations as somebody sees them who has not committed some.
#[derive(Clone, Copy)]
pub struct SeenRelations<'a> {
    committed: &'a Relations,
    own: Option<&'a UncommittedRelations>,
}

impl UncommittedRelations {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// These above the committed ones.
    pub fn above<'a>(&'a self, committed: &'a Relations) -> SeenRelations<'a> {
        SeenRelations { committed, own: Some(self).filter(|own| !own.is_empty()) }
    }

    /// Notes what a relation is to become; `None`: it is to be dropped.
    pub fn put(&mut self, committed: &Relations, database: &str, name: &str, definition: Option<Definition>) {
        let known = self.above(committed).find(database, name);
        self.put_as(committed, (database, name), known.as_ref(), definition);
    }

    /// Notes a change.
    pub fn change(&mut self, committed: &Relations, change: &RelationChange) {
        let RelationChange { before, name, after } = change;
        if *name != before.name {
            self.put(committed, &before.database, &before.name, None);
        }
        self.put_as(committed, (&before.database, name), Some(before), after.clone());
    }

    /// Notes what stands under a name. It is created now unless it is another relation's future.
    fn put_as(
        &mut self,
        committed: &Relations,
        (database, name): (&str, &str),
        known: Option<&Arc<Relation>>,
        definition: Option<Definition>,
    ) {
        let seen = self.above(committed);
        let place = (database.to_owned(), name.to_owned());
        let now = definition.map(|definition| {
            let created = known.map_or_else(|| seen.next_place(), |known| known.created);
            let lock = known.map_or_else(Arc::default, |known| known.lock.clone());
            let (database, name) = place.clone();
            Arc::new(Relation { database, name, created, definition, lock })
        });
        let before = match self.changed.get(&place) {
            Some(own) => own.before.clone(),
            None => committed.find(database, name),
        };
        match (&before, &now) {
            (None, None) => drop(self.changed.remove(&place)),
            _ => drop(self.changed.insert(place, Uncommitted { before, now })),
        }
    }

    /// The temporary ones alone.
    pub fn temporary(&self) -> Self {
        let is_temporary = |(place, _): &(&(String, String), &Uncommitted)| place.0 == TEMPORARY;
        let own = self.changed.iter().filter(is_temporary);
        Self { changed: own.map(|(place, own)| (place.clone(), own.clone())).collect() }
    }

    /// The temporary relations.
    pub fn of_temporary(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.now().filter(|own| own.database == TEMPORARY)
    }

    /// The others, which a commit shows to everybody.
    fn shared(&self) -> impl Iterator<Item = (&(String, String), &Uncommitted)> {
        self.changed.iter().filter(|((database, _), _)| database != TEMPORARY)
    }

    /// Whether a commit has something to show to everybody.
    pub fn are_shared(&self) -> bool {
        self.shared().next().is_some()
    }

    /// The databases that they belong to, but for the temporary one.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.shared().map(|((database, _), _)| database.as_str())
    }

    /// What they were before, in order of name.
    pub(crate) fn before(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.changed.values().filter_map(|own| own.before.as_ref())
    }

    /// Whether a table of the store belongs to one of them.
    pub fn has_table(&self, table: TableId) -> bool {
        self.stores().any(|own| own == table)
    }

    /// Tables of the store whose places under their names others take, and which nothing names any more.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = TableId> {
        let of_change = |change: &Uncommitted| {
            let before = change.before.as_ref()?.table()?.table;
            let is_replaced = change.now.as_ref()?.table()?.table != before && !self.has_table(before);
            is_replaced.then_some(before)
        };
        self.changed.values().filter_map(of_change)
    }

    /// The tables of the store that belong to them.
    pub fn stores(&self) -> impl Iterator<Item = TableId> {
        self.now().filter_map(|now| now.table()).flat_map(|table| table.stores())
    }

    /// The tables of the store for entries of their indexes.
    pub fn indexes(&self) -> impl Iterator<Item = TableId> {
        let tables = self.now().filter_map(|now| now.table());
        tables.flat_map(|table| &table.indexes).map(|index| index.table)
    }

    /// What they become.
    pub(crate) fn now(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.changed.values().filter_map(|own| own.now.as_ref())
    }
}

impl<'a> SeenRelations<'a> {
    /// Those that everybody sees.
    pub fn of_everybody(committed: &'a Relations) -> Self {
        Self { committed, own: None }
    }

    /// A relation by name.
    pub fn find(&self, database: &str, name: &str) -> Option<Arc<Relation>> {
        let place =
            |own: &UncommittedRelations| own.changed.get(&(database.to_owned(), name.to_owned())).cloned();
        match self.own.and_then(place) {
            Some(own) => own.now,
            None => self.committed.find(database, name),
        }
    }

    /// The relations of a database in order of name.
    pub fn of(&self, database: &str) -> Vec<Arc<Relation>> {
        let mut all = self.committed.of(database);
        if let Some(own) = self.own {
            all.retain(|known| !own.changed.contains_key(&(database.to_owned(), known.name.clone())));
            all.extend(own.now().filter(|own| own.database == database).cloned());
            all.sort_by(|a, b| a.name.cmp(&b.name));
        }
        all
    }

    /// Whether a temporary relation, or an index of one, has a name.
    pub fn has_temporary(&self, name: &str) -> bool {
        let mut own = self.own.into_iter().flat_map(UncommittedRelations::now);
        own.any(|own| own.database == TEMPORARY && own.has_name(name))
    }

    /// The next place in the order of creation.
    fn next_place(&self) -> u64 {
        let all = self.committed.all();
        let own = self.own.into_iter().flat_map(UncommittedRelations::now);
        all.iter().chain(own).map(|own| own.created + 1).max().unwrap_or(0)
    }
}

impl Relations {
    /// Makes the relations of a transaction what they are to become, together with what it has staged.
    ///
    /// # Errors
    /// Conflict if somebody else was first to change one of them, or a row of the stage.
    pub(crate) async fn commit(&self, own: &UncommittedRelations, stage: Box<dyn Stage>) -> Result<()> {
        let records = self.records()?;
        let _changing = self.changing.lock().await;
        let mut changes: Vec<Change> = Vec::with_capacity(own.changed.len());
        for ((database, name), change) in own.shared() {
            let now = self.find(database, name);
            let is_same = match (&change.before, &now) {
                (None, None) => true,
                (Some(before), Some(now)) => before.definition == now.definition,
                _ => false,
            };
            if !is_same {
                return Err(Error::conflict(format!("relation {name:?} was changed meanwhile")));
            }
            let definition = change.now.as_ref().map(|now| json(&now.definition));
            changes.push((key_of(database, name), definition));
        }
        let named = own.shared().filter_map(|(_, change)| {
            let now = change.now.as_ref()?;
            let (database, name, definition) = (&*now.database, &*now.name, &now.definition);
            Some(Named { database, name, definition, before: change.before.as_deref() })
        });
        self.check_names(&named.collect::<Vec<_>>(), |database, name| {
            own.changed.contains_key(&(database.to_owned(), name.to_owned()))
        })?;
        records.change_with(changes, stage).await?;
        // A table that was renamed has had its rows before, under whatever name.
        let table_of = |relation: &Relation| relation.table().map(|own| own.table);
        let of_change = |change: &Uncommitted| {
            let now = change.now.as_deref();
            let is_same = |before: &&Arc<Relation>| now.is_some_and(|now| table_of(now) == table_of(before));
            let before = own.before().find(is_same).or(change.before.as_ref());
            New::of(before.map(|own| &own.definition), now.map(|own| &own.definition))
        };
        let new = own.shared().map(|(_, change)| of_change(change)).collect();
        self.note_published(new).await?;
        for ((database, name), change) in own.shared() {
            let definition = change.now.as_ref().map(|now| now.definition.clone());
            self.put(database, name, change.now.as_ref().or(change.before.as_ref()), definition);
        }
        Ok(())
    }
}
