//! The types of references and expressions, for the sources of a statement.

use super::call::arguments_shown;
use super::reference::fields_named;
use super::rewritten::{Rewritten, RewrittenSource};
use crate::influxql::{Binary, BinaryOperator, DataType, Expr, VarRef};
use nyala_core::{Error, Result};
use nyala_db::catalog::{Field, Measurement};
use nyala_exec::ValueType;
use nyala_exec::elementary::MathFunction;
use std::collections::HashMap;

/// The type that queries see if one name has two types in different sources.
pub fn stronger(a: Option<DataType>, b: Option<DataType>) -> Option<DataType> {
    a.into_iter().chain(b).min()
}

/// The type of a name in a measurement: the strongest type of the field, else a tag if some series has it.
pub fn type_in_measurement(measurement: &Measurement, fields: &[Field], name: &str) -> Option<DataType> {
    let field = fields_named(fields, name).iter().fold(None, |found, field| {
        stronger(found, Some(DataType::of(ValueType::of_field(field.field_type))))
    });
    field.or_else(|| measurement.has_tag_key(name).then_some(DataType::Tag))
}

/// The type of a name in a condition, for one measurement: the type that was resolved or written, else a tag that no series
/// has.
pub fn condition_type(measurement: &Measurement, reference: &VarRef) -> DataType {
    let known = reference
        .data_type
        .or_else(|| type_in_measurement(measurement, &measurement.fields(), &reference.name));
    known.unwrap_or(DataType::Tag)
}

/// The type of a name in all sources.
pub fn type_of_name(sources: &[RewrittenSource], name: &str) -> Option<DataType> {
    sources.iter().fold(None, |found, source| {
        let here = match source {
            RewrittenSource::Measurement(measurement, fields) => {
                type_in_measurement(measurement, fields, name)
            }
            RewrittenSource::Subquery(inner) => {
                let types = inner.types.get_or_init(|| types_of_columns(inner));
                let of_field = types.get(name).copied().flatten();
                of_field.or_else(|| inner.group_tags().any(|tag| tag == name).then_some(DataType::Tag))
            }
        };
        stronger(found, here)
    })
}

/// The types of an inner query's columns by the names that outer queries use; of several with one name the first counts.
pub(crate) fn types_of_columns(inner: &Rewritten) -> HashMap<String, Option<DataType>> {
    let mut types = HashMap::new();
    for field in &inner.select.fields {
        types.entry(field.name()).or_insert_with(|| type_of(&inner.sources, &field.expr));
        if let Expr::Call(call) = &field.expr {
            for shown in arguments_shown(call) {
                let name = shown.name.clone();
                types.entry(name).or_insert_with(|| type_of(&inner.sources, &Expr::VarRef(shown.clone())));
            }
        }
    }
    types
}

/// The type of an expression, or `None` where it has none.
pub fn type_of(sources: &[RewrittenSource], expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::VarRef(reference) => match reference.data_type {
            None | Some(DataType::AnyField) => type_of_name(sources, &reference.name),
            cast => cast,
        },
        Expr::Call(call) => {
            let first = || call.args.first().and_then(|argument| type_of(sources, argument));
            match call.name.as_str() {
                "count" | "elapsed" => Some(DataType::Integer),
                name if gives_float(name) => Some(DataType::Float),
                "abs" | "floor" | "ceil" | "round" => first(),
                name if MathFunction::named(name).is_some() => Some(DataType::Float),
                _ => first(),
            }
        }
        Expr::Paren(inner) => type_of(sources, inner),
        Expr::Binary(binary) => type_of_binary(sources, binary),
        literal => type_of_literal(literal),
    }
}

fn type_of_literal(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Boolean(_) => Some(DataType::Boolean),
        Expr::Integer(_) => Some(DataType::Integer),
        Expr::Unsigned(_) => Some(DataType::Unsigned),
        Expr::Number(_) => Some(DataType::Float),
        Expr::String(_) => Some(DataType::String),
        _ => None,
    }
}

