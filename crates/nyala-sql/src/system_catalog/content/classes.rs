//! Relations: `pg_class`, and the views of PostgreSQL that show it.

use super::Scope;
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::Object;
use crate::system_catalog::oid::{BTREE, HEAP, OWNER};

pub(super) async fn classes(scope: &Scope<'_>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(scope.objects.objects.len());
    for object in scope.objects() {
        // Only a view or a measurement has to be looked up to count its columns.
        let columns = scope.columns(object).await.len();
        let relation = object.relation().and_then(|own| own.table());
        let has_index = scope.objects.has_index(object.oid);
        let checks = relation.map_or(0, |table| table.checks.len());
        let is_index = object.index().is_some();
        let (access, checks) = match object.letter() {
            "v" => (0, 0),
            _ if is_index => (BTREE, 0),
            _ => (HEAP, checks),
        };
        let has_storage = access != 0;
        let is_view = object.letter() == "v";
        rows.push(vec![
            ("oid", object.oid.into()),
            ("relname", (&object.name).into()),
            ("relnamespace", object.namespace.into()),
            ("relowner", OWNER.into()),
            ("relam", access.into()),
            ("relfilenode", if has_storage { object.oid } else { 0 }.into()),
            ("reltuples", (-1.0).into()),
            ("relhasindex", has_index.into()),
            ("relpersistence", if object.is_temporary() { "t" } else { "p" }.into()),
            ("relkind", object.letter().into()),
            ("relnatts", i16::try_from(columns).unwrap_or(i16::MAX).into()),
            ("relchecks", i16::try_from(checks).unwrap_or(i16::MAX).into()),
            ("relhasrules", is_view.into()),
            ("relispopulated", true.into()),
            ("relreplident", if has_storage && !is_index { "d" } else { "n" }.into()),
        ]);
    }
    rows
}

/// `pg_tables`
pub(super) fn tables(scope: &Scope<'_>) -> Vec<Row> {
    let owner = owner(scope);
    let row = |object: &Object| {
        let has_index = scope.objects.has_index(object.oid);
        vec![
            ("schemaname", (&object.schema).into()),
            ("tablename", (&object.name).into()),
            ("tableowner", (&owner).into()),
            ("hasindexes", has_index.into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", false.into()),
        ]
    };
    scope.objects().filter(|object| object.letter() == "r").map(row).collect()
}

/// `pg_views`
pub(super) fn views(scope: &Scope<'_>) -> Vec<Row> {
    let owner = owner(scope);
    let row = |object: &Object| {
        let view = object.relation().and_then(|own| own.view());
        vec![
            ("schemaname", (&object.schema).into()),
            ("viewname", (&object.name).into()),
            ("viewowner", (&owner).into()),
            ("definition", view.map(|view| view_text(&view.query)).into()),
        ]
    };
    scope.objects().filter(|object| object.letter() == "v").map(row).collect()
}

/// The query of a view as PostgreSQL shows it.
pub(in crate::system_catalog) fn view_text(query: &str) -> String {
    format!(" {query};")
}

/// `pg_stat_…_tables`: nothing is counted, but the tables are listed.
pub(super) fn statistics(scope: &Scope<'_>, is_wanted: impl Fn(&Object) -> bool) -> Vec<Row> {
    let tables = scope.objects().filter(|object| object.letter() == "r" && is_wanted(object));
    let row = |object: &Object| {
        let name = [("relid", object.oid.into()), ("schemaname", (&object.schema).into())];
        let counts = [
            "seq_scan",
            "seq_tup_read",
            "n_tup_ins",
            "n_tup_upd",
            "n_tup_del",
            "n_live_tup",
            "n_dead_tup",
            "vacuum_count",
            "analyze_count",
        ];
        let mut row = Row::from(name);
        row.push(("relname", (&object.name).into()));
        row.extend(counts.map(|count| (count, 0.into())));
        row
    };
    tables.map(row).collect()
}

/// The name of the role that owns everything.
pub(super) fn owner(scope: &Scope<'_>) -> String {
    scope.viewer.roles().into_iter().find(|role| role.oid == OWNER).map_or_else(String::new, |role| role.name)
}
