//! `VALUES (1), ('2')` and `VALUES ('2026-01-01'::date), ('2026-01-02')`: a literal in quotes gets the type of what is above and
//! below it. The planner would make texts of numbers, whose types its own tree no longer tells, and refuses the others.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, SetExpr, TimezoneInfo, TypedString,
    UnaryOperator, Value,
};

/// Gives the literals of a query's VALUES their types.
pub(super) fn rewrite(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) if values.rows.len() > 1 => {
            let width = values.rows.first().map_or(0, |row| row.len());
            for place in 0..width {
                let column = values.rows.iter().filter_map(|row| row.get(place));
                let numbers = column.filter_map(number).fold(None, |found, has_point| match found {
                    None => Some(has_point),
                    Some(before) => Some(before || has_point),
                });
                let data_type = match numbers {
                    Some(true) => Some(DataType::Numeric(ExactNumberInfo::None)),
                    Some(false) => Some(DataType::BigInt(None)),
                    None => values.rows.iter().filter_map(|row| row.get(place)).find_map(type_of),
                };
                let Some(data_type) = data_type else { continue };
                let cells = values.rows.iter_mut().filter_map(|row| row.get_mut(place));
                cells.filter(|cell| is_text(cell)).for_each(|cell| give(cell, &data_type));
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            rewrite(left);
            rewrite(right);
        }
        _ => {}
    }
}

/// Whether a number has a point; `None` if an expression is no number.
fn number(expression: &Expr) -> Option<bool> {
    match expression {
        Expr::Value(own) => match &own.value {
            Value::Number(text, _) => Some(text.contains(['.', 'e', 'E'])),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => number(expr),
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}

/// The type that an expression is written with, or that of a function which gives the time; `None` if that is not known, or if it
/// is a text.
fn type_of(expression: &Expr) -> Option<DataType> {
    let zoned = || DataType::Timestamp(None, TimezoneInfo::WithTimeZone);
    match expression {
        Expr::Cast { data_type, array: false, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Some(without_digits(data_type))
        }
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Value(own) => matches!(own.value, Value::Boolean(_)).then_some(DataType::Boolean),
        Expr::Function(call) => {
            let name = call.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
            match &*name {
                "now"
                | "current_timestamp"
                | "clock_timestamp"
                | "statement_timestamp"
                | "transaction_timestamp" => Some(zoned()),
                "current_date" => Some(DataType::Date),
                _ => None,
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } => {
            match (type_of(left)?, type_of(right)) {
                (DataType::Date, None) => number(right).map(|_| DataType::Date),
                (DataType::Date, Some(DataType::Interval { .. })) => {
                    Some(DataType::Timestamp(None, TimezoneInfo::None))
                }
                (moment @ DataType::Timestamp(..), Some(DataType::Interval { .. })) => Some(moment),
                _ => None,
            }
        }
        Expr::Nested(inner) => type_of(inner),
        _ => None,
    }
    .filter(|own| !matches!(own, DataType::Text | DataType::Varchar(_) | DataType::Char(_)))
}

/// A type without the digits that one value was cut to: they are not those of its column.
fn without_digits(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => {
            DataType::Numeric(ExactNumberInfo::None)
        }
        DataType::Timestamp(_, zone) => DataType::Timestamp(None, *zone),
        DataType::Interval { .. } => DataType::Interval { fields: None, precision: None },
        other => other.clone(),
    }
}

fn is_text(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(own) if matches!(own.value, Value::SingleQuotedString(_)))
}

fn give(cell: &mut Expr, data_type: &DataType) {
    let (kind, expr, data_type) = (CastKind::Cast, Box::new(cell.clone()), data_type.clone());
    *cell = Expr::Cast { kind, expr, data_type, array: false, format: None };
}
