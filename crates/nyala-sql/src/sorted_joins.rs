//! Joins that have no memory for one of their sides: both are sorted instead, which the disk can help with, and merged.
//!
//! A hash join is faster, so it is tried first. Keys that a merge cannot compare as a hash join does stay with it: numbers with
//! NaN, and what is not listed in [`compared_as`].

use arrow_schema::{DataType, SortOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The plan with joins that sort both of their sides; `None` if it has none that could.
pub(crate) fn sorted_joins(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sorted = plan.clone().transform_up(|node| {
        let sorted = node.downcast_ref::<HashJoinExec>().map(sorted).transpose()?.flatten();
        Ok(sorted.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(sorted.transformed.then_some(sorted.data))
}

/// Whether a plan has a join that may need more memory than there is.
pub(crate) fn has_hash_join(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.downcast_ref::<HashJoinExec>().is_some()))
}

/// The same join of sorted rows, whose rows come in one stream.
fn sorted(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if join.null_aware {
        return Ok(None);
    }
    let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
    let mut on = Vec::with_capacity(join.on.len());
    for (left, right) in &join.on {
        let (of_left, of_right) = (left.data_type(&left_schema)?, right.data_type(&right_schema)?);
        // A merge takes both to be of one type.
        let is_same = values_type(&of_left) == values_type(&of_right);
        let Some(compared) = compared_as(&of_left).filter(|_| is_same) else { return Ok(None) };
        on.push((cast(left, &of_left, &compared), cast(right, &of_right, &compared)));
    }
    let options = vec![SortOptions::default(); on.len()];
    let side = |plan: &Arc<dyn ExecutionPlan>, keys: Vec<Arc<dyn PhysicalExpr>>| {
        let keys = keys.into_iter().map(|key| PhysicalSortExpr::new(key, SortOptions::default()));
        LexOrdering::new(keys).map(|keys| sorted_by(keys, in_one_stream(plan)))
    };
    let (left_keys, right_keys) = on.iter().cloned().unzip();
    let (Some(left), Some(right)) = (side(&join.left, left_keys), side(&join.right, right_keys)) else {
        return Ok(None);
    };
    // A condition without columns is there to stop a hash join; a merge cannot evaluate it, and gives rows as it goes.
    let filter = join.filter.clone().filter(|own| !own.column_indices().is_empty());
    let (join_type, null_equality) = (join.join_type, join.null_equality);
    let merged = SortMergeJoinExec::try_new(left, right, on, filter, join_type, options, null_equality)?;
    let mut merged: Arc<dyn ExecutionPlan> = Arc::new(merged);
    if let Some(projection) = &join.projection {
        let schema = merged.schema();
        let column = |place: &usize| {
            let name = schema.field(*place).name();
            (Arc::new(Column::new(name, *place)) as Arc<dyn PhysicalExpr>, name.clone())
        };
        let shown: Vec<_> = projection.iter().map(column).collect();
        merged = Arc::new(ProjectionExec::try_new(shown, merged)?);
    }
    if let Some(order) = join.properties().output_ordering() {
        // Whoever asked for this order relies on it.
        merged = sorted_by(order.clone(), merged);
    }
    if let Some(most) = join.fetch() {
        merged = Arc::new(GlobalLimitExec::new(merged, 0, Some(most)));
    }
    Ok(Some(merged))
}

fn sorted_by(order: LexOrdering, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(SortExec::new(order, plan))
}

fn in_one_stream(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan.clone(),
        _ => Arc::new(CoalescePartitionsExec::new(plan.clone())),
    }
}

fn cast(key: &Arc<dyn PhysicalExpr>, own: &DataType, compared: &DataType) -> Arc<dyn PhysicalExpr> {
    match own == compared {
        true => key.clone(),
        false => Arc::new(CastExpr::new(key.clone(), compared.clone(), None)),
    }
}

fn values_type(own: &DataType) -> &DataType {
    match own {
        DataType::Dictionary(_, values) => values,
        _ => own,
    }
}

/// The type that a merge compares values of a type as; `None` if it cannot.
fn compared_as(own: &DataType) -> Option<DataType> {
    match values_type(own) {
        // It knows no zones.
        DataType::Timestamp(..) => Some(DataType::Int64),
        own if own.is_integer() || own.is_string() => Some(own.clone()),
        own @ (DataType::Boolean
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Decimal128(..)
        | DataType::Date32) => Some(own.clone()),
        _ => None,
    }
}
