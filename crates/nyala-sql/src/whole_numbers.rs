//! Whole numbers as they are written: `integer` where that can hold them, as in PostgreSQL. The planner takes all of them for
//! `bigint`.
//!
//! This is done just after a statement was planned, when every literal still is one that somebody wrote: values of parameters
//! and what the optimiser computes keep their types. The types of everything that stands above follow.

use crate::common_type::{unified, with_floats};
use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_schema::DataType;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, Subquery,
    TableScan, cast,
};
use std::sync::Arc;

/// A plan whose literals have the types that PostgreSQL gives them.
pub(crate) fn narrowed(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_literal(&plan)? {
        return Ok(plan);
    }
    let plan = plan.changed_down_with_subqueries(&mut recursion)?.data;
    Ok(plan.changed_up_with_subqueries(&mut narrowed_node)?.data)
}

/// The same for an expression over rows of a schema.
pub(crate) fn narrowed_expression(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let narrowed = expression.changed_down(&mut |inner| {
        Ok(match inner {
            Expr::Literal(ScalarValue::Int64(Some(number)), metadata) if let Some(own) = fitting(number) => {
                Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(own)), metadata))
            }
            // The number is negated as it is read: `-(-2147483648)` is none that an `integer` can hold.
            Expr::Negative(own) if let Some(number) = negated(&own) => {
                let own = fitting(number).map_or(ScalarValue::Int64(Some(number)), |own| own.into());
                Transformed::new(Expr::Literal(own, None), true, TreeNodeRecursion::Jump)
            }
            // The planner takes `count(*)` for `count(1)`.
            Expr::AggregateFunction(mut own) if own.func.name() == "count" && is_one(&own.params.args) => {
                narrow_all(own.params.filter.as_deref_mut(), schema)?;
                Transformed::new(Expr::AggregateFunction(own), true, TreeNodeRecursion::Jump)
            }
            Expr::WindowFunction(mut own) if own.fun.name() == "count" && is_one(&own.params.args) => {
                let params = &mut own.params;
                let order = params.order_by.iter_mut().map(|own| &mut own.expr);
                let parts = params.partition_by.iter_mut().chain(order);
                narrow_all(parts.chain(params.filter.as_deref_mut()), schema)?;
                Transformed::new(Expr::WindowFunction(own), true, TreeNodeRecursion::Jump)
            }
            Expr::BinaryExpr(own) => beside_parameter(own)?,
            other => Transformed::no(other),
        })
    })?;
    // What the planner computes with 64 bits whatever it is given.
    narrowed.transform_data(|expression| {
        expression.changed_up(&mut |inner| match &inner {
            Expr::ScalarFunction(call)
                if call.func.name() == "generate_series"
                    && call
                        .args
                        .iter()
                        .all(|own| own.get_type(schema).is_ok_and(|own| own == DataType::Int32)) =>
            {
                Ok(Transformed::new(
                    cast(inner, DataType::new_list(DataType::Int32, true)),
                    true,
                    TreeNodeRecursion::Jump,
                ))
            }
            _ => Ok(Transformed::no(inner)),
        })
    })
}

fn narrow_all<'a>(expressions: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<()> {
    for expression in expressions {
        *expression = narrowed_expression(std::mem::take(expression), schema)?.data;
    }
    Ok(())
}

fn fitting(number: i64) -> Option<i32> {
    i32::try_from(number).ok()
}

/// A literal with the other sign.
fn negated(own: &Expr) -> Option<i64> {
    match own {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => number.checked_neg(),
        _ => None,
    }
}

/// Whether an expression is a literal that is an `integer`.
fn is_short_literal(own: &Expr) -> bool {
    matches!(own, Expr::Literal(ScalarValue::Int64(Some(number)), _) if fitting(*number).is_some())
}

/// Whether an expression is NULL, which the planner has given the type of its column.
fn is_null_literal(own: &Expr) -> bool {
    matches!(own, Expr::Literal(ScalarValue::Int64(None), _))
}

fn is_one(arguments: &[Expr]) -> bool {
    matches!(arguments, [Expr::Literal(ScalarValue::Int64(Some(1)), _)])
}

