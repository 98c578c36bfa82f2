//! `CREATE INDEX`, `DROP INDEX`, `ALTER INDEX`, and the index of a new unique constraint.
//!
//! The entries of the rows that are there become visible with the commit that publishes the index, all at once: whoever reads a
//! snapshot before it finds none.

use super::new_index::NewIndex;
use super::{changed, defining, inside_transaction, of_publishing, same_constraint, table_of, taken};
use crate::command_tag::CommandTag;
use crate::error::{BrokenRule, SqlError, SqlResult, SqlState};
use crate::identifier::schema_of;
use crate::relation::assign::check_sizes;
use crate::relation::columns::TableColumns;
use crate::relation::entries::RowIndex;
use crate::relation::rules::Rules;
use crate::session::{Run, Session};
use crate::statement::Statement;
use crate::target::{Place, last_part};
use crate::transaction::{Locked, committed, of_commit};
use crate::uncommitted_tables::UncommittedTables;
use arrow_array::{Array, ArrayRef};
use datafusion::sql::sqlparser::ast::{AlterIndexOperation, CreateIndex, Ident, ObjectName};
use nyala_core::store::{Feature, RowSelection, ScanRequest, Stage, WriteBatch};
use nyala_db::relations::{
    Index, Relation, RelationChange, TEMPORARY, TableDefinition, UncommittedRelations,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

impl Session {
    pub(super) async fn create_index(
        &mut self,
        statement: &Statement,
        create: &CreateIndex,
    ) -> SqlResult<CommandTag> {
        let new = NewIndex::of_statement(create)?;
        let (place, relation) = self.existing_table(&create.table_name)?;
        let is_there = new.name.as_ref().is_some_and(|name| self.is_name_taken(&place.database, name));
        if !(create.if_not_exists && is_there) {
            self.add_index(statement, &place, relation, &new).await?;
        }
        Ok(CommandTag::of("CREATE INDEX"))
    }

    /// Refuses indexes in a store that cannot write a row and its entries together.
    pub(super) fn need_indexes(&self) -> SqlResult<()> {
        let needed = self.server.catalog.store().capabilities().need(Feature::StagedWrites);
        needed.map_err(|error| SqlError::from(error).with_hint("Indexes and unique columns need them."))
    }

    /// Whether a relation or an index of a database has a name.
    pub(super) fn is_name_taken(&self, database: &str, name: &str) -> bool {
        self.relations().of(database).iter().any(|own| own.has_name(name))
    }

    /// Adds an index to a table, with entries for the rows that are there.
    pub(super) async fn add_index(
        &mut self,
        statement: &Statement,
        place: &Place,
        found: Arc<Relation>,
        new: &NewIndex,
    ) -> SqlResult<()> {
        let catalog = self.server.catalog.clone();
        let store = catalog.store().clone();
        self.need_indexes()?;
        if self.transaction.is_some() {
            return self.add_uncommitted_index(statement, &found, new).await;
        }
        let (alone, relation) = self.locked_alone(place, &found).await?;
        let before = table_of(&relation)?;
        let mut index =
            new.define(&relation.name, before, |name| self.is_name_taken(&place.database, name))?;
        check_constraint_name(&relation, before, &index)?;
        // Transactions that have written rows without entries cannot commit them.
        let rows = catalog.bar_open_stages(before.table).await?;
        let schema = index.schema(&rows)?;
        let database = self.rights_of(&place.database);
        index.table = catalog.create_uncommitted_table(database, &index.name, schema).await?;
        let mut tables = UncommittedTables::default();
        tables.add(&store, index.table);
        let mut stage = store.stage().await?;
        let freshness = catalog.follow().await?;
        let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
        self.write_entries(&run, &relation, &index, &mut stage).await?;
        self.publish_with(&with_index(&relation, index)?, tables, stage, alone).await
    }

    /// Makes a change of a table visible together with what was staged for it, by who has its lock.
    pub(super) async fn publish_with(
        &mut self,
        change: &RelationChange,
        tables: UncommittedTables,
        stage: Box<dyn Stage>,
        alone: OwnedRwLockWriteGuard<()>,
    ) -> SqlResult<()> {
        let catalog = self.server.catalog.clone();
        let mut relations = UncommittedRelations::clone(&self.temporary.relations);
        relations.change(catalog.relations(), change);
        let relations = Arc::new(relations);
        let done = committed(catalog, relations.clone(), tables, stage, Locked::Alone(alone)).await;
        self.note_definitions();
        done.map_err(of_commit)?;
        if change.before.database == TEMPORARY {
            self.keep_temporary(&relations);
        }
        Ok(())
    }

    /// The same for a table that the transaction itself has created, so that nobody else writes rows.
    async fn add_uncommitted_index(
        &mut self,
        statement: &Statement,
        relation: &Arc<Relation>,
        new: &NewIndex,
    ) -> SqlResult<()> {
        let catalog = self.server.catalog.clone();
        let table = table_of(relation)?;
        // Under whatever name: it may have been renamed.
        let committed = catalog.relations().of(&relation.database);
        if committed.iter().any(|own| own.table().is_some_and(|own| own.table == table.table)) {
            return Err(inside_transaction("an index of a table that the transaction has not created"));
        }
        let mut index =
            new.define(&relation.name, table, |name| self.is_name_taken(&relation.database, name))?;
        check_constraint_name(relation, table, &index)?;
        let schema = index.schema(&*catalog.store().schema(table.table)?)?;
        index.table = self.create_uncommitted(&relation.database, &index.name, schema).await?;
        let freshness = catalog.follow().await?;
        let snapshot = self.open_transaction().await?;
        let run = self.run(statement, freshness, snapshot, Arc::default())?;
        let mut stage = self.transaction_stage()?;
        self.write_entries(&run, relation, &index, &mut stage).await?;
        drop(stage);
        if let Some(transaction) = &mut self.transaction {
            transaction.refresh().await?;
        }
        self.put_uncommitted_changes(&[with_index(relation, index)?]);
        Ok(())
    }

    /// Writes the entries of all rows.
    async fn write_entries(
        &mut self,
        run: &Run,
        relation: &Relation,
        index: &Index,
        stage: &mut Box<dyn Stage>,
    ) -> SqlResult<()> {
        let table = table_of(relation)?;
        let capabilities = self.server.catalog.store().capabilities();
        let columns = Arc::new(TableColumns::all(table));
        let plain = TableDefinition { checks: Vec::new(), ..without_defaults(table) };
        let (around, own) = (self.surroundings(), columns.clone());
        let rules = Rules::of(&relation.name, &plain, own, None, around, capabilities, None)?;
        let entries = RowIndex::of_index(index, &columns);
        let ids = columns.columns.iter().map(|column| column.id).collect();
        let snapshot = stage.snapshot().await?;
        let request = ScanRequest::by_key(table.table, RowSelection::All, ids);
        let mut rows = run.running.unless_stopped(snapshot.scan(request)).await?;
        let mut held = run.memory().hold();
        while let Some(batch) = run.running.unless_stopped(rows.next()).await? {
            held.shrink_to(0);
            held.charge(batch.value_bytes())?;
            for position in &entries.columns {
                check_sizes(&batch.columns[*position], columns.name(*position), true, &capabilities)?;
            }
            write_entries_of(run, relation, &rules, &entries, &batch.columns, stage).await?;
        }
        Ok(())
    }

    pub(super) async fn drop_indexes(
        &mut self,
        if_exists: bool,
        names: &[ObjectName],
    ) -> SqlResult<CommandTag> {
        let mut dropped: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for name in names {
            let place = self.writable_place(name)?;
            let Some((relation, index)) = self.found_index(&place)? else {
                if if_exists {
                    continue;
                }
                let message = format!("index \"{}\" does not exist", place.shown());
                return Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message));
            };
            if index.is_none_or(|own| own.is_constraint) {
                let (name, table) = (&place.name, &relation.name);
                let words = format!(
                    "cannot drop index {name} because constraint {name} on table {table} requires it"
                );
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, words)
                    .with_hint(format!("You can drop constraint {name} on table {table} instead.")));
            }
            let table = (relation.database.clone(), relation.name.clone());
            dropped.entry(table).or_default().push(place.name);
        }
        let (mut alone, mut changes) = (Vec::new(), Vec::new());
        for ((database, name), indexes) in dropped {
            let gone = || {
                SqlError::new(SqlState::SERIALIZATION_FAILURE, "the table was dropped meanwhile: try again")
            };
            let found = self.relations().find(&database, &name).ok_or_else(gone)?;
            if self.transaction.is_none() {
                // Whoever is writing rows finishes first. Tables are locked in order of their names.
                alone.push(self.hold_table(&found.lock, defining(&found.name)).await?);
            }
            let relation = self.relations().find(&database, &name).ok_or_else(gone)?;
            if !Arc::ptr_eq(&relation.lock, &found.lock) {
                return Err(gone());
            }
            let mut table = table_of(&relation)?.clone();
            table.indexes.retain(|own| !indexes.contains(&own.name));
            changes.push(changed(&relation, table));
        }
        if !changes.is_empty() {
            self.publish(&changes).await?;
        }
        Ok(CommandTag::of("DROP INDEX"))
    }

    pub(super) async fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> SqlResult<CommandTag> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        let place = self.writable_place(name)?;
        let Some((relation, _)) = self.found_index(&place)? else {
            let message = format!("relation \"{}\" does not exist", place.shown());
            return Err(SqlError::new(SqlState::UNKNOWN_TABLE, message));
        };
        let (old, new) = (Ident::with_quote('"', &place.name), last_part(index_name)?);
        if self.is_name_taken(&place.database, &new) {
            return Err(taken(&new));
        }
        let lock = relation.lock.clone();
        let _alone = match self.transaction {
            Some(_) => None,
            None => Some(lock.write().await),
        };
        self.rename_constraint(&relation, &old, &Ident::with_quote('"', new)).await?;
        Ok(CommandTag::of("ALTER INDEX"))
    }

    /// The table that has an index of a name, and the index, unless it is that of the key.
    fn found_index(&self, place: &Place) -> SqlResult<Option<(Arc<Relation>, Option<Index>)>> {
        if place.relation(self.relations()).is_some() {
            let message = format!("\"{}\" is not an index", place.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
        }
        let found = self.relations().of(&place.database).into_iter().find(|own| own.has_name(&place.name));
        Ok(found.map(|relation| {
            let index = relation.table().and_then(|table| table.index(&place.name)).cloned();
            (relation, index)
        }))
    }

    /// Makes changes of relations visible.
    pub(super) async fn publish(&mut self, changes: &[RelationChange]) -> SqlResult<()> {
        if self.transaction.is_some() {
            self.put_uncommitted_changes(changes);
            return Ok(());
        }
        if changes.iter().any(|change| change.before.database == TEMPORARY) {
            let mut relations = UncommittedRelations::clone(&self.temporary.relations);
            changes.iter().for_each(|change| relations.change(self.server.catalog.relations(), change));
            self.keep_temporary(&relations);
            return Ok(());
        }
        let changed = self.server.catalog.change_relations(changes).await;
        changed.map_err(|error| of_publishing(error, changes))
    }
}

