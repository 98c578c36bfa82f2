//! Conditions on the left side of a join by time: they hold for the joined row if they hold for the row of the left side.
//! Those on the right side stay above, because they must not change which row is the newest.

use super::node::AsofJoin;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Lets conditions on the left side through.
#[derive(Debug)]
pub(crate) struct PushThroughAsofJoins;

impl OptimizerRule for PushThroughAsofJoins {
    fn name(&self) -> &str {
        "push_through_asof_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(extension) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let Some(join) = extension.node.as_any().downcast_ref::<AsofJoin>() else {
            return Ok(Transformed::no(plan));
        };
        let left = join.left.schema();
        let is_of_left = |own: &Expr| {
            !own.is_volatile() && own.column_refs().iter().all(|column| left.is_column_from_schema(column))
        };
        let parts = split_conjunction_owned(filter.predicate.clone());
        let (through, above): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(is_of_left);
        let Some(through) = conjunction(through) else { return Ok(Transformed::no(plan)) };
        let below = LogicalPlan::Filter(Filter::try_new(through, join.left.clone())?);
        let node = LogicalPlan::Extension(Extension { node: Arc::new(join.of_left(below)?) });
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(node))?),
            None => node,
        }))
    }
}
