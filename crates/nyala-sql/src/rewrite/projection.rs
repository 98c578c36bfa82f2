//! Columns of one name: PostgreSQL allows `SELECT NULL, NULL`, the planner wants names of their own.

use datafusion::sql::sqlparser::ast::{Ident, Select, SelectItem};
use std::collections::HashSet;

/// Gives columns whose names are taken names that nobody writes. What clients are told is decided elsewhere.
pub(super) fn tell_apart(select: &mut Select) {
    if select.projection.len() < 2 {
        return;
    }
    let mut taken: HashSet<String> = HashSet::new();
    for (item, number) in select.projection.iter_mut().zip(0..) {
        let name = match item {
            SelectItem::UnnamedExpr(expression) => expression.to_string(),
            SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
            _ => continue,
        };
        if taken.insert(name.clone()) {
            continue;
        }
        let alias = Ident::with_quote('"', format!("\u{1}{name} {number}"));
        match item {
            SelectItem::UnnamedExpr(expression) => {
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
            }
            SelectItem::ExprWithAlias { alias: own, .. } => *own = alias,
            _ => {}
        }
    }
}
