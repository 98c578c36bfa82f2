//! A plan that was executed before, for another execution.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// The plan without what an execution has found out, and with its scans waiting for what the next one does.
pub(crate) fn renewed(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = reset_plan_states(plan.clone())?;
    match plan.exists(|node| Ok(finds_out(node)))? {
        true => FilterPushdown::new_post_optimization().optimize(plan, options),
        false => Ok(plan),
    }
}

/// Whether a node finds out, while it is executed, which rows are of use to it.
fn finds_out(node: &Arc<dyn ExecutionPlan>) -> bool {
    let sort = node.downcast_ref::<SortExec>();
    sort.is_some_and(|sort| sort.fetch().is_some()) || node.downcast_ref::<HashJoinExec>().is_some()
}
