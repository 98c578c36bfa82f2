//! Columns of one name: PostgreSQL allows `SELECT NULL, NULL`, the planner wants names of their own.

use super::function::renamed;
use super::own_name;
use crate::call::{call, exact};
use crate::walk::each_expression_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
};
use std::collections::HashSet;

/// Gives columns whose names are taken names that nobody writes. What clients are told is decided elsewhere.
pub(super) fn tell_apart(select: &mut Select) {
    if select.projection.len() < 2 {
        return;
    }
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let has_wildcard = select.projection.iter().any(is_wildcard);
    let mut taken: HashSet<String> = HashSet::new();
    for (item, number) in select.projection.iter_mut().zip(0..) {
        let name = match item {
            SelectItem::UnnamedExpr(expression) => planned_name(expression),
            SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
            _ => continue,
        };
        // A wildcard may stand for the same column, and the planner calls a cast as what is cast.
        let may_come_again = has_wildcard
            && matches!(item, SelectItem::UnnamedExpr(own) if is_column(own) || is_cast_column(own));
        if taken.insert(name.clone()) && !may_come_again {
            continue;
        }
        let alias = Ident::with_quote('"', told_apart(&name, number));
        match item {
            SelectItem::UnnamedExpr(expression) => {
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
            }
            SelectItem::ExprWithAlias { alias: own, .. } => *own = alias,
            _ => {}
        }
    }
}

/// Gives aliases beside a wildcard, which may stand for columns of the same name, names that nobody writes: what a client
/// is told is decided by the query as it was. `query` is the whole statement.
pub(super) fn tell_aliases_apart(query: &mut Query) {
    let order: Vec<String> = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) => {
            order.iter().map(|own| own.expr.to_string().to_lowercase()).collect()
        }
        Some(_) => return,
        None => Vec::new(),
    };
    let SetExpr::Select(select) = &mut *query.body else { return };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(own, _) if own.is_empty());
    let is_wildcard =
        |item: &&SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if is_grouped || select.distinct.is_some() || select.projection.iter().filter(is_wildcard).count() != 1 {
        return;
    }
    for (item, number) in select.projection.iter_mut().zip(0..) {
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = alias.value.to_lowercase();
        // Only a sort by exactly that name, which then means the alias, keeps it.
        if !order.iter().any(|own| own.trim_matches('"').contains(&*name) && !own.contains('.')) {
            *alias = Ident::with_quote('"', told_apart(&alias.value, number));
        }
    }
}

/// A name that nobody writes, for a column at a place.
pub(super) fn told_apart(name: &str, place: usize) -> String {
    format!("\u{1}{name} {place}")
}

/// The name that a column had before it was told apart; `None` if it was not.
pub(super) fn name_told_apart(name: &str) -> Option<&str> {
    name.strip_prefix('\u{1}').and_then(|rest| rest.rsplit_once(' ')).map(|(name, _)| name)
}

pub(super) fn is_column(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Whether an expression is a column, and what it is cast to.
pub(super) fn is_cast_column(expression: &Expr) -> bool {
    match expression {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_column(expr) || is_cast_column(expr),
        _ => false,
    }
}

/// What the planner calls an expression: casts do not count, functions without parentheses have them, and some have other names.
fn planned_name(expression: &Expr) -> String {
    let mut plain = expression.clone();
    each_expression_mut(&mut plain, &mut |own| {
        let inner = match own {
            Expr::Cast { expr, .. } | Expr::Collate { expr, .. } | Expr::Nested(expr) => (**expr).clone(),
            Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
            Expr::Exists { negated, .. } => Expr::Identifier(Ident::new(format!("exists {negated}"))),
            Expr::InSubquery { expr, negated, .. } => {
                Expr::Identifier(Ident::new(format!("{expr} in {negated}")))
            }
            Expr::Position { expr, r#in } => call(exact("strpos"), vec![(**r#in).clone(), (**expr).clone()]),
            Expr::Function(function)
                if ["current_timestamp", "localtimestamp"]
                    .contains(&own_name(&function.name).unwrap_or_default().as_str()) =>
            {
                call(exact("now"), Vec::new())
            }
            Expr::Function(function) => {
                if let Some(name) = own_name(&function.name).and_then(|name| renamed(&name)) {
                    function.name = exact(name);
                }
                return;
            }
            _ => return,
        };
        *own = inner;
    });
    plain.to_string().trim_end_matches("()").replace('"', "").to_lowercase()
}
