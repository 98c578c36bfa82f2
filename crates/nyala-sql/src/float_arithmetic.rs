//! Arithmetic of floats whose result no float can hold: an error, where DataFusion gives an infinity or NaN.

use crate::error::{SqlError, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

/// The checked operator that stands for one of two floats of one type; `None` if it needs no check.
pub(crate) fn checked_operator(op: Operator) -> Option<ScalarUDF> {
    let operation = match op {
        Operator::Plus => Operation::Plus,
        Operator::Minus => Operation::Minus,
        Operator::Multiply => Operation::Times,
        Operator::Divide => Operation::Divided,
        _ => return None,
    };
    let signature = Signature::any(2, Volatility::Immutable);
    Some(ScalarUDF::from(Checked { operation, signature }))
}

/// Whether an operand is a number by which everything can be divided.
pub(crate) fn is_plain_divisor(own: &Expr) -> bool {
    match own {
        Expr::Literal(ScalarValue::Float64(Some(own)), _) => own.abs() >= 1.0,
        Expr::Cast(own) => match &*own.expr {
            Expr::Literal(ScalarValue::Int32(Some(own)), _) => *own != 0,
            Expr::Literal(ScalarValue::Int64(Some(own)), _) => *own != 0,
            _ => false,
        },
        _ => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Plus,
    Minus,
    Times,
    Divided,
}

/// An operator of two floats of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Plus => "float::plus",
            Operation::Minus => "float::minus",
            Operation::Times => "float::times",
            Operation::Divided => "float::divided",
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
            Operation::Divided => apply(left, right, div),
        }?;
        let rows = match &computed {
            ColumnarValue::Array(done) => done.len(),
            ColumnarValue::Scalar(_) => 1,
        };
        let done = computed.to_array(rows)?;
        let refused = match done.data_type() {
            DataType::Float32 => self.refused::<Float32Type>(&done, left, right)?,
            _ => self.refused::<Float64Type>(&done, left, right)?,
        };
        match refused {
            Some(error) => Err(error.into()),
            None => Ok(computed),
        }
    }
}

impl Checked {
    /// What is wrong with one of the results.
    fn refused<Type: ArrowPrimitiveType>(
        &self,
        done: &ArrayRef,
        left: &ColumnarValue,
        right: &ColumnarValue,
    ) -> Result<Option<SqlError>>
    where
        Type::Native: Into<f64>,
    {
        let done = done.as_primitive::<Type>();
        let shrinks = matches!(self.operation, Operation::Times | Operation::Divided);
        let is_plain = |own: f64| own.is_finite() && !(shrinks && own == 0.0);
        if done.values().iter().all(|own| is_plain((*own).into())) {
            return Ok(None);
        }
        let left = left.to_array(done.len())?;
        let right = right.to_array(done.len())?;
        let (left, right) = (left.as_primitive::<Type>(), right.as_primitive::<Type>());
        let refused = |row: usize| {
            let (a, b, result): (f64, f64, f64) =
                (left.value(row).into(), right.value(row).into(), done.value(row).into());
            if self.operation == Operation::Divided && b == 0.0 {
                // As in PostgreSQL, what is no number stays so whatever it is divided by.
                return (!a.is_nan()).then(|| SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
            }
            if !result.is_finite() {
                let words = "value out of range: overflow";
                return (a.is_finite() && b.is_finite())
                    .then(|| SqlError::new(SqlState::OUT_OF_RANGE, words));
            }
            let vanishes = shrinks && result == 0.0 && a != 0.0 && b != 0.0 && b.is_finite();
            vanishes.then(|| SqlError::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"))
        };
        Ok((0..done.len()).filter(|row| done.is_valid(*row)).find_map(refused))
    }
}