/// Whether a function gives floats for input of any type.
fn gives_float(function: &str) -> bool {
    matches!(
        function,
        "mean"
            | "median"
            | "stddev"
            | "integral"
            | "derivative"
            | "non_negative_derivative"
            | "moving_average"
            | "exponential_moving_average"
            | "double_exponential_moving_average"
            | "triple_exponential_moving_average"
            | "relative_strength_index"
            | "triple_exponential_derivative"
            | "kaufmans_efficiency_ratio"
            | "kaufmans_adaptive_moving_average"
            | "chande_momentum_oscillator"
            | "holt_winters"
            | "holt_winters_with_fit"
    )
}

fn type_of_binary(sources: &[RewrittenSource], binary: &Binary) -> Option<DataType> {
    if binary.op.is_logical() {
        return Some(DataType::Boolean);
    }
    match (type_of(sources, &binary.lhs), type_of(sources, &binary.rhs)) {
        // An integer next to an unsigned integer is a literal.
        (Some(DataType::Unsigned), Some(DataType::Integer))
        | (Some(DataType::Integer), Some(DataType::Unsigned)) => Some(DataType::Unsigned),
        // Next to a name that is no field the other one decides.
        (left, right) => stronger(left, right),
    }
}

/// Checks that the operations of a selected expression are possible between the types of their operands, and finds
/// its type; `None`: it is unknown.
pub fn check_operations(expr: &Expr) -> Result<Option<DataType>> {
    Ok(match expr {
        Expr::VarRef(reference) => reference.data_type.filter(|data_type| *data_type != DataType::AnyField),
        Expr::Call(call) => {
            let arguments: Vec<_> = call.args.iter().map(check_operations).collect::<Result<_>>()?;
            match call.name.as_str() {
                "count" | "elapsed" => Some(DataType::Integer),
                name if gives_float(name) => Some(DataType::Float),
                _ => arguments.first().copied().flatten(),
            }
        }
        Expr::Paren(inner) => check_operations(inner)?,
        Expr::Binary(binary) => {
            let (left, right) = (check_operations(&binary.lhs)?, check_operations(&binary.rhs)?);
            let refuse = |words: String| Err(Error::invalid(format!("type error: {expr}: {words}")));
            let operator = binary.op.as_str();
            let (integer, unsigned) = match (left, right) {
                (Some(DataType::Unsigned), Some(DataType::Integer)) => (&binary.rhs, &binary.lhs),
                (Some(DataType::Integer), Some(DataType::Unsigned)) => (&binary.lhs, &binary.rhs),
                (Some(left), Some(right)) => match type_of_operation(binary.op, left, right) {
                    Some(data_type) => return Ok(Some(data_type)),
                    None => {
                        let (left, right) = (left.as_str(), right.as_str());
                        return refuse(format!("incompatible types: {left} and {right}"));
                    }
                },
                (known, None) | (None, known) => return Ok(known),
            };
            if unsigned.is_literal() {
                return refuse(format!("cannot use {operator} with an integer and unsigned literal"));
            }
            if !integer.is_literal() {
                return refuse(format!(
                    "cannot use {operator} between an integer and unsigned, an explicit cast is required"
                ));
            }
            type_of_operation(binary.op, DataType::Unsigned, DataType::Unsigned)
        }
        literal => type_of_literal(literal),
    })
}

/// The type of an operation's result; `None`: the operation is not possible between these types.
fn type_of_operation(operator: BinaryOperator, left: DataType, right: DataType) -> Option<DataType> {
    use BinaryOperator::{And, BitwiseAnd, BitwiseOr, BitwiseXor, Or};
    use DataType::{AnyField, Boolean, Float, Integer, Unsigned};
    let is_number = |data_type| matches!(data_type, Float | Integer | Unsigned | AnyField);
    let bitwise = matches!(operator, BitwiseAnd | BitwiseOr | BitwiseXor);
    match operator {
        And | Or => (left == Boolean && right == Boolean).then_some(Boolean),
        _ if operator.is_logical() => Some(Boolean),
        _ if left == Boolean && right == Boolean => bitwise.then_some(Boolean),
        _ if !is_number(left) || !is_number(right) => None,
        _ if matches!(left, Float | AnyField) || matches!(right, Float | AnyField) => {
            (!bitwise).then_some(Float)
        }
        _ if left == Unsigned || right == Unsigned => Some(Unsigned),
        _ => Some(Integer),
    }
}
