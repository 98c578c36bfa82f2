//! `CREATE VIEW`.

use super::{of_creation, taken};
use crate::command_tag::CommandTag;
use crate::complexity;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::names::DatabaseNames;
use crate::names::view::plan;
use crate::session::Session;
use crate::system_catalog::{has_same_type, shown_type};
use crate::target::check_name;
use crate::walk::visit_mut;
use arrow_schema::Schema;
use datafusion::sql::sqlparser::ast::{self, CreateView, ObjectName, Query, VisitorMut};
use nyala_db::relations::{Body, Definition, Relation, TEMPORARY, ViewDefinition};
use nyala_db::users::Principal;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The longest query of a view, bytes: it is the record of the view.
const QUERY_MAX_BYTES: usize = 32 << 10;

impl Session {
    pub(super) async fn create_view(&mut self, create: &CreateView) -> SqlResult<CommandTag> {
        let clauses =
            [(create.materialized, "CREATE MATERIALIZED VIEW"), (create.to.is_some(), "CREATE VIEW … TO")];
        if let Some((_, name)) = clauses.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(name));
        }
        let mut place = self.new_place(&create.name, create.temporary)?;
        self.check_writable_place(&place)?;
        place.check_new()?;
        let query = create.query.to_string();
        if query.len() > QUERY_MAX_BYTES {
            let message = format!("the query of a view may have {QUERY_MAX_BYTES} bytes");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message));
        }
        let columns: Vec<String> = create.columns.iter().map(|column| folded(&column.name)).collect();
        columns.iter().try_for_each(|name| check_name(name))?;
        let view = ViewDefinition { query, columns, database: self.database().to_owned() };
        let statement = ast::Statement::Query(create.query.clone());
        complexity::check(&statement)?;
        let names = self.names();
        let planned = plan(statement, &view, &names).await?;
        if names.temporary.are_used() {
            // Nobody else could read it.
            place = self.new_place(&create.name, true)?;
        }
        let view = match &*place.database {
            // What has a name now may get another meaning by what is temporary and comes later.
            TEMPORARY => ViewDefinition { query: self.with_whole_names(&create.query).to_string(), ..view },
            _ => view,
        };
        let tag = CommandTag::of("CREATE VIEW");
        let existing = place.relation(self.relations());
        match &existing {
            Some(_) if create.if_not_exists => return Ok(tag),
            Some(existing) if create.or_replace && existing.view().is_none() => {
                let message = format!("\"{}\" is not a view", place.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
            }
            Some(_) if !create.or_replace => return Err(taken(&place.name)),
            None if self.is_name_taken(&place.database, &place.name) => return Err(taken(&place.name)),
            _ => {}
        }
        if !planned.get_parameter_names()?.is_empty() {
            return Err(SqlError::unsupported("a parameter in a view"));
        }
        let names: Vec<&String> = planned.schema().fields().iter().map(|field| field.name()).collect();
        if view.columns.len() > names.len() {
            let words = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
        }
        if let Some(twice) = (1..names.len()).find(|place| names[..*place].contains(&names[*place])) {
            let message = format!("column \"{}\" specified more than once", names[twice]);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if let Some(existing) = &existing {
            self.check_replacement(existing, planned.schema().as_arrow()).await?;
        }
        let definition = Definition { comment: create.comment.clone(), body: Body::View(view) };
        let (database, name) = (&place.database, &place.name);
        if self.transaction.is_some() {
            self.put_uncommitted(database, name, Some(definition));
            return Ok(tag);
        }
        let catalog = &self.server.catalog;
        let created = catalog.create_relation(database, name, definition, create.or_replace).await;
        created.map_err(|error| of_creation(error, name))?;
        Ok(tag)
    }

    /// Fails if a view that gets another query would have other columns than before, which the queries of other views may name.
    /// There may be more at the end.
    async fn check_replacement(&self, existing: &Arc<Relation>, columns: &Schema) -> SqlResult<()> {
        let names = DatabaseNames { principal: Principal::Open, ..self.names() };
        // Nobody uses one whose query is no longer right: it is replaced to mend that.
        let Ok(Some(before)) = names.relation(existing.clone(), false).await else { return Ok(()) };
        let before = before.schema();
        let refused = |message| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        if columns.fields().len() < before.fields().len() {
            return refused("cannot drop columns from view".to_owned());
        }
        for (before, own) in before.fields().iter().zip(columns.fields()) {
            let name = before.name();
            if own.name() != name {
                let message = format!("cannot change name of view column \"{name}\" to \"{}\"", own.name());
                let hint = "Give the column its old name with AS, or DROP the view before.";
                return refused(message).map_err(|error| error.with_hint(hint));
            }
            if !has_same_type(before, own) {
                let types = format!("from {} to {}", shown_type(before), shown_type(own));
                return refused(format!("cannot change data type of view column \"{name}\" {types}"));
            }
        }
        Ok(())
    }

    /// A query in which names of relations have their schemas.
    fn with_whole_names(&self, query: &Query) -> Query {
        struct Naming<'a> {
            session: &'a Session,
            /// The names that WITH gives.
            own: BTreeSet<String>,
        }

        impl VisitorMut for Naming<'_> {
            type Break = ();

            fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
                let with = query.with.iter().flat_map(|with| &with.cte_tables);
                self.own.extend(with.map(|cte| folded(&cte.alias.name)));
                ControlFlow::Continue(())
            }

            fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
                let place = self.session.place(name).ok().filter(|own| !self.own.contains(&own.name));
                if let Some(place) = place.filter(|own| own.schema.is_none())
                    && place.relation(self.session.relations()).is_some()
                {
                    *name = place.object_name();
                }
                ControlFlow::Continue(())
            }
        }

        let mut whole = query.clone();
        // It never breaks.
        let _ = visit_mut(&mut whole, &mut Naming { session: self, own: BTreeSet::new() });
        whole
    }
}
