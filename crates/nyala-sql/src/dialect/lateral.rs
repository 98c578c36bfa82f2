//! `FROM t, unnest(t.a) u`: rows that are made of the columns of a row beside them. DataFusion plans them as a subquery that
//! depends on that row, and executes none that is not a join. As they read nothing else, they are computed upon that row.

use super::lateral_limit::{inner, joined};
use crate::walk::{Walk, WalkPlan};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Computes such rows.
#[derive(Debug)]
pub(crate) struct LateralRows;

impl AnalyzerRule for LateralRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.changed_up_with_subqueries(&mut |node| {
            Ok(match node {
                LogicalPlan::Join(join) => {
                    match computed(&join)?.map_or_else(|| joined(&join), |plan| Ok(Some(plan)))? {
                        Some(plan) => Transformed::yes(plan),
                        None => Transformed::no(LogicalPlan::Join(join)),
                    }
                }
                other => Transformed::no(other),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "lateral_rows"
    }
}

/// The join as one plan; `None` if its right side is something else.
fn computed(join: &Join) -> Result<Option<LogicalPlan>> {
    let right = match &*join.right {
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => input,
        _ => &join.right,
    };
    let LogicalPlan::Subquery(Subquery { subquery, .. }) = &**right else { return Ok(None) };
    if join.join_type != JoinType::Inner || !join.on.is_empty() {
        return Ok(None);
    }
    // What comes last is computed under the names of the right side: it may have those of the left one.
    let (below, last) = match &**subquery {
        LogicalPlan::Projection(own) => (&own.input, Some(&own.expr)),
        _ => (subquery, None),
    };
    let Some(upon) = upon(below, &join.left)? else { return Ok(None) };
    let mut shown = columns_of(&join.left);
    let computed = match last {
        Some(last) => last.iter().map(|own| own.clone().unalias().changed_up(&mut inner).data()).collect(),
        None => {
            let columns = upon.schema().columns().into_iter().skip(shown.len());
            columns.map(|column| Ok(Expr::Column(column))).collect::<Result<Vec<Expr>>>()
        }
    }?;
    for (own, (qualifier, field)) in computed.into_iter().zip(join.right.schema().iter()) {
        shown.push(own.alias_qualified(qualifier.cloned(), field.name()));
    }
    let mut builder = LogicalPlanBuilder::from(upon).project(shown)?;
    if let Some(filter) = &join.filter {
        builder = builder.filter(filter.clone())?;
    }
    builder.build().map(Some)
}

/// A plan that reads nothing but the row around it, upon these rows: their columns, and behind them those of the plan.
fn upon(plan: &LogicalPlan, rows: &Arc<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    let input = match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
            return Ok(Some(LogicalPlan::clone(rows)));
        }
        LogicalPlan::Projection(own) => &own.input,
        LogicalPlan::Unnest(own) => &own.input,
        LogicalPlan::SubqueryAlias(own) => &own.input,
        _ => return Ok(None),
    };
    let Some(input) = upon(input, rows)? else { return Ok(None) };
    let mut shown = columns_of(rows);
    let builder = LogicalPlanBuilder::from(input.clone());
    let builder = match plan {
        LogicalPlan::Projection(own) => {
            for expression in &own.expr {
                shown.push(expression.clone().changed_up(&mut inner).data()?);
            }
            builder.project(shown)?
        }
        LogicalPlan::Unnest(own) => {
            builder.unnest_columns_with_options(own.exec_columns.clone(), own.options.clone())?
        }
        _ => {
            let computed = input.schema().columns().into_iter().skip(shown.len());
            for (column, (qualifier, field)) in computed.zip(plan.schema().iter()) {
                shown.push(Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
            }
            builder.project(shown)?
        }
    };
    builder.build().map(Some)
}

fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field)))).collect()
}
