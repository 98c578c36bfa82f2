//! The types of references and expressions, given where rows come from.

use super::rewrite::RewrittenSource;
use crate::exec::expression::MathFunction;
use crate::influxql::{Binary, BinaryOperator, DataType, Expr};
use nyala_db::catalog::{FieldType, Measurement};

/// The type that InfluxQL gives a field.
pub fn data_type(field_type: FieldType) -> DataType {
    match field_type {
        FieldType::Float => DataType::Float,
        FieldType::Integer => DataType::Integer,
        FieldType::Unsigned => DataType::Unsigned,
        FieldType::String => DataType::String,
        FieldType::Boolean => DataType::Boolean,
    }
}

/// Of two types that one name has in different places, the one that queries see.
pub fn stronger(a: Option<DataType>, b: Option<DataType>) -> Option<DataType> {
    let rank = |data_type: &DataType| match data_type {
        DataType::Float => 0,
        DataType::Integer => 1,
        DataType::Unsigned => 2,
        DataType::String => 3,
        DataType::Boolean => 4,
        DataType::Tag => 5,
        DataType::AnyField => 6,
    };
    a.into_iter().chain(b).min_by_key(rank)
}

/// What a name is in a measurement: a field of the strongest type it has, else a tag if some series has it.
pub fn type_in_measurement(measurement: &Measurement, name: &str) -> Option<DataType> {
    let fields = measurement.fields();
    let of_name = fields.iter().filter(|field| field.name == name);
    let field = of_name.fold(None, |found, field| stronger(found, Some(data_type(field.field_type))));
    field.or_else(|| measurement.series().has_key(name).then_some(DataType::Tag))
}

/// What a name is in all sources.
pub fn type_of_name(sources: &[RewrittenSource], name: &str) -> Option<DataType> {
    sources.iter().fold(None, |found, source| {
        let here = match source {
            RewrittenSource::Measurement(measurement) => type_in_measurement(measurement, name),
            RewrittenSource::Subquery(inner) => {
                let field = inner.select.fields.iter().find(|field| field.name() == name);
                let of_field = field.and_then(|field| type_of(&inner.sources, &field.expr));
                of_field.or_else(|| inner.group_tags().any(|tag| tag == name).then_some(DataType::Tag))
            }
        };
        stronger(found, here)
    })
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
                | "holt_winters_with_fit" => Some(DataType::Float),
                "abs" | "floor" | "ceil" | "round" => first(),
                name if MathFunction::named(name).is_some() => Some(DataType::Float),
                _ => first(),
            }
        }
        Expr::Paren(inner) => type_of(sources, inner),
        Expr::Binary(binary) => type_of_binary(sources, binary),
        Expr::Boolean(_) => Some(DataType::Boolean),
        Expr::Integer(_) => Some(DataType::Integer),
        Expr::Unsigned(_) => Some(DataType::Unsigned),
        Expr::Number(_) => Some(DataType::Float),
        Expr::String(_) => Some(DataType::String),
        _ => None,
    }
}

fn type_of_binary(sources: &[RewrittenSource], binary: &Binary) -> Option<DataType> {
    if binary.op.is_logical() {
        return Some(DataType::Boolean);
    }
    let (left, right) = (type_of(sources, &binary.lhs)?, type_of(sources, &binary.rhs)?);
    match (left, right) {
        (DataType::Integer, DataType::Integer) if binary.op == BinaryOperator::Divide => {
            Some(DataType::Float)
        }
        _ => stronger(Some(left), Some(right)),
    }
}
