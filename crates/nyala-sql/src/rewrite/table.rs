//! Functions in FROM.

use super::{exact, own_name};
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, TableFactor};

/// `pg_catalog.unnest(…)` and other functions without the schema that they are in.
pub(super) fn without_prefix(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } = factor else {
        return;
    };
    let Some(own) = own_name(name) else { return };
    if own != "unnest" {
        *name = exact(&own);
        return;
    }
    let argument = |own: &FunctionArg| match own {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(own)) => Some(own.clone()),
        _ => None,
    };
    let Some(array_exprs) = arguments.args.iter().map(argument).collect::<Option<Vec<Expr>>>() else {
        return;
    };
    *factor = TableFactor::UNNEST {
        alias: alias.take(),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    };
}