fn has_literal(plan: &LogicalPlan) -> Result<bool> {
    let mut is_found = false;
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|own| {
            is_found |= own.any(&mut |inner| Ok(is_short_literal(inner)))?;
            Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(is_found)
}

/// A parameter that has its type of a literal beside it.
fn beside_parameter(own: BinaryExpr) -> Result<Transformed<Expr>> {
    let BinaryExpr { mut left, op, mut right } = own;
    let parameter = match (is_short_literal(&left), is_short_literal(&right)) {
        (false, true) => &mut left,
        (true, false) => &mut right,
        _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
    };
    if let Expr::Placeholder(own) = &mut **parameter
        && let Some(field) = &mut own.field
        && *field.data_type() == DataType::Int64
    {
        *field = Arc::new(field.as_ref().clone().with_data_type(DataType::Int32));
    }
    Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

fn narrowed_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        // The numbers of rows are none of SQL's values.
        LogicalPlan::Limit(_) => Ok(Transformed::no(node)),
        LogicalPlan::Values(own) => {
            let columns = 0..own.schema.fields().len();
            let values = with_floats(own)?;
            let is_short: Vec<bool> =
                columns.map(|column| holds_integers(&values, column)).collect::<Result<_>>()?;
            let cell = |(own, is_short): (Expr, &bool)| match uncast(&own) {
                inner if *is_short && is_null_literal(inner) => {
                    Ok(Expr::Literal(ScalarValue::Int32(None), None))
                }
                inner if *is_short && *inner != own => Ok(cast(inner.clone(), DataType::Int32)),
                _ => narrowed_cell(own),
            };
            let row = |row: Vec<Expr>| row.into_iter().zip(&is_short).map(cell).collect::<Result<Vec<_>>>();
            let values = values.into_iter().map(row).collect::<Result<Vec<_>>>()?;
            Ok(Transformed::yes(LogicalPlanBuilder::values(values)?.build()?))
        }
        node => {
            let schema = read_schema(&node);
            let names = NamePreserver::new(&node);
            let changed = node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let own = narrowed_expression(own, &schema)?;
                let own =
                    own.transform_data(|own| own.changed_up(&mut |inner| with_outer_types(inner, &schema)))?;
                Ok(own.update_data(|own| name.restore(own)))
            })?;
            let changed = changed.transform_data(lateral)?;
            changed.map_data(LogicalPlan::recompute_schema)
        }
    }
}

/// A cell of VALUES without the cast to `bigint` that the planner has added for what stands above and below it.
fn uncast(cell: &Expr) -> &Expr {
    match cell {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Int64 => {
            let inner = expr.get_type(&DFSchema::empty());
            let is_added = inner.is_ok_and(|own| {
                matches!(own, DataType::Int16 | DataType::Int32 | DataType::Utf8 | DataType::Null)
            });
            if is_added { expr } else { cell }
        }
        _ => cell,
    }
}

/// A cell of VALUES with the type that it has in PostgreSQL.
fn narrowed_cell(cell: Expr) -> Result<Expr> {
    let none = DFSchema::empty();
    let narrowed = narrowed_expression(cell, &none)?.data;
    Ok(unified(narrowed, &none)?.data)
}

/// Whether a column of VALUES is `bigint` only because the planner took literals for that.
fn holds_integers(rows: &[Vec<Expr>], column: usize) -> Result<bool> {
    let none = DFSchema::empty();
    let mut has_integer = false;
    for cell in rows.iter().filter_map(|row| row.get(column)) {
        let inner = uncast(cell);
        if is_short_literal(inner) {
            has_integer = true;
            continue;
        }
        if is_null_literal(inner) {
            continue;
        }
        match narrowed_cell(inner.clone())?.get_type(&none)? {
            DataType::Int32 => has_integer = true,
            DataType::Int16 | DataType::Null => {}
            DataType::Utf8 if inner != cell => {}
            _ => return Ok(false),
        }
    }
    Ok(has_integer)
}

