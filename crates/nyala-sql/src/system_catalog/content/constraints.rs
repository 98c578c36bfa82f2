//! Keys and checks: `pg_constraint`, `pg_index`, `pg_indexes`.

use super::Scope;
use crate::identifier::quoted;
use crate::system_catalog::builtin_type::{BuiltinType, of_declared};
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::{Constraint, Object, ObjectKind, key_names, key_positions};
use crate::system_catalog::oid::PUBLIC_SCHEMA;

/// PostgreSQL's number of the way in which a B-tree compares values of a type.
fn operator_class(of: &BuiltinType) -> u32 {
    match of.name {
        "bool" => 424,
        "bytea" => 428,
        "bpchar" => 426,
        "int2" => 1979,
        "int4" => 1978,
        "int8" => 3124,
        "date" => 3122,
        "numeric" => 3125,
        "timestamp" => 3128,
        "timestamptz" => 3127,
        _ => 3126,
    }
}

pub(super) fn constraints(scope: &Scope<'_>) -> Vec<Row> {
    let row = |own: &Constraint| {
        vec![
            ("oid", own.oid.into()),
            ("conname", (&own.name).into()),
            ("connamespace", PUBLIC_SCHEMA.into()),
            ("contype", if own.index.is_some() { "p" } else { "c" }.into()),
            ("convalidated", true.into()),
            ("conrelid", own.table.into()),
            ("conindid", own.index.unwrap_or(0).into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", own.index.is_some().into()),
            ("conkey", own.columns.clone().into()),
            ("conbin", own.condition.clone().into()),
        ]
    };
    scope.objects.constraints.iter().filter(|own| scope.matters(own.table)).map(row).collect()
}

/// The keys of tables that matter.
fn keys<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = (&'a Object, u32)> {
    let objects = scope.objects.objects.iter();
    let keys = objects.filter_map(|object| match &object.kind {
        ObjectKind::Key(table, _) => Some((object, *table)),
        _ => None,
    });
    keys.filter(|(_, table)| scope.matters(*table))
}

pub(super) fn indexes(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, table_oid): (&Object, u32)| {
        let table = object.relation().and_then(|own| own.table())?;
        let positions = key_positions(table);
        let count = i16::try_from(positions.len()).unwrap_or(i16::MAX);
        let of = |place: &i16| {
            BuiltinType::of_oid(of_declared(table.columns[*place as usize - 1].declared_type).0)
        };
        let types: Vec<&BuiltinType> = positions.iter().filter_map(of).collect();
        Some(vec![
            ("indexrelid", object.oid.into()),
            ("indrelid", table_oid.into()),
            ("indnatts", count.into()),
            ("indnkeyatts", count.into()),
            ("indisunique", true.into()),
            ("indisprimary", true.into()),
            ("indimmediate", true.into()),
            ("indisvalid", true.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            ("indkey", positions.into()),
            ("indcollation", types.iter().map(|of| of.collation).collect::<Vec<_>>().into()),
            ("indclass", types.iter().map(|of| operator_class(of)).collect::<Vec<_>>().into()),
            ("indoption", vec![0_i16; types.len()].into()),
        ])
    };
    keys(scope).filter_map(row).collect()
}

/// `pg_indexes`
pub(super) fn shown_indexes(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, _): (&Object, u32)| {
        let relation = object.relation()?;
        Some(vec![
            ("schemaname", (&object.schema).into()),
            ("tablename", (&relation.name).into()),
            ("indexname", (&object.name).into()),
            ("indexdef", index_definition(object, true)?.into()),
        ])
    };
    keys(scope).filter_map(row).collect()
}

/// What would create the index of a key.
pub(in crate::system_catalog) fn index_definition(object: &Object, with_schema: bool) -> Option<String> {
    let relation = object.relation()?;
    let table = relation.table()?;
    let schema = if with_schema { format!("{}.", quoted(&object.schema)) } else { String::new() };
    let (name, of) = (quoted(&object.name), quoted(&relation.name));
    Some(format!("CREATE UNIQUE INDEX {name} ON {schema}{of} USING btree ({})", key_names(table)))
}
