//! The node of a physical plan: it reads rows by group and time, and gives them with the rows of gaps, in the same order.

use super::Fill;
use super::filling::Filling;
use super::node::{Dialect, GapFill, Role, write_arguments};
use super::range::Range;
use crate::execution::Execution;
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream,
};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// Fills the gaps between rows.
#[derive(Debug, Clone)]
pub(crate) struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    dialect: Dialect,
    fills: Arc<[Fill]>,
    arguments: Arc<[(Role, Expr)]>,
    /// By group, and then by time.
    order: LexOrdering,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GapFillExec {
    pub(crate) fn of(node: &GapFill, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema: SchemaRef = node.schema().inner().clone();
        let places = |wanted: Fill| (0..node.fills.len()).filter(move |place| node.fills[*place] == wanted);
        let options = SortOptions { descending: false, nulls_first: false };
        let by = |place: usize| {
            PhysicalSortExpr::new(Arc::new(Column::new(schema.field(place).name(), place)), options)
        };
        let order = LexOrdering::new(places(Fill::Key).chain(places(Fill::Bucket)).map(by));
        let order = order.ok_or_else(|| DataFusionError::Internal("there is no bucket".to_owned()))?;
        let mut equivalences = EquivalenceProperties::new(schema.clone());
        equivalences.add_ordering(order.clone());
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            input,
            dialect: node.dialect,
            fills: node.fills.clone().into(),
            arguments: node.arguments.clone().into(),
            order,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GapFillExec: ")?;
        write_arguments(&self.arguments, f)
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &str {
        "GapFillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..(*self).clone() }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = Execution::of(&context)?;
        let range = Range::of(self.dialect, &self.arguments, execution.values())?;
        let state = State {
            filling: Filling::new(self.schema(), &self.fills, self.dialect, range)?,
            input: Some(self.input.execute(task, context.clone())?),
            held: MemoryConsumer::new("GapFill").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, task),
        };
        let rows = futures::stream::try_unfold(state, |mut state| async {
            Ok(state.next().await?.map(|rows| (rows.record_output(&state.metrics), state)))
        });
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }
}

/// An execution.
struct State {
    filling: Filling,
    /// `None` when all rows were read.
    input: Option<SendableRecordBatchStream>,
    /// The memory of the rows that were read last.
    held: MemoryReservation,
    metrics: BaselineMetrics,
}

impl State {
    async fn next(&mut self) -> Result<Option<arrow_array::RecordBatch>> {
        loop {
            let compute = self.metrics.elapsed_compute().clone();
            let timer = compute.timer();
            let Some(input) = &mut self.input else { return self.filling.last() };
            if let Some(rows) = self.filling.next()? {
                return Ok(Some(rows));
            }
            drop(timer);
            match input.try_next().await? {
                Some(rows) => {
                    self.held.try_resize(rows.get_array_memory_size())?;
                    self.filling.read(rows)?;
                }
                None => self.input = None,
            }
        }
    }
}
