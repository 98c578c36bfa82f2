//! The node of a physical plan that asks the query.

use super::rows::Rows;
use super::{InfluxqlColumns, InfluxqlQueries, InfluxqlQuery};
use crate::error::{SqlError, SqlResult, outside};
use crate::execution::Execution;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Asks a query of InfluxQL.
#[derive(Clone)]
pub(super) struct InfluxqlScan {
    queries: Arc<dyn InfluxqlQueries>,
    text: Arc<str>,
    database: Arc<str>,
    /// The columns that the answer must have.
    columns: Arc<InfluxqlColumns>,
    rows: Rows,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InfluxqlScan {
    pub(super) fn new(
        queries: Arc<dyn InfluxqlQueries>,
        text: Arc<str>,
        database: Arc<str>,
        columns: Arc<InfluxqlColumns>,
        schema: &SchemaRef,
        projection: Option<&Vec<usize>>,
    ) -> Result<Self> {
        let all = || (0..schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let rows =
            Rows { schema: Arc::new(schema.project(&projection)?), tags: columns.tags.clone(), projection };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(rows.schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { queries, text, database, columns, rows, properties: Arc::new(properties), metrics })
    }

    async fn open(self, execution: Arc<Execution>) -> SqlResult<SendableRecordBatchStream> {
        let query = InfluxqlQuery {
            text: self.text.as_ref().to_owned(),
            database: self.database.as_ref().to_owned(),
            context: execution.context().clone(),
        };
        if self.queries.columns(&query).await? != *self.columns {
            return Err(SqlError::unsupported(
                "a query of InfluxQL whose answer got other columns meanwhile",
            ));
        }
        let (snapshot, memory) = (execution.snapshot().await?.clone(), execution.memory().clone());
        let mut held = memory.hold();
        let frames = self.queries.frames(&query, snapshot, memory).await?;
        let (schema, rows) = (self.rows.schema.clone(), self.rows);
        let batches = frames.map_err(outside).and_then(move |frames| {
            let made = rows.of(&frames).and_then(|batch| {
                held.shrink_to(0);
                held.charge(batch.get_array_memory_size()).map_err(outside)?;
                Ok(batch)
            });
            futures::future::ready(made)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

impl fmt::Debug for InfluxqlScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for InfluxqlScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfluxqlScan: {}", self.text)
    }
}

impl ExecutionPlan for InfluxqlScan {
    fn name(&self) -> &str {
        "InfluxqlScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { metrics: ExecutionPlanMetricsSet::new(), ..(*self).clone() }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scan, execution) = (self.clone(), Execution::of(&context)?);
        let metrics = BaselineMetrics::new(&self.metrics, task);
        let opened = async move { scan.open(execution).await.map_err(DataFusionError::from) };
        let batches = futures::stream::once(opened).try_flatten();
        let batches =
            batches.map(move |batch: Result<RecordBatch>| batch.map(|batch| batch.record_output(&metrics)));
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.rows.schema.clone(), batches))))
    }
}
