//! Statements that define tables and views. They are executed at once; in a transaction they wait for its commit
//! ([`uncommitted`]).
//!
//! [`create_table`] collects what a statement says of a new table, [`new_column`] what it says of a column, [`view`]
//! keeps queries, [`alter`] changes definitions, [`drop`] removes them.

mod alter;
mod comment;
mod create_table;
mod drop;
mod new_column;
mod storage;
mod uncommitted;
mod view;

use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::Session;
use crate::statement::Statement;
use crate::target::Place;
use create_table::check_expressions;
use datafusion::sql::sqlparser::ast::{self, ObjectName};
use nyala_core::{Error, ErrorKind};
use nyala_db::relations::{Relation, TableDefinition};
use std::sync::Arc;

/// Whether a statement defines something.
pub(crate) fn is_definition(statement: &ast::Statement) -> bool {
    matches!(
        statement,
        ast::Statement::CreateTable(_)
            | ast::Statement::CreateView(_)
            | ast::Statement::AlterTable(_)
            | ast::Statement::Drop { object_type: ast::ObjectType::Table | ast::ObjectType::View, .. }
            | ast::Statement::Truncate(_)
            | ast::Statement::Comment { .. }
    )
}

impl Session {
    /// Executes a statement that defines something.
    pub(crate) async fn define(&mut self, statement: &Statement) -> SqlResult<CommandTag> {
        self.server.catalog.follow().await?;
        if self.transaction.is_some() {
            self.begin_defining().await?;
        }
        let tag = self.define_one(statement).await?;
        match *statement.ast {
            ast::Statement::CreateTable(_) | ast::Statement::CreateView(_) => {
                self.note_audited(statement, &self.database);
            }
            // Something that was there is gone or different, which an operator wants to know.
            _ => self.server.note_changed(&self.author(statement, &self.database), None),
        }
        Ok(tag)
    }

    async fn define_one(&mut self, statement: &Statement) -> SqlResult<CommandTag> {
        match &*statement.ast {
            ast::Statement::CreateTable(create) => self.create_table(create).await,
            ast::Statement::CreateView(create) => self.create_view(create).await,
            ast::Statement::AlterTable(alter) => self.alter_table(statement, alter).await,
            ast::Statement::Drop { object_type, if_exists, names, .. } => {
                self.drop_relations(*object_type == ast::ObjectType::View, *if_exists, names).await
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
        let place = Place::of(name, self.database())?;
        place.check_writable(&self.server.catalog, self.principal())?;
        Ok(place)
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
