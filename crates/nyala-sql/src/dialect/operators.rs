//! Operators whose operands have types that DataFusion does not put together.

use super::interval::Times;
use super::{between, json_tests};
use crate::common_type::NUMERIC;
use crate::error::{SqlError, SqlState};
use crate::expression::is_comparison;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans them.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if raw.op == BinaryOperator::PGStartsWith {
            return Ok(PlannerResult::Planned(starts_with(raw.left, raw.right)));
        }
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        if let Some(test) = json_tests::of(&raw.op, (&raw.left, &left), (&raw.right, &right)) {
            return Ok(PlannerResult::Planned(test));
        }
        let is_span = |own: &DataType| matches!(own, DataType::Interval(_) | DataType::Duration(_));
        let is_time = |own: &DataType| matches!(own, DataType::Timestamp(..) | DataType::Date32);
        let moment = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let RawBinaryExpr { op, left: a, right: b } = raw;
        Ok(PlannerResult::Planned(match (&op, &left, &right) {
            // A date and a time of day are a moment.
            (BinaryOperator::Plus | BinaryOperator::Minus, DataType::Date32, right) if is_span(right) => {
                let operator = if op == BinaryOperator::Plus { Operator::Plus } else { Operator::Minus };
                binary_expr(cast(a, moment), operator, b)
            }
            (BinaryOperator::Plus, left, DataType::Date32) if is_span(left) => {
                binary_expr(cast(b, moment), Operator::Plus, a)
            }
            (BinaryOperator::Multiply, left, right) if is_span(left) && right.is_numeric() => {
                times(a, b, false)
            }
            (BinaryOperator::Multiply, left, right) if left.is_numeric() && is_span(right) => {
                times(b, a, false)
            }
            (BinaryOperator::Divide, left, right) if is_span(left) && right.is_numeric() => times(a, b, true),
            (BinaryOperator::Minus, DataType::Timestamp(..), right) if is_time(right) => {
                between::of(binary_expr(a, Operator::Minus, b))
            }
            (BinaryOperator::Minus, DataType::Date32, DataType::Timestamp(..)) => {
                between::of(binary_expr(a, Operator::Minus, b))
            }
            (BinaryOperator::Minus, DataType::Date32, DataType::Date32) => {
                cast(binary_expr(a, Operator::Minus, b), DataType::Int32)
            }
            // A literal in quotes is a number beside a number.
            (op, left, _) if computes(op) && left.is_numeric() && text(&b).is_some() => {
                let b = cast(b, beside(&a, left));
                return Ok(PlannerResult::Original(RawBinaryExpr { op: op.clone(), left: a, right: b }));
            }
            (op, _, right) if computes(op) && right.is_numeric() && text(&a).is_some() => {
                let a = cast(a, beside(&b, right));
                return Ok(PlannerResult::Original(RawBinaryExpr { op: op.clone(), left: a, right: b }));
            }
            (op, left, _) if is_comparison(op) && is_span(left) && text(&b).is_some() => {
                let b = cast(b, left.clone());
                return Ok(PlannerResult::Original(RawBinaryExpr { op: op.clone(), left: a, right: b }));
            }
            (op, _, right) if is_comparison(op) && is_span(right) && text(&a).is_some() => {
                let a = cast(a, right.clone());
                return Ok(PlannerResult::Original(RawBinaryExpr { op: op.clone(), left: a, right: b }));
            }
            (_, DataType::Boolean, _) if is_comparison(&op) && text(&b).is_some() => {
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left: a, right: truth(&b)? }));
            }
            (_, _, DataType::Boolean) if is_comparison(&op) && text(&a).is_some() => {
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left: truth(&a)?, right: b }));
            }
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left: a, right: b })),
        }))
    }
}

fn computes(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// The type of a literal in quotes beside a number.
fn beside(number: &Expr, data_type: &DataType) -> DataType {
    match number {
        Expr::Literal(ScalarValue::Int64(Some(own)), _) if i32::try_from(*own).is_ok() => DataType::Int32,
        _ if data_type.is_decimal() => NUMERIC,
        _ => data_type.clone(),
    }
}

fn times(span: Expr, number: Expr, is_division: bool) -> Expr {
    let span = cast(span, DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano));
    ScalarUDF::from(Times::of(is_division)).call(vec![span, cast(number, DataType::Float64)])
}

/// The text of a literal that has no type yet.
fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The truth that such a literal means.
fn truth(expression: &Expr) -> Result<Expr> {
    let written = text(expression).unwrap_or_default();
    let word = written.trim().to_lowercase();
    let begins = |of: &str, least: usize| word.len() >= least && of.starts_with(&*word);
    if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
        return Ok(lit(true));
    }
    if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        return Ok(lit(false));
    }
    let message = format!("invalid input syntax for type boolean: \"{written}\"");
    Err(SqlError::new(SqlState::INVALID_TEXT, message).into())
}
