//! What a WHERE clause asks of time, of tags, of fields.
//!
//! Time becomes a range, conditions on tags alone select series in the index, comparisons of one field
//! with a constant are pushed down to the store; the rest is evaluated row by row.

use super::rewrite::{compile_regex, condition_type};
use super::types::type_in_measurement;
use super::{WindowRule, literal_value};
use crate::exec::column::Scalar;
use crate::influxql::{self, Binary, BinaryOperator, DataType, Expr, Select, VarRef};
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{Error, Result, Value};
use nyala_db::catalog::Measurement;
use nyala_db::series::TagFilter;

/// The first and the last time a condition allows, where it bounds them.
pub type TimeBounds = (Option<i64>, Option<i64>);

/// Takes the bounds on time out of a statement's condition.
pub fn split_time(select: &Select, now_ns: i64) -> Result<(TimeBounds, Option<Expr>)> {
    let Some(condition) = &select.condition else { return Ok(((None, None), None)) };
    let split = influxql::split_condition(condition, now_ns, select.zone)
        .map_err(|error| Error::invalid(error.to_string()))?;
    Ok(((split.range.minimum, split.range.maximum), split.condition))
}

/// The windows of a statement.
pub fn window_rule(select: &Select, now_ns: i64) -> Result<Option<WindowRule>> {
    let Some(call) = select.time_dimension() else { return Ok(None) };
    let interval_ns = match call.args.first() {
        Some(Expr::Duration(interval_ns)) if *interval_ns > 0 => *interval_ns,
        _ => return Ok(None),
    };
    let offset_ns = match call.args.get(1) {
        None => 0,
        Some(Expr::Duration(offset_ns)) => offset_ns % interval_ns,
        Some(Expr::Call(call)) if call.name == "now" => now_ns.rem_euclid(interval_ns),
        Some(Expr::String(text)) => {
            let time = influxql::parse_time(text, select.zone)
                .ok_or_else(|| Error::invalid(format!("invalid time dimension offset: {text}")))?;
            time.unix_ns.rem_euclid(interval_ns.into()) as i64
        }
        Some(other) => return Err(Error::invalid(format!("invalid time dimension offset: {other}"))),
    };
    Ok(Some(WindowRule { interval_ns, offset_ns, zone: select.zone }))
}

/// A condition in two parts that must both hold: one for the index, one for the rows.
pub struct Split {
    /// Selects series.
    pub tags: TagFilter,
    /// What is left to ask of their rows.
    pub rows: Option<Expr>,
}

/// Splits a condition for one measurement.
pub fn split_tags(measurement: &Measurement, condition: Option<&Expr>) -> Result<Split> {
    match condition {
        None => Ok(Split { tags: TagFilter::All, rows: None }),
        Some(condition) => split(measurement, condition),
    }
}

fn split(measurement: &Measurement, condition: &Expr) -> Result<Split> {
    match condition {
        Expr::Paren(inner) => split(measurement, inner),
        Expr::Boolean(true) => Ok(Split { tags: TagFilter::All, rows: None }),
        Expr::Boolean(false) => Ok(Split { tags: TagFilter::None, rows: None }),
        Expr::Binary(binary) => match binary.op {
            BinaryOperator::And => {
                let (left, right) = (split(measurement, &binary.lhs)?, split(measurement, &binary.rhs)?);
                let rows = match (left.rows, right.rows) {
                    (Some(left), Some(right)) => Some(Expr::binary(BinaryOperator::And, left, right)),
                    (left, right) => left.or(right),
                };
                Ok(Split { tags: both(left.tags, right.tags), rows })
            }
            BinaryOperator::Or => {
                let (left, right) = (split(measurement, &binary.lhs)?, split(measurement, &binary.rhs)?);
                if left.rows.is_none() && right.rows.is_none() {
                    let tags = TagFilter::Or(vec![left.tags, right.tags]);
                    return Ok(Split { tags, rows: None });
                }
                Ok(Split { tags: TagFilter::All, rows: Some(condition.clone()) })
            }
            _ => match tag_comparison(measurement, binary)? {
                Some(tags) => Ok(Split { tags, rows: None }),
                None => Ok(Split { tags: TagFilter::All, rows: Some(condition.clone()) }),
            },
        },
        other => Ok(Split { tags: TagFilter::All, rows: Some(other.clone()) }),
    }
}

fn both(left: TagFilter, right: TagFilter) -> TagFilter {
    match (left, right) {
        (TagFilter::All, other) | (other, TagFilter::All) => other,
        (TagFilter::And(mut all), other) | (other, TagFilter::And(mut all)) => {
            all.push(other);
            TagFilter::And(all)
        }
        (left, right) => TagFilter::And(vec![left, right]),
    }
}

fn tag_comparison(measurement: &Measurement, binary: &Binary) -> Result<Option<TagFilter>> {
    let (reference, other) = match (&binary.lhs, &binary.rhs) {
        (Expr::VarRef(reference), other) | (other, Expr::VarRef(reference)) => (reference, other),
        _ => return Ok(None),
    };
    if condition_type(measurement, reference) != DataType::Tag {
        return Ok(None);
    }
    let key = reference.name.clone();
    Ok(match (binary.op, other) {
        (BinaryOperator::Equal, Expr::String(value)) => Some(TagFilter::Equal(key, value.clone())),
        (BinaryOperator::NotEqual, Expr::String(value)) => Some(TagFilter::NotEqual(key, value.clone())),
        (BinaryOperator::Matches, Expr::Regex(regex)) => {
            Some(TagFilter::Matches(key, bytes_regex(regex.as_str())?))
        }
        (BinaryOperator::NotMatches, Expr::Regex(regex)) => {
            Some(TagFilter::MatchesNot(key, bytes_regex(regex.as_str())?))
        }
        _ => None,
    })
}

