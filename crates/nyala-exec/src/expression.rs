//! Arithmetic, comparisons and mathematical functions over columns.
//!
//! Numbers of different types are computed as floats, except that an integer that is not negative and an unsigned integer
//! are computed as unsigned. A division by zero gives zero. A comparison with NULL, or of types that cannot be compared,
//! is false. Where rules differ between selected columns and conditions, the operation says which it follows:
//! [`Operator::DivideWhole`] and [`Binary::absent_is_false`].

use super::column::{Column, Scalar};
use crate::elementary::{Formula, MathFunction};
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, Float64Array, PrimitiveArray, StringArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use nyala_core::{Error, Result};
use regex::bytes::Regex;

/// An expression that is computed for every row.
#[derive(Debug, Clone)]
pub enum Expression {
    /// A column of the input by position.
    Column(usize),
    /// The same value in every row; `None` is NULL.
    Literal(Option<Scalar>),
    /// Two operands.
    Binary(Box<Binary>),
    /// Whether text matches, or does not.
    Matches {
        /// The text.
        text: Box<Expression>,
        /// The pattern.
        regex: Regex,
        /// Whether a match gives true.
        matches: bool,
    },
    /// A mathematical function by name.
    Math(MathFunction, Vec<Expression>),
}

/// An operation on two operands.
#[derive(Debug, Clone)]
pub struct Binary {
    /// The operator.
    pub operator: Operator,
    /// Whether NULL beside a boolean counts as false; otherwise the result is false.
    pub absent_is_false: bool,
    /// The left operand.
    pub left: Expression,
    /// The right operand.
    pub right: Expression,
}

