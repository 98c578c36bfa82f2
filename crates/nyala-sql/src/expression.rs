//! Expressions over rows that are in memory: defaults, checks, what ON CONFLICT sets, what RETURNING gives.

use crate::arithmetic::checked as with_checks;
use crate::common_type::unified;
use crate::distinct_from;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::floats::compared_as_floats;
use crate::parser_dialect::SqlDialect;
use crate::walk::Walk;
use crate::whole_numbers::narrowed_expression;
use arrow_array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;

/// Reads the text of an expression that was stored.
pub(crate) fn parsed(text: &str) -> SqlResult<ast::Expr> {
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text)?;
    let mut expression = parser.parse_expr()?;
    distinct_from::repair(&mut expression);
    Ok(expression)
}

/// How expressions get forms that the planner knows: an extension of its configuration.
pub(crate) struct KnownForms {
    pub(crate) written: fn(ast::Expr) -> ast::Expr,
    /// What the rules of the analyzer make of an expression, in a zone.
    pub(crate) planned: fn(Expr, &DFSchema, &str) -> Result<Expr>,
}

/// An expression over rows of a schema.
///
/// # Errors
/// If it names columns that are not there, or asks for more than the rows.
pub(crate) fn planned(state: &SessionState, written: &ast::Expr, schema: &DFSchema) -> SqlResult<Expr> {
    let expr = match state.config().get_extension::<KnownForms>() {
        Some(forms) => (forms.written)(written.clone()),
        None => written.clone(),
    };
    let with_alias = ast::ExprWithAlias { expr, alias: None };
    let planned = state.create_logical_expr_from_sql_expr(with_alias, schema)?;
    let mut refused = None;
    planned.each(&mut |inner| {
        match inner {
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
                refused = Some(SqlError::unsupported("a subquery in an expression of this kind"));
            }
            Expr::AggregateFunction(_) => {
                let words = "aggregate functions are not allowed here";
                refused = Some(SqlError::new(SqlState::GROUPING_ERROR, words));
            }
            Expr::WindowFunction(_) => {
                let words = "window functions are not allowed here";
                refused = Some(SqlError::new(SqlState::WINDOWING_ERROR, words));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if let Some(error) = refused {
        return Err(error);
    }
    Ok(narrowed_expression(planned.infer_placeholder_types(schema)?.0, schema)?.data)
}

/// What computes a planned expression, with the values of parameters.
pub(crate) fn compiled(
    state: &SessionState,
    planned: Expr,
    schema: &DFSchema,
    parameters: &[ScalarValue],
) -> SqlResult<Arc<dyn PhysicalExpr>> {
    let bound = planned.changed_up(&mut |inner| match &inner {
        Expr::Placeholder(placeholder) => {
            let number: Option<usize> = placeholder.id.strip_prefix('$').and_then(|id| id.parse().ok());
            match number.and_then(|number| parameters.get(number.wrapping_sub(1))) {
                Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
                None => Err(SqlError::new(
                    SqlState::UNKNOWN_PARAMETER,
                    format!("there is no parameter {}", placeholder.id),
                )
                .into()),
            }
        }
        _ => Ok(Transformed::no(inner)),
    })?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(state.config_options().clone())
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let unified = unified(bound.data, schema)?;
    let compared = compared_as_floats(unified.data, schema)?;
    let coerced = simplifier.coerce(compared.data, schema)?;
    let zone = state.config_options().execution.time_zone.as_deref().unwrap_or("UTC");
    let known = match state.config().get_extension::<KnownForms>() {
        Some(forms) => (forms.planned)(coerced, schema, zone)?,
        None => coerced,
    };
    let simplified = simplifier.simplify(with_checks(known, schema)?.data)?;
    Ok(state.create_physical_expr(simplified, schema)?)
}

/// The value of an expression for every row.
pub(crate) fn evaluated(expression: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> SqlResult<ArrayRef> {
    Ok(expression.evaluate(rows)?.into_array(rows.num_rows())?)
}

/// The type of an expression over rows of a schema, and whether it may be NULL.
pub(crate) fn type_of(planned: &Expr, schema: &DFSchema) -> SqlResult<(arrow_schema::DataType, bool)> {
    Ok((planned.get_type(schema)?, planned.nullable(schema)?))
}

/// Whether an operator compares its operands.
pub(crate) fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}
