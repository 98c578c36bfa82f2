//! Values of expressions without any row.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::placeholder::number_of;
use crate::walk::Walk;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// The value of an expression of an optimised plan, with the values of the parameters that it still names.
pub(crate) fn constant(expression: &Expr, values: &[ScalarValue]) -> SqlResult<ScalarValue> {
    if let Expr::Literal(value, _) = expression {
        return Ok(value.clone());
    }
    let bound = expression.clone().changed_up(&mut |inner| match &inner {
        Expr::Placeholder(placeholder) => {
            let value = number_of(&placeholder.id).ok().and_then(|number| values.get(number - 1));
            let value = value.ok_or_else(|| {
                let words = format!("there is no parameter {}", placeholder.id);
                DataFusionError::from(SqlError::new(SqlState::UNKNOWN_PARAMETER, words))
            })?;
            Ok(Transformed::yes(Expr::Literal(value.clone(), None)))
        }
        _ => Ok(Transformed::no(inner)),
    });
    let (properties, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let physical = create_physical_expr(&bound.data()?, &DFSchema::empty(), &properties, &planning)?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
    let computed = physical.evaluate(&row.map_err(DataFusionError::from)?)?.into_array(1)?;
    Ok(ScalarValue::try_from_array(&computed, 0)?)
}
