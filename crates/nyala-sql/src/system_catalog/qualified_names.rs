//! Queries of views in which each table has its schema, as a dump needs them.

use super::objects::Objects;
use crate::identifier::{folded, quoted};
use crate::parser_dialect::SqlDialect;
use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A query whose tables have their schemas; as it is if it cannot be read.
pub(super) fn qualified(query: &str, objects: &Objects) -> String {
    let parsed = Parser::parse_sql(&SqlDialect, query).map(|mut all| all.pop());
    let Ok(Some(mut statement)) = parsed else { return query.to_owned() };
    let mut names = Names { objects, queries: HashSet::new() };
    // It never breaks.
    let _ = visit_mut(&mut statement, &mut names);
    statement.to_string()
}

struct Names<'a> {
    objects: &'a Objects,
    /// Names that WITH gives queries.
    queries: HashSet<String>,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(tables.map(|table| folded(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(only)] = &name.0[..]
            && let own = folded(only)
            && !self.queries.contains(&own)
            && let Some(found) = self.objects.find(None, &own)
        {
            let schema = Ident::new(quoted(&found.schema));
            *name = ObjectName::from(vec![schema, only.clone()]);
        }
        ControlFlow::Continue(())
    }
}
