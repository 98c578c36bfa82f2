//! `(a, b) IN (SELECT …)` in conditions, which the planner has for one column only, as EXISTS. Where a condition has to hold,
//! false and unknown are the same; as a value of a column they are not, and there it is left as it is.

use crate::expression::parsed;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query};

/// Rewrites what a condition is made of by AND and OR.
pub(super) fn rewrite(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            rewrite(left);
            rewrite(right);
        }
        Expr::Nested(inner) => rewrite(inner),
        Expr::InSubquery { expr, subquery, negated } => {
            if let Expr::Tuple(row) = &**expr
                && let Some(exists) = exists(row, subquery, *negated)
            {
                *condition = exists;
            }
        }
        _ => {}
    }
}

/// The same for a row that is in an answer, or not: then nothing is there that may be equal.
fn exists(row: &[Expr], subquery: &Query, is_negated: bool) -> Option<Expr> {
    // Names that nobody writes.
    let column = |place: usize| format!("\"\u{1}in {place}\"");
    let columns: Vec<String> = (0..row.len()).map(column).collect();
    let conditions = row.iter().zip(&columns).map(|(value, column)| match is_negated {
        true => format!("(({column} = ({value})) IS NOT FALSE)"),
        false => format!("({column} = ({value}))"),
    });
    let conditions: Vec<String> = conditions.collect();
    let not = if is_negated { "NOT " } else { "" };
    let text = format!(
        "({not}EXISTS (SELECT 1 FROM ({subquery}) AS \"\u{1}in\" ({}) WHERE {}))",
        columns.join(", "),
        conditions.join(" AND ")
    );
    parsed(&text).ok()
}
