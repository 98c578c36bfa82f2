//! Keeping the query of a view right when a relation that it names changes.
//!
//! A view is stored as its text, and means in PostgreSQL what it meant when it was created: `*` is the columns of then, and a
//! column that gets another name is still that of the old one. So the relation is replaced, where the text names it, by a
//! query that gives its columns the names which the view knows.

use crate::error::{SqlError, SqlResult};
use crate::identifier::{folded, needs_quotes};
use crate::parser_dialect::SqlDialect;
use crate::target::Place;
use crate::walk::{visit, visit_mut};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SetExpr, Statement, TableAlias, TableFactor, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use nyala_db::relations::{Relation, ViewDefinition};
use std::ops::ControlFlow;

/// The query of a view.
pub(super) fn query_of(view: &ViewDefinition) -> Option<Statement> {
    Parser::parse_sql(&SqlDialect, &view.query).ok()?.pop()
}

/// Whether the query of a view names a relation.
pub(super) fn names(view: &ViewDefinition, relation: &Relation) -> bool {
    let Some(query) = query_of(view) else { return false };
    let mut naming = Naming { database: &view.database, relation, found: false };
    // Visitors of views never break.
    let _ = visit(&query, &mut naming);
    naming.found
}

/// Whether the meaning of a view's query may depend on which other columns a relation has than those that it uses: it says
/// `*`, joins by all names, or has a name that is new.
pub(super) fn is_open(view: &ViewDefinition, new: &[String]) -> bool {
    let Some(query) = query_of(view) else { return false };
    let mut opening = Opening { new, is_open: false };
    let _ = visit(&query, &mut opening);
    opening.is_open
}

/// What replaces a relation in the query of a view.
pub(super) struct Replacement<'a> {
    pub(super) relation: &'a Relation,
    /// Its name from now on.
    pub(super) name: &'a str,
    /// Its columns: the names from now on, and those that the view knows. `None`: they are as they were.
    pub(super) columns: Option<Vec<(String, String)>>,
}

impl Replacement<'_> {
    /// A view with a query in which the relation is replaced.
    pub(super) fn within(&self, view: &ViewDefinition) -> SqlResult<ViewDefinition> {
        let unreadable = || SqlError::unsupported("a view whose query cannot be read");
        let mut query = query_of(view).ok_or_else(unreadable)?;
        let mut replacing = Replacing { database: &view.database, by: self, error: None };
        let _ = visit_mut(&mut query, &mut replacing);
        match replacing.error {
            Some(error) => Err(error),
            None => Ok(ViewDefinition { query: query.to_string(), ..view.clone() }),
        }
    }
}

/// A name as an identifier, with quotes if it needs them.
pub(super) fn identifier(name: &str) -> Ident {
    if needs_quotes(name) { Ident::with_quote('"', name) } else { Ident::new(name) }
}

fn means(name: &ObjectName, database: &str, relation: &Relation) -> bool {
    let Ok(place) = Place::of(name, database) else { return false };
    place.database == relation.database
        && place.name == relation.name
        && place.schema.as_deref().is_none_or(|schema| schema == crate::identifier::PUBLIC)
}

struct Naming<'a> {
    database: &'a str,
    relation: &'a Relation,
    found: bool,
}

impl Visitor for Naming<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.found |= means(name, self.database, self.relation);
        ControlFlow::Continue(())
    }
}

struct Opening<'a> {
    new: &'a [String],
    is_open: bool,
}

impl Opening<'_> {
    fn is_new(&self, name: &Ident) -> bool {
        self.new.contains(&folded(name))
    }
}

impl Visitor for Opening<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let is_star =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let joins = select.from.iter().flat_map(|from| &from.joins);
        let is_natural = |operator: &JoinOperator| {
            matches!(
                operator,
                JoinOperator::Join(JoinConstraint::Natural)
                    | JoinOperator::Inner(JoinConstraint::Natural)
                    | JoinOperator::Left(JoinConstraint::Natural)
                    | JoinOperator::LeftOuter(JoinConstraint::Natural)
                    | JoinOperator::Right(JoinConstraint::Natural)
                    | JoinOperator::RightOuter(JoinConstraint::Natural)
                    | JoinOperator::FullOuter(JoinConstraint::Natural)
            )
        };
        self.is_open |= select.projection.iter().any(is_star)
            || joins.into_iter().any(|join| is_natural(&join.join_operator));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.is_open |= match expression {
            Expr::Identifier(name) => self.is_new(name),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| self.is_new(name)),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

struct Replacing<'a> {
    database: &'a str,
    by: &'a Replacement<'a>,
    error: Option<SqlError>,
}

impl VisitorMut for Replacing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let common = query.with.iter().flat_map(|with| &with.cte_tables);
        let relation = self.by.relation;
        if common.into_iter().any(|own| folded(&own.alias.name) == relation.name) {
            let words =
                format!("altering \"{0}\", because WITH of a view has the name {0}, too,", relation.name);
            self.error = Some(SqlError::unsupported(words));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        if !means(name, self.database, self.by.relation) {
            return ControlFlow::Continue(());
        }
        let shown = identifier(&self.by.relation.name);
        let alias_now = || TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None };
        let alias_now = alias.clone().unwrap_or_else(alias_now);
        let mut source = name.clone();
        if let Some(last) = source.0.last_mut() {
            *last = ObjectNamePart::Identifier(identifier(self.by.name));
        }
        match &self.by.columns {
            None => {
                *name = source;
                *alias = Some(alias_now);
            }
            Some(columns) => match derived(&source, columns, alias_now) {
                Ok(derived) => *factor = derived,
                Err(error) => self.error = Some(error),
            },
        }
        ControlFlow::Continue(())
    }
}

/// `(SELECT b AS a, … FROM source) AS alias`.
fn derived(source: &ObjectName, columns: &[(String, String)], own: TableAlias) -> SqlResult<TableFactor> {
    let item = |(now, known): &(String, String)| match now == known {
        true => identifier(now).to_string(),
        false => format!("{} AS {}", identifier(now), identifier(known)),
    };
    let items: Vec<String> = columns.iter().map(item).collect();
    let text = format!("SELECT 1 FROM (SELECT {} FROM {source}) AS a", items.join(", "));
    let unreadable = || SqlError::unsupported("a view whose query cannot be read");
    let statement = Parser::parse_sql(&SqlDialect, &text)?.pop().ok_or_else(unreadable)?;
    let Statement::Query(query) = statement else { return Err(unreadable()) };
    let SetExpr::Select(mut select) = *query.body else { return Err(unreadable()) };
    let mut factor = select.from.pop().ok_or_else(unreadable)?.relation;
    if let TableFactor::Derived { alias, .. } = &mut factor {
        *alias = Some(own);
    }
    Ok(factor)
}
