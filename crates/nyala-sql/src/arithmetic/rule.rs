//! Where operators of integers and floats become functions: in plans whose operands have got their types.

use super::floats::is_plain_divisor;
use super::operation::{Numbers, Operation};
use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Has arithmetic of whole numbers and of floats fail where its result is out of range.
#[derive(Debug)]
pub(crate) struct CheckArithmetic;

impl AnalyzerRule for CheckArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = read_schema(&node);
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                Ok(checked(own, &schema)?.update_data(|own| name.restore(own)))
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "check_arithmetic"
    }
}

/// An expression over rows of a schema whose operands have got their types.
pub(crate) fn checked(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let integer = |own: &Expr| own.get_type(schema).ok().filter(DataType::is_integer);
    let float = |own: &Expr| own.get_type(schema).ok().filter(DataType::is_floating);
    expression.changed_up(&mut |inner| {
        Ok(match inner {
            // The quotient of integers is checked already.
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if let Some(operation) = Operation::of(op)
                    && operation != Operation::Divided
                    && integer(&left).is_some()
                    && integer(&left) == integer(&right) =>
            {
                Transformed::yes(operation.checked(Numbers::Integers, *left, *right))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if let Some(operation) = Operation::of(op)
                    && float(&left).is_some()
                    && float(&left) == float(&right)
                    && !(operation == Operation::Divided && is_plain_divisor(&right)) =>
            {
                Transformed::yes(operation.checked(Numbers::Floats, *left, *right))
            }
            Expr::Negative(negated)
                if let Some(data_type) = integer(&negated).filter(DataType::is_signed_integer) =>
            {
                let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
                Transformed::yes(Operation::Minus.checked(Numbers::Integers, zero, *negated))
            }
            other => Transformed::no(other),
        })
    })
}
