//! A query that asks for one row by its whole key, in columns as they are: it needs no plan.
//!
//! `SELECT a, b FROM t WHERE k = $1 AND l = 'x'`. To plan such a query costs ten times as much as to answer it.

use crate::error::{SqlError, SqlResult};
use crate::identifier::folded;
use crate::names::SEARCHED;
use crate::relation::columns::{ROW_ID, TableColumns, data_type};
use crate::relation::datum::Datum;
use crate::relation::input::Surroundings;
use crate::relation::literal::{datum, is_literal, parameter};
use crate::relation::{check_known, shown_as};
use crate::rows::Rows;
use crate::session::Outcome;
use crate::session::Session;
use crate::statement::Statement;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Ident, SelectItem, SetExpr, TableFactor,
};
use nyala_core::store::{Freshness, RowSelection, ScanRequest};
use nyala_core::{ColumnId, TableId, Value};
use nyala_db::relations::DeclaredType;
use nyala_db::users::Privilege;
use std::ops::Bound;
use std::sync::Arc;

/// Rows up to this length are not charged while they are sent, which is over at once.
const SHORT_ROW_BYTES: usize = 64 << 10;

/// A row that is found by its key.
#[derive(Debug)]
pub(crate) struct LookUp {
    database: String,
    table: TableId,
    name: String,
    key: KeyCondition,
    columns: Vec<ColumnId>,
    pub(super) schema: SchemaRef,
}

/// A condition that one row has at most: per column of the key, in its order, what it must be equal to.
#[derive(Debug)]
pub(super) struct KeyCondition(Vec<(String, DeclaredType, Expr)>);

impl Session {
    /// Prepares a look-up, and says which types its parameters have; `None` if the statement is anything else.
    pub(super) fn prepare_look_up(
        &mut self,
        statement: &Statement,
        given: &[Option<DataType>],
    ) -> SqlResult<Option<(LookUp, Vec<DataType>)>> {
        let ast::Statement::Query(query) = &*statement.ast else { return Ok(None) };
        let Some((name, alias, items, condition)) = parts(query) else { return Ok(None) };
        let Ok(place) = self.place(name) else { return Ok(None) };
        if !self.may(Privilege::Read, &place.database) {
            return Ok(None);
        }
        let Some(relation) = place.relation(self.relations()) else { return Ok(None) };
        let Some(table) = relation.table() else { return Ok(None) };
        let columns = TableColumns::shown(table);
        let Some(shown) = shown(items, &columns, alias.as_ref().unwrap_or(&relation.name)) else {
            return Ok(None);
        };
        let mut types = given.to_vec();
        let table_name = alias.as_ref().unwrap_or(&relation.name);
        let Some(key) = KeyCondition::of(condition, table_name, &columns, &mut types) else {
            return Ok(None);
        };
        let field =
            |(position, name): &(usize, String)| columns.schema.field(*position).clone().with_name(name);
        let schema: SchemaRef = Arc::new(Schema::new(shown.iter().map(field).collect::<Vec<_>>()));
        let ids = shown.iter().map(|(position, _)| columns.columns[*position].id).collect();
        let (database, name) = (place.database, relation.name.clone());
        let plan = LookUp { database, table: table.table, name, key, columns: ids, schema };
        Ok(Some((plan, types.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect())))
    }