/// A subquery, whose columns of the query around it may have got other types.
fn with_outer_types(expression: Expr, outer: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::ScalarSubquery(own) => Transformed::yes(Expr::ScalarSubquery(typed_subquery(own, outer)?)),
        Expr::Exists(Exists { subquery, negated }) => {
            Transformed::yes(Expr::Exists(Exists { subquery: typed_subquery(subquery, outer)?, negated }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let subquery = typed_subquery(subquery, outer)?;
            Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        Expr::SetComparison(own) => {
            let subquery = typed_subquery(own.subquery, outer)?;
            Transformed::yes(Expr::SetComparison(SetComparison { subquery, ..own }))
        }
        other => Transformed::no(other),
    })
}

/// The right side of a join that reads columns of its left side.
fn lateral(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
    let right = with_outer_columns(Arc::unwrap_or_clone(join.right), join.left.schema())?;
    Ok(Transformed::yes(LogicalPlan::Join(Join { right: Arc::new(right), ..join })))
}

fn typed_subquery(subquery: Subquery, outer: &DFSchema) -> Result<Subquery> {
    let plan = with_outer_columns(Arc::unwrap_or_clone(subquery.subquery), outer)?;
    let columns = subquery.outer_ref_columns.into_iter();
    let outer_ref_columns = columns
        .map(|own| Ok(own.changed_up(&mut |inner| outer_column(inner, outer))?.data))
        .collect::<Result<Vec<_>>>()?;
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery })
}

fn with_outer_columns(plan: LogicalPlan, outer: &DFSchema) -> Result<LogicalPlan> {
    let mut is_found = false;
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|own| {
            is_found |= own.any(&mut |inner| Ok(matches!(inner, Expr::OuterReferenceColumn(..))))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !is_found {
        return Ok(plan);
    }
    let typed = plan.changed_up_with_subqueries(&mut |node| {
        let names = NamePreserver::new(&node);
        let typed = node.with_changed_expressions(&mut |own| {
            let name = names.save(&own);
            let own = own.changed_up(&mut |inner| outer_column(inner, outer))?;
            Ok(own.update_data(|own| name.restore(own)))
        })?;
        typed.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(typed.data)
}

fn outer_column(expression: Expr, outer: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::OuterReferenceColumn(field, column) => match outer.qualified_field_from_column(&column) {
            Ok((_, found)) => Transformed::yes(Expr::OuterReferenceColumn(found.clone(), column)),
            // It is one of a query further outside.
            Err(_) => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        other => Transformed::no(other),
    })
}

/// The rows that a recursive query reads again have the types of those that it begins with.
fn recursion(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::RecursiveQuery(RecursiveQuery {
        name, static_term, recursive_term, is_distinct, ..
    }) = node
    else {
        return Ok(Transformed::no(node));
    };
    let static_term = narrowed(Arc::unwrap_or_clone(static_term))?;
    let types: Vec<DataType> =
        static_term.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let recursive_term = Arc::unwrap_or_clone(recursive_term).changed_up_with_subqueries(&mut |node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source)?;
        let Some(known) = provider.downcast_ref::<CteWorkTable>().filter(|own| own.name() == name) else {
            return Ok(Transformed::no(node));
        };
        let fields = known
            .schema()
            .fields()
            .iter()
            .zip(&types)
            .map(|(field, own)| field.as_ref().clone().with_data_type(own.clone()))
            .collect::<Vec<_>>();
        let table = CteWorkTable::new(&name, Arc::new(arrow_schema::Schema::new(fields)));
        let source = provider_as_source(Arc::new(table));
        let TableScan { table_name, projection, filters, fetch, .. } = scan.clone();
        let scan = TableScanBuilder::new(table_name, source)
            .with_projection(projection)
            .with_filters(filters)
            .with_fetch(fetch);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan.build()?)))
    })?;
    let typed = recursive_term
        .data
        .changed_up_with_subqueries(&mut |node| Ok(Transformed::yes(node.recompute_schema()?)))?;
    let query = RecursiveQuery::try_new(name, Arc::new(static_term), Arc::new(typed.data), is_distinct)?;
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}
