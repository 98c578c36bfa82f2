//! The order in which a query shows its rows, as far as its text decides it.

use sqlparser::ast::{Expr, LimitClause, OrderByKind, Query, SelectItem, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// The order of a query's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By what rows are sorted.
    pub keys: Vec<Key>,
    /// How many rows there are at most.
    pub limit: Option<usize>,
    /// Whether rows before the first one are left out.
    pub skips: bool,
}

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A column of the answer.
    Column(usize),
    /// Something that is not shown.
    Unseen,
}

impl Order {
    /// The order of a query whose answer has these columns.
    pub fn of(text: &str, columns: &[String]) -> Result<Order, String> {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, text).map_err(|error| error.to_string())?;
        match statements.as_slice() {
            [Statement::Query(query)] => Ok(order_of(query, columns)),
            _ => Err("it is not one query".to_owned()),
        }
    }
}

fn order_of(query: &Query, columns: &[String]) -> Order {
    let shown = shown(&query.body, columns);
    let keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.iter().map(|key| key_of(&key.expr, &shown)).collect(),
        Some(OrderByKind::All(_)) => (0..columns.len()).map(Key::Column).collect(),
        None => Vec::new(),
    };
    let number = |expression: &Expr| expression.to_string().parse().ok();
    let (limit, skips) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_ref().and_then(number), offset.is_some())
        }
        Some(LimitClause::OffsetCommaLimit { limit, .. }) => (number(limit), true),
        None => (None, false),
    };
    Order { keys, limit, skips }
}

/// The names and the expressions of what a query shows.
fn shown(body: &SetExpr, columns: &[String]) -> Vec<(String, String)> {
    let lower = |text: String| text.to_lowercase();
    match body {
        SetExpr::Select(select) if !select.projection.iter().any(is_star) => {
            let item = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    (lower(alias.value.clone()), lower(expr.to_string()))
                }
                SelectItem::UnnamedExpr(expr) => (lower(last_name(expr)), lower(expr.to_string())),
                other => (String::new(), lower(other.to_string())),
            };
            select.projection.iter().map(item).collect()
        }
        SetExpr::Query(query) => shown(&query.body, columns),
        SetExpr::SetOperation { left, .. } => shown(left, columns),
        _ => columns.iter().map(|column| (lower(column.clone()), String::new())).collect(),
    }
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The name of a column without that of its table.
fn last_name(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn key_of(key: &Expr, shown: &[(String, String)]) -> Key {
    let text = key.to_string().to_lowercase();
    if let Some(number) = text.parse::<usize>().ok().filter(|number| (1..=shown.len()).contains(number)) {
        return Key::Column(number - 1);
    }
    let name = last_name(key).to_lowercase();
    let by_name = || shown.iter().position(|(own, _)| !name.is_empty() && *own == name);
    let by_expression = || shown.iter().position(|(_, own)| *own == text);
    by_name().or_else(by_expression).map_or(Key::Unseen, Key::Column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Order {
        Order::of(text, &["a".to_owned(), "b".to_owned()]).expect("a query")
    }

    #[test]
    fn keys_are_names_numbers_and_expressions() {
        let keys = |text: &str| order(text).keys;
        assert_eq!(
            keys("SELECT t.a, count(*) FROM t GROUP BY a ORDER BY count(*) DESC, a"),
            [Key::Column(1), Key::Column(0)]
        );
        assert_eq!(keys("SELECT a AS x, b FROM t ORDER BY 2, X"), [Key::Column(1), Key::Column(0)]);
        assert_eq!(keys("SELECT a FROM t ORDER BY b"), [Key::Unseen]);
        assert_eq!(keys("SELECT * FROM t ORDER BY b"), [Key::Column(1)]);
        assert_eq!(keys("WITH t AS (SELECT 1 AS a ORDER BY 1) SELECT a, 2 FROM t"), []);
    }

    #[test]
    fn limits_are_of_the_whole_query() {
        assert_eq!(order("SELECT a FROM (SELECT a FROM t LIMIT 3) u").limit, None);
        let found = order("SELECT a FROM t LIMIT 10 OFFSET 5");
        assert_eq!((found.limit, found.skips), (Some(10), true));
        assert!(Order::of("SELECT 1; SELECT 2", &[]).is_err());
    }
}
