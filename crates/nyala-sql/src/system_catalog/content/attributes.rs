//! Columns: `pg_attribute`, `pg_attrdef`, and what somebody wrote about them (`pg_description`).

use super::Scope;
use crate::system_catalog::builtin_type::BuiltinType;
use crate::system_catalog::cell::Row;
use crate::system_catalog::oid;
use crate::system_catalog::oid::{PG_CATALOG_SCHEMA, PUBLIC_SCHEMA};
use nyala_db::relations::Identity;

/// The number of `pg_class`, in which descriptions find what they describe.
pub(super) const OF_RELATIONS: u32 = 1259;
/// The number of `pg_attrdef`.
pub(super) const OF_DEFAULTS: u32 = 2604;
/// The number of `pg_namespace`.
const OF_SCHEMAS: u32 = 2615;

pub(super) async fn attributes(scope: &Scope<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in scope.objects() {
        let is_key = object.letter() == "i";
        for (column, number) in scope.columns(object).await.into_iter().zip(1_i16..) {
            let Some(of) = BuiltinType::of_oid(column.type_oid) else { continue };
            rows.push(vec![
                ("attrelid", object.oid.into()),
                ("attname", column.name.into()),
                ("atttypid", of.oid.into()),
                ("attstattarget", (-1).into()),
                ("attlen", of.length.into()),
                ("attnum", number.into()),
                ("attndims", i32::from(of.is_array()).into()),
                ("attcacheoff", (-1).into()),
                ("atttypmod", column.modifier.into()),
                ("attbyval", of.is_by_value.into()),
                ("attalign", of.alignment.into()),
                ("attstorage", of.storage.into()),
                ("attnotnull", (column.is_not_null && !is_key).into()),
                ("atthasdef", column.default.is_some().into()),
                (
                    "attidentity",
                    match column.identity {
                        Some(Identity::Always) => "a",
                        Some(Identity::ByDefault) => "d",
                        None => "",
                    }
                    .into(),
                ),
                ("attislocal", true.into()),
                ("attcollation", of.collation.into()),
            ]);
        }
    }
    rows
}

/// The number of the default of a column.
pub(super) fn default_oid(scope: &Scope<'_>, table: &str, column: &str) -> u32 {
    oid::of("default", &[scope.database, table, column])
}

pub(super) async fn defaults(scope: &Scope<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in scope.objects().filter(|object| object.relation().is_some() && object.letter() == "r") {
        for (column, number) in scope.columns(object).await.into_iter().zip(1_i16..) {
            let Some(default) = column.default else { continue };
            let text = default.shown(&scope.objects.style);
            rows.push(vec![
                ("oid", default_oid(scope, &object.name, &column.name).into()),
                ("adrelid", object.oid.into()),
                ("adnum", number.into()),
                ("adbin", text.into()),
            ]);
        }
    }
    rows
}

pub(super) fn descriptions(scope: &Scope<'_>) -> Vec<Row> {
    let of_schema = |(oid, text): (u32, &str)| -> Row {
        vec![
            ("objoid", oid.into()),
            ("classoid", OF_SCHEMAS.into()),
            ("objsubid", 0.into()),
            ("description", text.into()),
        ]
    };
    let known = [(PG_CATALOG_SCHEMA, "system catalog schema"), (PUBLIC_SCHEMA, "standard public schema")];
    let known = known.into_iter().filter(|(oid, _)| scope.objects.schema(*oid).is_some());
    let mut rows: Vec<Row> = known.map(of_schema).collect();
    for object in scope.objects().filter(|object| object.letter() != "i") {
        let Some(relation) = object.relation() else { continue };
        let mut add = |number: i32, text: &Option<String>| {
            if let Some(text) = text {
                rows.push(vec![
                    ("objoid", object.oid.into()),
                    ("classoid", OF_RELATIONS.into()),
                    ("objsubid", number.into()),
                    ("description", text.into()),
                ]);
            }
        };
        add(0, &relation.definition.comment);
        let columns = relation.table().into_iter().flat_map(|table| &table.columns);
        columns.zip(1..).for_each(|(column, number)| add(number, &column.comment));
    }
    rows
}