fn bytes_regex(source: &str) -> Result<regex::bytes::Regex> {
    compile_regex(source)?;
    regex::bytes::Regex::new(source).map_err(|error| Error::invalid(error.to_string()))
}

/// The comparisons of a condition that a store can evaluate, when they are all there is to it.
///
/// `None`: some part needs evaluation row by row.
pub fn predicates(measurement: &Measurement, condition: Option<&Expr>) -> Option<Vec<Predicate>> {
    let mut found = Vec::new();
    match condition {
        None => Some(found),
        Some(condition) => collect_predicates(measurement, condition, &mut found).map(|()| found),
    }
}

fn collect_predicates(measurement: &Measurement, condition: &Expr, found: &mut Vec<Predicate>) -> Option<()> {
    match condition {
        Expr::Paren(inner) => collect_predicates(measurement, inner, found),
        Expr::Binary(binary) if binary.op == BinaryOperator::And => {
            collect_predicates(measurement, &binary.lhs, found)?;
            collect_predicates(measurement, &binary.rhs, found)
        }
        Expr::Binary(binary) => {
            found.push(predicate(measurement, binary)?);
            Some(())
        }
        _ => None,
    }
}

fn predicate(measurement: &Measurement, binary: &Binary) -> Option<Predicate> {
    let (reference, literal, operator) = match (&binary.lhs, &binary.rhs) {
        (Expr::VarRef(reference), literal) => (reference, literal, binary.op),
        (literal, Expr::VarRef(reference)) => (reference, literal, mirrored(binary.op)?),
        _ => return None,
    };
    let column = only_column(measurement, reference)?;
    let literal = literal_value(literal).ok().flatten()?;
    let value = match (column.1, literal) {
        (DataType::Float, Scalar::Float(value)) => Value::Float(value),
        (DataType::Float, Scalar::Integer(value)) => Value::Float(value as f64),
        (DataType::Integer, Scalar::Integer(value)) => Value::Int(value),
        (DataType::Integer, Scalar::Float(value)) => return integer_with_float(column.0, operator, value),
        (DataType::Unsigned, Scalar::Unsigned(value)) => Value::UInt(value),
        (DataType::Unsigned, Scalar::Integer(value)) => Value::UInt(u64::try_from(value).ok()?),
        (DataType::String, Scalar::String(value)) if is_equality(operator) => Value::String(value),
        (DataType::Boolean, Scalar::Boolean(value)) if operator == BinaryOperator::Equal => {
            Value::Bool(value)
        }
        _ => return None,
    };
    Some(Predicate { column: column.0, comparison: comparison(operator, value)? })
}

/// The column of a field that has only ever had one type, and is not cast to another.
pub fn only_column(
    measurement: &Measurement,
    reference: &VarRef,
) -> Option<(nyala_core::ColumnId, DataType)> {
    let fields = measurement.fields();
    let mut of_name = fields.iter().filter(|field| field.name == reference.name);
    let (field, None) = (of_name.next()?, of_name.next()) else { return None };
    let own = type_in_measurement(measurement, &reference.name)?;
    let fits = reference.data_type.is_none_or(|cast| cast == own || cast == DataType::AnyField);
    fits.then_some((field.column, own))
}

fn is_equality(operator: BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual)
}

/// The operator with its sides exchanged.
fn mirrored(operator: BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    Some(match operator {
        Equal | NotEqual => operator,
        Less => Greater,
        LessOrEqual => GreaterOrEqual,
        Greater => Less,
        GreaterOrEqual => LessOrEqual,
        _ => return None,
    })
}

fn comparison(operator: BinaryOperator, value: Value) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Equal => Comparison::Equal(value),
        BinaryOperator::NotEqual => Comparison::NotEqual(value),
        BinaryOperator::Less => Comparison::Less(value),
        BinaryOperator::LessOrEqual => Comparison::LessOrEqual(value),
        BinaryOperator::Greater => Comparison::Greater(value),
        BinaryOperator::GreaterOrEqual => Comparison::GreaterOrEqual(value),
        _ => return None,
    })
}

/// An integer column against a float: only where integers up to the bound are exact as floats.
fn integer_with_float(
    column: nyala_core::ColumnId,
    operator: BinaryOperator,
    bound: f64,
) -> Option<Predicate> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if bound.is_nan() || bound.abs() >= EXACT {
        return None;
    }
    let floor = bound.floor() as i64;
    let whole = bound.fract() == 0.0;
    let comparison = match operator {
        BinaryOperator::Greater => Comparison::Greater(Value::Int(floor)),
        BinaryOperator::GreaterOrEqual if whole => Comparison::GreaterOrEqual(Value::Int(floor)),
        BinaryOperator::GreaterOrEqual => Comparison::Greater(Value::Int(floor)),
        BinaryOperator::Less if whole => Comparison::Less(Value::Int(floor)),
        BinaryOperator::Less | BinaryOperator::LessOrEqual => Comparison::LessOrEqual(Value::Int(floor)),
        BinaryOperator::Equal if whole => Comparison::Equal(Value::Int(floor)),
        BinaryOperator::Equal => Comparison::In(Vec::new()),
        BinaryOperator::NotEqual if whole => Comparison::NotEqual(Value::Int(floor)),
        BinaryOperator::NotEqual => Comparison::IsNotNull,
        _ => return None,
    };
    Some(Predicate { column, comparison })
}
