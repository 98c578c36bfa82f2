//! Conditions that the store judges: comparisons of columns with values.
//!
//! They mean what they mean in PostgreSQL. There a NaN is equal to itself and greater than all other numbers, while the
//! store finds it unequal to everything: so a float that shall be greater than something is not looked for by the store.
//!
//! A condition is judged when a statement is planned, and may then compare with a parameter whose value is not known yet.

use super::columns::{TableColumn, TableColumns};
use super::decimal::{floored, rescaled};
use super::key_range::{KeyRanges, key_ranges};
use crate::error::outside;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator};
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{ColumnType, Error, Value};
use nyala_db::relations::DeclaredType;

/// What the conditions of a scan mean for the store.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    /// The keys that they leave.
    pub(crate) keys: KeyRanges,
    /// What must hold besides.
    pub(crate) predicates: Vec<Predicate>,
    /// The conditions as written, for EXPLAIN.
    pub(crate) shown: Vec<String>,
}

/// What a column is compared with.
enum Operand {
    Known(ScalarValue),
    /// A parameter, while a statement is planned.
    Unknown,
}

/// A condition in the terms of the store.
enum Condition {
    /// All of these hold.
    All(Vec<Predicate>),
    /// It never holds.
    Never,
}

/// Whether a condition is judged here: then no row comes that does not satisfy it.
pub(super) fn is_judged(expression: &Expr, columns: &TableColumns) -> bool {
    condition_of(expression, columns).is_some()
}

impl Conditions {
    /// Conditions that were judged here and must all hold.
    ///
    /// # Errors
    /// Invalid if a parameter has a value that its column cannot be compared with.
    pub(super) fn of(filters: &[Expr], columns: &TableColumns) -> Result<Self> {
        let mut predicates = Vec::new();
        let mut never = false;
        for filter in filters {
            match condition_of(filter, columns) {
                Some(Condition::All(all)) => predicates.extend(all),
                Some(Condition::Never) => never = true,
                None => return Err(outside(Error::invalid(format!("cannot compare: {filter}")))),
            }
        }
        let keys = match never {
            true => KeyRanges::none(),
            false => key_ranges(&columns.key, columns, &mut predicates),
        };
        let shown = filters.iter().map(Expr::to_string).collect();
        Ok(Self { keys, predicates, shown })
    }
}

impl Condition {
    fn one(column: &TableColumn, comparison: Comparison) -> Self {
        Self::All(vec![Predicate { column: column.id, comparison }])
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All(mut all), Self::All(others)) => {
                all.extend(others);
                Self::All(all)
            }
            _ => Self::Never,
        }
    }
}

fn condition_of(expression: &Expr, columns: &TableColumns) -> Option<Condition> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(condition_of(left, columns)?.and(condition_of(right, columns)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            either(condition_of(left, columns)?, condition_of(right, columns)?)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            match (column_of(left, columns), column_of(right, columns)) {
                (Some(column), None) => compared(column, *op, &operand_of(right)?),
                (None, Some(column)) => compared(column, op.swap()?, &operand_of(left)?),
                _ => None,
            }
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let column = column_of(expr, columns)?;
            let low = compared(column, Operator::GtEq, &operand_of(low)?)?;
            Some(low.and(compared(column, Operator::LtEq, &operand_of(high)?)?))
        }
        Expr::InList(list) => listed(list, columns),
        Expr::IsNull(inner) => Some(Condition::one(column_of(inner, columns)?, Comparison::IsNull)),
        Expr::IsNotNull(inner) => Some(Condition::one(column_of(inner, columns)?, Comparison::IsNotNull)),
        // What was found to hold always, or never, after it was judged here.
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => Some(Condition::All(Vec::new())),
        Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => Some(Condition::Never),
        Expr::Not(inner) => truth(inner, columns, false),
        Expr::Column(_) => truth(expression, columns, true),
        _ => None,
    }
}

/// The column that an expression is, as it is or in a type that holds all its values.
fn column_of<'a>(expression: &Expr, columns: &'a TableColumns) -> Option<&'a TableColumn> {
    match expression {
        Expr::Column(column) => Some(&columns.columns[columns.position(&column.name)?]),
        Expr::Cast(Cast { expr, field }) => {
            let column = column_of(expr, columns)?;
            holds_all(field.data_type(), column.declared_type).then_some(column)
        }
        _ => None,
    }
}

/// Whether values of a column keep their order in a type.
fn holds_all(data_type: &DataType, declared: DeclaredType) -> bool {
    match (declared.column_type(), data_type) {
        (ColumnType::Int16, DataType::Int32 | DataType::Int64) | (ColumnType::Int32, DataType::Int64) => true,
        (ColumnType::Decimal { precision, scale }, DataType::Decimal128(to, to_scale)) => {
            *to_scale >= scale
                && i16::from(*to) - i16::from(*to_scale) >= i16::from(precision) - i16::from(scale)
        }
        (ColumnType::String, other) => other.is_string(),
        _ => false,
    }
}

