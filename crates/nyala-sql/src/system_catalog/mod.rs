//! PostgreSQL's system catalogue: the schemas `pg_catalog` and `information_schema` of every database.
//!
//! Nothing of it is stored. A scan of one of its tables computes the rows from what there is now, restricted to what the
//! session's user may see ([`viewer`], [`objects`]). [`system_table`] says which columns the tables have, [`content`] computes
//! the rows, [`functions`] are those that clients call while they look around. [`deparse`] writes defaults and checks as PostgreSQL does.

mod builtin_function;
mod builtin_type;
mod cell;
mod column_default;
mod columns;
mod content;
mod deparse;
mod functions;
mod objects;
mod oid;
mod qualified_names;
mod schema;
mod subquery;
mod system_table;
mod table;
mod typed;
mod viewer;

pub use builtin_function::function_name;
pub(crate) use builtin_type::{has_same_type, shown_type};
pub(crate) use schema::SystemSchema;
use subquery::CatalogSubqueries;
pub(crate) use subquery::MakePlanner;
pub(crate) use system_table::{INFORMATION_SCHEMA, PG_CATALOG, is_catalog_table, is_name_column};
pub(crate) use viewer::{Kept, KeptCursor, KeptStatement, MAINTENANCE_DATABASE, SessionSetup, Viewer};

use crate::dialect::SubqueryValues;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use std::sync::Arc;
use typed::CatalogTypes;

/// Makes a planner know the functions and the subqueries of clients that look around. `make_planner` makes one that need
/// not know them.
pub(crate) fn register(
    state: &mut SessionState,
    viewer: &Arc<Viewer>,
    make_planner: MakePlanner,
) -> Result<()> {
    functions::register(state, viewer)?;
    state.add_analyzer_rule(Arc::new(CatalogTypes::new(viewer.clone())));
    state.add_analyzer_rule(Arc::new(CatalogSubqueries::new(make_planner)));
    // What is left of them reads tables, too.
    state.add_analyzer_rule(Arc::new(SubqueryValues));
    Ok(())
}
