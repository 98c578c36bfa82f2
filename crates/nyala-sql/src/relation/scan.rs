//! Reading a table: the node of a plan, and the stream of its rows.
//!
//! A plan may be executed many times, so the node holds nothing of a single execution: the snapshot is taken when the first
//! row is asked for. Rows come in order of the key, forwards or backwards.

use super::columns::TableColumns;
use super::filter::Conditions;
use crate::error::{SqlError, SqlState, outside};
use crate::execution::Execution;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::cast;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::TryStreamExt;
use nyala_core::arrays::value_at;
use nyala_core::store::{Direction, Order, RowSelection, RowStream, ScanRequest, SnapshotRef};
use nyala_core::{ColumnId, TableId, Value};
use nyala_exec::Distinct;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Rows that conditions leave are read by their keys if they are at most one of so many: by its key, a row of many columns costs
/// about thirty times what it costs in a scan.
const ROWS_PER_FOUND_ROW: usize = 64;
/// The most rows that are read by their keys.
const FOUND_ROWS_MAX: usize = 256;
/// With fewer columns that neither conditions nor keys read, a scan reads hardly more than what finds the rows.
const OTHER_COLUMNS_MIN: usize = 8;

/// Rows of a table, as a node of a plan.
#[derive(Clone)]
pub(super) struct RelationScan {
    name: String,
    table: TableId,
    columns: Arc<TableColumns>,
    /// Which columns it shows.
    projection: Arc<[usize]>,
    conditions: Arc<Conditions>,
    direction: Direction,
    /// The most rows.
    limit: Option<usize>,
    /// About how many rows the table has.
    rows: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl RelationScan {
    pub(super) fn new(
        name: String,
        table: TableId,
        columns: Arc<TableColumns>,
        projection: Vec<usize>,
        conditions: Conditions,
        limit: Option<usize>,
        rows: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(columns.schema.project(&projection)?);
        let direction = Direction::Forward;
        let order = key_order(&columns, &projection, conditions.keys.fixed, direction);
        let properties = properties(schema, order);
        let (projection, conditions) = (projection.into(), Arc::new(conditions));
        Ok(Self { name, table, columns, projection, conditions, direction, limit, rows, properties })
    }

    fn shown(&self) -> impl Iterator<Item = ColumnId> {
        self.projection.iter().map(|position| self.columns.columns[*position].id)
    }

    async fn open(self, execution: Arc<Execution>) -> Result<Reading> {
        let snapshot = execution.snapshot().await.map_err(outside)?.clone();
        let mut stored = Distinct::default();
        let places: Vec<usize> = self.shown().map(|id| stored.position(id)).collect();
        let mut stored = stored.into_list();
        if stored.is_empty() {
            // Rows are counted.
            stored.push(self.columns.key[0]);
        }
        let mut selections = self.conditions.keys.selections();
        match snapshot.schema(self.table) {
            Ok(schema) => {
                // A transaction that began before a column was added cannot know what its rows have there.
                if stored.iter().any(|id| schema.column(*id).is_none()) {
                    let words = format!("table \"{}\" was altered since the transaction began", self.name);
                    return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words).into());
                }
            }
            // It was created since the transaction began, or dropped meanwhile.
            Err(_) => selections.clear(),
        }
        if self.direction == Direction::Forward {
            // The next one is taken from the end.
            selections.reverse();
        }
        let (left, schema) = (self.limit.unwrap_or(usize::MAX), self.schema());
        let mut reading =
            Reading { scan: self, schema, snapshot, stored, places, selections, left, rows: None };
        reading.find_few().await?;
        Ok(reading)
    }

    /// How many rows are few, if the scan reads many columns that are of use for few rows only.
    fn few_rows(&self) -> Option<usize> {
        let judged = |id: &ColumnId| self.conditions.predicates.iter().any(|own| own.column == *id);
        let others = self.shown().filter(|id| !judged(id) && !self.columns.key.contains(id));
        if self.conditions.predicates.is_empty() || others.count() < OTHER_COLUMNS_MIN {
            return None;
        }
        let few = (self.rows? / ROWS_PER_FOUND_ROW).min(FOUND_ROWS_MAX);
        (few > 0).then_some(few)
    }
}

/// The order that rows have which are read in order of the key: columns with one value do not matter.
fn key_order(
    columns: &TableColumns,
    projection: &[usize],
    fixed: usize,
    direction: Direction,
) -> Vec<PhysicalSortExpr> {
    let mut order = Vec::new();
    for id in &columns.key[fixed.min(columns.key.len())..] {
        let place = projection.iter().position(|position| columns.columns[*position].id == *id);
        let Some(place) = place else { break };
        let name = columns.name(projection[place]);
        let by = PhysicalSortExpr::new_default(Arc::new(Column::new(name, place)));
        order.push(match direction {
            Direction::Forward => by.asc(),
            Direction::Backward => by.desc(),
        });
    }
    order
}

fn properties(schema: SchemaRef, order: Vec<PhysicalSortExpr>) -> Arc<PlanProperties> {
    let mut equivalences = EquivalenceProperties::new(schema);
    equivalences.add_orderings(LexOrdering::new(order));
    let partitioning = Partitioning::UnknownPartitioning(1);
    Arc::new(PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded))
}

