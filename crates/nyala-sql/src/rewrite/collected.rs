//! `ARRAY(SELECT …)`: the rows of a query of one column as an array, in their order.

use super::{own_name, written};
use crate::call::{call, list};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByExpr,
    OrderByKind, Query, SelectItem, SetExpr, TableAliasColumnDef, TableFactor, Value,
};

/// The aggregates that a column may be alone.
const AGGREGATES: [&str; 8] = ["array_agg", "avg", "bool_and", "bool_or", "count", "max", "min", "sum"];

/// A query of one column as a query of one array.
pub(super) fn collected(query: &Query) -> Expr {
    let collected = collected_directly(query.clone()).unwrap_or_else(|| collected_above(query.clone()));
    Expr::Subquery(Box::new(collected))
}

/// An aggregate in the place of the column; `None` if the query is not simple enough.
fn collected_directly(mut query: Query) -> Option<Query> {
    if query.limit_clause.is_some() || query.with.is_some() || query.fetch.is_some() {
        return None;
    }
    let order = order_of(&query)?;
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(own, _) if own.is_empty());
    if is_grouped || select.distinct.is_some() || select.having.is_some() || aggregates(&select.projection) {
        return None;
    }
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        &mut select.projection[..]
    else {
        return None;
    };
    let order = order.into_iter().map(|own| by_value(own, value, None)).collect();
    *value = array_agg(value.clone(), order);
    query.order_by = None;
    Some(query)
}

/// An aggregate above the query, which gives it what its rows are ordered by as well.
fn collected_above(mut query: Query) -> Query {
    const VALUE: &str = "array value";
    let mut columns = vec![Ident::with_quote('"', VALUE)];
    let mut order = order_of(&query).unwrap_or_default();
    match &mut *query.body {
        SetExpr::Select(select) if select.distinct.is_none() && select.projection.len() == 1 => {
            let (value, alias) = match &select.projection[0] {
                SelectItem::UnnamedExpr(value) => (Some(value.clone()), None),
                SelectItem::ExprWithAlias { expr, alias } => (Some(expr.clone()), Some(alias.clone())),
                _ => (None, None),
            };
            for (place, own) in order.iter_mut().enumerate() {
                let name = Ident::with_quote('"', format!("array order {place}"));
                let expr = match &value {
                    Some(value) => by_value(own.clone(), value, alias.as_ref()).expr,
                    None => own.expr.clone(),
                };
                select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
                own.expr = Expr::Identifier(name.clone());
                columns.push(name);
            }
        }
        // Such rows are ordered by what they have, which is the value.
        _ => order.iter_mut().for_each(|own| own.expr = Expr::Identifier(columns[0].clone())),
    }
    let mut outer = written("SELECT 1 FROM (SELECT 1) AS \"array\"");
    if let SetExpr::Select(select) = &mut *outer.body {
        select.projection =
            vec![SelectItem::UnnamedExpr(array_agg(Expr::Identifier(columns[0].clone()), order))];
        if let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut select.from[0].relation {
            alias.columns =
                columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
            **subquery = query;
        }
    }
    outer
}

/// What a query orders its rows by; `None`: by something that has no form here.
fn order_of(query: &Query) -> Option<Vec<OrderByExpr>> {
    match &query.order_by {
        None => Some(Vec::new()),
        Some(own) => match &own.kind {
            OrderByKind::Expressions(order) => Some(order.clone()),
            OrderByKind::All(_) => None,
        },
    }
}

/// The number of a column, or its name, as what it is.
fn by_value(mut order: OrderByExpr, value: &Expr, alias: Option<&Ident>) -> OrderByExpr {
    let is_value = match &order.expr {
        Expr::Value(own) => matches!(own.value, Value::Number(..)),
        Expr::Identifier(name) => alias == Some(name),
        _ => false,
    };
    if is_value {
        order.expr = value.clone();
    }
    order
}

/// Whether a column is an aggregate.
fn aggregates(projection: &[SelectItem]) -> bool {
    let calls = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(own))
        | SelectItem::ExprWithAlias { expr: Expr::Function(own), .. } => {
            own_name(&own.name).is_some_and(|name| AGGREGATES.contains(&&*name))
        }
        _ => false,
    };
    projection.iter().any(calls)
}

fn array_agg(value: Expr, order: Vec<OrderByExpr>) -> Expr {
    let mut arguments = list(vec![value]);
    if !order.is_empty() {
        arguments.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    let mut aggregate = call(ObjectName::from(vec![Ident::new("array_agg")]), Vec::new());
    if let Expr::Function(own) = &mut aggregate {
        own.args = FunctionArguments::List(arguments);
    }
    aggregate
}
