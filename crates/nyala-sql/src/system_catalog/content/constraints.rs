//! Keys, indexes and checks: `pg_constraint`, `pg_index`, `pg_indexes`.

use super::Scope;
use crate::identifier::quoted;
use crate::system_catalog::builtin_type::{BuiltinType, of_declared};
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::{Constraint, ConstraintKind, Object, TableIndex};
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

/// The letter of a kind of constraints.
fn letter(kind: ConstraintKind) -> &'static str {
    match kind {
        ConstraintKind::PrimaryKey => "p",
        ConstraintKind::Unique => "u",
        ConstraintKind::Check => "c",
    }
}

pub(super) fn constraints(scope: &Scope<'_>) -> Vec<Row> {
    let row = |own: &Constraint| {
        let schema = scope.objects.by_oid(own.table).map_or(PUBLIC_SCHEMA, |table| table.namespace);
        vec![
            ("oid", own.oid.into()),
            ("conname", (&own.name).into()),
            ("connamespace", schema.into()),
            ("contype", letter(own.kind).into()),
            ("convalidated", true.into()),
            ("conrelid", own.table.into()),
            ("conindid", own.index.unwrap_or(0).into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", own.index.is_some().into()),
            ("conkey", own.columns.clone().into()),
            ("conbin", own.condition(&scope.objects.style).into()),
        ]
    };
    scope.objects.constraints.iter().filter(|own| scope.matters(own.table)).map(row).collect()
}

/// The indexes of tables that matter.
fn indexes_of<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = (&'a Object, &'a TableIndex)> {
    let objects = scope.objects.objects.iter();
    let indexes = objects.filter_map(|object| Some((object, object.index()?)));
    indexes.filter(|(_, index)| scope.matters(index.table))
}

pub(super) fn indexes(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, index): (&Object, &TableIndex)| {
        let table = index.relation.table()?;
        let positions = index.columns.clone();
        let count = i16::try_from(positions.len()).unwrap_or(i16::MAX);
        let of = |place: &i16| {
            BuiltinType::of_oid(of_declared(table.columns[*place as usize - 1].declared_type).0)
        };
        let types: Vec<&BuiltinType> = positions.iter().filter_map(of).collect();
        Some(vec![
            ("indexrelid", object.oid.into()),
            ("indrelid", index.table.into()),
            ("indnatts", count.into()),
            ("indnkeyatts", count.into()),
            ("indisunique", index.is_unique.into()),
            ("indisprimary", index.is_primary.into()),
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
    indexes_of(scope).filter_map(row).collect()
}

/// `pg_indexes`
pub(super) fn shown_indexes(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, index): (&Object, &TableIndex)| {
        Some(vec![
            ("schemaname", (&object.schema).into()),
            ("tablename", (&index.relation.name).into()),
            ("indexname", (&object.name).into()),
            ("indexdef", index_definition(object, true)?.into()),
        ])
    };
    indexes_of(scope).filter_map(row).collect()
}

/// What would create an index.
pub(in crate::system_catalog) fn index_definition(object: &Object, with_schema: bool) -> Option<String> {
    let index = object.index()?;
    let schema = if with_schema { format!("{}.", quoted(&object.schema)) } else { String::new() };
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let (name, of) = (quoted(&object.name), quoted(&index.relation.name));
    let columns = index.names().join(", ");
    Some(format!("CREATE {unique}INDEX {name} ON {schema}{of} USING btree ({columns})"))
}
