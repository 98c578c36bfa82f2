//! `SELECT … INTO t FROM …` is `CREATE TABLE t AS SELECT …`.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

/// A statement in the words of `CREATE TABLE`, if it is such a query.
pub(crate) fn rewritten(statement: Statement) -> Statement {
    let Statement::Query(mut query) = statement else { return statement };
    let into = match &mut *query.body {
        SetExpr::Select(select) => select.into.take_if(|into| !into.unlogged),
        _ => None,
    };
    match into {
        None => Statement::Query(query),
        Some(into) => {
            let create = CreateTableBuilder::new(into.name).temporary(into.temporary).query(Some(query));
            Statement::CreateTable(create.build())
        }
    }
}
