//! Statements that define tables and views. They are executed at once; in a transaction they wait for its commit
//! ([`uncommitted`]).
//!
//! [`create_table`] collects what a statement says of a new table, [`new_column`] what it says of a column, [`like`] takes
//! columns of another table, [`view`] keeps queries, [`new_index`] is what one says of an index, and [`index`] indexes rows, [`alter`] changes definitions, [`drop`] removes them.

mod alter;
mod comment;
pub(super) mod create_table;
mod drop;
mod index;
mod like;
mod new_column;
mod new_index;
mod sequence;
mod storage;
mod uncommitted;
mod view;

use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::like_table::of_column;
use crate::session::Session;
use crate::statement::Statement;
use crate::target::Place;
use create_table::check_expressions;
use datafusion::sql::sqlparser::ast::{self, ObjectName};
use drop::DroppedKind;
use new_column::NewColumn;
use nyala_core::store::Feature;
use nyala_core::{Error, ErrorKind};
use nyala_db::relations::{Body, DeclaredType, Definition, Relation, RelationChange, TableDefinition};
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

/// Whether a statement defines something.
pub(crate) fn is_definition(statement: &ast::Statement) -> bool {
    matches!(
        statement,
        ast::Statement::CreateTable(_)
            | ast::Statement::CreateView(_)
            | ast::Statement::AlterTable(_)
            | ast::Statement::CreateIndex(_)
            | ast::Statement::AlterIndex { .. }
            | ast::Statement::Drop {
                object_type: ast::ObjectType::Table
                    | ast::ObjectType::View
                    | ast::ObjectType::Sequence
                    | ast::ObjectType::Index,
                ..
            }
            | ast::Statement::Truncate(_)
            | ast::Statement::Comment { .. }
    )
}

impl Session {
    /// Executes a statement that defines something.
    pub(crate) async fn define(&mut self, statement: &Statement) -> SqlResult<CommandTag> {
        self.check_writable("definitions of tables and views")?;
        self.server.catalog.follow().await?;
        let is_alone = self.transaction.is_none()
            && (self.changes_several(statement) || self.concerns_temporary(&statement.ast));
        if is_alone {
            self.transaction = Some(self.new_transaction(false));
        }
        if self.transaction.is_some() {
            self.begin_defining(is_alone).await.inspect_err(|_| self.forget_own(is_alone))?;
        }
        let tag = self.define_one(statement).await.inspect_err(|_| self.forget_own(is_alone))?;
        if is_alone && let Some(transaction) = self.end_transaction() {
            self.commit(transaction).await?;
        }
        match *statement.ast {
            ast::Statement::CreateTable(_)
            | ast::Statement::CreateView(_)
            | ast::Statement::CreateIndex(_) => {
                self.note_audited(statement, &self.database);
            }
            // Something that was there is gone or different, which an operator wants to know.
            _ => self.server.note_changed(&self.author(statement, &self.database), None),
        }
        Ok(tag)
    }

    /// Whether a statement changes several relations, together: sequences with their tables, and all that are dropped or emptied.
    fn changes_several(&self, statement: &Statement) -> bool {
        let has_stages = self.server.catalog.store().capabilities().features.has(Feature::StagedWrites);
        match &*statement.ast {
            _ if statement.sequence.is_some() => true,
            ast::Statement::CreateTable(create) => {
                let may_be_numbered = |own| NewColumn::is_numbered(own) || of_column(own).is_some();
                create.columns.iter().any(may_be_numbered)
            }
            ast::Statement::Drop {
                object_type: ast::ObjectType::Table | ast::ObjectType::View,
                names,
                ..
            } if has_stages && names.len() > 1 => true,
            ast::Statement::Drop { names, .. } => self.have_sequences(names),
            ast::Statement::Truncate(truncate) if has_stages && truncate.table_names.len() > 1 => true,
            ast::Statement::Truncate(truncate) => {
                let names: Vec<_> = truncate.table_names.iter().map(|own| own.name.clone()).collect();
                truncate.identity == Some(ast::TruncateIdentityOption::Restart) && self.have_sequences(&names)
            }
            _ => false,
        }
    }

    /// Forgets the transaction that a statement has begun for itself.
    fn forget_own(&mut self, is_alone: bool) {
        if is_alone {
            drop(self.end_transaction());
        }
    }

    /// Locks a table alone, for a statement that copies its rows, and returns it as it is then: whoever writes rows finishes
    /// first, and goes on after the commit, even if the client goes away.
    async fn locked_alone(
        &self,
        place: &Place,
        found: &Relation,
    ) -> SqlResult<(OwnedRwLockWriteGuard<()>, Arc<Relation>)> {
        let (alone, relation) = self.locked_relation(place, found).await?;
        table_of(&relation)?;
        Ok((alone, relation))
    }

