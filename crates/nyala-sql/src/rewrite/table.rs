//! Functions in FROM.

use super::{function, own_name, series, written};
use crate::call::{call, exact};
use crate::influxql;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, TableAlias,
    TableAliasColumnDef, TableFactor, Value,
};

/// Functions without the schema that they are in. The alias of `unnest(…)`, and of a function with that schema, is that of
/// its column, too.
pub(super) fn without_prefix(factor: &mut TableFactor) {
    if let TableFactor::UNNEST { alias, array_exprs, .. } = factor {
        if array_exprs.len() == 1 {
            name_column(alias);
        }
        return;
    }
    let TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } = factor else {
        return;
    };
    let Some(own) = own_name(name) else { return };
    if own == "pg_get_keywords" {
        // It is a table here.
        *name = exact(&own);
        arguments_of(factor);
        return;
    }
    if own == "pg_options_to_table" {
        // Nothing has options.
        let alias = alias.take().or_else(|| Some(alias_of(&own)));
        *factor =
            TableFactor::Derived { lateral: false, subquery: Box::new(no_options()), alias, sample: None };
        return;
    }
    if own == influxql::FUNCTION {
        if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(text)))] = &arguments.args[..]
            && let Value::SingleQuotedString(text) = &text.value
        {
            // Its text is the name of a table.
            *name =
                ObjectName::from([influxql::SCHEMA, text].map(|part| Ident::with_quote('"', part)).to_vec());
            alias.get_or_insert_with(|| alias_of(influxql::FUNCTION));
            arguments_of(factor);
        }
        return;
    }
    let argument = |own: &FunctionArg| match own {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(own)) => Some(own.clone()),
        _ => None,
    };
    let Some(given) = arguments.args.iter().map(argument).collect::<Option<Vec<Expr>>>() else { return };
    let is_constant = |own: &Expr| match own {
        Expr::Value(own) => !matches!(own.value, Value::Placeholder(_)),
        Expr::UnaryOp { .. } => true,
        _ => false,
    };
    let are_constant = given.iter().all(is_constant);
    let array_exprs = match &*own {
        "unnest" => given,
        own if let Some(expanded) = function::expanded(own) => vec![call(exact(expanded), given)],
        // The planner has a table of constant numbers.
        "generate_series" | "range" if are_constant => {
            let mut named = alias.take().or_else(|| Some(alias_of(&own)));
            name_column(&mut named);
            *alias = named;
            // Names of such tables are looked up with their quotes.
            *name = ObjectName::from(vec![Ident::new(own)]);
            return;
        }
        "generate_series" => vec![call(exact(&own), with_typed_parameters(series::of_times(given)))],
        // A function of one value: a table of one row.
        _ => vec![call(exact("make_array"), vec![call(exact(&own), given)])],
    };
    let mut alias = alias.take().or_else(|| Some(alias_of(&own)));
    name_column(&mut alias);
    let (with_offset, with_offset_alias) = (false, None);
    let with_ordinality = *with_ordinality;
    *factor = TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality };
}

/// A query of the columns of `pg_options_to_table`, without rows.
fn no_options() -> Query {
    written("SELECT NULL::text AS option_name, NULL::text AS option_value WHERE false")
}

/// The ends of a series, which have one type: parameters get it from the others, or are whole numbers.
fn with_typed_parameters(mut given: Vec<Expr>) -> Vec<Expr> {
    let written = given.iter().take(2).find_map(|own| match own {
        Expr::Cast { data_type, .. } => Some(data_type.clone()),
        Expr::TypedString(own) => Some(own.data_type.clone()),
        _ => None,
    });
    let steps_by_number =
        given.get(2).is_none_or(|step| matches!(step, Expr::Value(_) | Expr::UnaryOp { .. }));
    let Some(data_type) = written.or_else(|| steps_by_number.then_some(DataType::BigInt(None))) else {
        return given;
    };
    let is_number = matches!(
        data_type,
        DataType::BigInt(_) | DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) | DataType::Int8(_)
    );
    // The step of a series of times is an interval.
    let typed = if is_number { 3 } else { 2 };
    for own in given.iter_mut().take(typed).filter(|own| is_parameter(own)) {
        let (kind, expr, data_type) = (CastKind::Cast, Box::new(own.clone()), data_type.clone());
        *own = Expr::Cast { kind, expr, data_type, array: false, format: None };
    }
    given
}

fn is_parameter(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(own) if matches!(own.value, Value::Placeholder(_)))
}

/// Takes the parentheses away from a function that is a table.
fn arguments_of(factor: &mut TableFactor) {
    if let TableFactor::Table { args, .. } = factor {
        *args = None;
    }
}

fn alias_of(name: &str) -> TableAlias {
    TableAlias { explicit: false, name: Ident::with_quote('"', name), columns: Vec::new(), at: None }
}

fn name_column(alias: &mut Option<TableAlias>) {
    if let Some(alias) = alias.as_mut().filter(|alias| alias.columns.is_empty()) {
        let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
        alias.columns.push(column);
    }
}
