//! One task writes the rows that are divided among others.
//!
//! What does not fit into memory between tasks goes to files, in DataFusion. Where two tasks write such files at a time, the reader
//! waits for the older one, although what it needs is in the newer: the statement never ends (apache/datafusion#24883, in 55.2; to be
//! taken out with the version that has its repair).

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The rule that gathers the rows of several tasks before they are divided anew. The tasks go on beside each other.
#[derive(Debug)]
pub(crate) struct OneWriter;

impl PhysicalOptimizerRule for OneWriter {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let gathered = |node: Arc<dyn ExecutionPlan>| {
            let Some(divided) = node.downcast_ref::<RepartitionExec>() else {
                return Ok(Transformed::no(node));
            };
            // Rows that stay in order have files for each task.
            if divided.preserve_order() || divided.input().output_partitioning().partition_count() < 2 {
                return Ok(Transformed::no(node));
            }
            let input = Arc::new(CoalescePartitionsExec::new(divided.input().clone()));
            let divided = RepartitionExec::try_new(input, divided.partitioning().clone())?;
            Ok(Transformed::yes(Arc::new(divided) as Arc<dyn ExecutionPlan>))
        };
        plan.transform_up(gathered).data()
    }

    fn name(&self) -> &str {
        "one_writer"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
