//! Joins that end when their statement is stopped, and leave their thread to others, in the middle of what they compute.
//!
//! A join whose condition no pair of rows satisfies, or that only asks whether there is a pair, can compare rows for hours
//! before it has one to give, all within one poll: neither `statement_timeout` nor KILL would reach it, and a few of them would
//! take all threads of the server. But it evaluates its condition for some thousands of pairs after the other, so that is where
//! it is stopped, and where a thread that others wait for is handed over.

use crate::error::outside;
use crate::execution::Execution;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;
use nyala_exec::running::Query;
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long one poll may keep a thread that others wait for.
const TURN: Duration = Duration::from_millis(20);
/// How long the thread rests then: long enough for another one to take its place.
const HAND_OVER: Duration = Duration::from_millis(1);

thread_local! {
    /// The join that this thread polls.
    static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
}

/// A poll of a join.
struct Polled {
    query: Option<Arc<Query>>,
    begun: Instant,
}

/// The node if it is a join that may compute for long before it has a row, so that it can be stopped; `None` for others.
pub(crate) fn stoppable(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let join: Arc<dyn ExecutionPlan> = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = match join.filter() {
            Some(filter) => stopping(filter),
            None if only_asks(*join.join_type()) && !join.null_aware => always(),
            None => return Ok(None),
        };
        Arc::new(join.builder().with_filter(Some(filter)).build()?)
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(stopping(filter))).build()?)
    } else {
        return Ok(None);
    };
    Ok(Some(Arc::new(StoppableJoin { join })))
}

/// Whether a join gives rows of one side, of which it asks whether there are others.
fn only_asks(join_type: JoinType) -> bool {
    !matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

fn stopping(filter: &JoinFilter) -> JoinFilter {
    let expression = Arc::new(Stopping { inner: filter.expression().clone() });
    JoinFilter::new(expression, filter.column_indices().to_vec(), filter.schema().clone())
}

/// A condition that every pair satisfies.
fn always() -> JoinFilter {
    let inner = Arc::new(Literal::new(ScalarValue::Boolean(Some(true))));
    JoinFilter::new(Arc::new(Stopping { inner }), Vec::new(), Arc::new(Schema::empty()))
}

/// The condition of a join, before each evaluation of which the join may be stopped.
#[derive(Debug, Clone)]
struct Stopping {
    inner: Arc<dyn PhysicalExpr>,
}

impl Stopping {
    fn pause() -> Result<()> {
        POLLED.with_borrow_mut(|polled| {
            let Some(polled) = polled else { return Ok(()) };
            if let Some(query) = &polled.query {
                query.check().map_err(outside)?;
            }
            if polled.begun.elapsed() >= TURN {
                polled.begun = Instant::now();
                hand_over();
            }
            Ok(())
        })
    }
}

/// Lets another thread go on with the tasks that wait for this one. Once is enough: a thread that has handed them over has none.
fn hand_over() {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(|| std::thread::sleep(HAND_OVER));
    }
}

impl PartialEq for Stopping {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Stopping {}

impl Hash for Stopping {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Stopping {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.inner.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Self::pause()?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| self.inner.clone());
        Ok(Arc::new(Self { inner }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// A join whose condition knows which statement it belongs to.
#[derive(Debug)]
struct StoppableJoin {
    join: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for StoppableJoin {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoppableJoin")
    }
}

impl ExecutionPlan for StoppableJoin {
    fn name(&self) -> &str {
        "StoppableJoin"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.join]
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
        let join = children.pop().unwrap_or_else(|| self.join.clone());
        Ok(Arc::new(Self { join }))
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let query = Execution::of(&context).ok().and_then(|execution| execution.context().query.clone());
        Ok(Box::pin(StoppableRows { rows: self.join.execute(task, context)?, query }))
    }
}

struct StoppableRows {
    rows: SendableRecordBatchStream,
    query: Option<Arc<Query>>,
}

impl RecordBatchStream for StoppableRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Stream for StoppableRows {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        /// Puts back what the thread polled before, also if the join panics.
        struct Restored(Option<Polled>);

        impl Drop for Restored {
            fn drop(&mut self) {
                POLLED.set(self.0.take());
            }
        }

        let own = self.get_mut();
        let polled = Polled { query: own.query.clone(), begun: Instant::now() };
        let _restored = Restored(POLLED.replace(Some(polled)));
        own.rows.as_mut().poll_next(context)
    }
}
