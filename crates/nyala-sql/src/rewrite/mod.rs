//! Forms of PostgreSQL that the planner does not know, as forms that it knows.
//!
//! The tree of a statement is changed just before it is planned, so that definitions are stored, and running statements
//! shown, as their user wrote them. [`output_names`] says how PostgreSQL calls the columns of an answer.

mod cast;
mod collected;
mod function;
mod interval;
mod merged_columns;
mod output_names;
mod projection;
mod quantified;
mod row_sets;
mod row_values;
mod series;
mod table;
mod table_oid;
mod values;

pub(crate) use output_names::{name_of, named, named_fields};

use crate::asof_join;
use crate::call::{call, exact};
use crate::dialect::{at_zone, extract};
use crate::error::{SqlError, SqlResult};
use crate::identifier::folded;
use crate::parser_dialect::SqlDialect;
use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DataType, Expr, Fetch, Ident, LimitClause, ObjectName, ObjectNamePart, Query,
    Select, SetExpr, Statement, TableFactor, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// A statement in forms that the planner knows.
///
/// # Errors
/// If it has a form that would get another meaning.
pub(crate) fn rewritten(mut statement: Statement) -> SqlResult<Statement> {
    if let Statement::Query(query) = &mut statement {
        projection::tell_aliases_apart(query);
    }
    let mut rewrite = Rewrite::default();
    let _ = visit_mut(&mut statement, &mut rewrite);
    if let Some(error) = rewrite.refused {
        return Err(error);
    }
    match &mut statement {
        Statement::Query(query) => shown(&mut query.body),
        Statement::Explain { statement, .. } => {
            if let Statement::Query(query) = &mut **statement {
                shown(&mut query.body);
            }
        }
        _ => {}
    }
    Ok(statement)
}

/// The same for an expression alone, as definitions have it.
pub(crate) fn rewritten_expression(mut expression: Expr) -> Expr {
    // What it refuses is in a subquery, which such an expression must not have.
    let _ = visit_mut(&mut expression, &mut Rewrite::default());
    expression
}

/// What a client sees of an expression that is a number of an object cast to a name; `None` if it is another one.
pub(crate) fn shown_object(expression: &Expr) -> Option<Expr> {
    let Expr::Cast { .. } = expression else { return None };
    let mut known = rewritten_expression(expression.clone());
    cast::is_number(&known).then(|| {
        cast::show_expression(&mut known);
        known
    })
}

/// The columns that a client sees: a number of an object that was cast to a name is shown as one.
fn shown(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => select.projection.iter_mut().for_each(cast::show),
        SetExpr::Query(query) => shown(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            // Where others have numbers, these are numbers, too.
            let (here, there) = (named_columns(left), named_columns(right));
            show_columns(left, &there);
            show_columns(right, &here);
        }
        _ => {}
    }
}

/// Which columns of a query are numbers that are shown as names.
fn named_columns(body: &SetExpr) -> Vec<bool> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(cast::is_named).collect(),
        SetExpr::Query(query) => named_columns(&query.body),
        SetExpr::SetOperation { left, right, .. } => {
            let both = named_columns(left).into_iter().zip(named_columns(right));
            both.map(|(left, right)| left && right).collect()
        }
        _ => Vec::new(),
    }
}

/// Shows the names of those columns that are names elsewhere, too.
fn show_columns(body: &mut SetExpr, elsewhere: &[bool]) {
    match body {
        SetExpr::Select(select) => {
            let columns = select.projection.iter_mut().zip(elsewhere);
            columns.filter(|(_, is_named)| **is_named).for_each(|(column, _)| cast::show(column));
        }
        SetExpr::Query(query) => show_columns(&mut query.body, elsewhere),
        SetExpr::SetOperation { left, right, .. } => {
            let both = |own: Vec<bool>| -> Vec<bool> {
                own.into_iter().zip(elsewhere).map(|(own, other)| own && *other).collect()
            };
            let (here, there) = (both(named_columns(left)), both(named_columns(right)));
            show_columns(left, &there);
            show_columns(right, &here);
        }
        _ => {}
    }
}

#[derive(Default)]
struct Rewrite {
    /// What it broke off for.
    refused: Option<SqlError>,
}

