//! `information_schema.columns`, and who may do what with them.

use super::classes::owner;
use super::{Scope, relations, yes_or_no};
use crate::system_catalog::builtin_type::{BPCHAR, BuiltinType, NUMERIC, TIMESTAMP, TIMESTAMPTZ, VARCHAR};
use crate::system_catalog::cell::{Cell, Row};
use crate::system_catalog::columns::Column;
use crate::system_catalog::objects::{Object, ObjectKind};
use nyala_db::relations::Identity;

/// The most bytes of a letter in UTF-8.
const LETTER_BYTES_MAX: i32 = 4;
/// The most bytes of a text in PostgreSQL.
const TEXT_BYTES_MAX: i32 = 1 << 30;

pub(super) async fn columns(scope: &Scope<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let may_write = scope.viewer.may_write(scope.database);
    for object in relations(scope) {
        let is_changed_here = may_write && matches!(object.kind, ObjectKind::Table(_));
        for (column, number) in scope.columns(object).await.into_iter().zip(1_i32..) {
            let Some(of) = BuiltinType::of_oid(column.type_oid) else { continue };
            let mut row: Row = vec![
                ("table_catalog", scope.database.into()),
                ("table_schema", (&object.schema).into()),
                ("table_name", (&object.name).into()),
                ("column_name", (&column.name).into()),
                ("ordinal_position", number.into()),
                ("column_default", column.default.as_ref().map(|own| own.shown(&scope.objects.style)).into()),
                ("is_nullable", yes_or_no(!column.is_not_null).into()),
            ];
            row.extend(of_type(scope, of, &column));
            row.extend([
                ("dtd_identifier", number.to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", yes_or_no(column.identity.is_some()).into()),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes_or_no(is_changed_here).into()),
            ]);
            row.extend(identity(scope, object, &column));
            rows.push(row);
        }
    }
    rows
}

/// What the sequence of a column says that is its identity.
fn identity(scope: &Scope<'_>, object: &Object, column: &Column) -> Row {
    let table = object.relation().and_then(|own| own.table());
    let owned = table.and_then(|table| table.column(&column.name)?.sequence.as_ref());
    let sequence = owned.and_then(|own| scope.objects.find(Some(&object.schema), &own.name));
    let sequence = sequence.and_then(|own| own.relation()?.sequence());
    let (Some(identity), Some(sequence)) = (column.identity, sequence) else {
        return vec![("identity_cycle", "NO".into())];
    };
    let generation = match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    };
    vec![
        ("identity_generation", generation.into()),
        ("identity_start", sequence.start.to_string().into()),
        ("identity_increment", sequence.increment.to_string().into()),
        ("identity_maximum", sequence.maximum.to_string().into()),
        ("identity_minimum", sequence.minimum.to_string().into()),
        ("identity_cycle", yes_or_no(sequence.cycles).into()),
    ]
}

/// What the type of a column says.
fn of_type(scope: &Scope<'_>, of: &BuiltinType, column: &Column) -> Row {
    // A domain is shown as the type that it restricts.
    let base = BuiltinType::of_oid(of.base).unwrap_or(of);
    let modifier = if of.base == 0 { column.modifier } else { of.modifier };
    let shown = match base.oid {
        _ if base.is_array() => "ARRAY".to_owned(),
        BPCHAR => "character".to_owned(),
        _ => base.shown(None),
    };
    let letters = (matches!(base.oid, BPCHAR | VARCHAR) && modifier >= 4).then(|| modifier - 4);
    let bytes = match base.oid {
        25 => Some(TEXT_BYTES_MAX),
        BPCHAR | VARCHAR => Some(letters.map_or(TEXT_BYTES_MAX, |own| own.saturating_mul(LETTER_BYTES_MAX))),
        _ => None,
    };
    let digits = (base.oid == NUMERIC && modifier >= 4).then(|| modifier - 4);
    let (precision, radix, scale) = match base.oid {
        21 => (Some(16), Some(2), Some(0)),
        23 => (Some(32), Some(2), Some(0)),
        20 => (Some(64), Some(2), Some(0)),
        700 => (Some(24), Some(2), None),
        701 => (Some(53), Some(2), None),
        NUMERIC => (digits.map(|own| own >> 16), Some(10), digits.map(|own| own & 0x7ff)),
        _ => (None, None, None),
    };
    let time = match base.oid {
        1082 => Some(0),
        TIMESTAMP | TIMESTAMPTZ if modifier >= 0 => Some(modifier),
        1083 | TIMESTAMP | TIMESTAMPTZ | 1186 => Some(6),
        _ => None,
    };
    let mut row: Row = vec![
        ("data_type", shown.into()),
        ("character_maximum_length", letters.into()),
        ("character_octet_length", bytes.into()),
        ("numeric_precision", precision.into()),
        ("numeric_precision_radix", radix.into()),
        ("numeric_scale", scale.into()),
        ("datetime_precision", time.into()),
    ];
    if of.base != 0 {
        row.extend([
            ("domain_catalog", Cell::from(scope.database)),
            ("domain_schema", of.namespace.into()),
            ("domain_name", of.name.into()),
        ]);
    }
    row.extend([
        ("udt_catalog", scope.database.into()),
        ("udt_schema", base.namespace.into()),
        ("udt_name", base.name.into()),
    ]);
    row
}

pub(super) async fn privileges(scope: &Scope<'_>) -> Vec<Row> {
    let owner = owner(scope);
    let mut kinds = Vec::new();
    if scope.viewer.may_see(scope.database) {
        kinds.push("SELECT");
    }
    if scope.viewer.may_write(scope.database) {
        kinds.extend(["INSERT", "UPDATE"]);
    }
    let mut rows = Vec::new();
    for object in relations(scope).filter(|object| !object.is_system()) {
        for column in scope.columns(object).await {
            rows.extend(kinds.iter().map(|kind| {
                vec![
                    ("grantor", (&owner).into()),
                    ("grantee", (&scope.viewer.user).into()),
                    ("table_catalog", scope.database.into()),
                    ("table_schema", (&object.schema).into()),
                    ("table_name", (&object.name).into()),
                    ("column_name", (&column.name).into()),
                    ("privilege_type", (*kind).into()),
                    ("is_grantable", "NO".into()),
                ]
            }));
        }
    }
    rows
}
