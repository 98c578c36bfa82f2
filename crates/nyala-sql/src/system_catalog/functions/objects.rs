//! What somebody may do with objects, and how they would be created.

use super::call::{Call, bool, text};
use super::session::names_nothing;
use super::{Function, Gives, strict, tolerant};
use crate::number_source::{qualified_default_of, sequence_of_default};
use crate::pg_type::TYPE_KEY;
use crate::system_catalog::content::{index_definition, view_text};
use crate::system_catalog::deparse::Style;
use crate::system_catalog::objects::{ObjectKind, TableIndex};
use crate::system_catalog::qualified_names::qualified;
use arrow_schema::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::collections::HashMap;

pub(super) static FUNCTIONS: &[Function] = &[
    tolerant("pg_get_expr", Gives::Text, |call| {
        let Some(expression) = call.text(0) else { return Ok(ScalarValue::Null) };
        let table = call.oid(1).filter(|_| call.is_true(2));
        if let Some(pretty) = table.and_then(|table| call.objects().pretty(table, &expression)) {
            return Ok(text(pretty));
        }
        // A sequence has its schema where its name alone would not find it.
        let sequence = names_nothing(call).then(|| sequence_of_default(&expression)).flatten();
        Ok(text(sequence.map_or(expression, |own| qualified_default_of(&own))))
    }),
    strict("pg_get_constraintdef", Gives::Text, constraint),
    strict("pg_get_indexdef", Gives::Text, index),
    strict("pg_get_viewdef", Gives::Text, |call| {
        let view = call.object(0)?.and_then(|own| own.relation()).and_then(|own| own.view());
        Ok(view.map_or(ScalarValue::Null, |view| match names_nothing(call) {
            true => text(view_text(&qualified(&view.query, call.objects()))),
            false => text(view_text(&view.query)),
        }))
    }),
    strict("pg_get_ruledef", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("pg_get_triggerdef", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("pg_get_functiondef", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("pg_get_partkeydef", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("pg_get_statisticsobjdef_columns", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("pg_relation_is_publishable", Gives::Bool, |_| Ok(bool(true))),
    tolerant("obj_description", Gives::Text, |call| {
        let of = call.text(1);
        if of.is_some_and(|of| of != "pg_class") {
            return Ok(ScalarValue::Null);
        }
        let found = call.oid(0).and_then(|oid| call.objects().by_oid(oid));
        let found = found.filter(|own| own.index().is_none());
        let comment = found.and_then(|own| own.relation()).and_then(|own| own.definition.comment.clone());
        Ok(comment.map_or(ScalarValue::Null, text))
    }),
    strict("col_description", Gives::Text, |call| {
        let relation = call.oid(0).and_then(|oid| call.objects().by_oid(oid)).and_then(|own| own.relation());
        let place = call.number(1).and_then(|own| usize::try_from(own.checked_sub(1)?).ok());
        let columns = relation.and_then(|own| own.table()).map(|table| &table.columns);
        let column = columns.zip(place).and_then(|(columns, place)| columns.get(place));
        Ok(column.and_then(|own| own.comment.clone()).map_or(ScalarValue::Null, text))
    }),
    strict("shobj_description", Gives::Text, |_| Ok(ScalarValue::Null)),
    // Nothing has a list of rights.
    tolerant("acldefault", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("has_table_privilege", Gives::Bool, has_table_privilege),
    strict("has_any_column_privilege", Gives::Bool, has_table_privilege),
    strict("has_column_privilege", Gives::Bool, has_table_privilege),
    strict("has_schema_privilege", Gives::Bool, |call| Ok(bool(may(call)))),
    strict("has_database_privilege", Gives::Bool, |call| {
        let of = call.values.len().saturating_sub(2);
        let name = match call.oid(of) {
            Some(oid) => {
                call.viewer.databases().into_iter().find(|(own, _)| *own == oid).map(|(_, name)| name)
            }
            None => call.text(of),
        };
        let is_seen = |name: &str| call.viewer.databases().iter().any(|(_, own)| own == name);
        Ok(bool(name.is_some_and(|name| is_seen(&name))))
    }),
    strict("has_function_privilege", Gives::Bool, |_| Ok(bool(true))),
    strict("has_sequence_privilege", Gives::Bool, |call| Ok(bool(may(call)))),
    strict("has_type_privilege", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_has_role", Gives::Bool, |call| {
        Ok(bool(
            call.viewer.principal.is_admin() || call.text(0).is_some_and(|name| name == call.viewer.user),
        ))
    }),
    strict("pg_column_is_updatable", Gives::Bool, |call| {
        let found = call.object(0)?.filter(|own| matches!(own.kind, ObjectKind::Table(_)));
        Ok(bool(found.is_some() && call.number(1).is_some_and(|own| own > 0)))
    }),
    strict("pg_relation_is_updatable", Gives::Int, |call| {
        // INSERT, UPDATE and DELETE.
        let found = call.object(0)?.filter(|own| matches!(own.kind, ObjectKind::Table(_)));
        Ok(ScalarValue::Int32(Some(if found.is_some() { 0b1_1100 } else { 0 })))
    }),
    strict("array::privileges", Gives::Privileges, |_| Ok(ScalarValue::Null)),
    strict("pg_stat_get_numscans", Gives::BigInt, size),
    strict("pg_relation_size", Gives::BigInt, size),
    strict("pg_table_size", Gives::BigInt, size),
    strict("pg_total_relation_size", Gives::BigInt, size),
    strict("pg_indexes_size", Gives::BigInt, size),
    strict("pg_database_size", Gives::BigInt, size),
    strict("pg_tablespace_location", Gives::Text, |_| Ok(text(""))),
];

/// What PostgreSQL says of a privilege: by whom, to whom, which, whether it may be passed on.
pub(super) fn privilege_type() -> DataType {
    let number = |name| Field::new(name, DataType::Int64, true).with_metadata(named("oid"));
    let fields = vec![
        number("grantor"),
        number("grantee"),
        Field::new("privilege_type", DataType::Utf8, true),
        Field::new("is_grantable", DataType::Boolean, true),
    ];
    DataType::Struct(fields.into())
}

fn named(name: &str) -> HashMap<String, String> {
    [(TYPE_KEY.to_owned(), name.to_owned())].into()
}

fn constraint(call: &Call<'_>) -> Result<ScalarValue> {
    let found = call.oid(0).and_then(|oid| call.objects().constraints.iter().find(|own| own.oid == oid));
    let style = Style { is_pretty: call.is_true(1), ..call.objects().style };
    Ok(found.map_or(ScalarValue::Null, |own| text(own.definition(&style))))
}

fn index(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(object) = call.oid(0).and_then(|oid| call.objects().by_oid(oid)) else {
        return Ok(ScalarValue::Null);
    };
    let place = call.number(1).unwrap_or(0);
    if place == 0 {
        return Ok(index_definition(object, !call.is_true(2)).map_or(ScalarValue::Null, text));
    }
    let names = object.index().map(TableIndex::names);
    let place = place.checked_sub(1).and_then(|own| usize::try_from(own).ok()).unwrap_or(usize::MAX);
    Ok(names.and_then(|names| names.get(place).cloned()).map_or_else(|| text(""), text))
}

/// Whether the privilege that the last argument names is granted on the session's database.
fn may(call: &Call<'_>) -> bool {
    let named = call.text(call.values.len().saturating_sub(1)).unwrap_or_default().to_uppercase();
    named.split(',').map(str::trim).any(|kind| match kind.trim_end_matches(" WITH GRANT OPTION") {
        "SELECT" | "USAGE" => call.viewer.may_see(&call.viewer.database),
        _ => call.viewer.may_write(&call.viewer.database),
    })
}

fn has_table_privilege(call: &Call<'_>) -> Result<ScalarValue> {
    Ok(bool(may(call)))
}

/// How large something is on disk is not known here.
fn size(_: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(Some(0)))
}