impl Rewrite {
    fn refuse(&mut self, error: SqlError) -> ControlFlow<()> {
        self.refused = Some(error);
        ControlFlow::Break(())
    }
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        values::rewrite(&mut query.body);
        if let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch {
            let limit =
                Some(quantity.clone().unwrap_or_else(|| Expr::value(Value::Number("1".into(), false))));
            let offset = match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, .. }) => offset,
                _ => None,
            };
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
            query.fetch = None;
        }
        let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        tables.for_each(|table| output_names::name_columns(&mut table.query.body));
        output_names::name_sorted(query);
        // Columns are told apart after that.
        if let Err(error) = merged_columns::rewrite(query) {
            self.refused = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Derived { sample: Some(_), .. } | TableFactor::Table { sample: Some(_), .. } => {
                self.refuse(SqlError::unsupported("TABLESAMPLE"))
            }
            TableFactor::Table { with_hints, .. } if !with_hints.is_empty() => {
                self.refuse(SqlError::unsupported("WITH (…) behind a table"))
            }
            TableFactor::Derived { subquery, .. } => {
                output_names::name_columns(&mut subquery.body);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.into.is_some() {
            // That of a whole statement is a CREATE TABLE here.
            let error = SqlError::unsupported("INTO in a part of a query, or of a table that is UNLOGGED");
            return self.refuse(error.with_hint("CREATE TABLE … AS is there for every query."));
        }
        // Columns are told apart before they are changed.
        projection::tell_apart(select);
        table_oid::rewrite(select);
        select.from.iter_mut().for_each(asof_join::rewrite);
        if let Some(condition) = &mut select.selection {
            row_sets::rewrite(condition);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            asof_join::rewrite(table_with_joins);
        }
        table::without_prefix(factor);
        ControlFlow::Continue(())
    }

    // Inner expressions come first.
    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Err(error) = interval::rewrite(expression) {
            return self.refuse(error);
        }
        match expression {
            Expr::Cast { .. } | Expr::TypedString(_) => cast::rewrite(expression),
            Expr::Function(_) | Expr::Identifier(_) => function::rewrite(expression),
            Expr::Like { pattern, escape_char: escape @ Some(_), .. }
            | Expr::ILike { pattern, escape_char: escape @ Some(_), .. } => {
                if let Some(escape) = escape.take() {
                    // The planner knows the backslash only.
                    **pattern = call(exact("like::pattern"), vec![(**pattern).clone(), Expr::Value(escape)]);
                }
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let op = match negated {
                    true => BinaryOperator::PGRegexNotMatch,
                    false => BinaryOperator::PGRegexMatch,
                };
                let arguments =
                    std::iter::once((**pattern).clone()).chain(escape_char.take().map(Expr::Value));
                let right = Box::new(call(exact("similar::pattern"), arguments.collect()));
                let matched = Expr::BinaryOp { left: expr.clone(), op, right };
                *expression = Expr::Nested(Box::new(matched));
            }
            Expr::Value(own) => {
                if let Value::UnicodeStringLiteral(text) = &own.value {
                    own.value = Value::SingleQuotedString(text.clone());
                }
            }
            Expr::Substring { expr, substring_from: Some(pattern), substring_for: None, .. }
                if is_text(pattern) =>
            {
                *expression = first_match(expr, pattern);
            }
            Expr::Extract { field, expr, .. } => {
                let part = Expr::value(Value::SingleQuotedString(field.to_string().to_lowercase()));
                *expression = call(exact(extract::NAME), vec![part, (**expr).clone()]);
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let arguments = vec![(**timestamp).clone(), (**time_zone).clone()];
                *expression = call(exact(at_zone::NAME), arguments);
            }
            Expr::UnaryOp {
                op: op @ (UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot | UnaryOperator::PGAbs),
                expr,
            } => {
                let name = match op {
                    UnaryOperator::PGSquareRoot => "sqrt",
                    UnaryOperator::PGCubeRoot => "cbrt",
                    _ => "abs",
                };
                *expression = call(exact(name), vec![(**expr).clone()]);
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
                // Every bit is another one.
                let minus = Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(Expr::value(Value::Number("1".to_owned(), false))),
                };
                let left = Box::new(Expr::Nested(expr.clone()));
                let op = BinaryOperator::PGBitwiseXor;
                *expression = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right: Box::new(minus) }));
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified::rewrite(expression),
            Expr::CompoundFieldAccess { .. } => function::rewrite_access(expression),
            Expr::Collate { expr, .. } => {
                // Texts are compared by their bytes, whatever the collation.
                *expression = std::mem::replace(expr, Expr::value(Value::Null));
            }
            Expr::InList { .. } | Expr::IsNull(_) | Expr::IsNotNull(_) => row_values::rewrite(expression),
            Expr::BinaryOp { left, right, .. } if row_values::is_row(left) && row_values::is_row(right) => {
                row_values::rewrite(expression);
            }
            Expr::BinaryOp { left, op, right } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(plain) = parts.last().and_then(|name| operator(name))
                {
                    *op = plain;
                }
                if matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
                    && (is_array(left) || is_array(right))
                {
                    *expression = function::array_comparison(left, right, *op == BinaryOperator::NotEq);
                    return ControlFlow::Continue(());
                }
                if let Some(name) = json_operator(op) {
                    let path = match cast::array_elements(right) {
                        Some(elem) if name.starts_with("json::path") => {
                            Expr::Array(Array { elem, named: true })
                        }
                        _ => (**right).clone(),
                    };
                    *expression = call(exact(name), vec![(**left).clone(), path]);
                    return ControlFlow::Continue(());
                }
                if *op == BinaryOperator::PGOverlap {
                    *expression = call(exact("array_has_any"), vec![(**left).clone(), (**right).clone()]);
                    return ControlFlow::Continue(());
                }
                if *op == BinaryOperator::StringConcat {
                    cast::show_expression(left);
                    cast::show_expression(right);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The first group of a regular expression, or all that it matches.
fn first_match(text: &Expr, pattern: &Expr) -> Expr {
    let found = call(exact("regexp_match"), vec![text.clone(), pattern.clone()]);
    let first = Expr::value(Value::Number("1".to_owned(), false));
    call(exact("array_element"), vec![found, first])
}

/// Whether an expression is a literal of a text, with or without its type.
fn is_text(expression: &Expr) -> bool {
    match expression {
        Expr::Value(own) => matches!(own.value, Value::SingleQuotedString(_)),
        Expr::Cast { expr, data_type: DataType::Text, .. } => is_text(expr),
        _ => false,
    }
}

/// A query that stands in this program.
fn written(text: &str) -> Query {
    match Parser::parse_sql(&SqlDialect, text).map(|mut all| all.pop()) {
        Ok(Some(Statement::Query(query))) => *query,
        other => unreachable!("a query was written, not {other:?}"),
    }
}

/// The function that an operator of JSON is.
fn json_operator(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::Arrow => "json::member",
        BinaryOperator::LongArrow => "json::member_text",
        BinaryOperator::HashArrow => "json::path",
        BinaryOperator::HashLongArrow => "json::path_text",
        _ => return None,
    })
}

