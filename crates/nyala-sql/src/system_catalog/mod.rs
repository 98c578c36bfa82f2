//! PostgreSQL's system catalogue: the schemas `pg_catalog` and `information_schema` of every database.
//!
//! Nothing of it is stored. A scan of one of its tables computes the rows from what there is now, restricted to what the
//! session's user may see ([`viewer`], [`objects`]). [`system_table`] says which columns the tables have, [`content`] computes
//! the rows, [`functions`] are those that clients call while they look around.

mod builtin_type;
mod cell;
mod columns;
mod content;
mod functions;
mod objects;
mod oid;
mod schema;
mod system_table;
mod table;
mod viewer;

pub(crate) use functions::register;
pub(crate) use schema::SystemSchema;
pub(crate) use system_table::{INFORMATION_SCHEMA, PG_CATALOG};
pub(crate) use viewer::{MAINTENANCE_DATABASE, Viewer};
