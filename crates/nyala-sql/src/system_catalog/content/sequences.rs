//! Sequences: `pg_sequence`, `pg_sequences`, `information_schema.sequences`, and which columns they belong to (`pg_depend`).

use super::Scope;
use super::attributes::{OF_DEFAULTS, OF_RELATIONS, default_oid};
use super::classes::owner;
use crate::number_source::sequence_of_default;
use crate::system_catalog::builtin_type::{BuiltinType, of_declared};
use crate::system_catalog::cell::Row;
use crate::system_catalog::objects::Object;
use nyala_db::relations::SequenceDefinition;

fn all<'a>(scope: &'a Scope<'_>) -> impl Iterator<Item = (&'a Object, &'a SequenceDefinition)> {
    scope.objects().filter_map(|object| Some((object, object.relation()?.sequence()?)))
}

pub(super) fn sequences(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, own): (&Object, &SequenceDefinition)| {
        vec![
            ("seqrelid", object.oid.into()),
            ("seqtypid", of_declared(own.declared_type).0.into()),
            ("seqstart", own.start.into()),
            ("seqincrement", own.increment.into()),
            ("seqmax", own.maximum.into()),
            ("seqmin", own.minimum.into()),
            ("seqcache", own.cache.into()),
            ("seqcycle", own.cycles.into()),
        ]
    };
    all(scope).map(row).collect()
}

pub(super) async fn shown(scope: &Scope<'_>) -> Vec<Row> {
    let owner = owner(scope);
    let sequences = scope.viewer.catalog.relations().sequences();
    let mut rows = Vec::new();
    for (object, own) in all(scope) {
        let state = sequences.state(own).await.ok().filter(|state| state.is_called);
        let data_type = BuiltinType::of_oid(of_declared(own.declared_type).0);
        rows.push(vec![
            ("schemaname", (&object.schema).into()),
            ("sequencename", (&object.name).into()),
            ("sequenceowner", (&owner).into()),
            ("data_type", data_type.map(|own| own.shown(None)).into()),
            ("start_value", own.start.into()),
            ("min_value", own.minimum.into()),
            ("max_value", own.maximum.into()),
            ("increment_by", own.increment.into()),
            ("cycle", own.cycles.into()),
            ("cache_size", own.cache.into()),
            ("last_value", state.map(|state| state.last).into()),
        ]);
    }
    rows
}

/// What `information_schema.sequences` says beside the names.
pub(super) fn of_schema(scope: &Scope<'_>) -> Vec<Row> {
    let row = |(object, own): (&Object, &SequenceDefinition)| {
        let data_type = BuiltinType::of_oid(of_declared(own.declared_type).0);
        let bits = data_type.map_or(64, |own| i32::from(own.length) * 8);
        vec![
            ("sequence_catalog", scope.database.into()),
            ("sequence_schema", (&object.schema).into()),
            ("sequence_name", (&object.name).into()),
            ("data_type", data_type.map(|own| own.shown(None)).into()),
            ("numeric_precision", bits.into()),
            ("numeric_precision_radix", 2.into()),
            ("numeric_scale", 0.into()),
            ("start_value", own.start.to_string().into()),
            ("minimum_value", own.minimum.to_string().into()),
            ("maximum_value", own.maximum.to_string().into()),
            ("increment", own.increment.to_string().into()),
            ("cycle_option", if own.cycles { "YES" } else { "NO" }.into()),
        ]
    };
    all(scope).map(row).collect()
}

/// The columns that sequences belong to, and the defaults that take numbers from them.
pub(super) fn dependencies(scope: &Scope<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let sequence = |table: &Object, name: &str| scope.objects.find(Some(&table.schema), name);
    for table in &scope.objects.objects {
        let columns = table.relation().filter(|_| table.letter() == "r").and_then(|own| own.table());
        for (column, number) in columns.into_iter().flat_map(|own| &own.columns).zip(1..) {
            let used = column.default.as_deref().and_then(sequence_of_default);
            if let Some(used) = used.and_then(|name| sequence(table, &name)) {
                rows.push(vec![
                    ("classid", OF_DEFAULTS.into()),
                    ("objid", default_oid(scope, &table.name, &column.name).into()),
                    ("objsubid", 0.into()),
                    ("refclassid", OF_RELATIONS.into()),
                    ("refobjid", used.oid.into()),
                    ("refobjsubid", 0.into()),
                    ("deptype", "n".into()),
                ]);
            }
            let Some(owned) = &column.sequence else { continue };
            let Some(sequence) = sequence(table, &owned.name) else { continue };
            rows.push(vec![
                ("classid", OF_RELATIONS.into()),
                ("objid", sequence.oid.into()),
                ("objsubid", 0.into()),
                ("refclassid", OF_RELATIONS.into()),
                ("refobjid", table.oid.into()),
                ("refobjsubid", number.into()),
                ("deptype", if owned.identity.is_some() { "i" } else { "a" }.into()),
            ]);
        }
    }
    rows
}
