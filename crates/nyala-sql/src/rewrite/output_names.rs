//! The names of columns, as PostgreSQL gives them to expressions without one: clients read them.

use super::projection::{self, is_cast_column, is_column};
use crate::identifier::folded;
use crate::walk::each_expression;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement, TrimWhereField, Value,
};
use std::sync::Arc;

/// The name of a column that has none.
const NONE: &str = "?column?";

/// How surely an expression has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    None,
    /// A name that gives way to that of what is inside.
    Weak(String),
    Strong(String),
}

/// The columns of an answer, as the planner calls them, with the names that PostgreSQL gives them.
pub(crate) fn named(columns: &SchemaRef, statement: &Statement) -> SchemaRef {
    let Statement::Query(query) = statement else { return columns.clone() };
    let Some(names) = names_of(&query.body, columns) else { return columns.clone() };
    let fields = columns.fields().iter().zip(names).map(|(field, name)| {
        match name.or_else(|| projection::name_told_apart(field.name()).map(str::to_owned)) {
            Some(name) if *field.name() != name => Arc::new(field.as_ref().clone().with_name(name)),
            _ => field.clone(),
        }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), columns.metadata().clone()))
}

/// Gives the columns of a query inside another one the names that PostgreSQL gives them, by which it is asked for them.
pub(super) fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expression) = item else { continue };
                if is_column(expression) || is_row(expression) {
                    continue;
                }
                let name = match of(expression) {
                    Name::Weak(name) | Name::Strong(name) => name,
                    Name::None => NONE.to_owned(),
                };
                let alias = Ident::with_quote('"', name);
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
            }
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        SetExpr::SetOperation { left, .. } => name_columns(left),
        _ => {}
    }
}

/// Gives the columns that a query is sorted by the names by which its ORDER BY asks for them: those come before the names of what is
/// read. And casts of columns, which the planner calls as these, and window functions that it is asked to sort by their places, names
/// that nobody writes.
pub(super) fn name_sorted(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &query.order_by else { return };
    let sorted: Vec<String> = order.iter().filter_map(|own| identifier(&own.expr)).collect();
    let places: Vec<usize> = order.iter().filter_map(|own| place_of(&own.expr)).collect();
    let Some(select) = first_select(&mut query.body) else { return };
    let name_of = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expression) => match of(expression) {
            Name::Weak(name) | Name::Strong(name) => Some(name),
            Name::None => None,
        },
        _ => None,
    };
    let names: Vec<Option<String>> = select.projection.iter().map(name_of).collect();
    for (place, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expression) = item else { continue };
        if is_column(expression) {
            continue;
        }
        let is_sorted_window = places.contains(&(place + 1)) && has_window(expression);
        let name = match &names[place] {
            Some(name) => name.clone(),
            None if is_sorted_window => NONE.to_owned(),
            None => continue,
        };
        let is_alone = names.iter().filter(|own| *own == &names[place]).count() == 1;
        let name = match sorted.contains(&name) && is_alone {
            true => name,
            false if is_cast_column(expression) => projection::told_apart(&name, place),
            false if is_sorted_window => projection::told_apart(&name, place),
            false => continue,
        };
        let alias = Ident::with_quote('"', name);
        *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
    }
}

/// The query that gives the names of all that are united.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// The number of a column, from 1 on.
fn place_of(expression: &Expr) -> Option<usize> {
    let Expr::Value(own) = expression else { return None };
    let Value::Number(digits, _) = &own.value else { return None };
    digits.parse().ok()
}

/// The name that stands alone.
fn identifier(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(own) => Some(folded(own)),
        _ => None,
    }
}

fn has_window(expression: &Expr) -> bool {
    let mut has_window = false;
    each_expression(expression, &mut |own| {
        has_window |= matches!(own, Expr::Function(function) if function.over.is_some());
    });
    has_window
}

