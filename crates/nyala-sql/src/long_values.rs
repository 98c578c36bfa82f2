//! Long values: a constant stands in each row of a batch, and takes the memory for that. Where constants are long, or functions
//! make long texts, batches have fewer rows.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// The most rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8192;
/// This part (1/256) of the memory of a statement is for a batch of sorted rows.
const MERGED_SHARE: usize = 256;
/// The fewest rows of such a batch.
const MERGED_ROWS_MIN: usize = 256;
/// How many bytes a text probably has.
const GUESSED_TEXT_BYTES: usize = 64;
/// What the constants of a batch may take, and long texts that were read.
pub(crate) const BATCH_BYTES: usize = 32 << 20;

/// How many rows the batches of a plan may have.
pub(crate) fn batch_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut rows = BATCH_ROWS;
    plan.apply(|node| {
        rows = rows.min(rows_beside_long_values(&**node)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

/// How many rows the batches of a plan may have that sorts or groups with so much memory: of each file that is merged two batches are
/// read, twice as large while they are compared, and several files are merged by each of several tasks.
pub(crate) fn rows_beside_files(plan: &Arc<dyn ExecutionPlan>, memory_bytes: usize) -> usize {
    let mut rows = BATCH_ROWS;
    // It never fails.
    let _ = plan.apply(|node| {
        let sorts = node.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
        if sorts || node.is::<AggregateExec>() {
            let inputs = node.children();
            let fields =
                inputs.iter().flat_map(|input| input.schema().fields().iter().cloned().collect::<Vec<_>>());
            let width: usize = fields.map(|field| guessed_width(field.data_type())).sum();
            rows = rows.min(memory_bytes / MERGED_SHARE / width.max(1));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    rows.max(MERGED_ROWS_MIN)
}

/// How many bytes a value of a type probably has.
fn guessed_width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(GUESSED_TEXT_BYTES)
}

/// The plan with so few rows in its batches, if it is executed with so few.
pub(crate) fn cut(plan: Arc<dyn ExecutionPlan>, rows: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let cut = plan.transform_up(|node| {
        Ok(match node.children().is_empty() {
            true => Transformed::yes(Arc::new(CutExec { input: node, rows }) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    });
    filtering_batches(cut.data()?, rows)
}

/// Has filters, which do not ask the execution for it, gather so many rows.
fn filtering_batches(plan: Arc<dyn ExecutionPlan>, rows: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        Ok(match node.downcast_ref::<FilterExec>() {
            Some(filter) => {
                Transformed::yes(Arc::new(filter.with_batch_size(rows)?) as Arc<dyn ExecutionPlan>)
            }
            None => Transformed::no(node),
        })
    });
    changed.data()
}

/// Whether batches of a plan have fewer rows. Then the plan takes more memory, too, than one that is kept should.
pub(crate) fn has_long_values(plan: &Arc<dyn ExecutionPlan>) -> bool {
    batch_rows(plan).is_ok_and(|rows| rows < BATCH_ROWS)
}

/// Functions whose texts are as long as a number says, and …
const LENGTHENING: [&str; 3] = ["lpad", "repeat", "rpad"];
/// … how many rows they are computed for at once.
const LENGTHENED_ROWS: usize = 256;

/// How many rows a batch has room for beside the constants that a node computes with, and the texts that it makes.
fn rows_beside_long_values(node: &dyn ExecutionPlan) -> Result<usize> {
    let (mut bytes, mut most) = (0, BATCH_ROWS);
    node.apply_expressions(&mut |expression: &Arc<dyn PhysicalExpr>| {
        expression.apply(|inner| {
            if let Some(constant) = inner.downcast_ref::<Literal>() {
                bytes += constant.value().size() - size_of::<ScalarValue>();
            }
            if let Some(call) = inner.downcast_ref::<ScalarFunctionExpr>()
                && LENGTHENING.contains(&call.name())
            {
                most = LENGTHENED_ROWS;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok((BATCH_BYTES / bytes.max(1)).clamp(1, most))
}

/// The rule that puts a node that cuts batches under each node that computes long values.
#[derive(Debug)]
pub(crate) struct CutBesideLongValues;

impl PhysicalOptimizerRule for CutBesideLongValues {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan_rows = batch_rows(&plan)?;
        if plan_rows == BATCH_ROWS {
            return Ok(plan);
        }
        let cut = |node: Arc<dyn ExecutionPlan>| {
            let rows = rows_beside_long_values(&*node)?;
            if rows == BATCH_ROWS || node.children().is_empty() {
                return Ok(Transformed::no(node));
            }
            let children = node.children().into_iter().cloned();
            let children = children.map(|input| Arc::new(CutExec { input, rows }) as Arc<dyn ExecutionPlan>);
            let children = children.collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        };
        // Filters would gather more again.
        filtering_batches(plan, plan_rows)?.transform_up(cut).data()
    }

    fn name(&self) -> &str {
        "cut_beside_long_values"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Cuts batches into shorter ones.
#[derive(Debug, Clone)]
struct CutExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl DisplayAs for CutExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CutExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for CutExec {
    fn name(&self) -> &str {
        "CutExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        Ok(Arc::new(Self { input, rows: self.rows }))
    }

    fn execute(&self, task: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows;
        let whole = self.input.execute(task, context)?;
        let parts = whole.map_ok(move |batch: RecordBatch| {
            let parts = (0..batch.num_rows()).step_by(rows);
            let parts: Vec<_> =
                parts.map(|first| Ok(batch.slice(first, rows.min(batch.num_rows() - first)))).collect();
            futures::stream::iter(parts)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), parts.try_flatten())))
    }
}
