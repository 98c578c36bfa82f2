//! Joins that have no memory for one of their sides: both are sorted instead, which the disk can help with, and merged.
//!
//! A hash join is faster, so it is tried first. Keys that a merge cannot compare as a hash join does stay with it: numbers with
//! NaN, and what is not listed in [`compared_as`].

use arrow_schema::{DataType, Schema, SortOptions};
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
        match (comparable(left, &left_schema)?, comparable(right, &right_schema)?) {
            (Some(left), Some(right)) => on.push((left, right)),
            _ => return Ok(None),
        }
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
    let (filter, join_type, null_equality) = (join.filter.clone(), join.join_type, join.null_equality);
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

/// A key, or what it is compared as; `None` if it cannot be.
fn comparable(key: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let own = key.data_type(schema)?;
    Ok(compared_as(&own).map(|compared| match compared == own {
        true => key.clone(),
        false => Arc::new(CastExpr::new(key.clone(), compared, None)) as Arc<dyn PhysicalExpr>,
    }))
}

/// The type that a merge compares values of a type as.
fn compared_as(own: &DataType) -> Option<DataType> {
    match own {
        DataType::Dictionary(_, values) => compared_as(values),
        // It knows no zones.
        DataType::Timestamp(..) => Some(DataType::Int64),
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Decimal128(..)
        | DataType::Date32 => Some(own.clone()),
        _ => None,
    }
}
