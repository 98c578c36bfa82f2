//! Products and quotients of decimals.
//!
//! PostgreSQL gives a quotient at least 16 significant digits, and keeps all digits of a product. Here every value of a column
//! has the same number of digits behind the point, and 38 in all: a quotient has at least 16 of them, and a product has no more
//! than 20, unless an operand has more.

use super::operation::{Numbers, Operation, out_of_range};
use crate::error::{SqlError, SqlState};
use arrow_array::builder::Decimal128Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::arrow::datatypes::i256;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, ColumnarValue, Expr, ExprSchemable, cast};
use std::sync::Arc;

/// The fewest digits of quotients and averages behind the point.
pub(crate) const QUOTIENT_SCALE: i8 = 16;
/// The most digits of products behind the point: 18 are left before it.
const PRODUCT_SCALE_MAX: i8 = 20;

/// The powers of ten.
const POWERS: [i128; DECIMAL128_MAX_PRECISION as usize + 1] = {
    let mut powers = [1; DECIMAL128_MAX_PRECISION as usize + 1];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
};

/// The function that an operation of decimals needs; `None` if the planner's operator does the same.
pub(crate) fn operator(expression: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let operation = Operation::of(expression.op)?;
    let (left, right) = (&*expression.left, &*expression.right);
    let types = [left, right].map(|own| own.get_type(schema).ok());
    let [Some(left_type), Some(right_type)] = types else { return None };
    if !left_type.is_decimal() && !right_type.is_decimal() {
        return None;
    }
    let (left_scale, right_scale) = (scale_of(&left_type)?, scale_of(&right_type)?);
    match operation {
        Operation::Divided => {}
        Operation::Times if left_scale + right_scale > PRODUCT_SCALE_MAX => {}
        _ => return None,
    }
    let decimal = |own: &Expr, data_type: &DataType| match data_type.is_integer() {
        true => cast(own.clone(), DataType::Decimal128(20, 0)),
        false => own.clone(),
    };
    Some(operation.checked(Numbers::Decimals, decimal(left, &left_type), decimal(right, &right_type)))
}

/// The digits behind the point of a type; `None` if an operation with it is none of decimals.
fn scale_of(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        own if own.is_integer() => Some(0),
        _ => None,
    }
}

/// The type of a result.
pub(super) fn result_type(operation: Operation, left: &DataType, right: &DataType) -> DataType {
    let [left, right] = [left, right].map(|own| scale_of(own).unwrap_or(0));
    let scale = match operation {
        Operation::Divided => left.max(right).max(QUOTIENT_SCALE),
        Operation::Times => (left + right).min(left.max(right).max(PRODUCT_SCALE_MAX)),
        Operation::Plus | Operation::Minus => left.max(right),
    };
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
}

/// The results of an operation.
pub(super) fn computed(
    operation: Operation,
    left: &ColumnarValue,
    right: &ColumnarValue,
    data_type: &DataType,
) -> Result<ColumnarValue> {
    let rows = [left, right].into_iter().find_map(|own| match own {
        ColumnarValue::Array(own) => Some(own.len()),
        ColumnarValue::Scalar(_) => None,
    });
    let scales = [left, right].map(|own| scale_of(&own.data_type()).unwrap_or(0));
    let scale = scale_of(data_type).unwrap_or(0);
    let (left, right) = (left.to_array(rows.unwrap_or(1))?, right.to_array(rows.unwrap_or(1))?);
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let mut done = Decimal128Builder::with_capacity(left.len()).with_data_type(data_type.clone());
    for row in 0..left.len() {
        if left.is_null(row) || right.is_null(row) {
            done.append_null();
            continue;
        }
        let (a, b) = (left.value(row), right.value(row));
        let value = match operation {
            Operation::Divided => quotient(a, b, i32::from(scale) + i32::from(scales[1] - scales[0]))?,
            Operation::Times => product(a, b, i32::from(scales[0] + scales[1] - scale)),
            Operation::Plus | Operation::Minus => unreachable!("these are the planner's"),
        };
        done.append_value(value.ok_or_else(|| out_of_range(data_type))?);
    }
    let done: ArrayRef = Arc::new(done.finish());
    Ok(match rows {
        Some(_) => ColumnarValue::Array(done),
        None => ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?),
    })
}

