//! What the parts of a change are prepared with: the statement as it is written, the table, and what is known of parameters.

use super::parameters::ParameterTypes;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::number_source::{default_of, name_permanent, sequence_of_column};
use crate::parser_dialect::SqlDialect;
use crate::relation::columns::TableColumns;
use crate::session::Session;
use crate::session::definition::table_of;
use crate::statement::Statement;
use crate::target::{Place, last_part};
use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, With,
};
use datafusion::sql::sqlparser::parser::Parser;
use nyala_db::relations::{Identity, Relation, TEMPORARY};
use nyala_db::users::Privilege;
use std::sync::Arc;

/// A statement that changes rows, as it is written.
pub(in crate::session) struct Written<'a> {
    /// The queries in front of it.
    pub(super) with: Option<&'a With>,
    pub(super) statement: &'a ast::Statement,
    pub(super) is_upsert: bool,
    /// Whether it may name values for columns that are always generated.
    pub(super) is_overriding: bool,
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
pub(in crate::session) fn written(statement: &Statement) -> Option<Written<'_>> {
    let is_upsert = statement.is_upsert;
    let (with, inner) = match &*statement.ast {
        ast::Statement::Query(query) => match &*query.body {
            SetExpr::Insert(inner)
            | SetExpr::Update(inner)
            | SetExpr::Delete(inner)
            | SetExpr::Merge(inner) => (query.with.as_ref(), inner),
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
    is_change.then_some(Written { with, statement: inner, is_upsert, is_overriding: statement.is_overriding })
}

impl Preparing<'_> {
    /// Fails unless rows of the table may be read.
    pub(super) fn check_readable(&self) -> SqlResult<()> {
        // What is temporary is the session's own.
        match self.place.database == TEMPORARY || self.session.may(Privilege::Read, &self.place.database) {
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

    /// The positions of the columns that new rows name; without a list the rows have the first columns.
    pub(super) fn named(&self, names: &[ObjectName]) -> SqlResult<Vec<usize>> {
        if names.is_empty() {
            let shown = self.relation.table().map_or(0, |table| table.columns.len());
            return Ok((0..shown).collect());
        }
        let mut named = Vec::with_capacity(names.len());
        for name in names {
            let name = last_part(name)?;
            let position = self.column(&name)?;
            if named.contains(&position) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push(position);
        }
        Ok(named)
    }

    /// Whether a column always gets the next number of its sequence.
    pub(super) fn is_always_generated(&self, position: usize) -> bool {
        let name = self.columns.name(position);
        let column = self.relation.table().and_then(|table| table.column(name));
        let identity = column.and_then(|own| own.sequence.as_ref()).and_then(|own| own.identity);
        identity == Some(Identity::Always)
    }

    /// The text of a column's default, NULL if it has none.
    pub(super) fn default(&self, position: usize) -> SqlResult<ast::Expr> {
        let name = self.columns.name(position);
        let column = table_of(&self.relation)?.column(name);
        let default = match column.and_then(sequence_of_column) {
            Some(sequence) => Some(default_of(&sequence)),
            None => column.and_then(|own| own.default.clone()),
        };
        let mut default = crate::expression::parsed(default.as_deref().unwrap_or("NULL"))?;
        if self.relation.database != TEMPORARY {
            name_permanent(&mut default);
        }
        Ok(default)
    }
}

/// Whether a cell of VALUES asks for the default of its column.
pub(super) fn is_default(cell: &ast::Expr) -> bool {
    matches!(cell, ast::Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

/// A column of a table in an expression.
pub(super) fn column_of(alias: &Ident, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', name)])
}

/// An expression under a name.
pub(super) fn named_item(expr: ast::Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// The name under which plans see a measurement with the numbers of its series.
pub(super) fn changed_measurement_name(place: &Place, policy: &str) -> ObjectName {
    let schema = format!("{}{policy}", crate::names::CHANGED);
    let parts = [&*place.database, &*schema, &*place.name];
    ObjectName(parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).to_vec())
}

/// The name under which plans see the table with its hidden key.
pub(super) fn changed_name(place: &Place) -> ObjectName {
    let parts = [&place.database, crate::names::CHANGED, &place.name];
    ObjectName(parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).to_vec())
}

/// The query over the table that is changed, and others.
pub(super) fn query_of(
    table: ObjectName,
    alias: &Ident,
    with: Option<&With>,
    items: Vec<SelectItem>,
    others: &[TableWithJoins],
    condition: Option<&ast::Expr>,
) -> SqlResult<Query> {
    let mut statements = Parser::parse_sql(&SqlDialect, "SELECT 1 FROM t AS a")?;
    let Some(ast::Statement::Query(mut query)) = statements.pop() else { unreachable!("it is a query") };
    let SetExpr::Select(select) = &mut *query.body else { unreachable!("it is a SELECT") };
    if let TableFactor::Table { name, alias: own, .. } = &mut select.from[0].relation {
        *name = table;
        if let Some(TableAlias { name, .. }) = own {
            name.clone_from(alias);
        }
    }
    select.projection = items;
    select.from.extend(others.iter().cloned());
    select.selection = condition.cloned();
    query.with = with.cloned();
    Ok(*query)
}

/// The word that a statement begins with.
pub(super) fn first_word(statement: &ast::Statement) -> String {
    statement.to_string().split_whitespace().next().unwrap_or_default().to_owned()
}
