//! Parameters of plans: their types, found by the places that they stand in, and their values.

use crate::common_type::{compared_decimal, typed_by_others, wide_decimal};
use crate::constant::constant;
use crate::error::SqlResult;
use crate::placeholder::number_of;
use crate::walk::{Walk, WalkPlan};
use arrow_schema::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Limit, LogicalPlan, Operator};
use std::sync::Arc;

/// The plan with values instead of parameters.
pub(crate) fn with_values(plan: LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    let plan = plan.with_param_values(ParamValues::from(values))?;
    plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Limit(Limit { skip, fetch, input }) => {
            let (skip, fetch) = (skip.map(computed).transpose()?, fetch.map(computed).transpose()?);
            Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch, input })))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The number of rows that an expression gives: DataFusion takes no other limits than literals.
fn computed(expression: Box<Expr>) -> Result<Box<Expr>> {
    let is_literal = matches!(*expression, Expr::Literal(..));
    if is_literal || !expression.column_refs().is_empty() || expression.contains_scalar_subquery() {
        return Ok(expression);
    }
    let value = constant(&expression, &[])?;
    Ok(match value.data_type() {
        data_type if data_type.is_integer() || data_type.is_null() => {
            Box::new(Expr::Literal(value.cast_to(&DataType::Int64)?, None))
        }
        _ => expression,
    })
}

/// What is known of the types of the parameters of a plan.
pub(crate) fn parameter_types(
    plan: &LogicalPlan,
    given: &[Option<DataType>],
) -> SqlResult<Vec<Option<DataType>>> {
    let mut types: Vec<Option<DataType>> = given.to_vec();
    let (planned, placed) = (typed_by_planner(plan)?, typed_by_place(plan)?);
    // The first place that tells a type decides, as in PostgreSQL.
    for (number, data_type) in planned.into_iter().chain(placed) {
        if types.len() < number {
            types.resize(number, None);
        }
        let known = &mut types[number - 1];
        *known = known.take().or(data_type.map(plain));
    }
    for number in limits(plan)? {
        // Even if the client declared a shorter integer: a limit cannot be converted while it is executed.
        types[number - 1] = Some(DataType::Int64);
    }
    Ok(types)
}

/// Text as clients send it, for a column that stores it in another form.
fn plain(data_type: DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(*values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other,
    }
}

/// All parameters, in their order, with the types that the planner found for them at each of their places.
fn typed_by_planner(plan: &LogicalPlan) -> SqlResult<Vec<(usize, Option<DataType>)>> {
    let mut found = Vec::new();
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|expression| {
            expression.each(&mut |inner| {
                match inner {
                    Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.is_numerical_operators() => {
                        found.extend(beside_decimals([&**left, &**right], wide_decimal)?);
                    }
                    Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                        found.extend(beside_decimals([&**left, &**right], compared_decimal)?);
                    }
                    Expr::Between(between) => {
                        found.extend(beside_decimals([&*between.low, &*between.high], compared_decimal)?);
                    }
                    Expr::InList(InList { list, .. }) => {
                        found.extend(beside_decimals(list, compared_decimal)?);
                    }
                    Expr::Placeholder(Placeholder { id, field }) => {
                        let data_type = field.as_ref().map(|field| field.data_type().clone());
                        found.push((number_of(id)?, data_type));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Parameters beside decimals: they may have more digits than those.
fn beside_decimals<'a>(
    operands: impl IntoIterator<Item = &'a Expr>,
    type_beside: fn(&DataType) -> DataType,
) -> Result<Vec<(usize, Option<DataType>)>> {
    let mut found = Vec::new();
    for operand in operands {
        if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = operand
            && field.data_type().is_decimal()
        {
            found.push((number_of(id)?, Some(type_beside(field.data_type()))));
        }
    }
    Ok(found)
}

/// The parameters whose place tells their type although the planner does not say it: `$1::type` is of that type, and in
/// `x = ANY($1)` it is an array of what `x` is.
fn typed_by_place(plan: &LogicalPlan) -> SqlResult<Vec<(usize, Option<DataType>)>> {
    let mut found = Vec::new();
    plan.each_with_subqueries(&mut |node| {
        let mut schema = DFSchema::empty();
        node.inputs().iter().for_each(|input| schema.merge(input.schema()));
        node.apply_expressions(|expression| {
            expression.each(&mut |inner| {
                let (parameter, data_type) = match inner {
                    Expr::Cast(Cast { expr, field }) => (&**expr, field.data_type().clone()),
                    Expr::ScalarFunction(call) if call.name() == "array_has" && call.args.len() == 2 => {
                        // A type that is not known yet is found by the planner, or its error is.
                        let Ok(element) = call.args[1].get_type(&schema) else {
                            return Ok(TreeNodeRecursion::Continue);
                        };
                        let element = match plain(element) {
                            // Elements may have more digits than what they are compared with.
                            decimal if decimal.is_decimal() => compared_decimal(&decimal),
                            other => other,
                        };
                        (&call.args[0], DataType::new_list(element, true))
                    }
                    other => {
                        for (parameter, data_type) in typed_by_others(other, &schema)? {
                            found.push((number_of(&parameter)?, Some(data_type)));
                        }
                        return Ok(TreeNodeRecursion::Continue);
                    }
                };
                if let Expr::Placeholder(placeholder) = parameter {
                    found.push((number_of(&placeholder.id)?, Some(data_type)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// The parameters that say how many rows come.
fn limits(plan: &LogicalPlan) -> SqlResult<Vec<usize>> {
    let mut found = Vec::new();
    let mut failed = None;
    plan.each_with_subqueries(&mut |node| {
        if let LogicalPlan::Limit(limit) = node {
            for expression in [&limit.skip, &limit.fetch].into_iter().flatten() {
                expression.each(&mut |inner| {
                    if let Expr::Placeholder(placeholder) = inner {
                        match number_of(&placeholder.id) {
                            Ok(number) => found.push(number),
                            Err(error) => failed = Some(error),
                        }
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    failed.map_or(Ok(found), Err)
}

/// The plan with the types of its parameters.
pub(crate) fn with_types(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    if types.is_empty() {
        return Ok(plan);
    }
    let typed = plan.changed_up_with_subqueries(&mut |node| {
        node.with_changed_expressions(&mut |expression| {
            expression.changed_up(&mut |inner| {
                let Expr::Placeholder(mut placeholder) = inner else {
                    return Ok(datafusion::common::tree_node::Transformed::no(inner));
                };
                let data_type = types[number_of(&placeholder.id)? - 1].clone();
                placeholder.field = Some(Arc::new(Field::new("", data_type, true)));
                Ok(datafusion::common::tree_node::Transformed::yes(Expr::Placeholder(placeholder)))
            })
        })
    })?;
    typed.data.recompute_schema()
}
