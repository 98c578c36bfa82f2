//! The latest (or earliest) row of each group of series, as a node of a plan.
//!
//! Its input gives one row of each series, which takes time in proportion to the series. A group has the row of one of
//! them: that with the latest time.

use super::scan::properties;
use crate::error::outside;
use crate::execution::Execution;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::Distribution;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SendableRecordBatchStream,
};
use futures::TryStreamExt;
use nyala_core::store::Direction;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

/// One row of each group.
#[derive(Debug, Clone)]
pub(super) struct LatestRows {
    input: Arc<dyn ExecutionPlan>,
    /// The columns of the input that rows are grouped by: tags.
    keys: Vec<usize>,
    /// The column of times.
    time: usize,
    /// Whether the latest row is wanted, or the earliest.
    direction: Direction,
    /// The columns of the input that are shown.
    shown: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LatestRows {
    /// `schema` has the names of the columns that are `shown`.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<usize>,
        (time, direction): (usize, Direction),
        shown: Vec<usize>,
        schema: SchemaRef,
    ) -> Self {
        let properties = properties(EquivalenceProperties::new(schema), 1);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { input, keys, time, direction, shown, properties, metrics }
    }

    /// The rows that are shown of these, which are one of each series.
    fn latest(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let keys: Vec<_> =
            self.keys.iter().map(|key| rows.column(*key).as_dictionary::<Int32Type>().keys()).collect();
        let times = rows.column(self.time).as_primitive::<TimestampNanosecondType>().values();
        let is_better = |one: usize, other: usize| match self.direction {
            Direction::Backward => times[one] > times[other],
            Direction::Forward => times[one] < times[other],
        };
        let mut chosen: Vec<u64> = Vec::with_capacity(rows.num_rows());
        let mut groups: HashMap<Vec<Option<i32>>, usize> = HashMap::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let group = keys.iter().map(|key| key.is_valid(row).then(|| key.value(row))).collect();
            match groups.entry(group) {
                Entry::Vacant(new) => {
                    new.insert(chosen.len());
                    chosen.push(row as u64);
                }
                Entry::Occupied(known) => {
                    let known = &mut chosen[*known.get()];
                    if is_better(row, *known as usize) {
                        *known = row as u64;
                    }
                }
            }
        }
        let is_all = chosen.len() == rows.num_rows();
        let chosen = UInt64Array::from(chosen);
        let columns: Vec<ArrayRef> = self
            .shown
            .iter()
            .map(|column| match is_all {
                true => Ok(rows.column(*column).clone()),
                false => take(rows.column(*column), &chosen, None),
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(chosen.len()));
        Ok(RecordBatch::try_new_with_options(self.schema(), columns, &options)?)
    }
}

impl DisplayAs for LatestRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let keys: Vec<&str> = self.keys.iter().map(|key| schema.field(*key).name().as_str()).collect();
        let which = if self.direction == Direction::Backward { "latest" } else { "earliest" };
        write!(f, "LatestRows: {which} of groups=[{}]", keys.join(", "))
    }
}

impl ExecutionPlan for LatestRows {
    fn name(&self) -> &str {
        "LatestRows"
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
        let (node, metrics) = (self.clone(), BaselineMetrics::new(&self.metrics, task));
        let rows = self.input.execute(task, context.clone())?;
        let mut held = Execution::of(&context)?.memory().hold();
        let computed = async move {
            let mut rows = rows;
            let mut batches = Vec::new();
            while let Some(batch) = rows.try_next().await? {
                held.charge(2 * batch.get_array_memory_size()).map_err(outside)?;
                batches.push(batch);
            }
            let _timer = metrics.elapsed_compute().timer();
            let rows = concat_batches(&node.input.schema(), &batches)?;
            Ok(node.latest(&rows)?.record_output(&metrics))
        };
        let rows = futures::stream::once(computed);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
