//! Lets joins pause, so that a statement that is cancelled ends, and others get their turn.
//!
//! DataFusion lets the nodes pause that read rows. A join can make minutes of rows out of one batch that it has read, and the
//! task that computes it would not end before. Where it makes none of them, it is [stopped](crate::stoppable_join) within.

use crate::stoppable_join::stoppable;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use std::sync::Arc;

/// The rule that puts a node that pauses above each join.
#[derive(Debug)]
pub(crate) struct Yielding;

impl PhysicalOptimizerRule for Yielding {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let paused = |node: Arc<dyn ExecutionPlan>| {
            // Whatever joins has two inputs. Unions have, too, and it costs them nothing.
            Ok(match node.children().len() > 1 {
                true => {
                    let node = stoppable(&node)?.unwrap_or(node);
                    Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>)
                }
                false => Transformed::no(node),
            })
        };
        plan.transform_up(paused).data()
    }

    fn name(&self) -> &str {
        "yielding"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
