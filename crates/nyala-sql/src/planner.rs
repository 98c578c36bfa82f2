//! Physical plans, also of the nodes that are our own.

use crate::asof_join::{AsofJoin, AsofJoinExec};
use crate::awaited::{Awaited, at_once};
use crate::gaps::{GapFill, GapFillExec};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use std::sync::{Arc, LazyLock};

/// Plans what DataFusion knows, and our own nodes.
#[derive(Debug)]
pub(crate) struct NodePlanner;

static PLANNER: LazyLock<DefaultPhysicalPlanner> =
    LazyLock::new(|| DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OwnNodes)]));

#[async_trait]
impl QueryPlanner for NodePlanner {
    fn create_physical_plan<'life0, 'life1, 'life2, 'awaited>(
        &'life0 self,
        plan: &'life1 LogicalPlan,
        session: &'life2 dyn Session,
    ) -> Awaited<'awaited, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
        'life2: 'awaited,
    {
        PLANNER.create_physical_plan(plan, session)
    }
}

struct OwnNodes;

#[async_trait]
impl ExtensionPlanner for OwnNodes {
    fn plan_extension<'life0, 'life1, 'life2, 'life3, 'life4, 'life5, 'life6, 'life7, 'awaited>(
        &'life0 self,
        planner: &'life1 dyn PhysicalPlanner,
        node: &'life2 dyn UserDefinedLogicalNode,
        _: &'life3 [&'life4 LogicalPlan],
        inputs: &'life5 [Arc<dyn ExecutionPlan>],
        session: &'life6 dyn Session,
        planning: &'life7 PhysicalPlanningContext,
    ) -> Awaited<'awaited, Result<Option<Arc<dyn ExecutionPlan>>>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
        'life2: 'awaited,
        'life3: 'awaited,
        'life4: 'awaited,
        'life5: 'awaited,
        'life6: 'awaited,
        'life7: 'awaited,
    {
        at_once(own_node(planner, node, inputs, (session, planning)))
    }
}

/// The plan of a node, if it is our own.
fn own_node(
    planner: &dyn PhysicalPlanner,
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    (session, planning): (&dyn Session, &PhysicalPlanningContext),
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(gaps) = node.as_any().downcast_ref::<GapFill>() {
        return Ok(Some(Arc::new(GapFillExec::of(gaps, inputs[0].clone())?)));
    }
    if let Some(join) = node.as_any().downcast_ref::<AsofJoin>() {
        return Ok(Some(Arc::new(AsofJoinExec::of(join, inputs, planner, session, planning)?)));
    }
    Ok(None)
}
