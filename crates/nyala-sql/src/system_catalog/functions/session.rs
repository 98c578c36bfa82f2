//! Who and where the session is, and how it is set up.

use super::call::{Call, bool, text};
use super::{Function, Gives, NAME, strict, tolerant, volatile};
use crate::error::{SqlError, SqlState};
use crate::identifier::TEMPORARY_SCHEMA;
use crate::system_catalog::system_table::PG_CATALOG;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) static FUNCTIONS: &[Function] = &[
    strict("current_catalog", NAME, |call| Ok(text(&call.viewer.database))),
    strict("current_database", NAME, |call| Ok(text(&call.viewer.database))),
    strict("current_role", NAME, |call| Ok(text(&call.viewer.user))),
    strict("current_schema", NAME, |call| {
        Ok(if names_nothing(call) { ScalarValue::Null } else { text("public") })
    }),
    strict("current_schemas", Gives::Names, schemas),
    tolerant("current_setting", Gives::Text, setting),
    strict("current_user", NAME, |call| Ok(text(&call.viewer.user))),
    strict("inet_client_addr", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("inet_server_addr", Gives::Text, |_| Ok(ScalarValue::Null)),
    strict("inet_server_port", Gives::Int, |_| Ok(ScalarValue::Null)),
    strict("pg_backend_pid", Gives::Int, |call| Ok(ScalarValue::Int32(Some(call.viewer.number)))),
    strict("pg_is_in_recovery", Gives::Bool, |_| Ok(bool(false))),
    strict("pg_is_other_temp_schema", Gives::Bool, |_| Ok(bool(false))),
    strict("pg_my_temp_schema", super::OID, |call| {
        let own = call.objects().schemas.iter().find(|own| own.name == TEMPORARY_SCHEMA);
        Ok(super::call::oid(own.map_or(0, |own| own.oid)))
    }),
    strict("pg_postmaster_start_time", Gives::Time, |call| {
        Ok(ScalarValue::TimestampNanosecond(Some(call.viewer.started_ns), Some("+00:00".into())))
    }),
    strict("session_user", NAME, |call| Ok(text(&call.viewer.user))),
    volatile("set_config", Gives::Text, |_| {
        let words = "set_config() of rows, or of values that are computed";
        Err(SqlError::unsupported(words).with_hint("Write SELECT set_config('name', 'value', false).").into())
    }),
    strict("txid_current", Gives::BigInt, |_| Ok(ScalarValue::Int64(Some(1)))),
    strict("user", NAME, |call| Ok(text(&call.viewer.user))),
    strict("version", Gives::Text, version),
];

/// The schemas that names without one are looked for in.
fn schemas(call: &Call<'_>) -> Result<ScalarValue> {
    let has_temporary = call.objects().schemas.iter().any(|own| own.name == TEMPORARY_SCHEMA);
    let implicit = [has_temporary.then_some(TEMPORARY_SCHEMA), Some(PG_CATALOG)].into_iter().flatten();
    let own = (!names_nothing(call)).then_some("public");
    let names = implicit.filter(|_| call.is_true(0)).chain(own);
    let names: Vec<ScalarValue> = names.map(text).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&names, &arrow_schema::DataType::Utf8)))
}

/// Whether names without a schema are looked for nowhere but in the catalogue.
pub(super) fn names_nothing(call: &Call<'_>) -> bool {
    call.viewer.names_nothing()
}

fn setting(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(name) = call.text(0) else { return Ok(ScalarValue::Null) };
    match call.viewer.setting(&name) {
        Some(value) => Ok(text(value)),
        None if call.is_true(1) => Ok(ScalarValue::Null),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message).into())
        }
    }
}

/// Clients read the number of the version out of it.
fn version(call: &Call<'_>) -> Result<ScalarValue> {
    let version = call.viewer.setting("server_version").unwrap_or_default();
    Ok(text(format!("PostgreSQL {version} (nyala {})", env!("CARGO_PKG_VERSION"))))
}
