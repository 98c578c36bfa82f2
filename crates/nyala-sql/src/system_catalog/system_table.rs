//! The tables and views of `pg_catalog` and `information_schema`: which columns PostgreSQL 15 gives them.
//!
//! A line of `definitions/pg_catalog.txt` has a name, PostgreSQL's number, `r`, `v` or `f` (table, view or function), and the columns. An
//! exclamation mark says that a column has no NULLs.

use super::builtin_type::BuiltinType;
use arrow_schema::{Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The schema of the system catalogue.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
/// The schema that the standard of SQL defines.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A table or view.
#[derive(Debug)]
pub(crate) struct SystemTable {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: u32,
    pub(crate) is_view: bool,
    /// Whether it is a function of PostgreSQL that gives rows.
    pub(crate) is_function: bool,
    pub(crate) columns: Vec<SystemColumn>,
    /// The same columns in plans.
    pub(crate) fields: SchemaRef,
}

/// A column.
#[derive(Debug)]
pub(crate) struct SystemColumn {
    pub(crate) name: &'static str,
    pub(crate) of: &'static BuiltinType,
    pub(crate) is_not_null: bool,
}

/// Tables by name.
pub(crate) type SystemTables = BTreeMap<&'static str, SystemTable>;

static OF_PG_CATALOG: LazyLock<SystemTables> =
    LazyLock::new(|| read(PG_CATALOG, include_str!("definitions/pg_catalog.txt")));
static OF_INFORMATION_SCHEMA: LazyLock<SystemTables> =
    LazyLock::new(|| read(INFORMATION_SCHEMA, include_str!("definitions/information_schema.txt")));

/// The tables of a schema, if it is one of the system.
pub(crate) fn of_schema(schema: &str) -> Option<&'static SystemTables> {
    match schema {
        PG_CATALOG => Some(&OF_PG_CATALOG),
        INFORMATION_SCHEMA => Some(&OF_INFORMATION_SCHEMA),
        _ => None,
    }
}

/// Whether a table, and no view, of `pg_catalog` has a name.
pub(crate) fn is_catalog_table(name: &str) -> bool {
    OF_PG_CATALOG.get(name).is_some_and(|own| !own.is_view && !own.is_function)
}

/// Whether columns of `pg_catalog` that have a name are of the type `name`.
pub(crate) fn is_name_column(column: &str) -> bool {
    let mut columns = OF_PG_CATALOG.values().flat_map(|table| &table.columns);
    columns.find(|own| own.name == column).is_some_and(|own| own.of.name == "name")
}

/// All tables of the system.
pub(crate) fn all() -> impl Iterator<Item = &'static SystemTable> {
    OF_PG_CATALOG.values().chain(OF_INFORMATION_SCHEMA.values())
}

fn read(schema: &'static str, text: &'static str) -> SystemTables {
    let table = |line: &'static str| {
        let mut parts = line.splitn(4, ' ');
        let mut part = || parts.next().expect("a line has four parts");
        let (name, oid, kind, columns) = (part(), part(), part(), part());
        let columns: Vec<SystemColumn> = columns.split(", ").map(column).collect();
        let fields: Vec<Field> = columns.iter().map(|own| own.of.field(own.name)).collect();
        let oid = oid.parse().expect("the second part is a number");
        let fields = Arc::new(Schema::new(fields));
        (
            name,
            SystemTable {
                schema,
                name,
                oid,
                is_view: kind == "v",
                is_function: kind == "f",
                columns,
                fields,
            },
        )
    };
    text.lines().map(table).collect()
}

fn column(text: &'static str) -> SystemColumn {
    let (name, of) = text.split_once(' ').expect("a column has a name and a type");
    let is_not_null = of.ends_with('!');
    let of = of.trim_end_matches('!');
    let found =
        BuiltinType::of_name(of).or_else(|| BuiltinType::of_name(&format!("information_schema.{of}")));
    // Arrays of rows of a table, which are never shown.
    let of = found.or_else(|| BuiltinType::of_name("text")).expect("text is a type");
    SystemColumn { name, of, is_not_null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read() {
        let class = &of_schema(PG_CATALOG).unwrap()["pg_class"];
        assert_eq!((class.oid, class.is_view, class.columns.len()), (1259, false, 33));
        let columns = &of_schema(INFORMATION_SCHEMA).unwrap()["columns"];
        assert_eq!((columns.columns.len(), columns.columns[0].of.name), (44, "sql_identifier"));
        assert!(all().all(|own| !own.columns.is_empty()));
    }
}
