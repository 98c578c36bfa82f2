//! `(a, b) IN (SELECT …)` in conditions, which the planner has for one column only, as EXISTS. Where a condition has to hold,
//! false and unknown are the same; as a value of a column they are not, and there it is left as it is.

use super::row_values::{joined, pair};
use crate::expression::parsed;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Query, SetExpr, TableFactor};

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
    let column = |place: usize| Ident::with_quote('"', format!("\u{1}in {place}"));
    let columns: Vec<Ident> = (0..row.len()).map(column).collect();
    let names: Vec<String> = columns.iter().map(Ident::to_string).collect();
    let text = format!("EXISTS (SELECT 1 FROM (SELECT 1) AS \"\u{1}in\" ({}))", names.join(", "));
    let mut found = parsed(&text).ok()?;
    let Expr::Exists { subquery: around, negated } = &mut found else { return None };
    *negated = is_negated;
    let SetExpr::Select(select) = &mut *around.body else { return None };
    let TableFactor::Derived { subquery: inner, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    // As it was written, so that its errors have their places.
    **inner = subquery.clone();
    let equal = row.iter().zip(columns).map(|(value, column)| {
        let equal = Expr::Nested(Box::new(pair(&Expr::Identifier(column), BinaryOperator::Eq, value)));
        if is_negated { Expr::IsNotFalse(Box::new(equal)) } else { equal }
    });
    select.selection = joined(equal.collect(), BinaryOperator::And);
    Some(Expr::Nested(Box::new(found)))
}
