//! `UPDATE` and `DELETE … WHERE CURRENT OF cursor`: the row is found by its key, which the cursor must show.

use super::Session;
use super::prepared::{CurrentPlan, Prepared, PreparedPlan};
use crate::current_of::cursor_of;
use crate::cursor::Cursor;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::placeholder::number_of;
use crate::relation::altered_since;
use crate::relation::columns::data_type;
use crate::session::Outcome;
use crate::statement::Statement;
use crate::walk::each_expression;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FromTable, Ident, ObjectName, SelectItem, SetExpr, TableFactor,
    TableWithJoins,
};
use nyala_db::relations::{Key, Relation};
use std::sync::Arc;

impl Session {
    /// Prepares such a statement; `None` if it is another one.
    pub(super) async fn prepare_current_of(
        &mut self,
        statement: &Statement,
        types: &[Option<DataType>],
    ) -> SqlResult<Option<Prepared>> {
        let Some((table, cursor)) = written(&statement.ast) else { return Ok(None) };
        let (table, cursor) = (table.clone(), cursor.to_owned());
        let relation = self.updatable(&table)?;
        let known = self.cursor(&cursor)?;
        let columns = self.shown_key(&cursor, &known, &relation)?;
        // Its values are further parameters.
        let first = 1 + parameters(&statement.ast);
        let changed = with_condition(statement, &relation, columns.iter().map(|(name, _)| &**name), first);
        let mut types = types.to_vec();
        types.resize(first - 1, None);
        types.extend(columns.iter().map(|(_, data_type)| Some(data_type.clone())));
        let inner = Box::pin(self.try_prepare(changed, &types)).await?;
        let parameters = inner.parameters[..first - 1].to_vec();
        let columns_of_answer = inner.columns.clone();
        let columns = columns.into_iter().map(|(name, _)| name).collect();
        let plan = PreparedPlan::CurrentOf(Arc::new(CurrentPlan { cursor, table, columns, inner }));
        Ok(Some(Prepared { parameters, plan, ..Prepared::of_session(statement.clone(), columns_of_answer) }))
    }

    pub(super) async fn execute_current_of(
        &mut self,
        plan: &CurrentPlan,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        let name = &plan.cursor;
        let cursor = self.cursor(name)?;
        // The cursor of this name may be another one than when the statement was prepared, and the table as well.
        let relation = self.updatable(&plan.table)?;
        let shown = self.shown_key(name, &cursor, &relation)?;
        if !shown.iter().map(|(column, _)| column).eq(&plan.columns) {
            return Err(altered_since(&relation.name));
        }
        let row = cursor.current().await?.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_CURSOR_STATE,
                format!("cursor \"{name}\" is not positioned on a row"),
            )
        })?;
        let mut values = values.to_vec();
        for column in &plan.columns {
            let array = row.column_by_name(column);
            let array =
                array.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the cursor is another one"))?;
            values.push(ScalarValue::try_from_array(array, 0)?);
        }
        Box::pin(self.try_execute(&plan.inner, values.into())).await
    }

    /// The table of such a statement.
    fn updatable(&self, table: &ObjectName) -> SqlResult<Arc<Relation>> {
        self.place(table)?.relation(self.relations()).ok_or_else(|| {
            SqlError::unsupported("WHERE CURRENT OF for anything but a table with a primary key")
        })
    }

    /// The names and types of the key, which a cursor over the table must show.
    fn shown_key(
        &self,
        name: &str,
        cursor: &Cursor,
        relation: &Relation,
    ) -> SqlResult<Vec<(String, DataType)>> {
        let not_updatable = || {
            let table = &relation.name;
            let words = format!("cursor \"{name}\" is not a simply updatable scan of table \"{table}\"");
            SqlError::new(SqlState::INVALID_CURSOR_STATE, words)
        };
        let (from, items) = scanned(&cursor.query).ok_or_else(not_updatable)?;
        let is_same = self
            .place(from)?
            .relation(self.relations())
            .is_some_and(|own| own.database == relation.database && own.name == relation.name);
        if !is_same {
            return Err(not_updatable());
        }
        let shows = |column: &str| {
            items.iter().any(|item| match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
                SelectItem::UnnamedExpr(Expr::Identifier(own)) => folded(own) == column,
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    parts.last().is_some_and(|own| folded(own) == column)
                }
                _ => false,
            })
        };
        let shown_once = |column: &str| {
            cursor.schema().fields().iter().filter(|field| field.name() == column).count() == 1
        };
        let table = relation.table().ok_or_else(not_updatable)?;
        let Key::Declared { columns, .. } = &table.key else {
            return Err(SqlError::unsupported("WHERE CURRENT OF for a table without a primary key"));
        };
        let key = columns.iter().map(|id| {
            let column = table.columns.iter().find(|own| own.id == *id);
            let column = column.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the key has no column"))?;
            match shows(&column.name) && shown_once(&column.name) {
                true => Ok((column.name.clone(), data_type(column.declared_type))),
                false => Err(SqlError::unsupported(format!(
                    "WHERE CURRENT OF with a cursor that does not show the key column \"{}\"",
                    column.name
                ))),
            }
        });
        key.collect()
    }
}

