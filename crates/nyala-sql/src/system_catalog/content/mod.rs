//! The rows of each table of the system. A table that is not named here is empty: what it lists does not exist.

mod attributes;
mod classes;
mod constraints;
mod databases;
mod information;
mod information_columns;
mod roles;
mod sequences;
mod session;
mod settings;
mod types;

pub(super) use classes::view_text;
pub(super) use constraints::index_definition;

use super::cell::Row;
use super::columns::{Column, columns_of};
use super::objects::{Object, Objects};
use super::system_table::{PG_CATALOG, SystemTable};
use super::viewer::Viewer;
use datafusion::catalog::CatalogProviderList;
use std::collections::HashSet;
use std::sync::Arc;

/// What rows are computed from.
pub(super) struct Scope<'a> {
    pub(super) viewer: &'a Viewer,
    pub(super) database: &'a str,
    pub(super) objects: &'a Objects,
    /// Looks up views and measurements.
    pub(super) names: Arc<dyn CatalogProviderList>,
    /// The numbers of the relations that matter; `None`: all.
    pub(super) only: Option<HashSet<u32>>,
}

impl Scope<'_> {
    /// The objects that matter.
    fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.objects.iter().filter(|object| self.matters(object.oid))
    }

    fn matters(&self, oid: u32) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&oid))
    }

    async fn columns(&self, object: &Object) -> Vec<Column> {
        columns_of(object, self.database, &self.names).await
    }
}

/// The rows of a table.
pub(super) async fn rows(table: &SystemTable, scope: &Scope<'_>) -> Vec<Row> {
    if table.schema != PG_CATALOG {
        return information::rows(table.name, scope).await;
    }
    match table.name {
        "pg_am" => types::access_methods(),
        "pg_attrdef" => attributes::defaults(scope).await,
        "pg_attribute" => attributes::attributes(scope).await,
        "pg_authid" => roles::authorization_ids(scope),
        "pg_class" => classes::classes(scope).await,
        "pg_collation" => types::collations(),
        "pg_constraint" => constraints::constraints(scope),
        "pg_cursors" => session::cursors(scope),
        "pg_database" => databases::databases(scope),
        "pg_depend" => sequences::dependencies(scope),
        "pg_description" => attributes::descriptions(scope),
        "pg_get_keywords" => types::keywords(),
        "pg_index" => constraints::indexes(scope),
        "pg_indexes" => constraints::shown_indexes(scope),
        "pg_language" => types::languages(),
        "pg_locks" => session::locks(scope),
        "pg_namespace" => databases::namespaces(scope),
        "pg_prepared_statements" => session::prepared_statements(scope),
        "pg_proc" => types::functions(),
        "pg_roles" => roles::roles(scope),
        "pg_sequence" => sequences::sequences(scope),
        "pg_sequences" => sequences::shown(scope).await,
        "pg_settings" => settings::settings(scope),
        "pg_stat_activity" => session::activity(scope),
        "pg_stat_all_tables" => classes::statistics(scope, |_| true),
        "pg_stat_user_tables" => classes::statistics(scope, |own| !own.is_system()),
        "pg_stat_sys_tables" => classes::statistics(scope, Object::is_system),
        "pg_tables" => classes::tables(scope),
        "pg_tablespace" => databases::tablespaces(),
        "pg_type" => types::types(),
        "pg_user" => roles::users(scope),
        "pg_views" => classes::views(scope),
        _ => Vec::new(),
    }
}

/// The tables and views, without those keys that PostgreSQL counts as relations.
fn relations<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = &'a Object> {
    scope.objects().filter(|object| object.letter() != "i")
}

/// A truth as `information_schema` has it.
fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "YES" } else { "NO" }
}