fn operand_of(expression: &Expr) -> Option<Operand> {
    match expression {
        Expr::Literal(value, _) => Some(Operand::Known(value.clone())),
        Expr::Placeholder(_) => Some(Operand::Unknown),
        Expr::Cast(Cast { expr, field }) => match operand_of(expr)? {
            Operand::Known(value) => value.cast_to(field.data_type()).ok().map(Operand::Known),
            Operand::Unknown => Some(Operand::Unknown),
        },
        _ => None,
    }
}

fn compared(column: &TableColumn, op: Operator, operand: &Operand) -> Option<Condition> {
    let value = match operand {
        // NULL is neither equal nor unequal to anything.
        Operand::Known(value) if value.is_null() => {
            return comparison(op, Value::Int(0)).map(|_| Condition::Never);
        }
        Operand::Known(value) => match (column.declared_type.column_type(), value) {
            (ColumnType::Decimal { scale, .. }, ScalarValue::Decimal128(Some(number), _, from)) => {
                return compared_with_decimal(column, op, (*number, *from), scale);
            }
            (ColumnType::Float32 | ColumnType::Float64, value) if is_nan(value) => {
                return compared_with_nan(column, op);
            }
            _ => value_of(column.declared_type, value)?,
        },
        // It may be NaN, to which the store finds nothing equal.
        Operand::Unknown if op == Operator::Eq && is_float(column) => return None,
        Operand::Unknown => example(column.declared_type.column_type()),
    };
    let is_greater = matches!(op, Operator::Gt | Operator::GtEq);
    if is_greater && matches!(value, Value::Float(_)) {
        return None;
    }
    Some(Condition::one(column, comparison(op, value)?))
}

/// A comparison with a decimal, which may have more digits than those of the column.
fn compared_with_decimal(
    column: &TableColumn,
    op: Operator,
    (value, from): (i128, i8),
    scale: i8,
) -> Option<Condition> {
    let one = |comparison| Some(Condition::one(column, comparison));
    if let Some((same, true)) = rescaled(value, from, scale) {
        return one(comparison(op, Value::Decimal(same))?);
    }
    // No value of the column is equal to it.
    match (op, floored(value, from, scale)) {
        (Operator::Eq, _) => Some(Condition::Never),
        (Operator::NotEq, _) => one(Comparison::IsNotNull),
        (Operator::Lt | Operator::LtEq, Some(below)) => one(Comparison::LessOrEqual(Value::Decimal(below))),
        (Operator::Gt | Operator::GtEq, Some(below)) => one(Comparison::Greater(Value::Decimal(below))),
        // It is greater than all values, or less.
        (Operator::Lt | Operator::LtEq, None) if value > 0 => one(Comparison::IsNotNull),
        (Operator::Gt | Operator::GtEq, None) if value < 0 => one(Comparison::IsNotNull),
        (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq, None) => Some(Condition::Never),
        _ => None,
    }
}

/// A comparison with NaN, which is greater than all other numbers, and equal to itself.
fn compared_with_nan(column: &TableColumn, op: Operator) -> Option<Condition> {
    match op {
        Operator::Lt | Operator::NotEq => {
            Some(Condition::one(column, Comparison::LessOrEqual(Value::Float(f64::INFINITY))))
        }
        Operator::LtEq => Some(Condition::one(column, Comparison::IsNotNull)),
        _ => None,
    }
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn is_float(column: &TableColumn) -> bool {
    matches!(column.declared_type.column_type(), ColumnType::Float32 | ColumnType::Float64)
}

fn comparison(op: Operator, value: Value) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal(value),
        Operator::NotEq => Comparison::NotEqual(value),
        Operator::Lt => Comparison::Less(value),
        Operator::LtEq => Comparison::LessOrEqual(value),
        Operator::Gt => Comparison::Greater(value),
        Operator::GtEq => Comparison::GreaterOrEqual(value),
        _ => return None,
    })
}

/// A value of the kind that a parameter will have.
fn example(column_type: ColumnType) -> Value {
    match column_type {
        ColumnType::Bool => Value::Bool(false),
        ColumnType::UInt32 | ColumnType::UInt64 => Value::UInt(0),
        ColumnType::Float32 | ColumnType::Float64 => Value::Float(0.0),
        ColumnType::Decimal { .. } => Value::Decimal(0),
        ColumnType::String => Value::String(String::new()),
        ColumnType::Binary => Value::Binary(Vec::new()),
        _ => Value::Int(0),
    }
}

