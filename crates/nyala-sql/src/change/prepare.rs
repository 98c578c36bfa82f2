//! Preparing a change: which table it is about, and what it does there.

use super::parameters::ParameterTypes;
use super::{Change, delete, insert, returning, update};
use crate::definition::table_of;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::prepared::{Prepared, PreparedPlan};
use crate::relation::columns::TableColumns;
use crate::session::Session;
use crate::statement::Statement;
use crate::target::{Place, Target};
use arrow_schema::DataType;
use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, TableFactor, TableObject, TableWithJoins,
    With,
};
use nyala_db::relations::Relation;
use nyala_db::users::Privilege;
use std::sync::Arc;

/// A statement that changes rows, as it is written.
pub(crate) struct Written<'a> {
    /// The queries in front of it.
    pub(super) with: Option<&'a With>,
    pub(super) statement: &'a ast::Statement,
    pub(super) is_upsert: bool,
}

/// What the parts of a statement are planned with.
pub(super) struct Preparing<'a> {
    pub(super) session: &'a mut Session,
    pub(super) place: Place,
    pub(super) relation: Arc<Relation>,
    pub(super) columns: Arc<TableColumns>,
    /// The name that expressions have for the table.
    pub(super) alias: Ident,
    pub(super) types: ParameterTypes,
}

/// The change that a statement is; `None` if it changes no rows.
pub(crate) fn written(statement: &Statement) -> Option<Written<'_>> {
    let is_upsert = statement.is_upsert;
    let (with, inner) = match &statement.ast {
        ast::Statement::Query(query) => match &*query.body {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) => {
                (query.with.as_ref(), inner)
            }
            _ => return None,
        },
        other => (None, other),
    };
    let is_change = matches!(
        inner,
        ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
    );
    is_change.then_some(Written { with, statement: inner, is_upsert })
}

impl Session {
    /// Prepares a change. `given` are the types of parameters that the client knows.
    pub(crate) async fn prepare_change(
        &mut self,
        statement: Statement,
        given: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let own = written(&statement)
            .ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement changes no rows"))?;
        let (name, alias) = target_of(own.statement)?;
        let place = Place::of(name, self.database())?;
        place.check_writable(&self.server.catalog, self.principal())?;
        let relation = match place.target(&self.server.catalog)? {
            Target::Relation(relation) if relation.view().is_some() => {
                let message = format!("cannot change rows of view \"{}\"", relation.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
            }
            Target::Relation(relation) => relation,
            Target::Measurement { policy } => {
                let what = format!("changing rows of measurement \"{}\" of policy \"{policy}\"", place.name);
                return Err(SqlError::unsupported(what)
                    .with_hint("Points are written as line protocol, and deleted by DELETE of InfluxQL."));
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
            ast::Statement::Update(statement) => {
                let update = update::prepare(&mut preparing, &own, statement).await?;
                (super::ChangeKind::Update(update), &statement.returning)
            }
            ast::Statement::Delete(statement) => {
                let delete = delete::prepare(&mut preparing, &own, statement).await?;
                (super::ChangeKind::Delete(delete), &statement.returning)
            }
            other => return Err(SqlError::unsupported(first_word(other))),
        };
        let returning = match written_returning {
            Some(items) => Some(returning::prepare(&mut preparing, items)?),
            None => None,
        };
        let Preparing { relation, columns, types, .. } = preparing;
        let answer = returning.as_ref().map(|returning| returning.schema().clone());
        let parameters = types.finish();
        let change = Change { relation, columns, kind, returning }.with_types(&parameters)?;
        let plan = PreparedPlan::Change(Arc::new(change));
        Ok(Prepared { statement, parameters, columns: answer, version: 0, plan, principal: None })
    }
}

impl Preparing<'_> {
    /// Fails unless rows of the table may be read.
    pub(super) fn check_readable(&self) -> SqlResult<()> {
        match self.session.principal().may(Privilege::Read, &self.place.database) {
            true => Ok(()),
            false => {
                let message = format!("permission denied for database \"{}\"", self.place.database);
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .with_hint("The statement reads rows, which needs the privilege READ."))
            }
        }
    }

    /// The position of a column that a statement names.
    pub(super) fn column(&self, name: &str) -> SqlResult<usize> {
        let shown = self.columns.position(name).filter(|_| name != crate::relation::columns::ROW_ID);
        shown.ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.relation.name);
            SqlError::new(SqlState::UNKNOWN_COLUMN, message)
        })
    }

    /// The text of a column's default, NULL if it has none.
    pub(super) fn default(&self, position: usize) -> SqlResult<ast::Expr> {
        let name = self.columns.name(position);
        let default = table_of(&self.relation)?.column(name).and_then(|own| own.default.as_deref());
        crate::expression::parsed(default.unwrap_or("NULL"))
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

fn first_word(statement: &ast::Statement) -> String {
    statement.to_string().split_whitespace().next().unwrap_or_default().to_owned()
}

/// A column of a table in an expression.
pub(super) fn column_of(alias: &Ident, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', name)])
}

/// An expression under a name.
pub(super) fn named_item(expr: ast::Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// The name under which plans see the table with its hidden key.
pub(super) fn changed_name(place: &Place) -> ObjectName {
    let parts = [&place.database, crate::names::CHANGED, &place.name];
    ObjectName(parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).to_vec())
}