/// Whether an expression is the text of an array, such as `'{0}'`.
fn is_array(expression: &Expr) -> bool {
    let Expr::Value(own) = expression else { return false };
    matches!(&own.value, Value::SingleQuotedString(text) if text.starts_with('{') && text.ends_with('}'))
}

/// The operator of a name, as in `OPERATOR(pg_catalog.~)`.
fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// The last part of a name without the schema that PostgreSQL's own functions and types are in; `None` if it is in
/// another one.
fn own_name(name: &ObjectName) -> Option<String> {
    let parts: Option<Vec<&Ident>> = name
        .0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(identifier) => Some(identifier),
            ObjectNamePart::Function(_) => None,
        })
        .collect();
    match &parts?[..] {
        [name] => Some(folded(name)),
        [schema, name] if matches!(&*folded(schema), "pg_catalog" | "information_schema") => {
            Some(folded(name))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;

    fn rewritten(text: &str) -> String {
        let parsed = Statement::parse(text).unwrap().remove(0);
        super::rewritten((*parsed.ast).clone()).unwrap().to_string()
    }

    #[test]
    fn forms_of_psql_become_known_ones() {
        let cases = [
            (
                "SELECT 1 FROM c WHERE n OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
                "SELECT 1 FROM c WHERE n ~ '^(t)$'",
            ),
            (
                "SELECT c.oid::pg_catalog.regclass, pg_catalog.version() FROM c WHERE a = 't'::regclass",
                "SELECT \"regclass::text\"(c.oid), \"version\"() FROM c WHERE a = \"regclass::oid\"('t')",
            ),
            ("SELECT o::pg_catalog.regtype::pg_catalog.text FROM c", "SELECT \"regtype::text\"(o) FROM c"),
            ("SELECT NULL, NULL, a::pg_catalog.int4", "SELECT NULL, NULL AS \"\u{1}null 1\", a::INT4"),
            (
                "SELECT array(SELECT x FROM t ORDER BY x)",
                "SELECT \"array::or_empty\"((SELECT array_agg(x ORDER BY x) FROM t))",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }
}
