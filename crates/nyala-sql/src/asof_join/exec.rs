//! The node of a physical plan.

use super::merging::{Compared, Merging, Needed};
use super::node::{AsofJoin, Match};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::arrow::row::SortField;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream,
};
use datafusion::physical_planner::PhysicalPlanner;
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// Joins each row with the row of the other side that is next to it in time.
#[derive(Debug, Clone)]
pub(crate) struct AsofJoinExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    compared: (Compared, Compared),
    rule: Match,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsofJoinExec {
    pub(crate) fn of(
        node: &AsofJoin,
        inputs: &[Arc<dyn ExecutionPlan>],
        planner: &dyn PhysicalPlanner,
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Self> {
        let [left, right] = inputs else {
            return Err(DataFusionError::Internal("a join has two sides".to_owned()));
        };
        let physical =
            |own: &Expr, schema: &DFSchema| planner.create_physical_expr(own, schema, session, planning);
        let (of_left, of_right) = (node.left.schema(), node.right.schema());
        let keys = |of: &DFSchema, side: fn(&(Expr, Expr)) -> &Expr| {
            node.keys.iter().map(|own| physical(side(own), of)).collect::<Result<Vec<_>>>()
        };
        let compared = (
            (keys(of_left, |own| &own.0)?, physical(&node.times.0, of_left)?),
            (keys(of_right, |own| &own.1)?, physical(&node.times.1, of_right)?),
        );
        let schema: SchemaRef = node.schema.inner().clone();
        let mut equivalences = EquivalenceProperties::new(schema.clone());
        // The columns of the left side have the same places in the answer.
        equivalences.add_ordering(order(&compared.0, node.rule)?);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            left: left.clone(),
            right: right.clone(),
            compared,
            rule: node.rule,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// How the values are compared that are sorted by.
    fn fields(&self) -> Result<(Vec<SortField>, SortField)> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let ((left_keys, left_time), (right_keys, right_time)) = &self.compared;
        let field = |one: &Arc<dyn PhysicalExpr>, other: &Arc<dyn PhysicalExpr>, options| {
            let (one, other) = (one.data_type(&left)?, other.data_type(&right)?);
            match one == other {
                true => Ok(SortField::new_with_options(one, options)),
                false => Err(DataFusionError::Internal(format!("{one} is compared with {other}"))),
            }
        };
        let keys = left_keys.iter().zip(right_keys).map(|(one, other)| field(one, other, ASCENDING));
        Ok((keys.collect::<Result<_>>()?, field(left_time, right_time, time_options(self.rule))?))
    }
}

const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

fn time_options(rule: Match) -> SortOptions {
    SortOptions { descending: rule.looks_forward, nulls_first: false }
}

/// The order of a side: by what must be equal, and then by time.
fn order((keys, time): &Compared, rule: Match) -> Result<LexOrdering> {
    let by_keys = keys.iter().map(|own| PhysicalSortExpr::new(own.clone(), ASCENDING));
    let order = LexOrdering::new(by_keys.chain([PhysicalSortExpr::new(time.clone(), time_options(rule))]));
    order.ok_or_else(|| DataFusionError::Internal("a join has no time".to_owned()))
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.rule.is_outer { "left" } else { "inner" };
        let ((left_keys, left_time), (right_keys, right_time)) = &self.compared;
        write!(f, "AsofJoinExec: {word}, {left_time} {} {right_time}", self.rule.operator())?;
        left_keys.iter().zip(right_keys).try_for_each(|(left, right)| write!(f, ", {left} = {right}"))
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let (left, right) = &self.compared;
        [left, right].map(|own| order(own, self.rule).ok().map(OrderingRequirements::from)).into()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn apply_expressions(
        &self,
        judge: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let (left, right) = &self.compared;
        for own in left.0.iter().chain([&left.1]).chain(&right.0).chain([&right.1]) {
            if judge(own)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = <[_; 2]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("a join has two sides".to_owned()))?;
        Ok(Arc::new(Self { left, right, metrics: ExecutionPlanMetricsSet::new(), ..(*self).clone() }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (keys, time) = self.fields()?;
        let (schema, right) = (self.schema.clone(), self.right.schema());
        let state = State {
            merging: Merging::new(schema, self.rule, self.compared.clone(), keys, time, &right)?,
            left: self.left.execute(0, context.clone())?,
            right: self.right.execute(0, context.clone())?,
            held: [(); 2].map(|()| MemoryConsumer::new("AsofJoin").register(context.memory_pool())),
            metrics: BaselineMetrics::new(&self.metrics, task),
        };
        let rows = futures::stream::try_unfold(state, |mut state| async {
            Ok(state.next().await?.map(|rows| (rows.record_output(&state.metrics), state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }
}

/// An execution.
struct State {
    merging: Merging,
    left: SendableRecordBatchStream,
    right: SendableRecordBatchStream,
    /// The memory of the rows that were read last, of both sides.
    held: [MemoryReservation; 2],
    metrics: BaselineMetrics,
}

/// Rows take their own memory, and again what they are compared by.
const COPIES: usize = 2;

impl State {
    async fn next(&mut self) -> Result<Option<arrow_array::RecordBatch>> {
        loop {
            let needed = {
                let _timer = self.metrics.elapsed_compute().timer();
                self.merging.next()?
            };
            match needed {
                Needed::Nothing(rows) => return Ok(Some(rows)),
                Needed::Left => match self.left.try_next().await? {
                    Some(rows) => {
                        self.held[0].try_resize(COPIES * rows.get_array_memory_size())?;
                        self.merging.read_left(rows)?;
                    }
                    None => return Ok(None),
                },
                Needed::Right => {
                    let rows = self.right.try_next().await?;
                    let bytes = rows.as_ref().map_or(0, arrow_array::RecordBatch::get_array_memory_size);
                    self.held[1].try_resize(COPIES * bytes)?;
                    self.merging.read_right(rows)?;
                }
            }
        }
    }
}