impl fmt::Debug for RelationScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RelationScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "TableScan: table={}, columns=[{}]", self.name, names.join(", "))?;
        if !self.conditions.keys.is_all() {
            write!(f, ", keys={}", self.conditions.keys)?;
        }
        if !self.conditions.shown.is_empty() {
            write!(f, ", conditions=[{}]", self.conditions.shown.join(", "))?;
        }
        if self.direction == Direction::Backward {
            f.write_str(", backwards")?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for RelationScan {
    fn name(&self) -> &str {
        "TableScan"
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

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = self.rows {
            let is_filtered = !self.conditions.shown.is_empty();
            // A guess that makes the planner prefer what is filtered.
            let rows = if is_filtered { rows / 10 } else { rows };
            statistics.num_rows = Precision::Inexact(rows.min(self.limit.unwrap_or(usize::MAX)));
        }
        Ok(Arc::new(statistics))
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
        if self.limit.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let backwards = Direction::Backward;
        let own = key_order(&self.columns, &self.projection, self.conditions.keys.fixed, backwards);
        let properties = properties(self.schema(), own);
        match properties.eq_properties.ordering_satisfy(order.iter().cloned())? {
            true => {
                let inner = Arc::new(Self { direction: backwards, properties, ..self.clone() });
                Ok(SortOrderPushdownResult::Exact { inner })
            }
            false => Ok(SortOrderPushdownResult::Unsupported),
        }
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scan, execution) = (self.clone(), Execution::of(&context)?);
        let opened = futures::stream::once(async move {
            let reading = scan.open(execution).await?;
            Ok::<_, DataFusionError>(futures::stream::try_unfold(reading, |mut reading| async move {
                let batch = reading.next().await?;
                Ok(batch.map(|batch| (batch, reading)))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), opened.try_flatten())))
    }
}

/// Rows that are being read.
struct Reading {
    scan: RelationScan,
    schema: SchemaRef,
    snapshot: SnapshotRef,
    /// The columns that the store is asked for.
    stored: Vec<ColumnId>,
    /// Per shown column its place among them.
    places: Vec<usize>,
    /// What is still to be read, the next at the end.
    selections: Vec<RowSelection>,
    /// How many rows are still wanted.
    left: usize,
    rows: Option<Box<dyn RowStream>>,
}

impl Reading {
    /// Finds the rows that conditions leave by the columns that are judged. If they are few, only they are read.
    async fn find_few(&mut self) -> Result<()> {
        let Some(few) = self.scan.few_rows() else { return Ok(()) };
        let mut keys: Vec<Vec<Value>> = Vec::new();
        for selection in self.selections.iter().rev() {
            let limit = Some((few + 1 - keys.len()).min(self.left - keys.len()));
            let columns = self.scan.columns.key.clone();
            let request = ScanRequest { columns, limit, ..self.request(selection.clone()) };
            let mut rows = self.snapshot.scan(request).await.map_err(outside)?;
            while let Some(batch) = rows.next().await.map_err(outside)? {
                let key = |row| batch.columns.iter().filter_map(|values| value_at(values, row)).collect();
                keys.extend((0..batch.rows).map(key));
                if keys.len() > few {
                    return Ok(());
                }
            }
            if keys.len() >= self.left {
                break;
            }
        }
        let one = |key: Vec<Value>| RowSelection::Keys {
            start: Bound::Included(key.clone()),
            end: Bound::Included(key),
        };
        // The next one is taken from the end.
        self.selections = keys.into_iter().rev().map(one).collect();
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if self.rows.is_none() {
                let Some(selection) = self.selections.pop() else { return Ok(None) };
                let request = self.request(selection);
                self.rows = Some(self.snapshot.scan(request).await.map_err(outside)?);
            }
            let rows = self.rows.as_mut().expect("it was just opened");
            let Some(batch) = rows.next().await.map_err(outside)? else {
                self.rows = None;
                continue;
            };
            // Also if a store does not know of limits.
            let count = batch.rows.min(self.left);
            self.left -= count;
            let columns = self.places.iter().zip(self.schema.fields());
            let columns: Vec<ArrayRef> = columns
                .map(|(place, field)| shown_as(&batch.columns[*place].slice(0, count), field.data_type()))
                .collect::<Result<_>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            return Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?));
        }
    }

    fn request(&self, selection: RowSelection) -> ScanRequest {
        ScanRequest {
            predicates: self.scan.conditions.predicates.clone(),
            order: Order::Key(self.scan.direction),
            limit: self.scan.limit.map(|_| self.left),
            ..ScanRequest::by_key(self.scan.table, selection, self.stored.clone())
        }
    }
}

/// Values of the store in the type of plans: a moment gets its zone, and a column that was given a wider type since the
/// snapshot gets that.
pub(crate) fn shown_as(values: &ArrayRef, data_type: &arrow_schema::DataType) -> Result<ArrayRef> {
    match values.data_type() == data_type {
        true => Ok(values.clone()),
        false => Ok(cast(values, data_type)?),
    }
}
