//! Physical plans, also of the nodes that are our own.

use crate::asof_join::{AsofJoin, AsofJoinExec};
use crate::gaps::{GapFill, GapFillExec};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use std::sync::Arc;

/// Plans what DataFusion knows, and our own nodes.
#[derive(Debug)]
pub(crate) struct NodePlanner;

#[async_trait]
impl QueryPlanner for NodePlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OwnNodes)]);
        planner.create_physical_plan(plan, session).await
    }
}

struct OwnNodes;

#[async_trait]
impl ExtensionPlanner for OwnNodes {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(gaps) = node.as_any().downcast_ref::<GapFill>() {
            return Ok(Some(Arc::new(GapFillExec::of(gaps, inputs[0].clone())?)));
        }
        if let Some(join) = node.as_any().downcast_ref::<AsofJoin>() {
            return Ok(Some(Arc::new(AsofJoinExec::of(join, inputs, planner, session, planning)?)));
        }
        Ok(None)
    }
}