/// The table of such a statement, and its cursor.
fn written(statement: &ast::Statement) -> Option<(&ObjectName, &str)> {
    let (table, condition) = match statement {
        ast::Statement::Update(update) => (&update.table, update.selection.as_ref()?),
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            (tables.first()?, delete.selection.as_ref()?)
        }
        _ => return None,
    };
    Some((table_name(table)?, cursor_of(condition)?))
}

fn table_name(table: &TableWithJoins) -> Option<&ObjectName> {
    match &table.relation {
        TableFactor::Table { name, args: None, .. } if table.joins.is_empty() => Some(name),
        _ => None,
    }
}

/// The name that conditions have for the table of a statement.
fn alias_of(statement: &ast::Statement, relation: &Relation) -> Ident {
    let table = match statement {
        ast::Statement::Update(update) => Some(&update.table),
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            tables.first()
        }
        _ => None,
    };
    match table.map(|table| &table.relation) {
        Some(TableFactor::Table { alias: Some(alias), .. }) => alias.name.clone(),
        _ => Ident::with_quote('"', &relation.name),
    }
}

/// The table that a query scans, and what it shows of it; `None` if its rows are no rows of one table.
fn scanned(statement: &ast::Statement) -> Option<(&ObjectName, &[SelectItem])> {
    let ast::Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(all, _) if all.is_empty());
    let [from] = &select.from[..] else { return None };
    if query.with.is_some() || is_grouped || select.distinct.is_some() || select.having.is_some() {
        return None;
    }
    Some((table_name(from)?, &select.projection))
}

/// The highest number of a parameter in a statement.
fn parameters(statement: &ast::Statement) -> usize {
    let mut highest = 0;
    each_expression(statement, &mut |expression| {
        if let Expr::Value(own) = expression
            && let ast::Value::Placeholder(own) = &own.value
        {
            highest = highest.max(number_of(own).unwrap_or(0));
        }
    });
    highest
}

/// The statement with a condition on the key, whose values are parameters from a number on.
fn with_condition<'a>(
    statement: &Statement,
    relation: &Relation,
    columns: impl Iterator<Item = &'a str>,
    first: usize,
) -> Statement {
    let alias = alias_of(&statement.ast, relation);
    let equals = columns.zip(first..).map(|(column, number)| Expr::BinaryOp {
        left: Box::new(Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', column)])),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::Value(ast::Value::Placeholder(format!("${number}")).into())),
    });
    let condition = equals.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    let mut ast = ast::Statement::clone(&statement.ast);
    match &mut ast {
        ast::Statement::Update(update) => update.selection = condition,
        ast::Statement::Delete(delete) => delete.selection = condition,
        _ => {}
    }
    Statement { ast: Arc::new(ast), shape: None, ..statement.clone() }
}
