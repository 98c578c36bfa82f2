//! `SELECT set_config('name', 'value', false)`: a query that changes settings, as PostgreSQL has it.

use crate::target::last_part;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement, Value,
};

/// A call of `set_config`.
#[derive(Debug, PartialEq)]
pub(super) struct SetConfig {
    pub(super) name: String,
    pub(super) value: String,
    /// Until the transaction ends.
    pub(super) is_local: bool,
}

/// The calls of a statement that does nothing but set settings; `None` if it is another statement.
pub(super) fn settings_of(statement: &Statement) -> Option<Vec<SetConfig>> {
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

fn call(expression: &Expr) -> Option<SetConfig> {
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
        [Value::SingleQuotedString(name), Value::SingleQuotedString(value), Value::Boolean(is_local)] => {
            Some(SetConfig { name: name.clone(), value: value.clone(), is_local: *is_local })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{SetConfig, settings_of};
    use crate::statement::Statement;

    #[test]
    fn settings_are_read() {
        let found = |text: &str| settings_of(&Statement::parse(text).unwrap()[0].ast);
        let call = |is_local| SetConfig { name: "a".to_owned(), value: "b".to_owned(), is_local };
        assert_eq!(found("SELECT pg_catalog.set_config('a', 'b', false)"), Some(vec![call(false)]));
        assert_eq!(found("SELECT set_config('a', 'b', true)"), Some(vec![call(true)]));
        assert_eq!(found("SELECT set_config('a', x, false) FROM t"), None);
    }
}
