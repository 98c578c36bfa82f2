//! Numbers of sequences.

use super::call::{Call, text};
use super::{Function, Gives, strict, tolerant, volatile};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::{PUBLIC, is_temporary_schema, parts_of, quoted};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use nyala_db::relations::{Relation, SequenceState, TEMPORARY};
use std::sync::Arc;

pub(super) static FUNCTIONS: &[Function] = &[
    volatile("nextval", Gives::BigInt, |call| {
        let sequence = changed(call, "nextval")?;
        Ok(number(call.viewer.numbers.next(&sequence)?))
    }),
    volatile("currval", Gives::BigInt, |call| Ok(number(call.viewer.numbers.current(&*sequence(call)?)?))),
    volatile("lastval", Gives::BigInt, |call| Ok(number(call.viewer.numbers.last()?))),
    volatile("setval", Gives::BigInt, |call| {
        let sequence = changed(call, "setval")?;
        let Some(last) = call.number(1) else { return Ok(ScalarValue::Null) };
        let is_called = call.values.len() < 3 || call.is_true(2);
        call.viewer.numbers.set(&sequence, SequenceState { last, is_called })?;
        Ok(number(last))
    }),
    tolerant("pg_sequence_last_value", Gives::BigInt, |call| {
        let Some(found) = call.object(0)?.and_then(|own| own.relation().cloned()) else {
            return Ok(ScalarValue::Null);
        };
        if found.sequence().is_none() {
            return Ok(ScalarValue::Null);
        }
        Ok(call.viewer.numbers.state(&found)?.map_or(ScalarValue::Null, number))
    }),
    strict("pg_get_serial_sequence", Gives::Text, |call| {
        let (Some(object), Some(column)) = (call.object(0)?, call.text(1)) else {
            return Ok(ScalarValue::Null);
        };
        let table = object.relation().and_then(|own| own.table());
        let Some(own) = table.and_then(|table| table.column(&column)) else {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", object.name);
            return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message).into());
        };
        let schema = if object.is_temporary() { "pg_temp" } else { &object.schema };
        let name = own.sequence.as_ref().map(|own| format!("{}.{}", quoted(schema), quoted(&own.name)));
        Ok(name.map_or(ScalarValue::Null, text))
    }),
];

fn number(own: i64) -> ScalarValue {
    ScalarValue::Int64(Some(own))
}

/// The sequence that the first argument means: its name or its number.
fn sequence(call: &Call<'_>) -> SqlResult<Arc<Relation>> {
    let viewer = call.viewer;
    if let Some(oid) = call.oid(0) {
        let found = call.objects().by_oid(oid).and_then(|own| own.relation().cloned());
        let unknown = || {
            let message = format!("could not open relation with OID {oid}");
            SqlError::new(SqlState::UNKNOWN_TABLE, message)
        };
        let found = found.ok_or_else(unknown)?;
        crate::number_source::sequence_of(&found)?;
        return Ok(found);
    }
    let written = call.text(0).unwrap_or_default();
    let found = match &parts_of(&written).unwrap_or_default()[..] {
        // The temporary ones come first.
        [name] => {
            let own = viewer.numbers.relation(TEMPORARY, name);
            own.or_else(|| viewer.numbers.relation(&viewer.database, name))
        }
        [schema, name] if is_temporary_schema(schema) => viewer.numbers.relation(TEMPORARY, name),
        [schema, name] if schema == PUBLIC => viewer.numbers.relation(&viewer.database, name),
        [database, schema, name] if schema == PUBLIC && *database == viewer.database => {
            viewer.numbers.relation(database, name)
        }
        _ => None,
    };
    if let Some(found) = found {
        crate::number_source::sequence_of(&found)?;
        return Ok(found);
    }
    Err(match call.named(&written) {
        Some(other) => crate::number_source::no_sequence(&other.name),
        None => SqlError::new(SqlState::UNKNOWN_TABLE, format!("relation \"{written}\" does not exist")),
    })
}

/// The same for a function that changes it.
fn changed(call: &Call<'_>, function: &str) -> Result<Arc<Relation>> {
    let found = sequence(call)?;
    if !call.viewer.may_write(&found.database) {
        let message = format!("permission denied for sequence {}", found.name);
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_hint("It needs the privilege WRITE.")
            .into());
    }
    if call.viewer.is_read_only() {
        let words = format!("cannot execute {function}() in a read-only transaction");
        return Err(SqlError::new(SqlState::READ_ONLY_TRANSACTION, words).into());
    }
    Ok(found)
}
