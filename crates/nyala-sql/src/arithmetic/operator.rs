//! A function that stands for an operator of two numbers.

use super::operation::{Numbers, Operation, out_of_range};
use super::{decimals, floats};
use crate::unknown_bounds;
use arrow_schema::{ArrowError, DataType};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

impl Operation {
    /// The operation, with its errors.
    pub(super) fn checked(self, numbers: Numbers, left: Expr, right: Expr) -> Expr {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::from(Checked { operation: self, numbers, signature }).call(vec![left, right])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    numbers: Numbers,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match (self.numbers, self.operation) {
            (Numbers::Integers, Operation::Plus) => "integer::plus",
            (Numbers::Integers, Operation::Minus) => "integer::minus",
            (Numbers::Integers, Operation::Times) => "integer::times",
            (Numbers::Integers, Operation::Divided) => "integer::divided",
            (Numbers::Floats, Operation::Plus) => "float::plus",
            (Numbers::Floats, Operation::Minus) => "float::minus",
            (Numbers::Floats, Operation::Times) => "float::times",
            (Numbers::Floats, Operation::Divided) => "float::divided",
            (Numbers::Decimals, Operation::Plus) => "numeric::plus",
            (Numbers::Decimals, Operation::Minus) => "numeric::minus",
            (Numbers::Decimals, Operation::Times) => "numeric::times",
            (Numbers::Decimals, Operation::Divided) => "numeric::divided",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match (self.numbers, given) {
            (Numbers::Decimals, [left, right]) => decimals::result_type(self.operation, left, right),
            _ => given[0].clone(),
        })
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &arguments.args[..] else {
            return Err(DataFusionError::Internal(format!("{} takes two operands", self.name())));
        };
        let data_type = arguments.return_field.data_type();
        if self.numbers == Numbers::Decimals {
            return decimals::computed(self.operation, left, right, data_type);
        }
        let computed = match self.operation {
            Operation::Plus => apply(left, right, add),
            Operation::Minus => apply(left, right, sub),
            Operation::Times => apply(left, right, mul),
            Operation::Divided => apply(left, right, div),
        };
        match self.numbers {
            Numbers::Floats => {
                let computed = computed?;
                floats::check(self.operation, &computed, left, right)?;
                Ok(computed)
            }
            _ => computed.map_err(|error| match error {
                DataFusionError::ArrowError(cause, _)
                    if matches!(*cause, ArrowError::ArithmeticOverflow(_)) =>
                {
                    out_of_range(data_type).into()
                }
                other => other,
            }),
        }
    }
}
