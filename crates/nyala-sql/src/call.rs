//! Calls of functions, as trees that are planned.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// A call of a function.
pub(crate) fn call(name: ObjectName, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list(arguments)),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Arguments of a call.
pub(crate) fn list(arguments: Vec<Expr>) -> FunctionArgumentList {
    let argument = |own| FunctionArg::Unnamed(FunctionArgExpr::Expr(own));
    let args = arguments.into_iter().map(argument).collect();
    FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }
}

/// A name that is compared as it is written.
pub(crate) fn exact(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', name)])
}