    /// The same of any relation, for a statement that changes it.
    async fn locked_relation(
        &self,
        place: &Place,
        found: &Relation,
    ) -> SqlResult<(OwnedRwLockWriteGuard<()>, Arc<Relation>)> {
        let alone = self.hold_table(&found.lock, defining(&found.name)).await?;
        self.server.catalog.follow().await?;
        let relation = place.relation(self.relations()).ok_or_else(|| place.unknown())?;
        if !Arc::ptr_eq(&relation.lock, &found.lock) {
            // The name is that of another relation now, whose lock somebody else may have.
            let words = format!("relation \"{}\" was made anew by another session: try again", place.name);
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words));
        }
        Ok((alone, relation))
    }

    async fn define_one(&mut self, statement: &Statement) -> SqlResult<CommandTag> {
        if let Some(sequence) = &statement.sequence {
            return self.change_sequence(&sequence.written).await;
        }
        match &*statement.ast {
            ast::Statement::CreateTable(create) => self.create_table(create).await,
            ast::Statement::CreateView(create) => self.create_view(create).await,
            ast::Statement::AlterTable(alter) => self.alter_table(statement, alter).await,
            ast::Statement::CreateIndex(create) => self.create_index(statement, create).await,
            ast::Statement::AlterIndex { name, operation } => self.alter_index(name, operation).await,
            ast::Statement::Drop { object_type: ast::ObjectType::Index, if_exists, names, .. } => {
                self.drop_indexes(*if_exists, names).await
            }
            ast::Statement::Drop { object_type, if_exists, names, cascade, .. } => {
                let kind = match object_type {
                    ast::ObjectType::View => DroppedKind::View,
                    ast::ObjectType::Sequence => DroppedKind::Sequence { is_cascade: *cascade },
                    _ => DroppedKind::Table,
                };
                self.drop_relations(kind, *if_exists, *cascade, names).await
            }
            ast::Statement::Truncate(truncate) => self.truncate(truncate).await,
            ast::Statement::Comment { object_type, object_name, comment, if_exists } => {
                self.comment(object_type, object_name, comment.as_deref(), *if_exists).await
            }
            other => Err(SqlError::unsupported(other)),
        }
    }

    /// The place of a name, in which this session may define something.
    pub(crate) fn writable_place(&self, name: &ObjectName) -> SqlResult<Place> {
        let place = self.place(name)?;
        self.check_writable_place(&place)?;
        Ok(place)
    }

    /// Fails if this session may not write what is at a place.
    pub(crate) fn check_writable_place(&self, place: &Place) -> SqlResult<()> {
        let place = Place { database: self.rights_of(&place.database).to_owned(), ..place.clone() };
        place.check_writable(&self.server.catalog, self.principal())
    }

    /// A table that exists, and that this session may change.
    pub(crate) fn existing_table(&self, name: &ObjectName) -> SqlResult<(Place, Arc<Relation>)> {
        let place = self.writable_place(name)?;
        let relation = place.relation(self.relations()).ok_or_else(|| place.unknown())?;
        table_of(&relation)?;
        Ok((place, relation))
    }
}

/// A relation as a table, or the error that it is none.
pub(crate) fn table_of(relation: &Relation) -> SqlResult<&TableDefinition> {
    relation
        .table()
        .ok_or_else(|| SqlError::new(SqlState::WRONG_OBJECT, format!("\"{}\" is not a table", relation.name)))
}

/// The error if a name is taken.
pub(crate) fn taken(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// An error of creating something under a name: a conflict means that the name is taken.
pub(crate) fn of_creation(error: Error, name: &str) -> SqlError {
    match error.kind() {
        ErrorKind::Conflict => taken(name),
        _ => error.into(),
    }
}

/// An error of publishing changes of relations.
fn of_publishing(error: Error, changes: &[RelationChange]) -> SqlError {
    match error.kind() {
        ErrorKind::Conflict => taken(changes.last().map(|change| &*change.name).unwrap_or_default()),
        ErrorKind::Retry => SqlError::new(SqlState::SERIALIZATION_FAILURE, error.to_string()),
        _ => error.into(),
    }
}

/// A change of a table that keeps its name.
fn changed(relation: &Arc<Relation>, table: TableDefinition) -> RelationChange {
    let after = Definition { body: Body::Table(table), ..relation.definition.clone() };
    RelationChange { before: relation.clone(), name: relation.name.clone(), after: Some(after) }
}

/// What a statement is shown as while it waits for a table.
fn defining(table: &str) -> impl Fn() -> String + Send + Sync + use<> {
    let table = table.to_owned();
    move || format!("a statement that defines table \"{table}\" waits for others")
}

/// The error of a statement that stands alone.
fn inside_transaction(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} inside a transaction")).with_hint("Execute it before BEGIN.")
}

/// The error of a constraint whose name another one of its table has.
fn same_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

/// Fails if a column of a type can be in no key; `what` is where it would be.
fn check_key_type(declared: DeclaredType, what: &str) -> SqlResult<()> {
    match declared {
        DeclaredType::Json => {
            let message = "data type json has no default operator class for access method \"btree\"";
            Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message)
                .with_hint("Its values have no order. Use text, which is compared as it is written."))
        }
        DeclaredType::Jsonb => Err(SqlError::unsupported(format!("type jsonb in {what}"))),
        _ if declared.column_type().can_be_key() => Ok(()),
        _ => Err(SqlError::unsupported(format!("type {} in {what}", declared.name()))
            .with_hint("Floats are not exact. Use numeric(p,s), or a whole number.")),
    }
}
