//! Preparing a change: which table it is about, and what it does there.

use super::parameters::ParameterTypes;
use super::preparing::{Preparing, first_word, written};
use super::{Change, ChangePlan, by_key, delete, insert, merge, points, returning, update};
use crate::dry_run::counted_columns;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::columns::TableColumns;
use crate::session::Session;
use crate::session::definition::table_of;
use crate::statement::Statement;
use crate::target::Target;
use arrow_schema::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName, TableFactor, TableObject, TableWithJoins};
use std::sync::Arc;

/// A change, the types of its parameters, and the columns of what it returns.
pub(in crate::session) struct PreparedChange {
    pub(in crate::session) plan: ChangePlan,
    pub(in crate::session) parameters: Vec<DataType>,
    pub(in crate::session) answer: Option<SchemaRef>,
}

impl Session {
    /// Prepares a change. `given` are the types of parameters that the client knows.
    pub(in crate::session) async fn prepare_change(
        &mut self,
        statement: &Statement,
        given: &[Option<DataType>],
    ) -> SqlResult<PreparedChange> {
        let own = written(statement)
            .ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement changes no rows"))?;
        let (name, alias) = target_of(own.statement)?;
        let place = self.writable_place(name)?;
        let relation = match place.target(&self.server.catalog, self.relations())? {
            Target::Relation(relation) if relation.view().is_some() => {
                let message = format!("cannot change rows of view \"{}\"", relation.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
            }
            Target::Relation(relation) => relation,
            Target::Measurement { policy } => {
                let types = ParameterTypes::of(&statement.ast, given)?;
                let alias = alias.cloned();
                let (change, parameters) = points::prepare(self, place, policy, alias, &own, types).await?;
                let answer = change.answer();
                refuse_counted(statement.is_dry_run, answer.is_some())?;
                let plan = ChangePlan::Points(Arc::new(change));
                let answer = answer.or(statement.is_dry_run.then(counted_columns));
                return Ok(PreparedChange { plan, parameters, answer });
            }
        };
        let columns = Arc::new(TableColumns::all(table_of(&relation)?));
        let alias = alias.cloned().unwrap_or_else(|| Ident::with_quote('"', &relation.name));
        let types = ParameterTypes::of(&statement.ast, given)?;
        let mut preparing = Preparing { session: self, place, relation, columns, alias, types };
        let (kind, written_returning) = match own.statement {
            ast::Statement::Insert(statement) => {
                let insert = insert::prepare(&mut preparing, &own, statement).await?;
                (super::ChangeKind::Insert(insert), &statement.returning)
            }
            ast::Statement::Update(statement) => match by_key::prepare(&mut preparing, &own)? {
                Some(by_key) => (super::ChangeKind::ByKey(by_key, "UPDATE"), &None),
                None => {
                    let update = update::prepare(&mut preparing, &own, statement).await?;
                    (super::ChangeKind::Update(update), &statement.returning)
                }
            },
            ast::Statement::Delete(statement) => match by_key::prepare(&mut preparing, &own)? {
                Some(by_key) => (super::ChangeKind::ByKey(by_key, "DELETE"), &None),
                None => {
                    let delete = delete::prepare(&mut preparing, &own, statement).await?;
                    (super::ChangeKind::Delete(delete), &statement.returning)
                }
            },
            ast::Statement::Merge(statement) => {
                let merge = merge::prepare(&mut preparing, &own, statement).await?;
                (super::ChangeKind::Merge(merge), &None)
            }
            other => return Err(SqlError::unsupported(first_word(other))),
        };
        let returning = match written_returning {
            Some(items) => Some(returning::prepare(&mut preparing, items)?),
            None => None,
        };
        let Preparing { relation, columns, types, .. } = preparing;
        refuse_counted(statement.is_dry_run, returning.is_some())?;
        let answer = returning.as_ref().map(|returning| returning.schema().clone());
        let answer = answer.or(statement.is_dry_run.then(counted_columns));
        let parameters = types.finish();
        let change = Change { relation, columns, kind, returning }.with_types(&parameters)?;
        let plan = ChangePlan::Rows(Arc::new(change));
        Ok(PreparedChange { plan, parameters, answer })
    }
}

fn refuse_counted(is_dry_run: bool, returns: bool) -> SqlResult<()> {
    match is_dry_run && returns {
        true => Err(SqlError::unsupported("RETURNING after DRY RUN, which only counts rows")),
        false => Ok(()),
    }
}

/// The name of the table that a statement changes, and what the statement calls it.
fn target_of(statement: &ast::Statement) -> SqlResult<(&ObjectName, Option<&Ident>)> {
    let of_table = |table: &'_ TableWithJoins| match (&table.relation, table.joins.is_empty()) {
        (TableFactor::Table { .. }, true) => Ok(()),
        _ => Err(SqlError::unsupported(format!("a change of {table}"))),
    };
    fn named(factor: &TableFactor) -> Option<(&ObjectName, Option<&Ident>)> {
        match factor {
            TableFactor::Table { name, alias, .. } => Some((name, alias.as_ref().map(|alias| &alias.name))),
            _ => None,
        }
    }
    let none = || SqlError::unsupported("a change of anything but one table");
    match statement {
        ast::Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => Ok((name, insert.table_alias.as_ref().map(|alias| &alias.alias))),
            _ => Err(none()),
        },
        ast::Statement::Update(update) => {
            of_table(&update.table)?;
            named(&update.table.relation).ok_or_else(none)
        }
        ast::Statement::Merge(merge) => named(&merge.table).ok_or_else(none),
        ast::Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            match (&from[..], delete.tables.is_empty()) {
                ([only], true) => {
                    of_table(only)?;
                    named(&only.relation).ok_or_else(none)
                }
                _ => Err(none()),
            }
        }
        other => Err(SqlError::unsupported(first_word(other))),
    }
}
