//! `ALTER TABLE` and `ALTER VIEW`.
//!
//! The actions of a statement make a new definition of the old one ([`actions`]). Columns are added to the store, the rows
//! that are there are compared with what is new and get their new values ([`rows`]), and then one change of records
//! publishes the definition. Until then nobody sees anything, and what was done can be forgotten. Whoever alters a table is
//! alone in it: a statement that writes rows finishes first, and a transaction that has written some cannot commit them.
//! [`primary_key`] copies the rows of a table to one with a key, [`rebuild`] to one whose key has other types. [`rename`] gives
//! other names, [`measurement`] those of measurements, [`dependents`] finds the views that a change concerns, [`view_text`] keeps
//! them right.

mod actions;
mod dependents;
mod measurement;
mod primary_key;
mod rebuild;
mod rename;
mod rows;
mod view_text;

use super::new_index::NewIndex;
use super::{check_expressions, inside_transaction};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::Session;
use crate::session::definition::table_of;
use crate::statement::Statement;
use crate::target::{Place, Target};
use actions::{Actions, Altered, NewValues};
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation, TableConstraint};
use nyala_core::store::{Alteration, Capabilities, Feature};
use nyala_core::{ColumnId, ColumnSchema};
use nyala_db::relations::{Body, Definition, Relation, RelationChange};
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

