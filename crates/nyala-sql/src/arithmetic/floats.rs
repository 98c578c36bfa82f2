//! What is wrong with results of floats: no float can hold them.

use super::operation::Operation;
use crate::error::{SqlError, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

/// Whether an operand is a number by which everything can be divided.
pub(super) fn is_plain_divisor(own: &Expr) -> bool {
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

/// Refuses results of an operation that are out of range.
pub(super) fn check(
    operation: Operation,
    computed: &ColumnarValue,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<()> {
    let rows = match computed {
        ColumnarValue::Array(done) => done.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let done = computed.to_array(rows)?;
    let refused = match done.data_type() {
        DataType::Float32 => refused::<Float32Type>(operation, &done, left, right)?,
        _ => refused::<Float64Type>(operation, &done, left, right)?,
    };
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// What is wrong with one of the results.
fn refused<Type: ArrowPrimitiveType>(
    operation: Operation,
    done: &ArrayRef,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<Option<SqlError>>
where
    Type::Native: Into<f64>,
{
    let done = done.as_primitive::<Type>();
    let shrinks = matches!(operation, Operation::Times | Operation::Divided);
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
        if operation == Operation::Divided && b == 0.0 {
            // As in PostgreSQL, what is no number stays so whatever it is divided by.
            return (!a.is_nan()).then(|| SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        if !result.is_finite() {
            let words = "value out of range: overflow";
            return (a.is_finite() && b.is_finite()).then(|| SqlError::new(SqlState::OUT_OF_RANGE, words));
        }
        let vanishes = shrinks && result == 0.0 && a != 0.0 && b != 0.0 && b.is_finite();
        vanishes.then(|| SqlError::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"))
    };
    Ok((0..done.len()).filter(|row| done.is_valid(*row)).find_map(refused))
}