/// The schema of computed rows, whose columns have the names and types of PostgreSQL that were announced.
pub(crate) fn named_fields(computed: &SchemaRef, announced: &SchemaRef) -> SchemaRef {
    if computed.fields().len() != announced.fields().len() {
        return computed.clone();
    }
    let fields = computed.fields().iter().zip(announced.fields()).map(|(own, announced)| {
        Field::new(announced.name(), own.data_type().clone(), own.is_nullable())
            .with_metadata(announced.metadata().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The names that are known, for each column; `None` if it is not known which is which.
fn names_of(body: &SetExpr, columns: &SchemaRef) -> Option<Vec<Option<String>>> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return names_of(&query.body, columns),
        SetExpr::SetOperation { left, .. } => return names_of(left, columns),
        _ => return None,
    };
    let count = columns.fields().len();
    let is_wildcard = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
            || matches!(item, SelectItem::UnnamedExpr(expression) if is_row(expression))
    };
    let wildcards = select.projection.iter().filter(|item| is_wildcard(item)).count();
    let others = select.projection.len() - wildcards;
    if wildcards > 1 || others > count || (wildcards == 0 && others != count) {
        return None;
    }
    let mut names = Vec::with_capacity(count);
    for item in &select.projection {
        match item {
            item if is_wildcard(item) => names.extend(std::iter::repeat_n(None, count - others)),
            SelectItem::ExprWithAlias { alias, .. } => names.push(Some(folded(alias))),
            SelectItem::UnnamedExpr(expression) => names.push(Some(name_of(expression))),
            _ => return None,
        }
    }
    Some(names)
}

/// The name of a column that an expression gives.
pub(crate) fn name_of(expression: &Expr) -> String {
    match of(expression) {
        Name::Weak(name) | Name::Strong(name) => name,
        Name::None => NONE.to_owned(),
    }
}

/// Whether an expression stands for all columns of a table.
fn is_row(expression: &Expr) -> bool {
    matches!(expression, Expr::Wildcard(_) | Expr::QualifiedWildcard(..))
}

fn last(name: &ObjectName) -> Name {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(own)) => Name::Strong(folded(own)),
        _ => Name::None,
    }
}

fn of(expression: &Expr) -> Name {
    let strong = |name: &str| Name::Strong(name.to_owned());
    match expression {
        Expr::Identifier(own) => Name::Strong(folded(own)),
        Expr::CompoundIdentifier(parts) => parts.last().map_or(Name::None, |own| Name::Strong(folded(own))),
        Expr::CompoundFieldAccess { root, access_chain } => {
            use datafusion::sql::sqlparser::ast::AccessExpr;
            let dotted = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(own) => Some(of(own)),
                AccessExpr::Subscript(_) => None,
            });
            dotted.unwrap_or_else(|| of(root))
        }
        Expr::Nested(inner) => of(inner),
        Expr::Collate { expr, .. } => of(expr),
        Expr::Function(own) => last(&own.name),
        Expr::Cast { expr, data_type, .. } => match of(expr) {
            name @ Name::Strong(_) => name,
            _ => Name::Weak(type_name(&data_type.to_string())),
        },
        Expr::TypedString(own) => Name::Weak(type_name(&own.data_type.to_string())),
        Expr::Interval(_) => Name::Weak("interval".to_owned()),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(of) {
            Some(name @ Name::Strong(_)) => name,
            _ => Name::Weak("case".to_owned()),
        },
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Exists { .. } => strong("exists"),
        Expr::Subquery(query) => of_query(query),
        Expr::Extract { .. } => strong("extract"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => Name::None,
    }
}

/// A query in parentheses has the name of its only column.
fn of_query(query: &Query) -> Name {
    let SetExpr::Select(select) = &*query.body else { return Name::None };
    match &select.projection[..] {
        [SelectItem::ExprWithAlias { alias, .. }] => Name::Strong(folded(alias)),
        [SelectItem::UnnamedExpr(expression)] => of(expression),
        _ => Name::None,
    }
}

/// The name under which PostgreSQL stores a type.
fn type_name(written: &str) -> String {
    let folded = written.to_lowercase();
    let plain = folded.split(['(', '[']).next().unwrap_or(&folded).trim();
    let plain = plain.strip_prefix("pg_catalog.").unwrap_or(plain).trim_matches('"');
    let zoned = folded.contains("with time zone") && !folded.contains("without");
    match plain {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "real" => "float4",
        "double" | "double precision" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "character varying" => "varchar",
        "char" | "character" => "bpchar",
        plain if plain.starts_with("timestamp") => {
            if zoned || plain == "timestamptz" {
                "timestamptz"
            } else {
                "timestamp"
            }
        }
        plain if plain.starts_with("time") => {
            if zoned {
                "timetz"
            } else {
                "time"
            }
        }
        other => other,
    }
    .to_owned()
}
