//! Conditions above outer joins stay there.
//!
//! The physical planner pushes conditions towards tables once more, and finds their columns by name: one on the side that may be
//! missing, such as `upper(t.k) <> 'x'`, would go to a column of the same name on the other side, and leave rows without a partner
//! in. What can be pushed through an outer join was pushed by the logical planner before.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// The rule that pushes conditions, without those above outer joins.
#[derive(Debug)]
pub(crate) struct PushFilters(FilterPushdown);

impl Default for PushFilters {
    fn default() -> Self {
        Self(FilterPushdown::new())
    }
}

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut has_barrier = false;
        let divided = plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            if !is_outer_join(filter.input()) {
                return Ok(Transformed::no(node));
            }
            has_barrier = true;
            let barrier: Arc<dyn ExecutionPlan> = Arc::new(Barrier(filter.input().clone()));
            with_input(node, barrier).map(Transformed::yes)
        });
        let pushed = self.0.optimize(divided.data()?, config)?;
        if !has_barrier {
            return Ok(pushed);
        }
        let joined = pushed.transform_up(|node| {
            Ok(match node.downcast_ref::<Barrier>() {
                Some(Barrier(input)) => Transformed::yes(input.clone()),
                None => Transformed::no(node),
            })
        });
        joined.data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn with_input(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

fn is_outer_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return is_outer_join(projection.input());
    }
    let join = plan.downcast_ref::<HashJoinExec>();
    join.is_some_and(|own| matches!(own.join_type(), JoinType::Left | JoinType::Right | JoinType::Full))
}

/// Stands in plans while conditions are pushed, and lets none through.
#[derive(Debug)]
struct Barrier(Arc<dyn ExecutionPlan>);

impl DisplayAs for Barrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Barrier")
    }
}

impl ExecutionPlan for Barrier {
    fn name(&self) -> &str {
        "Barrier"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(children.pop().unwrap_or_else(|| self.0.clone()))))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("a barrier is never executed".to_owned()))
    }
}
