//! Functions with the prefix `pg_catalog`, those that are called without parentheses, and `ARRAY(SELECT …)`.

use super::own_name;
use crate::call::{call, exact, list};
use crate::dialect::at_zone;
use crate::gaps::positional;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByKind, Query,
    SelectItem, SetExpr, UnaryOperator, Value,
};

/// Words that are functions without parentheses, and that the parser takes for names.
const WORDS: [&str; 2] = ["current_schema", "current_role"];

pub(super) fn rewrite(expression: &mut Expr) {
    match expression {
        Expr::Identifier(word) if word.quote_style.is_none() => {
            let folded = word.value.to_lowercase();
            if WORDS.contains(&&*folded) {
                *expression = call(exact(&folded), Vec::new());
            }
        }
        Expr::Function(own) => {
            if own.name.0.len() == 2
                && let Some(name) = own_name(&own.name)
            {
                own.name = exact(&name);
            }
            if let Some(other) = own_name(&own.name).and_then(|name| renamed(&name)) {
                own.name = exact(other);
            }
            if let Some(rest) = operation(own) {
                *expression = rest;
                return;
            }
            if let Some(data_type) = own_name(&own.name).and_then(|name| counted(&name)) {
                let expr = Box::new(expression.clone());
                *expression =
                    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
                return;
            }
            if let Some(expanded) = own_name(&own.name).and_then(|name| expanded(&name)) {
                own.name = exact(expanded);
                *expression = call(exact("unnest"), vec![expression.clone()]);
                return;
            }
            if own_name(&own.name).as_deref() == Some("generate_series") {
                *expression = call(exact("unnest"), vec![expression.clone()]);
                return;
            }
            if let Some(name) = own_name(&own.name) {
                positional(&name, &mut own.args);
            }
            match &own.args {
                FunctionArguments::None => own.args = FunctionArguments::List(list(Vec::new())),
                FunctionArguments::Subquery(query) if own_name(&own.name).as_deref() == Some("array") => {
                    if let Some(collected) = collected(query) {
                        *expression = call(exact("array::or_empty"), vec![collected]);
                    }
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// `(row).field` as a call.
pub(super) fn rewrite_access(expression: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expression else { return };
    let field = |access: &AccessExpr| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.value.clone()),
        _ => None,
    };
    let Some(fields) = access_chain.iter().map(field).collect::<Option<Vec<String>>>() else { return };
    let root = root.as_ref().clone();
    let got = |row, field| call(exact("get_field"), vec![row, Expr::value(Value::SingleQuotedString(field))]);
    *expression = fields.into_iter().fold(root, got);
}

/// What the planner calls a function of PostgreSQL; `None` if it has the same name.
fn renamed(name: &str) -> Option<&'static str> {
    Some(match name {
        "every" => "bool_and",
        "variance" => "var_samp",
        "ceiling" => "ceil",
        "sign" => "signum",
        _ => return None,
    })
}

/// `mod(a, b)` as `a % b`, and `timezone(zone, time)` as `time AT TIME ZONE zone`.
fn operation(own: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &own.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(a)), FunctionArg::Unnamed(FunctionArgExpr::Expr(b))] =
        &list.args[..]
    else {
        return None;
    };
    let nested = |own: &Expr| Box::new(Expr::Nested(Box::new(own.clone())));
    match own_name(&own.name).as_deref() {
        Some("mod") => Some(Expr::BinaryOp { left: nested(a), op: BinaryOperator::Modulo, right: nested(b) }),
        Some("timezone") => Some(call(exact(at_zone::NAME), vec![b.clone(), a.clone()])),
        _ => None,
    }
}

/// The type of what a function counts, where the planner gives it one without a sign.
fn counted(name: &str) -> Option<DataType> {
    match name {
        "row_number" | "rank" | "dense_rank" | "regr_count" => Some(DataType::BigInt(None)),
        "ntile" | "array_length" | "cardinality" | "array_position" | "array_ndims" => {
            Some(DataType::Integer(None))
        }
        _ => None,
    }
}

/// The function that gives as an array what a function gives as rows; `None` if the planner knows the function.
pub(super) fn expanded(name: &str) -> Option<&'static str> {
    match name {
        "generate_subscripts" => Some("array::subscripts"),
        "_pg_expandarray" => Some("array::numbered"),
        "regexp_split_to_table" => Some("regexp_split_to_array"),
        "aclexplode" => Some("array::privileges"),
        _ => None,
    }
}

/// A comparison with the text of an array, which has no type of its own.
pub(super) fn array_comparison(left: &Expr, right: &Expr, is_negated: bool) -> Expr {
    let equal = call(exact("array::equals"), vec![left.clone(), right.clone()]);
    match is_negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(equal) },
        false => equal,
    }
}

/// A query of one column as a query of one array; `None` if it is not simple enough.
fn collected(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    if query.limit_clause.is_some() || query.with.is_some() || query.fetch.is_some() {
        return None;
    }
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(own, _) if own.is_empty());
    if is_grouped || select.distinct.is_some() || select.having.is_some() {
        return None;
    }
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        &mut select.projection[..]
    else {
        return None;
    };
    let mut arguments = list(vec![value.clone()]);
    if let Some(order) = query.order_by.take() {
        let OrderByKind::Expressions(mut order) = order.kind else { return None };
        for own in &mut order {
            // The number of a column.
            if matches!(&own.expr, Expr::Value(_)) {
                own.expr = value.clone();
            }
        }
        arguments.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    let aggregate = call(ObjectName::from(vec![Ident::new("array_agg")]), Vec::new());
    let Expr::Function(mut aggregate) = aggregate else { return None };
    aggregate.args = FunctionArguments::List(arguments);
    *value = Expr::Function(aggregate);
    Some(Expr::Subquery(Box::new(query)))
}
