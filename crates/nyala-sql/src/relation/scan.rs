//! Reading a table: the node of a plan, and the stream of its rows.
//!
//! A plan may be executed many times, so the node holds nothing of a single execution: the snapshot is taken when the first
//! row is asked for. Rows come in order of the key, forwards or backwards. Where the order does not matter to what reads it, a
//! large table is read in parts, side by side.

use super::RelationTable;
use super::columns::TableColumns;
use super::filter::Conditions;
use super::index_range::IndexRange;
use super::prefilter::PushedTests;
use super::reading::{Reading, TableRead};
use crate::execution::Execution;
use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::TryStreamExt;
use nyala_core::store::Direction;
use std::fmt;
use std::sync::Arc;

/// Parts with fewer rows are not worth a task of their own.
const ROWS_PER_PART_MIN: usize = 32 << 10;

/// Rows of a table, as a node of a plan.
#[derive(Clone)]
pub(super) struct RelationScan {
    read: TableRead,
    properties: Arc<PlanProperties>,
}

impl RelationScan {
    pub(super) fn new(
        of: RelationTable,
        projection: Vec<usize>,
        conditions: Conditions,
        limit: Option<usize>,
        rows: Option<usize>,
    ) -> Result<Self> {
        let RelationTable { catalog, name, table, columns, indexes } = of;
        let schema = Arc::new(columns.schema.project(&projection)?);
        let direction = Direction::Forward;
        let order = key_order(&columns, &projection, conditions.keys.fixed, direction);
        let (parts, properties) = (1, properties(schema, order, 1));
        let since = |index| catalog.relations().index_since(index);
        let index = IndexRange::of(&indexes, &columns, &conditions, since).map(Arc::new);
        let (projection, conditions) = (projection.into(), Arc::new(conditions));
        let tests = PushedTests::default();
        let read = TableRead {
            catalog,
            name,
            table,
            columns,
            projection,
            conditions,
            index,
            direction,
            limit,
            rows,
            parts,
            tests,
        };
        Ok(Self { read, properties })
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

fn properties(schema: SchemaRef, order: Vec<PhysicalSortExpr>, parts: usize) -> Arc<PlanProperties> {
    let mut equivalences = EquivalenceProperties::new(schema);
    equivalences.add_orderings(LexOrdering::new(order));
    let partitioning = Partitioning::UnknownPartitioning(parts);
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
        write!(f, "TableScan: table={}, columns=[{}]", self.read.name, names.join(", "))?;
        if !self.read.conditions.keys.is_all() {
            write!(f, ", keys={}", self.read.conditions.keys)?;
        }
        if let Some(own) = &self.read.index {
            write!(f, ", index={} ({})", own.index.name, own.entries)?;
        }
        if !self.read.conditions.shown.is_empty() {
            write!(f, ", conditions=[{}]", self.read.conditions.shown.join(", "))?;
        }
        if self.read.direction == Direction::Backward {
            f.write_str(", backwards")?;
        }
        if self.read.parts > 1 {
            write!(f, ", parts={}", self.read.parts)?;
        }
        match self.read.limit {
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
        if let Some(rows) = self.read.rows {
            let is_filtered = !self.read.conditions.shown.is_empty();
            // A guess that makes the planner prefer what is filtered.
            let rows = if is_filtered { rows / 10 } else { rows };
            let one_each =
                self.read.index.as_ref().filter(|own| own.is_unique).map(|own| own.entries.count());
            let rows = rows.min(one_each.unwrap_or(usize::MAX));
            statistics.num_rows = Precision::Inexact(rows.min(self.read.limit.unwrap_or(usize::MAX)));
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let read = TableRead { limit, ..self.read.clone() };
        Some(Arc::new(Self { read, properties: self.properties.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.read.limit
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if self.read.limit.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let backwards = Direction::Backward;
        let own =
            key_order(&self.read.columns, &self.read.projection, self.read.conditions.keys.fixed, backwards);
        let properties = properties(self.schema(), own, self.read.parts);
        match properties.eq_properties.ordering_satisfy(order.iter().cloned())? {
            true => {
                let read = TableRead { direction: backwards, ..self.read.clone() };
                let inner = Arc::new(Self { read, properties });
                Ok(SortOrderPushdownResult::Exact { inner })
            }
            false => Ok(SortOrderPushdownResult::Unsupported),
        }
    }

    fn repartitioned(&self, most: usize, _: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let parts = most.min(self.read.rows.unwrap_or(0) / ROWS_PER_PART_MIN);
        let is_found = self.read.index.as_ref().is_some_and(|own| own.is_unique);
        if parts <= self.read.parts || self.read.limit.is_some() || is_found {
            return Ok(None);
        }
        let (fixed, direction) = (self.read.conditions.keys.fixed, self.read.direction);
        let order = key_order(&self.read.columns, &self.read.projection, fixed, direction);
        let properties = properties(self.schema(), order, parts);
        let read = TableRead { parts, ..self.read.clone() };
        Ok(Some(Arc::new(Self { read, properties })))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let tests: Vec<_> = pushed.parent_filters.into_iter().map(|own| own.filter).collect();
        let answer =
            FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; tests.len()]);
        if tests.is_empty() {
            return Ok(answer);
        }
        let read = TableRead { tests: self.read.tests.with(phase, tests), ..self.read.clone() };
        Ok(answer.with_updated_node(Arc::new(Self { read, properties: self.properties.clone() })))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let read = TableRead { tests: self.read.tests.of_plan(), ..self.read.clone() };
        Ok(Arc::new(Self { read, properties: self.properties.clone() }))
    }

    fn execute(&self, part: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (read, execution) = (self.read.clone(), Execution::of(&context)?);
        let schema = self.schema();
        let opened = futures::stream::once(async move {
            let reading = Reading::open((read, schema), part, execution.clone()).await?;
            let reading = (reading, execution);
            Ok::<_, DataFusionError>(futures::stream::try_unfold(
                reading,
                |(mut reading, execution)| async move {
                    let batch = execution.long_texts().checked(reading.next().await?)?;
                    Ok(batch.map(|batch| (batch, (reading, execution))))
                },
            ))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), opened.try_flatten())))
    }
}
