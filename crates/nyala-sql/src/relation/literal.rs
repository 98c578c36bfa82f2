//! Expressions whose value is known without a plan: literals, casts of literals, and the time of the statement.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::placeholder::number_of;
use crate::relation::datum::Datum;
use crate::relation::declared_type::declared_type;
use crate::relation::input::{Surroundings, read};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Function, FunctionArgumentList, FunctionArguments, TypedString, UnaryOperator, Value,
};
use nyala_db::relations::DeclaredType;

/// Whether an expression is a literal, a parameter or the like, so that [`datum`] gives its value.
pub(crate) fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => matches!(
            value.value,
            Value::Number(..)
                | Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::Boolean(_)
                | Value::Null
                | Value::Placeholder(_)
        ),
        Expr::Nested(inner) => is_literal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => number(expr).is_some(),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => is_text(expr) && declared_type(data_type).is_ok(),
        Expr::TypedString(typed) => declared_type(&typed.data_type).is_ok(),
        Expr::Function(function) => time_function(function).is_some(),
        _ => false,
    }
}

/// The number of a parameter, if an expression is one. A number that no parameter can have is none.
pub(crate) fn parameter(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => number_of(name).ok(),
            _ => None,
        },
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}

/// The value of such an expression. `parameters` are the values of parameters.
pub(crate) fn datum<'a>(
    expression: &'a Expr,
    parameters: &'a [ScalarValue],
    around: &Surroundings,
) -> SqlResult<Datum<'a>> {
    let unknown = || SqlError::new(SqlState::INTERNAL, format!("{expression} is no literal"));
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Ok(Datum::Number(text.as_str().into())),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Ok(Datum::Unknown(text.as_str().into()))
            }
            Value::DollarQuotedString(text) => Ok(Datum::Unknown(text.value.as_str().into())),
            Value::Boolean(value) => Ok(Datum::Bool(*value)),
            Value::Null => Ok(Datum::Null),
            Value::Placeholder(name) => {
                let value = parameter(expression).and_then(|number| parameters.get(number - 1));
                let value = value.ok_or_else(|| {
                    SqlError::new(SqlState::UNKNOWN_PARAMETER, format!("there is no parameter {name}"))
                })?;
                // Clients send texts for what they do not know the type of.
                Datum::of_scalar(value, true).ok_or_else(|| {
                    let message = format!("a parameter cannot be of type {}", value.data_type());
                    SqlError::new(SqlState::TYPE_MISMATCH, message)
                })
            }
            _ => Err(unknown()),
        },
        Expr::Nested(inner) => datum(inner, parameters, around),
        Expr::UnaryOp { op, expr } => {
            let digits = number(expr).ok_or_else(unknown)?;
            Ok(match op {
                UnaryOperator::Minus => Datum::Number(format!("-{digits}").into()),
                _ => Datum::Number(digits.into()),
            })
        }
        Expr::Cast { expr, data_type, .. } => typed(text_of(expr).ok_or_else(unknown)?, data_type, around),
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            let text = value.value.clone().into_string().ok_or_else(unknown)?;
            typed(&text, data_type, around)
        }
        Expr::Function(function) => match time_function(function).ok_or_else(unknown)? {
            TimeFunction::Now => Ok(Datum::Moment(around.now_ns)),
            TimeFunction::Date => match read("today", DeclaredType::Date, around)? {
                nyala_core::Value::Int(days) => Ok(Datum::Date(days as i32)),
                _ => Err(unknown()),
            },
        },
        _ => Err(unknown()),
    }
}

/// A text that was cast to a type.
fn typed(
    text: &str,
    data_type: &datafusion::sql::sqlparser::ast::DataType,
    around: &Surroundings,
) -> SqlResult<Datum<'static>> {
    use nyala_core::Value as Stored;
    let declared = declared_type(data_type)?;
    Ok(match (read(text, declared, around)?, declared.unrounded()) {
        (Stored::Bool(value), _) => Datum::Bool(value),
        (Stored::Int(days), DeclaredType::Date) => Datum::Date(days as i32),
        (Stored::Int(time_ns), DeclaredType::Timestamp) => Datum::Timestamp(time_ns),
        (Stored::Int(time_ns), DeclaredType::Timestamptz) => Datum::Moment(time_ns),
        (Stored::Int(value), _) => Datum::Int(value.into()),
        (Stored::UInt(value), _) => Datum::Int(value.into()),
        (Stored::Float(value), _) => Datum::Float(value),
        (Stored::Decimal(value), DeclaredType::Numeric { scale, .. }) => Datum::Decimal(value, scale as i8),
        (Stored::Decimal(value), _) => Datum::Decimal(value, 0),
        (Stored::String(text), _) => Datum::Text(text.into()),
        (Stored::Binary(bytes), _) => Datum::Bytes(bytes.into()),
    })
}

fn number(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn is_text(expression: &Expr) -> bool {
    text_of(expression).is_some()
}

fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

enum TimeFunction {
    Now,
    Date,
}

fn time_function(function: &Function) -> Option<TimeFunction> {
    let has_arguments = match &function.args {
        FunctionArguments::None => false,
        FunctionArguments::List(FunctionArgumentList { args, .. }) => !args.is_empty(),
        FunctionArguments::Subquery(_) => true,
    };
    if has_arguments {
        return None;
    }
    match &*function.name.to_string().to_lowercase() {
        "now" | "current_timestamp" | "transaction_timestamp" => Some(TimeFunction::Now),
        "current_date" => Some(TimeFunction::Date),
        _ => None,
    }
}