/// Operators on two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other names say what they do")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Gives a float even for two integers.
    Divide,
    /// Gives an integer for two integers.
    DivideWhole,
    Modulo,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// Whether the result is a truth value whatever the operands are.
    pub fn is_logical(self) -> bool {
        use Operator::{And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual, Or};
        matches!(self, And | Or | Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

impl Expression {
    /// Computes it for `rows` rows of input columns.
    pub fn evaluate(&self, columns: &[Column], rows: usize) -> Result<Column> {
        Ok(match self {
            Expression::Column(position) => columns[*position].clone(),
            Expression::Literal(value) => repeat(value.as_ref(), rows),
            Expression::Binary(operation) => {
                let left = operation.left.operand(columns, rows)?;
                let right = operation.right.operand(columns, rows)?;
                binary(operation, &left, &right)?
            }
            Expression::Matches { text, regex, matches } => match text.operand(columns, rows)? {
                Column::String(array) => {
                    let holds =
                        |row| array.is_valid(row) && regex.is_match(array.value(row).as_bytes()) == *matches;
                    Column::Boolean(BooleanBuffer::collect_bool(rows, holds).into())
                }
                _ => no_match(rows),
            },
            Expression::Math(function, arguments) => {
                let arguments: Vec<Column> = arguments
                    .iter()
                    .map(|argument| argument.operand(columns, rows))
                    .collect::<Result<_>>()?;
                math(*function, &arguments, rows)
            }
        })
    }

    /// The same, with tags as plain text.
    fn operand(&self, columns: &[Column], rows: usize) -> Result<Column> {
        let column = self.evaluate(columns, rows)?;
        Ok(if matches!(column, Column::Tag(_)) { column.plain() } else { column })
    }

    /// Which rows satisfy it as a condition.
    pub fn filter(&self, columns: &[Column], rows: usize) -> Result<BooleanBuffer> {
        Ok(match self.evaluate(columns, rows)? {
            Column::Boolean(array) => match array.nulls() {
                Some(nulls) => array.values() & nulls.inner(),
                None => array.values().clone(),
            },
            _ => BooleanBuffer::new_unset(rows),
        })
    }
}

fn no_match(rows: usize) -> Column {
    Column::Boolean(BooleanBuffer::new_unset(rows).into())
}

fn repeat(value: Option<&Scalar>, rows: usize) -> Column {
    match value {
        None => Column::Null(rows),
        Some(Scalar::Float(value)) => Column::Float(Float64Array::from_value(*value, rows)),
        Some(Scalar::Integer(value)) => Column::Integer(PrimitiveArray::from_value(*value, rows)),
        Some(Scalar::Unsigned(value)) => Column::Unsigned(PrimitiveArray::from_value(*value, rows)),
        Some(Scalar::String(value)) => {
            Column::String(StringArray::from_iter_values(vec![value.as_str(); rows]))
        }
        Some(Scalar::Boolean(true)) => Column::Boolean(BooleanBuffer::new_set(rows).into()),
        Some(Scalar::Boolean(false)) => no_match(rows),
    }
}

fn binary(operation: &Binary, left: &Column, right: &Column) -> Result<Column> {
    use Column::{Boolean, Float, Integer, Null, String, Unsigned};
    let (operator, rows) = (operation.operator, left.len());
    Ok(match (left, right) {
        (Boolean(a), Boolean(b)) => booleans(operation, a, b),
        (Boolean(a), Null(_)) => booleans(operation, a, &BooleanArray::new_null(rows)),
        (Null(_), Boolean(b)) => booleans(operation, &BooleanArray::new_null(rows), b),
        (Integer(a), Integer(b)) => integers(operator, a, b)?,
        (Unsigned(a), Unsigned(b)) => unsigned(operator, a, b)?,
        (Integer(a), Unsigned(b)) if no_negative(a) => unsigned(operator, &as_unsigned(a), b)?,
        (Unsigned(a), Integer(b)) if no_negative(b) => unsigned(operator, a, &as_unsigned(b))?,
        (Integer(_) | Unsigned(_), Integer(_) | Unsigned(_)) if operator.is_logical() => {
            floats(operator, &left.to_floats(), &right.to_floats())
        }
        (Integer(_), Unsigned(_)) | (Unsigned(_), Integer(_)) => {
            return Err(Error::invalid(
                "cannot use a negative integer with an unsigned integer in an operation",
            ));
        }
        (Float(_) | Integer(_) | Unsigned(_), Float(_) | Integer(_) | Unsigned(_)) => {
            floats(operator, &left.to_floats(), &right.to_floats())
        }
        (String(a), String(b)) => strings(operator, a, b),
        _ if operator.is_logical() => no_match(rows),
        _ => Null(rows),
    })
}

fn no_negative(array: &arrow_array::Int64Array) -> bool {
    array.iter().flatten().all(|value| value >= 0)
}

fn as_unsigned(array: &arrow_array::Int64Array) -> UInt64Array {
    array.unary(|value| value as u64)
}

/// NULL with NULL gives NULL, if NULL counts as false.
fn booleans(operation: &Binary, a: &BooleanArray, b: &BooleanArray) -> Column {
    use Operator as Op;
    let truth = |array: &BooleanArray| match array.nulls() {
        Some(nulls) => array.values() & nulls.inner(),
        None => array.values().clone(),
    };
    let (left, right) = (truth(a), truth(b));
    let operator = operation.operator;
    let values = match operator {
        Op::And | Op::BitwiseAnd => &left & &right,
        Op::Or | Op::BitwiseOr => &left | &right,
        Op::BitwiseXor | Op::NotEqual => &left ^ &right,
        Op::Equal => !&(&left ^ &right),
        _ if operator.is_logical() => return no_match(a.len()),
        _ => return Column::Null(a.len()),
    };
    if !operation.absent_is_false {
        return Column::Boolean(match NullBuffer::union(a.nulls(), b.nulls()) {
            Some(known) => (&values & known.inner()).into(),
            None => values.into(),
        });
    }
    let known = match (a.nulls(), b.nulls()) {
        (Some(a), Some(b)) => Some(NullBuffer::new(a.inner() | b.inner())),
        _ => None,
    };
    Column::Boolean(BooleanArray::new(values, known))
}

/// A comparison over two arrays: false where a value is missing.
fn compare<T: ArrowPrimitiveType>(
    a: &PrimitiveArray<T>,
    b: &PrimitiveArray<T>,
    holds: impl Fn(T::Native, T::Native) -> bool,
) -> Column {
    let (left, right) = (a.values(), b.values());
    let values = BooleanBuffer::collect_bool(a.len(), |row| holds(left[row], right[row]));
    let values = match NullBuffer::union(a.nulls(), b.nulls()) {
        Some(known) => &values & known.inner(),
        None => values,
    };
    Column::Boolean(values.into())
}

/// Arithmetic over two arrays: NULL where a value is missing.
fn arithmetic<T: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    a: &PrimitiveArray<T>,
    b: &PrimitiveArray<T>,
    compute: impl Fn(T::Native, T::Native) -> O::Native,
) -> PrimitiveArray<O> {
    let values: Vec<O::Native> = a.values().iter().zip(b.values()).map(|(a, b)| compute(*a, *b)).collect();
    PrimitiveArray::new(values.into(), NullBuffer::union(a.nulls(), b.nulls()))
}

macro_rules! comparisons {
    ($operator:expr, $a:expr, $b:expr) => {
        match $operator {
            Operator::Equal => Some(compare($a, $b, |a, b| a == b)),
            Operator::NotEqual => Some(compare($a, $b, |a, b| a != b)),
            Operator::Less => Some(compare($a, $b, |a, b| a < b)),
            Operator::LessOrEqual => Some(compare($a, $b, |a, b| a <= b)),
            Operator::Greater => Some(compare($a, $b, |a, b| a > b)),
            Operator::GreaterOrEqual => Some(compare($a, $b, |a, b| a >= b)),
            _ => None,
        }
    };
}

fn floats(operator: Operator, a: &Float64Array, b: &Float64Array) -> Column {
    use Operator as Op;
    if let Some(column) = comparisons!(operator, a, b) {
        return column;
    }
    Column::Float(match operator {
        Op::Add => arithmetic(a, b, |a, b| a + b),
        Op::Subtract => arithmetic(a, b, |a, b| a - b),
        Op::Multiply => arithmetic(a, b, |a, b| a * b),
        Op::Divide | Op::DivideWhole => arithmetic(a, b, |a, b| if b == 0.0 { 0.0 } else { a / b }),
        Op::Modulo => arithmetic(a, b, |a, b| a % b),
        _ if operator.is_logical() => return no_match(a.len()),
        _ => return Column::Null(a.len()),
    })
}

fn integers(operator: Operator, a: &arrow_array::Int64Array, b: &arrow_array::Int64Array) -> Result<Column> {
    use Operator as Op;
    if let Some(column) = comparisons!(operator, a, b) {
        return Ok(column);
    }
    Ok(Column::Integer(match operator {
        Op::Add => arithmetic(a, b, i64::wrapping_add),
        Op::Subtract => arithmetic(a, b, i64::wrapping_sub),
        Op::Multiply => arithmetic(a, b, i64::wrapping_mul),
        Op::Divide => {
            return Ok(Column::Float(arithmetic(
                a,
                b,
                |a, b| if b == 0 { 0.0 } else { a as f64 / b as f64 },
            )));
        }
        Op::DivideWhole => arithmetic(a, b, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        Op::Modulo => arithmetic(a, b, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        Op::BitwiseAnd => arithmetic(a, b, |a, b| a & b),
        Op::BitwiseOr => arithmetic(a, b, |a, b| a | b),
        Op::BitwiseXor => arithmetic(a, b, |a, b| a ^ b),
        _ => return Ok(no_match(a.len())),
    }))
}

fn unsigned(operator: Operator, a: &UInt64Array, b: &UInt64Array) -> Result<Column> {
    use Operator as Op;
    if let Some(column) = comparisons!(operator, a, b) {
        return Ok(column);
    }
    Ok(Column::Unsigned(match operator {
        Op::Add => arithmetic(a, b, u64::wrapping_add),
        Op::Subtract => arithmetic(a, b, u64::wrapping_sub),
        Op::Multiply => arithmetic(a, b, u64::wrapping_mul),
        Op::Divide | Op::DivideWhole => arithmetic(a, b, |a, b| a.checked_div(b).unwrap_or(0)),
        Op::Modulo => arithmetic(a, b, |a, b| a.checked_rem(b).unwrap_or(0)),
        Op::BitwiseAnd => arithmetic(a, b, |a, b| a & b),
        Op::BitwiseOr => arithmetic(a, b, |a, b| a | b),
        Op::BitwiseXor => arithmetic(a, b, |a, b| a ^ b),
        _ => return Ok(no_match(a.len())),
    }))
}

fn strings(operator: Operator, a: &StringArray, b: &StringArray) -> Column {
    let equal = match operator {
        Operator::Equal => true,
        Operator::NotEqual => false,
        _ if operator.is_logical() => return no_match(a.len()),
        _ => return Column::Null(a.len()),
    };
    let holds = |row| a.is_valid(row) && b.is_valid(row) && (a.value(row) == b.value(row)) == equal;
    Column::Boolean(BooleanBuffer::collect_bool(a.len(), holds).into())
}

fn math(function: MathFunction, arguments: &[Column], rows: usize) -> Column {
    let Some(first) = arguments.first().filter(|column| column.is_number()) else {
        return Column::Null(rows);
    };
    match (function.formula(), first, arguments.get(1)) {
        (_, Column::Integer(array), _) if function == MathFunction::Abs => {
            Column::Integer(array.unary(i64::wrapping_abs))
        }
        (_, Column::Integer(_) | Column::Unsigned(_), _) if function.keeps_integers() => first.clone(),
        (Formula::Unary(compute), ..) => Column::Float(first.to_floats().unary(compute)),
        (Formula::Binary(compute), _, Some(second)) if second.is_number() => {
            Column::Float(arithmetic(&first.to_floats(), &second.to_floats(), compute))
        }
        (Formula::Binary(_), ..) => Column::Null(rows),
    }
}
