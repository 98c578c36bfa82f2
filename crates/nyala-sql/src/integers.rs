//! Whole numbers that are out of range are errors. DataFusion's own operators wrap around, so functions take their places; those
//! of floats are in [`float_arithmetic`](crate::float_arithmetic).

use crate::error::{SqlError, SqlState};
use crate::float_arithmetic::{checked_operator, is_plain_divisor};
use crate::walk::{Walk, WalkPlan};
use arrow_schema::{ArrowError, DataType};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

/// Has arithmetic of whole numbers and of floats fail where its result is out of range.
#[derive(Debug)]
pub(crate) struct CheckIntegers;

impl AnalyzerRule for CheckIntegers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let mut schema = merge_schema(&node.inputs());
            if let LogicalPlan::TableScan(scan) = &node {
                schema.merge(&scan.projected_schema);
            }
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                Ok(checked(own, &schema)?.update_data(|own| name.restore(own)))
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "check_integers"
    }
}

/// An expression over rows of a schema whose operands have got their types.
pub(crate) fn checked(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let integer = |own: &Expr| own.get_type(schema).ok().filter(DataType::is_integer);
    let float = |own: &Expr| own.get_type(schema).ok().filter(DataType::is_floating);
    expression.changed_up(&mut |inner| {
        Ok(match inner {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if let Some(operation) = Operation::of(op)
                    && integer(&left).is_some()
                    && integer(&left) == integer(&right) =>
            {
                Transformed::yes(operation.of_operands(*left, *right))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if let Some(operator) = checked_operator(op)
                    && float(&left).is_some()
                    && float(&left) == float(&right)
                    && !(op == Operator::Divide && is_plain_divisor(&right)) =>
            {
                Transformed::yes(operator.call(vec![*left, *right]))
            }
            Expr::Negative(negated)
                if let Some(data_type) = integer(&negated).filter(DataType::is_signed_integer) =>
            {
                let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
                Transformed::yes(Operation::Minus.of_operands(zero, *negated))
            }
            other => Transformed::no(other),
        })
    })
}

/// The error of a number that its type cannot hold.
pub(crate) fn out_of_range(data_type: &DataType) -> SqlError {
    let name = crate::type_name::of(data_type);
    SqlError::new(SqlState::OUT_OF_RANGE, format!("{name} out of range"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Plus,
    Minus,
    Times,
}

impl Operation {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Plus),
            Operator::Minus => Some(Self::Minus),
            Operator::Multiply => Some(Self::Times),
            _ => None,
        }
    }

    fn of_operands(self, left: Expr, right: Expr) -> Expr {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::from(Checked { operation: self, signature }).call(vec![left, right])
    }
}

/// An operator of two whole numbers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Plus => "integer::plus",
            Operation::Minus => "integer::minus",
            Operation::Times => "integer::times",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &arguments.args[..] else {
            return Err(DataFusionError::Internal(format!("{} takes two operands", self.name())));
        };
        let computed = match self.operation {
            Operation::Plus => apply(left, right, add),
            Operation::Minus => apply(left, right, sub),
            Operation::Times => apply(left, right, mul),
        };
        computed.map_err(|error| match error {
            DataFusionError::ArrowError(cause, _) if matches!(*cause, ArrowError::ArithmeticOverflow(_)) => {
                out_of_range(arguments.return_field.data_type()).into()
            }
            other => other,
        })
    }
}