/// A value as the store compares it with a column; `None` if it has no such form.
pub(crate) fn value_of(declared: DeclaredType, value: &ScalarValue) -> Option<Value> {
    let integer = || match value {
        ScalarValue::Int8(Some(value)) => Some(i64::from(*value)),
        ScalarValue::Int16(Some(value)) => Some(i64::from(*value)),
        ScalarValue::Int32(Some(value)) => Some(i64::from(*value)),
        ScalarValue::Int64(Some(value)) => Some(*value),
        ScalarValue::UInt64(Some(value)) => i64::try_from(*value).ok(),
        _ => None,
    };
    match declared.column_type() {
        ColumnType::Bool => match value {
            ScalarValue::Boolean(Some(value)) => Some(Value::Bool(*value)),
            _ => None,
        },
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => {
            integer().map(Value::Int)
        }
        ColumnType::UInt32 | ColumnType::UInt64 => None,
        ColumnType::Float32 | ColumnType::Float64 => match value {
            ScalarValue::Float32(Some(value)) if !value.is_nan() => Some(Value::Float(f64::from(*value))),
            ScalarValue::Float64(Some(value)) if !value.is_nan() => Some(Value::Float(*value)),
            _ => None,
        },
        ColumnType::Decimal { scale, .. } => match value {
            ScalarValue::Decimal128(Some(value), _, from) => rescaled(*value, *from, scale)
                .filter(|(_, exact)| *exact)
                .map(|(value, _)| Value::Decimal(value)),
            _ => None,
        },
        ColumnType::String => value.try_as_str().flatten().map(|text| {
            // It is stored without blanks at its end, which do not matter to comparisons.
            let is_padded = matches!(declared, DeclaredType::Char(_));
            Value::String(if is_padded { text.trim_end_matches(' ') } else { text }.to_owned())
        }),
        ColumnType::Binary => match value {
            ScalarValue::Binary(Some(bytes))
            | ScalarValue::LargeBinary(Some(bytes))
            | ScalarValue::BinaryView(Some(bytes)) => Some(Value::Binary(bytes.clone())),
            _ => None,
        },
        ColumnType::Date => match value {
            ScalarValue::Date32(Some(days)) => Some(Value::Int(i64::from(*days))),
            _ => None,
        },
        ColumnType::Timestamp => {
            let (number, factor) = match value {
                ScalarValue::TimestampNanosecond(Some(number), _) => (*number, 1),
                ScalarValue::TimestampMicrosecond(Some(number), _) => (*number, 1_000),
                ScalarValue::TimestampMillisecond(Some(number), _) => (*number, 1_000_000),
                ScalarValue::TimestampSecond(Some(number), _) => (*number, 1_000_000_000),
                _ => return None,
            };
            number.checked_mul(factor).map(Value::Int)
        }
    }
}

fn listed(list: &InList, columns: &TableColumns) -> Option<Condition> {
    let column = column_of(&list.expr, columns)?;
    let operands: Vec<Operand> = list.list.iter().map(operand_of).collect::<Option<_>>()?;
    if list.negated {
        let mut unequal = operands.iter().map(|operand| compared(column, Operator::NotEq, operand));
        return unequal.try_fold(Condition::All(Vec::new()), |all, next| Some(all.and(next?)));
    }
    let mut values = Vec::with_capacity(operands.len());
    for operand in &operands {
        match operand {
            // A row that is in the list without it is found, any other is not: unknown is as good as false.
            Operand::Known(value) if value.is_null() => {}
            // Of a decimal with more digits than the column has no value is equal.
            Operand::Known(value) => match compared(column, Operator::Eq, &Operand::Known(value.clone()))? {
                Condition::All(all) => {
                    values.extend(all.into_iter().filter_map(|own| match own.comparison {
                        Comparison::Equal(value) => Some(value),
                        _ => None,
                    }))
                }
                Condition::Never => {}
            },
            Operand::Unknown if is_float(column) => return None,
            Operand::Unknown => values.push(example(column.declared_type.column_type())),
        }
    }
    Some(Condition::one(column, Comparison::In(values)))
}

/// Two conditions one of which must hold: only if both ask for certain values of one column.
fn either(left: Condition, right: Condition) -> Option<Condition> {
    let values = |condition: Condition| match condition {
        Condition::All(mut all) if all.len() == 1 => {
            let Predicate { column, comparison } = all.remove(0);
            match comparison {
                Comparison::Equal(value) => Some((column, vec![value])),
                Comparison::In(values) => Some((column, values)),
                _ => None,
            }
        }
        _ => None,
    };
    let ((column, mut all), (other, others)) = (values(left)?, values(right)?);
    if column != other {
        return None;
    }
    all.extend(others);
    Some(Condition::All(vec![Predicate { column, comparison: Comparison::In(all) }]))
}

fn truth(expression: &Expr, columns: &TableColumns, wanted: bool) -> Option<Condition> {
    let column = column_of(expression, columns)?;
    let is_bool = column.declared_type == DeclaredType::Bool;
    is_bool.then(|| Condition::one(column, Comparison::Equal(Value::Bool(wanted))))
}
