//! Aggregates of a measurement by tags and buckets of time, which the store computes on its own blocks.
//!
//! [`rule`] finds such aggregates in plans, [`computing`] asks the store for them, [`columns`] makes rows of its answer.
//! This file is the node of the plan. Some things are only known when it is executed: how many buckets there are, and
//! whether there is memory for the states of all of them. If it does not pay to ask the store, the node does what the plan
//! did before.

mod columns;
mod computing;
mod rule;

pub(crate) use rule::PushDownAggregates;

use super::scan::{MeasurementScan, properties};
use crate::buckets::Buckets;
use crate::execution::Execution;
use computing::Computing;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};
use nyala_core::ColumnId;
use nyala_core::store::AggregateFunction;
use std::fmt;
use std::sync::Arc;

/// Aggregates by tags and buckets, as a node of a plan.
#[derive(Clone)]
pub(super) struct MeasurementAggregate {
    scan: MeasurementScan,
    grouping: Arc<Grouping>,
    /// The order of the groups, if they must have one.
    order: Option<GroupOrder>,
    /// The most groups.
    limit: Option<usize>,
    /// The same aggregates, computed from rows.
    ordinary: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is computed of which groups, in the order of the columns of the answer.
#[derive(Debug)]
pub(super) struct Grouping {
    keys: Vec<Key>,
    aggregates: Vec<Aggregate>,
}

/// What rows are grouped by.
#[derive(Debug, Clone, PartialEq)]
enum Key {
    /// The value of a tag.
    Tag(String),
    /// The bucket of the time.
    Bucket(Buckets),
}

/// A function of the rows of a group.
#[derive(Debug, Clone, Copy)]
struct Aggregate {
    function: Function,
    /// The column of the store.
    column: ColumnId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Count,
    Sum,
    Mean,
    Min,
    Max,
    First,
    Last,
}

impl Function {
    fn measure(self) -> AggregateFunction {
        match self {
            Function::Count => AggregateFunction::Count,
            Function::Sum | Function::Mean => AggregateFunction::Sum,
            Function::Min => AggregateFunction::Min,
            Function::Max => AggregateFunction::Max,
            Function::First => AggregateFunction::First,
            Function::Last => AggregateFunction::Last,
        }
    }
}

/// The order of groups.
#[derive(Debug, Clone)]
struct GroupOrder {
    written: LexOrdering,
    /// The tags, by their positions among the keys, in the order in which they are compared.
    tags: Vec<(usize, Direction)>,
    /// Where the bucket is compared: before the tags, or behind them.
    bucket: Option<(Place, bool)>,
}

#[derive(Debug, Clone, Copy)]
struct Direction {
    is_descending: bool,
    /// Whether groups without the tag come first.
    nulls_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Last,
}

impl MeasurementAggregate {
    /// `ordinary` gives the same answer from rows, in one partition.
    fn new(scan: MeasurementScan, grouping: Grouping, ordinary: Arc<dyn ExecutionPlan>) -> Self {
        let properties = properties(EquivalenceProperties::new(ordinary.schema()), 1);
        let (grouping, metrics) = (Arc::new(grouping), ExecutionPlanMetricsSet::new());
        Self { scan, grouping, order: None, limit: None, ordinary, properties, metrics }
    }

    /// What computes the answer from rows, in the same order.
    fn ordinary(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let ordinary = reset_plan_states(self.ordinary.clone())?;
        Ok(match (&self.order, self.limit) {
            (Some(order), limit) => {
                Arc::new(SortExec::new(order.written.clone(), ordinary).with_fetch(limit))
            }
            (None, Some(_)) => Arc::new(GlobalLimitExec::new(ordinary, 0, self.limit)),
            (None, None) => ordinary,
        })
    }

    fn order_of(&self, written: &[PhysicalSortExpr]) -> Option<GroupOrder> {
        let written = LexOrdering::new(written.to_vec())?;
        let (mut tags, mut bucket, mut compared) = (Vec::new(), None, 0);
        for by in &written {
            let position = by.expr.downcast_ref::<Column>()?.index();
            let is_descending = by.options.descending;
            match self.grouping.keys.get(position)? {
                Key::Tag(_) => {
                    tags.push((position, Direction { is_descending, nulls_first: by.options.nulls_first }));
                }
                Key::Bucket(_) => {
                    let place = if compared == 0 { Place::First } else { Place::Last };
                    bucket = Some((place, is_descending, compared));
                }
            }
            compared += 1;
        }
        let bucket = match bucket {
            // In between, the groups of some tags would have to be merged.
            Some((Place::Last, _, at)) if at + 1 < compared => return None,
            // Groups that are equal so far would have to be merged too.
            Some((Place::Last, ..)) if tags.len() + 1 < self.grouping.keys.len() => return None,
            Some((place, is_descending, _)) => Some((place, is_descending)),
            None => None,
        };
        Some(GroupOrder { written, tags, bucket })
    }
}

impl fmt::Debug for MeasurementAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for MeasurementAggregate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (keys, aggregates) = names.split_at(self.grouping.keys.len());
        write!(
            f,
            "MeasurementAggregate: measurement={}, groups=[{}], aggregates=[{}]",
            self.scan.measurement.name(),
            keys.join(", "),
            aggregates.join(", ")
        )?;
        self.scan.write_conditions(f)?;
        if let Some(order) = &self.order {
            write!(f, ", order=[{}]", order.written)?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for MeasurementAggregate {
    fn name(&self) -> &str {
        "MeasurementAggregate"
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

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self { limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn try_pushdown_sort(
        &self,
        written: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let Some(order) = self.order_of(written) else { return Ok(SortOrderPushdownResult::Unsupported) };
        let mut equivalences = EquivalenceProperties::new(self.schema());
        equivalences.add_ordering(order.written.clone());
        let properties = properties(equivalences, 1);
        let inner = Arc::new(Self { order: Some(order), properties, ..self.clone() });
        Ok(SortOrderPushdownResult::Exact { inner })
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (aggregate, execution) = (self.clone(), Execution::of(&context)?);
        let metrics = BaselineMetrics::new(&self.metrics, task);
        let opened = futures::stream::once(async move {
            let begun = metrics.elapsed_compute().clone();
            let computing = {
                let _timer = begun.timer();
                Computing::begin(&aggregate, execution).await?
            };
            match computing {
                Some(computing) => {
                    let rows =
                        futures::stream::try_unfold((computing, metrics), |(mut own, metrics)| async {
                            let timer = metrics.elapsed_compute().timer();
                            let next = own.next().await?;
                            timer.done();
                            Ok(next.map(|rows| {
                                metrics.record_output(rows.num_rows());
                                (rows, (own, metrics))
                            }))
                        });
                    Ok::<_, DataFusionError>(rows.boxed())
                }
                None => {
                    let rows = aggregate.ordinary()?.execute(0, context)?;
                    Ok(rows.map_ok(move |rows| rows.record_output(&metrics)).boxed())
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), opened.try_flatten())))
    }
}
