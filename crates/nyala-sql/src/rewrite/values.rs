//! `VALUES (1), ('2')`: a literal in quotes gets the type of the numbers above and below it. The planner would make texts of the
//! numbers, and the types of its own tree no longer tell.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, SetExpr, UnaryOperator, Value,
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
                let Some(has_point) = numbers else { continue };
                let data_type = match has_point {
                    true => DataType::Numeric(ExactNumberInfo::None),
                    false => DataType::BigInt(None),
                };
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

fn is_text(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(own) if matches!(own.value, Value::SingleQuotedString(_)))
}

fn give(cell: &mut Expr, data_type: &DataType) {
    let (kind, expr, data_type) = (CastKind::Cast, Box::new(cell.clone()), data_type.clone());
    *cell = Expr::Cast { kind, expr, data_type, array: false, format: None };
}
