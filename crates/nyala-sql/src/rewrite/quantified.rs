//! Comparisons with all rows of a subquery, or any: `x > ALL (SELECT …)`. The planner means something else by some of them.

use super::cast::array_elements;
use crate::parser_dialect::SqlDialect;
use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, Expr, Query, Statement, Value};
use datafusion::sql::sqlparser::parser::Parser;

/// The column of the subquery. Nobody writes such a name.
const VALUE: &str = "\"\u{1}set\".\"\u{1}value\"";

pub(super) fn rewrite(expression: &mut Expr) {
    let (left, op, right, is_any) = match expression {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
        _ => return,
    };
    if let Some(elem) = array_elements(right) {
        // The text of an array, which has no type of its own.
        **right = Expr::Array(Array { elem, named: true });
    }
    if let Expr::Array(array) = &**right {
        let is_list = !array.elem.is_empty() && !array.elem.iter().any(|own| matches!(own, Expr::Array(_)));
        let negated = matches!((is_any, &*op), (false, BinaryOperator::NotEq));
        if is_list && (negated || matches!((is_any, &*op), (true, BinaryOperator::Eq))) {
            // Elements may be NULL, which the planner forgets.
            let (expr, list) = (left.clone(), array.elem.clone());
            *expression = Expr::InList { expr, list, negated };
        }
        return;
    }
    let Expr::Subquery(query) = &mut **right else { return };
    let is_equal = matches!(op, BinaryOperator::Eq);
    let is_unequal = matches!(op, BinaryOperator::NotEq);
    let (expr, subquery) = (left.clone(), query.clone());
    *expression = match (is_any, is_equal, is_unequal) {
        (true, true, _) => Expr::InSubquery { expr, subquery, negated: false },
        (false, _, true) => Expr::InSubquery { expr, subquery, negated: true },
        (true, ..) => exists(&format!("{left} {op} {VALUE}"), subquery, false),
        // What is not known is not true of all.
        (false, ..) => exists(&format!("({left} {op} {VALUE}) IS NOT TRUE"), subquery, true),
    };
}

/// Whether a subquery has rows that satisfy a condition.
fn exists(condition: &str, subquery: Box<Query>, negated: bool) -> Expr {
    let text = format!("SELECT 1 FROM ({subquery}) AS \"\u{1}set\" (\"\u{1}value\") WHERE {condition}");
    let parsed = Parser::parse_sql(&SqlDialect, &text).ok().and_then(|mut all| all.pop());
    match parsed {
        Some(Statement::Query(query)) => Expr::Exists { subquery: query, negated },
        _ => Expr::InSubquery { expr: Box::new(Expr::value(Value::Boolean(false))), subquery, negated },
    }
}
