//! `EXISTS (SELECT …)` and `x IN (SELECT …)` as values. DataFusion computes them in conditions only, so that here rows are
//! counted, by a subquery that has one value.
//!
//! In conditions it joins, and a row that may be among others, because one of them is NULL, is one that is not. That is right
//! where false is as good as unknown, and for `NOT IN` that stands alone; elsewhere rows are counted, too.

use crate::walk::{Walk, WalkPlan};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Has rows counted where such a value is asked for.
#[derive(Debug)]
pub(crate) struct SubqueryValues;

impl AnalyzerRule for SubqueryValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.changed_up_with_subqueries(&mut |node| {
            if let LogicalPlan::Filter(filter) = node {
                return counted_in_condition(filter);
            }
            if matches!(node, LogicalPlan::Join(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                Ok(own.changed_up(&mut |inner| counted(inner, &schema))?.update_data(|own| name.restore(own)))
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "subquery_values"
    }
}

fn counted_in_condition(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema().clone();
    let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter();
    let conditions = conditions.map(|own| match own {
        Expr::InSubquery(_) => Ok(Transformed::no(own)),
        Expr::Not(inner) if matches!(&*inner, Expr::InSubquery(_)) => Ok(Transformed::no(Expr::Not(inner))),
        other => where_unknown_is_false(other, &schema),
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    if !conditions.iter().any(|own| own.transformed) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let predicate = conditions.into_iter().map(|own| own.data).reduce(Expr::and).unwrap_or(filter.predicate);
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// A condition of which it does not matter whether it is false or unknown.
fn where_unknown_is_false(condition: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) =
                (where_unknown_is_false(*left, schema)?, where_unknown_is_false(*right, schema)?);
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let both = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(if is_changed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(Transformed::no(condition)),
        other => other.changed_up(&mut |inner| match inner {
            Expr::InSubquery(_) => counted(inner, schema),
            other => Ok(Transformed::no(other)),
        }),
    }
}

fn counted(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::Exists(Exists { subquery, negated }) => {
            let rows = LogicalPlanBuilder::from(subquery.subquery.clone());
            let found = value_of(rows, count(lit(1_i64)).gt(lit(0_i64)))?;
            Transformed::yes(if negated { !found } else { found })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let found = among(*expr, &subquery, schema)?;
            Transformed::yes(if negated { !found } else { found })
        }
        other => Transformed::no(other),
    })
}

/// Whether a value is among those of a subquery: NULL, if it is not but may be.
fn among(value: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
    let plan = &subquery.subquery;
    let column = Expr::Column(plan.schema().columns().swap_remove(0));
    let outside = value.clone().changed_up(&mut |inner| match inner {
        Expr::Column(column) => {
            let field = schema.qualified_field_from_column(&column)?.1.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    let rows = || LogicalPlanBuilder::from(plan.clone());
    let some = count(lit(1_i64)).gt(lit(0_i64));
    let equal = rows().filter(column.clone().eq(outside.data()?))?;
    let is_equal = value_of(equal, some.clone())?;
    let is_empty = !value_of(rows(), some)?;
    let has_null = value_of(rows(), count(column).lt(count(lit(1_i64))))?;
    when(is_equal, lit(true))
        .when(is_empty, lit(false))
        .when(value.is_null().or(has_null), lit(ScalarValue::Boolean(None)))
        .otherwise(lit(false))
}

/// A subquery of one row, with a value of its aggregates.
fn value_of(rows: LogicalPlanBuilder, value: Expr) -> Result<Expr> {
    let mut aggregates = Vec::new();
    let shown = value.changed_up(&mut |inner| {
        let Expr::AggregateFunction(_) = &inner else { return Ok(Transformed::no(inner)) };
        let name = format!("\u{1}count {}", aggregates.len());
        aggregates.push(inner.alias(&name));
        Ok(Transformed::yes(Expr::Column(datafusion::common::Column::from_name(name))))
    });
    let shown = shown.data()?;
    let plan =
        rows.aggregate(Vec::<Expr>::new(), aggregates)?.project([shown.alias("\u{1}value")])?.build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    let spans = Spans::new();
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans }))
}
