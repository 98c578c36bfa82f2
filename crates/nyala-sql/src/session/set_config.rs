//! `SELECT set_config('name', 'value', false)`: a query that changes settings, as PostgreSQL has it.

use crate::target::last_part;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement, Value,
};

/// The settings and values of a statement that does nothing but set them; `None` if it is another statement, or sets them
/// for a transaction only.
pub(super) fn settings_of(statement: &Statement) -> Option<Vec<(String, String)>> {
    let Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    if !select.from.is_empty() || select.selection.is_some() || query.with.is_some() {
        return None;
    }
    let calls = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            call(expression)
        }
        _ => None,
    });
    calls.collect()
}

fn call(expression: &Expr) -> Option<(String, String)> {
    let Expr::Function(own) = expression else { return None };
    let FunctionArguments::List(list) = &own.args else { return None };
    if last_part(&own.name).ok()? != "set_config" {
        return None;
    }
    let value = |own: &FunctionArg| match own {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(own))) => Some(own.value.clone()),
        _ => None,
    };
    match &list.args.iter().map(value).collect::<Option<Vec<Value>>>()?[..] {
        [Value::SingleQuotedString(name), Value::SingleQuotedString(text), Value::Boolean(false)] => {
            Some((name.clone(), text.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::settings_of;
    use crate::statement::Statement;

    #[test]
    fn settings_are_read() {
        let found = |text: &str| settings_of(&Statement::parse(text).unwrap()[0].ast);
        let expected = vec![("a".to_owned(), "b".to_owned())];
        assert_eq!(found("SELECT pg_catalog.set_config('a', 'b', false)"), Some(expected));
        assert_eq!(found("SELECT set_config('a', 'b', true)"), None);
        assert_eq!(found("SELECT set_config('a', x, false) FROM t"), None);
    }
}
