//! Reading a measurement: the node of a plan, and the stream of its rows.
//!
//! A plan may be executed many times, so the node holds nothing of a single execution: the snapshot is taken, and the
//! series are found, when the first row is asked for.

use super::MANY_SERIES;
use super::columns::{Columns, Source, ZONE};
use super::conditions::ScanConditions;
use super::filter::Conditions;
use super::statistics::Known;
use super::tags::SeriesTags;
use crate::error::outside;
use crate::execution::Execution;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::TryStreamExt;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{
    Comparison, Direction, Order, Predicate, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
};
use nyala_core::{ColumnId, SeriesId, TableSchema, before_long_work};
use nyala_db::catalog::Measurement;
use nyala_db::scan::Points;
use nyala_exec::Distinct;
use nyala_exec::memory::MemoryCharge;
use std::fmt;
use std::sync::Arc;

/// Rows of a measurement, as a node of a plan.
#[derive(Clone)]
pub(super) struct MeasurementScan {
    pub(super) measurement: Arc<Measurement>,
    pub(super) columns: Arc<Columns>,
    /// Which columns it shows.
    projection: Vec<usize>,
    pub(super) conditions: Arc<ScanConditions>,
    /// The order by time, if rows must have it.
    order: Option<Direction>,
    /// The most rows.
    pub(super) limit: Option<usize>,
    /// The most rows of each series, from its first time on or from its last.
    per_series: Option<(usize, Direction)>,
    /// What the planner is told of its rows.
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MeasurementScan {
    /// A scan whose rows are read by so many tasks.
    pub(super) fn new(
        measurement: Arc<Measurement>,
        columns: Arc<Columns>,
        projection: Vec<usize>,
        conditions: Arc<ScanConditions>,
        limit: Option<usize>,
        tasks: usize,
    ) -> Result<Self> {
        let schema = Arc::new(columns.schema.project(&projection)?);
        let statistics = Arc::new(Statistics::new_unknown(&schema));
        let properties = properties(EquivalenceProperties::new(schema), tasks);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self {
            measurement,
            columns,
            projection,
            conditions,
            order: None,
            limit,
            per_series: None,
            statistics,
            properties,
            metrics,
        })
    }

    /// The same scan with what is known of its rows.
    pub(super) fn with_statistics(self, known: &Known) -> Self {
        let statistics = known.statistics(&self.measurement, &self.columns, &self.projection);
        Self { statistics, ..self }
    }

    /// The same scan with at most so many rows of each series, the earliest or the latest.
    pub(super) fn per_series(&self, limit: usize, direction: Direction) -> Self {
        let limit = self.per_series.map_or(limit, |(known, _)| known.min(limit));
        Self { per_series: Some((limit, direction)), ..self.clone() }
    }

    /// The same scan by one task.
    pub(super) fn by_one_task(&self) -> Self {
        let properties = properties(EquivalenceProperties::new(self.schema()), 1);
        Self { properties, ..self.clone() }
    }

    /// Whether it gives all rows that satisfy its conditions, in any order.
    pub(super) fn is_plain(&self) -> bool {
        self.limit.is_none() && self.order.is_none() && self.per_series.is_none()
    }

    /// Shows the conditions that were pushed down.
    pub(super) fn write_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conditions.is_empty() {
            true => Ok(()),
            false => write!(f, ", conditions=[{}]", self.conditions),
        }
    }

    /// What its columns show.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.projection.iter().map(|position| &self.columns.sources[*position])
    }

    /// The stream of one of its tasks.
    async fn open(&self, execution: Arc<Execution>, task: usize) -> nyala_core::Result<Reading> {
        let snapshot = execution.snapshot().await?;
        let catalog = &execution.context().catalog;
        let conditions = self.conditions.with(&self.columns, execution.values())?;
        let points = catalog.points(&self.measurement, &conditions.tags, conditions.time).await?;
        if points.series().len() >= MANY_SERIES {
            before_long_work().await;
        }
        let tasks = self.properties.partitioning.partition_count() as u64;
        let (count, task) = (points.series().len(), task as u64);
        // Consecutive series are stored together.
        let members: Vec<SeriesId> = points
            .series()
            .iter()
            .skip((count * task / tasks) as usize)
            .take((count * (task + 1) / tasks - count * task / tasks) as usize)
            .map(SeriesId)
            .collect();
        let keys: Vec<&str> = self
            .sources()
            .filter_map(|source| match source {
                Source::Tag(key) => Some(key.as_str()),
                _ => None,
            })
            .collect();
        let mut held = execution.memory().hold();
        held.charge(members.len() * (keys.len() * SeriesTags::BYTES_PER_TAG + size_of::<SeriesId>()))?;
        let tags = SeriesTags::of(&self.measurement, &members, &keys);
        held.charge(tags.text_bytes())?;
        let series = SeriesSet::Ids(members.into());
        let (request, places) =
            self.request(&snapshot.schema(self.measurement.table()).ok(), series, &conditions);
        let rows = match request {
            Some(request) if !points.series().is_empty() => self.measurement.scan(snapshot, request).await?,
            _ => None,
        };
        let schema = self.schema();
        Ok(Reading { scan: self.clone(), schema, places, rows, tags, _points: points, _held: held })
    }

    /// What the store is asked for, and per column its place in the answer. The plan may be newer than the snapshot: a
    /// column that the snapshot lacks has no place, and no request is made if no row can satisfy a condition.
    fn request(
        &self,
        schema: &Option<Arc<TableSchema>>,
        series: SeriesSet,
        conditions: &Conditions,
    ) -> (Option<ScanRequest>, Vec<Option<usize>>) {
        let Some(schema) = schema else { return (None, Vec::new()) };
        let is_there = |id: &ColumnId| schema.column(*id).is_some();
        let mut stored = Distinct::default();
        let places = self.sources().map(|source| Some(stored.position(source.stored().filter(is_there)?)));
        let places = places.collect();
        let mut stored = stored.into_list();
        if stored.is_empty() {
            // Rows are counted.
            stored.push(TIME_COLUMN);
        }
        let mut predicates = conditions.predicates.clone();
        let is_known = |predicate: &Predicate| is_there(&predicate.column);
        let has_rows = predicates.iter().all(|own| is_known(own) || own.comparison == Comparison::IsNull);
        predicates.retain(is_known);
        let selection = RowSelection::Series { series, time: conditions.time };
        let request = ScanRequest {
            predicates,
            order: match (self.order, self.per_series) {
                (Some(direction), _) => Order::Time(direction),
                (None, Some((_, direction))) => Order::Key(direction),
                (None, None) => Order::Key(Direction::Forward),
            },
            limit: self.limit,
            limit_per_prefix: self.per_series.map(|(limit, _)| limit),
            ..ScanRequest::by_key(self.measurement.table(), selection, stored)
        };
        (has_rows.then_some(request), places)
    }
}