    /// Finds the row.
    pub(super) async fn execute_look_up(
        &mut self,
        look_up: &LookUp,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        if !self.may(Privilege::Read, &look_up.database) {
            let message = format!("permission denied for database \"{}\"", look_up.database);
            return Err(SqlError::new(crate::error::SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let _slot = self.principal().begin_query()?;
        let freshness = self.server.catalog.follow().await?;
        let snapshot = match self.transaction {
            Some(_) => self.transaction_snapshot().await?.get().cloned(),
            None => None,
        };
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => self.snapshot(freshness).await?,
        };
        let around = self.surroundings();
        let Some(key) = look_up.key.values(&values, &around)? else {
            return Ok(Outcome::Rows(Rows::ready(RecordBatch::new_empty(look_up.schema.clone()))));
        };
        let selection = RowSelection::Keys { start: Bound::Included(key.clone()), end: Bound::Included(key) };
        let table = (look_up.table, look_up.name.as_str());
        let found = match check_known(&self.server.catalog, &*snapshot, table, &look_up.columns)? {
            true => {
                let request = ScanRequest::by_key(look_up.table, selection, look_up.columns.clone());
                snapshot.scan(request).await?.next().await?
            }
            false => None,
        };
        let rows = match found {
            None => RecordBatch::new_empty(look_up.schema.clone()),
            Some(batch) => {
                let columns = batch.columns.iter().zip(look_up.schema.fields());
                let columns: Vec<ArrayRef> = columns
                    .map(|(values, field)| shown_as(values, field.data_type()))
                    .collect::<Result<_, _>>()?;
                RecordBatch::try_new(look_up.schema.clone(), columns).map_err(DataFusionError::from)?
            }
        };
        let bytes = rows.get_array_memory_size();
        if bytes <= SHORT_ROW_BYTES {
            return Ok(Outcome::Rows(Rows::ready(rows)));
        }
        let mut held = self.server.statement_memory(self.principal()).hold();
        held.charge(bytes)?;
        Ok(Outcome::Rows(Rows::kept(look_up.schema.clone(), vec![rows], None, held)))
    }

    async fn snapshot(&self, freshness: Freshness) -> SqlResult<nyala_core::store::SnapshotRef> {
        Ok(self.server.catalog.store().snapshot(freshness).await?)
    }
}

impl KeyCondition {
    /// The whole key that a condition names, if it says nothing else. `types` are the known types of parameters; those that the
    /// key is compared with get theirs.
    pub(super) fn of(
        condition: &Expr,
        table: &str,
        columns: &TableColumns,
        types: &mut Vec<Option<DataType>>,
    ) -> Option<Self> {
        let mut equal = Vec::new();
        if !equalities(condition, table, &mut equal) || equal.len() != columns.key.len() {
            return None;
        }
        let mut key = Vec::with_capacity(columns.key.len());
        for id in &columns.key {
            let position = columns.position_of(*id)?;
            let (name, declared) = (columns.name(position), columns.columns[position].declared_type);
            let mut own = equal.iter().filter(|(column, _)| column == name);
            let (Some((_, value)), None) = (own.next(), own.next()) else { return None };
            // What it is compared with may be longer, or have more digits.
            let is_limited = matches!(
                declared,
                DeclaredType::Varchar(_) | DeclaredType::Char(_) | DeclaredType::Numeric { .. }
            );
            // A text is not compared with a number.
            let is_mixed = declared == DeclaredType::Text && is_number(value);
            if is_limited || is_mixed || !is_plain(value) {
                return None;
            }
            if let Some(number) = parameter(value) {
                if types.len() < number {
                    types.resize(number, None);
                }
                let known = types[number - 1].get_or_insert_with(|| data_type(declared));
                if *known != data_type(declared) {
                    return None;
                }
            }
            key.push((name.to_owned(), declared, (*value).clone()));
        }
        Some(Self(key))
    }

    /// The key; `None` if no row has it. `parameters` are the values of parameters.
    pub(super) fn values(
        &self,
        parameters: &[ScalarValue],
        around: &Surroundings,
    ) -> SqlResult<Option<Vec<Value>>> {
        // No key has NULL, or a value that its type does not have.
        let value = |(name, declared, value): &(String, DeclaredType, Expr)| {
            looked_for(datum(value, parameters, around)?, name, *declared, around)
        };
        self.0.iter().map(value).collect()
    }
}

/// The value that a column of the key must have; `None` if it cannot have it.
fn looked_for(
    value: Datum<'_>,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<Option<Value>> {
    let is_number = matches!(value, Datum::Number(_) | Datum::Int(_));
    // What is looked for is not rounded: it is a value of the type without digits.
    match value.stored(name, declared.unrounded(), around) {
        Err(error) if is_number && error.code == crate::error::SqlState::OUT_OF_RANGE => Ok(None),
        stored => stored,
    }
}

/// Whether a literal becomes what it is compared with. Any other has a type of its own, and is not converted to that of a
/// key.
fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_plain(inner),
        Expr::UnaryOp { expr, .. } => is_plain(expr),
        Expr::Value(value) => {
            !matches!(&value.value, ast::Value::Number(text, _) if text.contains(['.', 'e', 'E']))
        }
        _ => false,
    }
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_number(inner),
        Expr::UnaryOp { .. } => true,
        Expr::Value(value) => matches!(value.value, ast::Value::Number(..)),
        _ => false,
    }
}

/// The parts of a query that may be a look-up.
#[allow(clippy::type_complexity)]
fn parts(query: &ast::Query) -> Option<(&ast::ObjectName, Option<String>, &[SelectItem], &Expr)> {
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = &*query.body else { return None };
    let is_plain = is_plain
        && select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && select.lateral_views.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(by, modifiers) if by.is_empty() && modifiers.is_empty());
    let [from] = &select.from[..] else { return None };
    match &from.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            version: None,
            sample: None,
            with_ordinality: false,
            ..
        } if is_plain && from.joins.is_empty() => {
            if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                return None;
            }
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            Some((name, alias, &select.projection, select.selection.as_ref()?))
        }
        _ => None,
    }
}

/// The shown columns and their names, if nothing else is shown.
fn shown(items: &[SelectItem], columns: &TableColumns, table: &str) -> Option<Vec<(usize, String)>> {
    let mut shown = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard(options) if options == &Default::default() => {
                let all = 0..columns.columns.len();
                shown.extend(all.map(|position| (position, columns.name(position).to_owned())));
            }
            SelectItem::UnnamedExpr(expression) => {
                let name = column(expression, table)?;
                shown.push((columns.position(&name)?, name));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                shown.push((columns.position(&column(expr, table)?)?, folded(alias)));
            }
            _ => return None,
        }
    }
    Some(shown)
}

/// The column that an expression is.
fn column(expression: &Expr, table: &str) -> Option<String> {
    let name = match expression {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [of, name] if is_name(of, table) => folded(name),
            _ => return None,
        },
        _ => return None,
    };
    (name != ROW_ID && name != SEARCHED).then_some(name)
}

fn is_name(identifier: &Ident, name: &str) -> bool {
    folded(identifier) == name
}

/// Collects what columns must be equal to; false if the condition says anything else.
fn equalities<'a>(condition: &'a Expr, table: &str, all: &mut Vec<(String, &'a Expr)>) -> bool {
    match condition {
        Expr::Nested(inner) => equalities(inner, table, all),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            equalities(left, table, all) && equalities(right, table, all)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let (name, value) = match (column(left, table), column(right, table)) {
                (Some(name), None) => (name, right),
                (None, Some(name)) => (name, left),
                _ => return false,
            };
            all.push((name, value));
            is_literal(value)
        }
        _ => false,
    }
}