/// Fails if a check of a table has the name of a new constraint.
fn check_constraint_name(relation: &Relation, table: &TableDefinition, index: &Index) -> SqlResult<()> {
    match index.is_constraint && table.checks.iter().any(|check| check.name == index.name) {
        true => Err(same_constraint(&index.name, &relation.name)),
        false => Ok(()),
    }
}

/// Writes the entries of rows to an index that is made.
///
/// # Errors
/// A broken rule if the index is unique, and one of the rows has the values of another one.
pub(super) async fn write_entries_of(
    run: &Run,
    relation: &Relation,
    rules: &Rules,
    entries: &RowIndex<'_>,
    rows: &[ArrayRef],
    stage: &mut Box<dyn Stage>,
) -> SqlResult<()> {
    let Some(operation) = entries.added(rows) else { return Ok(()) };
    match run.running.unless_stopped(stage.write(WriteBatch { operations: vec![operation] })).await {
        Err(error) if error.code == SqlState::SERIALIZATION_FAILURE => {
            let row = first_twice(entries, rows, stage).await?;
            let shown = row.map(|row| rules.shown_key(entries, rows, row));
            let message = format!("could not create unique index \"{}\"", entries.name);
            let detail = format!("Key {} is duplicated.", shown.unwrap_or_default());
            let rule = BrokenRule::of_constraint(schema_of(&relation.database), &relation.name, entries.name);
            Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message).with_detail(detail).with_rule(rule))
        }
        written => written.map(drop),
    }
}

/// The first row that has the values of one before it, or of one that has an entry.
async fn first_twice(
    entries: &RowIndex<'_>,
    rows: &[ArrayRef],
    stage: &mut Box<dyn Stage>,
) -> SqlResult<Option<usize>> {
    let snapshot = stage.snapshot().await?;
    let mut seen = BTreeSet::new();
    for row in 0..rows.first().map_or(0, |values| values.len()) {
        let Some(values) = entries.values(rows, row) else { continue };
        if entries.is_taken(&*snapshot, values.clone()).await? || !seen.insert(values) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// A table whose rows get nothing by default: they are there.
fn without_defaults(table: &TableDefinition) -> TableDefinition {
    let mut table = table.clone();
    for column in &mut table.columns {
        (column.default, column.sequence) = (None, None);
    }
    table
}

fn with_index(relation: &Arc<Relation>, index: Index) -> SqlResult<RelationChange> {
    let mut table = table_of(relation)?.clone();
    table.indexes.push(index);
    Ok(changed(relation, table))
}