pub(super) fn properties(equivalences: EquivalenceProperties, tasks: usize) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(tasks);
    Arc::new(PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded))
}

impl fmt::Debug for MeasurementScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for MeasurementScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "MeasurementScan: measurement={}, columns=[{}]",
            self.measurement.name(),
            names.join(", ")
        )?;
        self.write_conditions(f)?;
        match self.order {
            Some(Direction::Forward) => f.write_str(", order=[time ASC]")?,
            Some(Direction::Backward) => f.write_str(", order=[time DESC]")?,
            None => {}
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if let Some((limit, direction)) = self.per_series {
            let which = if direction == Direction::Backward { "latest" } else { "earliest" };
            write!(f, ", per series={limit} {which}")?;
        }
        write!(f, ", tasks={}", self.properties.partitioning.partition_count())
    }
}

impl ExecutionPlan for MeasurementScan {
    fn name(&self) -> &str {
        "MeasurementScan"
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

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        // Rows are divided by series, so nobody knows how many a task gets.
        let known = match partition {
            None => self.statistics.clone(),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        };
        match self.limit {
            Some(limit) => Ok(Arc::new(Arc::unwrap_or_clone(known).with_fetch(Some(limit), 0, 1)?)),
            None => Ok(known),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self { limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let ([by], None) = (order, self.per_series) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let column = by.expr.downcast_ref::<Column>().and_then(|column| self.projection.get(column.index()));
        match column.map(|position| &self.columns.sources[*position]) {
            Some(Source::Time | Source::TimeNs) => {}
            _ => return Ok(SortOrderPushdownResult::Unsupported),
        }
        let direction = if by.options.descending { Direction::Backward } else { Direction::Forward };
        let mut equivalences = EquivalenceProperties::new(self.schema());
        equivalences.add_orderings(LexOrdering::new(order.to_vec()));
        let properties = properties(equivalences, 1);
        let inner = Arc::new(Self { order: Some(direction), properties, ..self.clone() });
        Ok(SortOrderPushdownResult::Exact { inner })
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scan, execution) = (self.clone(), Execution::of(&context)?);
        let metrics = BaselineMetrics::new(&self.metrics, task);
        let opened = futures::stream::once(async move {
            let timer = metrics.elapsed_compute().timer();
            let reading = scan.open(execution.clone(), task).await.map_err(outside)?;
            timer.done();
            let reading = (reading, execution, metrics);
            Ok::<_, DataFusionError>(futures::stream::try_unfold(
                reading,
                |(mut reading, execution, metrics)| async move {
                    let timer = metrics.elapsed_compute().timer();
                    let batch = execution.long_texts().checked(reading.next().await?)?;
                    timer.done();
                    let batch = batch.map(|batch| batch.record_output(&metrics));
                    Ok(batch.map(|batch| (batch, (reading, execution, metrics))))
                },
            ))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), opened.try_flatten())))
    }
}

/// The numbers of the series of rows.
fn series_numbers(runs: &[SeriesRun], rows: usize) -> UInt32Array {
    let mut numbers = UInt32Array::builder(rows);
    runs.iter().for_each(|run| numbers.append_value_n(run.series.0, run.rows as usize));
    numbers.finish()
}

/// Rows that are being read.
struct Reading {
    scan: MeasurementScan,
    schema: SchemaRef,
    /// Per column its place among the columns of the store, unless it is a tag or the snapshot lacks it.
    places: Vec<Option<usize>>,
    rows: Option<Box<dyn RowStream>>,
    tags: SeriesTags,
    /// Keeps the series in memory.
    _points: Points,
    _held: MemoryCharge,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let Some(batch) = rows.next().await.map_err(outside)? else { return Ok(None) };
        let mut tags = self.tags.columns(&batch.series, batch.rows).into_iter();
        let columns = self.scan.sources().zip(&self.places).map(|(source, place)| -> ArrayRef {
            let stored = place.map(|place| &batch.columns[place]);
            let times = || stored.map(|times| times.as_primitive::<TimestampNanosecondType>());
            match source {
                Source::Tag(_) => tags.next().expect("one column per tag"),
                Source::Series => Arc::new(series_numbers(&batch.series, batch.rows)),
                Source::Time => Arc::new(times().expect("every row has a time").clone().with_timezone(ZONE)),
                Source::TimeNs => {
                    Arc::new(Int64Array::new(times().expect("every row has a time").values().clone(), None))
                }
                Source::Field(_, field_type, _) => match stored {
                    Some(values) => values.clone(),
                    None => new_null_array(&field_type.column_type().data_type(), batch.rows),
                },
            }
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}
