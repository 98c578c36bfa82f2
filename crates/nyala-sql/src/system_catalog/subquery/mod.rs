//! Subqueries over the system catalogue that depend on the row around them, and that the planner refuses.
//!
//! Where such a subquery only compares columns with those of the row, it becomes a join: of what it gives, the first value
//! is taken. Any other is evaluated for each row ([`evaluated`]), which is affordable because the catalogue is small. Queries
//! that read anything else are left alone.

mod evaluated;

use super::table::CatalogTable;
use crate::walk::{Walk, WalkPlan};
use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, col, when,
};
use datafusion::optimizer::AnalyzerRule;
pub(crate) use evaluated::MakePlanner;
use evaluated::{Wanted, evaluate, is_among};
use std::fmt;
use std::sync::Arc;

/// The rule that changes such subqueries.
pub(crate) struct CatalogSubqueries {
    /// Plans what is evaluated.
    planner: MakePlanner,
}

impl CatalogSubqueries {
    pub(super) fn new(planner: MakePlanner) -> Self {
        Self { planner }
    }

    fn changed(&self, expression: Expr, is_condition: bool) -> Result<Transformed<Expr>> {
        match expression {
            Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                if !reads_catalogue_only(&subquery.subquery)? {
                    return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
                }
                if let Some(joined) = joined(&subquery)? {
                    return Ok(Transformed::yes(joined));
                }
                Ok(Transformed::yes(evaluate(&subquery, Wanted::Value, self.planner.clone())))
            }
            Expr::Exists(Exists { subquery, negated })
                if !is_condition && reads_catalogue_only(&subquery.subquery)? =>
            {
                let found = evaluate(&subquery, Wanted::Existence, self.planner.clone());
                Ok(Transformed::yes(if negated { !found } else { found }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated })
                if !is_condition && reads_catalogue_only(&subquery.subquery)? =>
            {
                let found = is_among(*expr, &subquery, self.planner.clone());
                Ok(Transformed::yes(if negated { !found } else { found }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

impl fmt::Debug for CatalogSubqueries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CatalogSubqueries")
    }
}

impl AnalyzerRule for CatalogSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.changed_up_with_subqueries(&mut sorted_by_columns)?.data;
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let is_condition = matches!(node, LogicalPlan::Filter(_));
            // Columns keep the names by which others know them.
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let changed = own.changed_up(&mut |inner| self.changed(inner, is_condition))?;
                Ok(changed.update_data(|own| name.restore(own)))
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "catalog_subqueries"
    }
}

/// A sort by subqueries as one by columns that have their values: only projections can compute them.
fn sorted_by_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(sort) = node else { return Ok(Transformed::no(node)) };
    let contains_subquery = |own: &Expr| {
        own.any(&mut |inner| {
            Ok(matches!(inner, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_)))
        })
    };
    let mut projected: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let shown = projected.clone();
    let mut order = sort.expr.clone();
    for (own, number) in order.iter_mut().zip(0..) {
        if contains_subquery(&own.expr)? {
            let name = format!("\u{1}sort {number}");
            let value = std::mem::replace(&mut own.expr, Expr::Column(Column::from_name(name.clone())));
            projected.push(value.alias(name));
        }
    }
    if projected.len() == shown.len() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(sort.input))
        .project(projected)?
        .sort_with_limit(order, sort.fetch)?
        .project(shown)?
        .build()?;
    Ok(Transformed::yes(plan))
}

/// Whether a plan reads the system catalogue and nothing else.
fn reads_catalogue_only(plan: &LogicalPlan) -> Result<bool> {
    let mut is_so = true;
    plan.each_with_subqueries(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            is_so &= source_as_provider(&scan.source)?.downcast_ref::<CatalogTable>().is_some();
        }
        Ok(if is_so { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_so)
}

/// A subquery of the form `SELECT value FROM … WHERE column = outer AND … AND condition of the row around it`, as the
/// planner can join it; `None` if it has another form.
fn joined(subquery: &Subquery) -> Result<Option<Expr>> {
    let LogicalPlan::Projection(projection) = &*subquery.subquery else { return Ok(None) };
    let [value] = &projection.expr[..] else { return Ok(None) };
    let LogicalPlan::Filter(filter) = &*projection.input else { return Ok(None) };
    if value.contains_outer()
        || !filter.input.all_out_ref_exprs().is_empty()
        || contains_aggregate(&filter.input)
    {
        return Ok(None);
    }
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        if !condition.contains_outer() {
            inside.push(condition);
        } else if !condition.any_column_refs() {
            outside.push(stripped(condition)?);
        } else if is_comparison(&condition) {
            inside.push(condition);
        } else {
            return Ok(None);
        }
    }
    // Without a comparison there is nothing to join by.
    let Some(inside) = conjunction(inside).filter(Expr::contains_outer) else { return Ok(None) };
    let name = value.schema_name().to_string();
    let filtered = LogicalPlanBuilder::from(filter.input.as_ref().clone()).filter(inside)?.build()?;
    let first = first_value(value.clone().unalias(), Vec::new()).alias("first");
    let aggregate = Aggregate::try_new(Arc::new(filtered), Vec::new(), vec![first])?;
    let shown = col("first").alias(name);
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate)).project([shown])?.build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() };
    let joined = Expr::ScalarSubquery(subquery);
    Ok(Some(match conjunction(outside) {
        Some(outside) => when(outside, joined).end()?,
        None => joined,
    }))
}

fn contains_aggregate(plan: &LogicalPlan) -> bool {
    let is_other = |node: &LogicalPlan| {
        !matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Filter(_)
        )
    };
    plan.any(&mut |node| Ok(is_other(node))).unwrap_or(true)
}

/// An expression with the columns of the row around the subquery as columns.
fn stripped(expression: Expr) -> Result<Expr> {
    let plain = expression.changed_up(&mut |inner| match inner {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plain.data)
}

/// Whether a condition compares a column with one of the row around the subquery.
fn is_comparison(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let is_outer = |own: &Expr| matches!(own, Expr::OuterReferenceColumn(..));
    let is_own = |own: &Expr| matches!(own, Expr::Column(_));
    (is_outer(left) && is_own(right)) || (is_own(left) && is_outer(right))
}