impl Session {
    pub(super) async fn alter_table(
        &mut self,
        statement: &Statement,
        alter: &AlterTable,
    ) -> SqlResult<CommandTag> {
        if alter.table_type.is_some() || alter.location.is_some() || alter.on_cluster.is_some() {
            return Err(SqlError::unsupported("ALTER TABLE of another kind of table, or with a location"));
        }
        let tag = CommandTag::of(if statement.is_view { "ALTER VIEW" } else { "ALTER TABLE" });
        let place = self.writable_place(&alter.name)?;
        let Some(relation) = place.relation(self.relations()) else {
            if let (false, Ok(Target::Measurement { policy })) =
                (statement.is_view, place.target(&self.server.catalog, self.relations()))
            {
                if self.transaction.is_some() {
                    return Err(inside_transaction("ALTER of a measurement"));
                }
                self.alter_measurement(statement, &place, &policy, &alter.operations).await?;
                return Ok(tag);
            }
            return if alter.if_exists { Ok(tag) } else { Err(place.unknown()) };
        };
        if statement.is_view && relation.view().is_none() {
            let message = format!("\"{}\" is not a view", relation.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
        }
        if let ([AlterTableOperation::AddConstraint { constraint, .. }], Some(_)) =
            (&alter.operations[..], relation.table())
        {
            match constraint {
                TableConstraint::PrimaryKey(constraint) => {
                    self.add_primary_key(statement, &place, relation, constraint).await?;
                    return Ok(tag);
                }
                TableConstraint::Unique(constraint) => {
                    let new = NewIndex::of_constraint(constraint)?;
                    self.add_index(statement, &place, relation, &new).await?;
                    return Ok(tag);
                }
                _ => {}
            }
        }
        let (alone, relation) = self.locked_relation(&place, &relation).await?;
        match &alter.operations[..] {
            [AlterTableOperation::RenameTable { .. }] if relation.sequence().is_some() => {
                return Err(SqlError::unsupported("ALTER TABLE … RENAME of a sequence")
                    .with_hint("Use ALTER SEQUENCE … RENAME TO."));
            }
            [AlterTableOperation::RenameTable { table_name }] => {
                self.rename_relation(&relation, table_name).await?;
            }
            [AlterTableOperation::RenameColumn { old_column_name, new_column_name }] => {
                self.rename_column(&relation, old_column_name, new_column_name).await?;
            }
            [AlterTableOperation::RenameConstraint { old_name, new_name }] => {
                self.rename_constraint(&relation, old_name, new_name).await?;
            }
            operations => self.change_table(statement, &place, &relation, operations, alone).await?,
        }
        Ok(tag)
    }

    /// Executes the actions of a statement.
    async fn change_table(
        &mut self,
        statement: &Statement,
        place: &Place,
        relation: &Arc<Relation>,
        operations: &[AlterTableOperation],
        alone: OwnedRwLockWriteGuard<()>,
    ) -> SqlResult<()> {
        if relation.sequence().is_some() {
            let message = format!("\"{}\" is not a table", relation.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message).with_hint("Use ALTER SEQUENCE."));
        }
        if relation.view().is_some() {
            let action = operations.first().map_or("", actions::name_of);
            let name = &relation.name;
            let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                .with_detail("This operation is not supported for views."));
        }
        let before = table_of(relation)?;
        let catalog = self.server.catalog.clone();
        let schema = catalog.store().schema(before.table)?;
        let now_ns = self.server.clock.now_ns();
        let mut altered = Actions::new(&place.name, before, &schema, now_ns).apply(operations)?;
        let capabilities = catalog.store().capabilities();
        altered.note_constants(capabilities, &self.surroundings())?;
        check_shared(&altered, capabilities)?;
        let checked = check_expressions(
            &relation.name,
            &altered.table,
            self.names(),
            self.surroundings(),
            capabilities,
        );
        checked.map_err(SqlError::without_place)?;
        if altered.table == *before && altered.retyped.is_empty() {
            return Ok(());
        }
        let is_definition_alone =
            altered.new.is_empty() && altered.nullable.is_empty() && !altered.concerns_rows();
        if self.transaction.is_some() && !is_definition_alone {
            return Err(inside_transaction("ALTER TABLE that concerns rows"));
        }
        let dependents = self.dependents(relation).await?;
        let mut changes = self.changes_of_views(relation, &altered, &dependents)?;
        changes.extend(self.changes_of_owned(relation, before, &altered.table)?);
        let definition =
            Definition { body: Body::Table(altered.table.clone()), ..relation.definition.clone() };
        let (before, name) = (relation.clone(), relation.name.clone());
        changes.push(RelationChange { before, name, after: Some(definition) });
        self.check_views(&dependents, &changes).await?;
        if altered.is_rebuilt {
            if changes.len() > 1 {
                let words =
                    "another type of a column of a key or an index, and a change of views or sequences,";
                return Err(
                    SqlError::unsupported(words).with_hint("Let the type stand alone in a statement.")
                );
            }
            return self.rebuild_table(statement, place, relation, &altered, alone).await;
        }
        let added = self.prepare_store(&altered, schema.next_column).await?;
        let done = match altered.concerns_rows() {
            true => self.change_stored_rows(statement, relation, &altered).await,
            false => Ok(()),
        };
        let done = match done {
            Ok(()) => self.publish(&changes).await,
            failed => failed,
        };
        if done.as_ref().is_err_and(|error| error.code != SqlState::IO_ERROR) {
            // If this fails too, the next start drops them.
            let gone = added.into_iter().map(Alteration::DropColumn).collect();
            let _ = catalog.store().alter_table(altered.table.table, gone).await;
        }
        done
    }

    /// Adds columns to the table of the store, and makes it fit for rows of the old definition and of the new one. Returns
    /// the new columns.
    async fn prepare_store(&self, altered: &Altered, next: ColumnId) -> SqlResult<Vec<ColumnId>> {
        let store = self.server.catalog.store();
        let mut alterations = Vec::new();
        for new in &altered.new {
            // A column without NULL is one of definitions: rows do not have their values yet.
            let column = ColumnSchema { nullable: true, ..new.schema.clone() };
            alterations.push(Alteration::AddColumn(column));
            if new.schema.default.is_some() {
                // Rows that are there have it now. New rows get what the definition says.
                alterations.push(Alteration::SetDefault(new.schema.id, None));
            }
        }
        alterations.extend(altered.nullable.iter().map(|id| Alteration::SetNullable(*id, true)));
        if altered.concerns_rows() && store.capabilities().features.has(Feature::StagedWrites) {
            // It changes nothing, but transactions that have written rows under the old definition cannot commit them.
            let key = altered.table.key.columns()[0];
            let is_hidden = altered.hides(key);
            alterations.push(Alteration::SetHidden(key, is_hidden));
        }
        if alterations.is_empty() {
            return Ok(Vec::new());
        }
        let schema = store.alter_table(altered.table.table, alterations).await?;
        let added: Vec<ColumnId> = altered.new.iter().map(|new| new.schema.id).collect();
        if schema.next_column.0 != next.0 + added.len() as u32 {
            let words = "the table is being altered by another server: try again";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words));
        }
        Ok(added)
    }
}

/// Refuses what is not certain where other servers write rows meanwhile, or needs more than the store can do.
fn check_shared(altered: &Altered, capabilities: Capabilities) -> SqlResult<()> {
    let looks_at_rows = !altered.checks.is_empty() || !altered.not_null.is_empty();
    if capabilities.is_shared && looks_at_rows {
        let words = "a new CHECK or NOT NULL of a table whose store other servers write, too,";
        return Err(SqlError::unsupported(words)
            .with_hint("Create a table that has it, and copy the rows: INSERT … SELECT."));
    }
    let rewrites = altered.new.iter().any(NewValues::is_computed);
    if rewrites && !capabilities.features.has(Feature::StagedWrites) {
        let error = SqlError::from(Feature::StagedWrites.refused());
        return Err(error.with_hint(
            "A column with a default that is computed, or with another type, has to be written to every row.",
        ));
    }
    Ok(())
}