/// `a / b` with so many digits more; `None` if it has too many.
fn quotient(a: i128, b: i128, digits: i32) -> Result<Option<i128>> {
    if b == 0 {
        return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero").into());
    }
    let (digits, shift) = (digits.max(0), (-digits).max(0));
    // Mostly there is room.
    if shift == 0
        && let Some(scaled) = POWERS.get(digits as usize).and_then(|power| a.checked_mul(*power))
    {
        return Ok(rounded(scaled, b).filter(fits));
    }
    let scaled = i256::from_i128(a).checked_mul(power(digits));
    let divisor = i256::from_i128(b).checked_mul(power(shift));
    Ok(scaled.zip(divisor).and_then(|(a, b)| rounded_wide(a, b)))
}

/// `a * b` with so many digits fewer.
fn product(a: i128, b: i128, digits: i32) -> Option<i128> {
    let whole = i256::from_i128(a).checked_mul(i256::from_i128(b))?;
    rounded_wide(whole, power(digits))
}

/// The sum of numbers divided by how many they are, with so many digits more; `None` if it has too many.
pub(crate) fn mean(sum: i128, count: u64, digits: i8) -> Option<i128> {
    quotient(sum, i128::from(count), i32::from(digits)).ok().flatten()
}

fn power(digits: i32) -> i256 {
    (0..digits).fold(i256::ONE, |power, _| power.wrapping_mul(i256::from_i128(10)))
}

fn fits(value: &i128) -> bool {
    value.unsigned_abs() < POWERS[DECIMAL128_MAX_PRECISION as usize].unsigned_abs()
}

/// A quotient, whose half is rounded away from zero.
fn rounded(a: i128, b: i128) -> Option<i128> {
    // One division, which is what takes the time.
    let whole = a.checked_div(b)?;
    let rest = a - whole * b;
    let is_more = rest.unsigned_abs() >= b.unsigned_abs().div_ceil(2);
    let step = if (a < 0) == (b < 0) { 1 } else { -1 };
    if is_more { whole.checked_add(step) } else { Some(whole) }
}

fn rounded_wide(a: i256, b: i256) -> Option<i128> {
    let (whole, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let is_more = rest.checked_abs()?.checked_mul(i256::from_i128(2))? >= b.checked_abs()?;
    let step = if a.is_negative() == b.is_negative() { i256::ONE } else { i256::MINUS_ONE };
    let whole = if is_more { whole.checked_add(step)? } else { whole };
    whole.to_i128().filter(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_products_are_rounded() {
        assert_eq!(quotient(2, 3, 16).unwrap(), Some(6_666_666_666_666_667));
        assert_eq!(quotient(-1, 2, 0).unwrap(), Some(-1));
        assert_eq!(quotient(1, 3, 0).unwrap(), Some(0));
        assert_eq!(quotient(15, 1, -1).unwrap(), Some(2));
        // The dividend has no room for more digits, the quotient has.
        assert_eq!(quotient(10_i128.pow(30), 10_i128.pow(20), 16).unwrap(), Some(10_i128.pow(26)));
        assert_eq!(quotient(10_i128.pow(30), 1, 16).unwrap(), None);
        assert!(quotient(1, 0, 0).is_err());
        assert_eq!(product(15, 1, 1), Some(2));
        assert_eq!(product(-15, 1, 1), Some(-2));
        assert_eq!(product(10_i128.pow(37), 10, 0), None);
        // Two thousand of the largest integers have a mean.
        let largest = i128::from(i64::MAX);
        assert_eq!(mean(largest * 2_000, 2_000, 16), Some(largest * 10_i128.pow(16)));
    }
}
