//! Names of objects and their numbers.
//!
//! A cast such as `'t'::regclass` is rewritten to a call of one of these: PostgreSQL shows a `regclass` as a name and
//! compares it as a number. No user can write such a name of a function without quotes.

use super::call::{Call, bool, oid, text};
use super::{Function, Gives, NAME, OID, strict, tolerant};
use crate::bytes_text::read_bytes;
use crate::error::{SqlError, SqlState};
use crate::identifier::parts_of;
use crate::pg_type::TYPE_KEY;
use crate::system_catalog::builtin_type::{BuiltinType, shown_type};
use crate::uuid_text;
use arrow_array::Array;
use arrow_schema::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) static FUNCTIONS: &[Function] = &[
    strict("regclass::oid", OID, |call| Ok(call.object(0)?.map_or_else(|| given(call), |own| oid(own.oid)))),
    strict("regclass::text", Gives::Typed("regclass", &DataType::Utf8), |call| {
        let found = call.object(0)?;
        Ok(text(found.map_or_else(|| dash(call), |own| call.objects().shown(own))))
    }),
    strict("regtype::oid", OID, |call| Ok(of_type(call)?.map_or_else(|| given(call), |own| oid(own.oid)))),
    strict("regtype::text", Gives::Typed("regtype", &DataType::Utf8), |call| {
        Ok(text(of_type(call)?.map_or_else(|| dash(call), |own| own.shown(None))))
    }),
    strict("regnamespace::oid", OID, |call| {
        let Some(name) = schema_name(call) else { return Ok(given(call)) };
        match call.objects().schemas.iter().find(|schema| schema.name == name) {
            Some(schema) => Ok(oid(schema.oid)),
            None => {
                let message = format!("schema \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNKNOWN_SCHEMA, message).into())
            }
        }
    }),
    strict("regnamespace::text", Gives::Text, |call| {
        let found = call.oid(0).and_then(|oid| call.objects().schema(oid)).map(|schema| schema.name.clone());
        Ok(text(found.or_else(|| schema_name(call)).unwrap_or_else(|| dash(call))))
    }),
    strict("regrole::oid", OID, |call| {
        let Some(name) = schema_name(call) else { return Ok(given(call)) };
        match call.viewer.roles().into_iter().find(|role| role.name == name) {
            Some(role) => Ok(oid(role.oid)),
            None => {
                let message = format!("role \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message).into())
            }
        }
    }),
    strict("regrole::text", Gives::Text, |call| {
        let roles = call.viewer.roles().into_iter();
        let found = call.oid(0).and_then(|oid| roles.into_iter().find(|role| role.oid == oid));
        Ok(text(found.map(|role| role.name).or_else(|| schema_name(call)).unwrap_or_else(|| dash(call))))
    }),
    strict("regtype[]::text", Gives::Names, |call| {
        let ScalarValue::List(list) = call.value(0) else { return Ok(ScalarValue::Null) };
        let numbers = list.value(0);
        let name = |place| {
            let number = ScalarValue::try_from_array(&numbers, place)?.cast_to(&DataType::Int64)?;
            let ScalarValue::Int64(Some(number)) = number else { return Ok(ScalarValue::Utf8(None)) };
            let found = u32::try_from(number).ok().and_then(BuiltinType::of_oid);
            Ok(text(found.map_or_else(|| number.to_string(), |own| own.shown(None))))
        };
        let names = (0..numbers.len()).map(name).collect::<Result<Vec<_>>>()?;
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8)))
    }),
    strict("as::oid", OID, |call| match call.number(0) {
        Some(number) => Ok(ScalarValue::Int64(Some(number))),
        None => {
            let words = call.text(0).unwrap_or_default();
            let message = format!("invalid input syntax for type oid: \"{words}\"");
            Err(SqlError::new(SqlState::INVALID_TEXT, message).into())
        }
    }),
    strict("as::name", NAME, |call| Ok(text(call.text(0).unwrap_or_default()))),
    strict("as::char", Gives::Typed("char", &DataType::Utf8), |call| {
        Ok(text(call.text(0).unwrap_or_default().chars().take(1).collect::<String>()))
    }),
    strict("as::uuid", Gives::Typed("uuid", &DataType::Utf8), |call| {
        let written = call.text(0).unwrap_or_default();
        Ok(text(uuid_text::read(&written)?))
    }),
    strict("as::bytea", Gives::Typed("bytea", &DataType::Binary), |call| match call.value(0) {
        ScalarValue::Binary(own) => Ok(ScalarValue::Binary(own.clone())),
        _ => Ok(ScalarValue::Binary(Some(read_bytes(&call.text(0).unwrap_or_default())?))),
    }),
    strict("to_regclass", Gives::Typed("regclass", &DataType::Utf8), |call| {
        let name = call.text(0).unwrap_or_default();
        Ok(call.named(&name).map_or(ScalarValue::Null, |own| text(call.objects().shown(own))))
    }),
    strict("to_regtype", Gives::Typed("regtype", &DataType::Utf8), |call| {
        let found = BuiltinType::of_name(&call.text(0).unwrap_or_default());
        Ok(found.map_or(ScalarValue::Null, |own| text(own.shown(None))))
    }),
    strict("to_regnamespace", Gives::Text, |call| {
        let name = schema_name(call).unwrap_or_default();
        let is_known = call.objects().schemas.iter().any(|schema| schema.name == name);
        Ok(if is_known { text(name) } else { ScalarValue::Null })
    }),
    tolerant("pg_typeof", Gives::Typed("regtype", &DataType::Utf8), |call| {
        let field = call.fields.first().filter(|own| own.metadata().contains_key(TYPE_KEY));
        Ok(text(match (field, call.value(0).data_type()) {
            (Some(field), _) => shown_type(field).split('(').next().unwrap_or_default().to_owned(),
            (None, DataType::Null) => "unknown".to_owned(),
            (None, own) => {
                shown_type(&Field::new("", own, true)).split('(').next().unwrap_or_default().to_owned()
            }
        }))
    }),
    tolerant("format_type", Gives::Text, |call| Ok(format_type(call))),
    strict("pg_table_is_visible", Gives::Bool, |call| {
        let found = call.oid(0).and_then(|oid| call.objects().by_oid(oid));
        Ok(found.map_or(ScalarValue::Null, |own| bool(call.objects().is_visible(own))))
    }),
    strict("pg_type_is_visible", Gives::Bool, |call| {
        let found = call.oid(0).and_then(BuiltinType::of_oid);
        Ok(found.map_or(ScalarValue::Null, |own| bool(own.namespace == "pg_catalog")))
    }),
    strict("pg_function_is_visible", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_operator_is_visible", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_opclass_is_visible", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_opfamily_is_visible", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_collation_is_visible", Gives::Bool, |_| Ok(bool(true))),
    strict("pg_get_userbyid", NAME, |call| {
        let found = call.oid(0).and_then(|oid| call.viewer.roles().into_iter().find(|role| role.oid == oid));
        let unknown = || format!("unknown (OID={})", call.number(0).unwrap_or_default());
        Ok(text(found.map_or_else(unknown, |role| role.name)))
    }),
];

/// The number that was given, which no object has.
fn given(call: &Call<'_>) -> ScalarValue {
    ScalarValue::Int64(call.number(0))
}

/// What stands for the number that was given where no object has it.
fn dash(call: &Call<'_>) -> String {
    match call.number(0) {
        None | Some(0) => "-".to_owned(),
        Some(number) => number.to_string(),
    }
}

fn schema_name(call: &Call<'_>) -> Option<String> {
    if call.number(0).is_some() {
        return None;
    }
    parts_of(&call.text(0)?)?.pop()
}

/// The type that the argument means.
fn of_type(call: &Call<'_>) -> Result<Option<&'static BuiltinType>> {
    if let Some(oid) = call.oid(0) {
        return Ok(BuiltinType::of_oid(oid));
    }
    let name = call.text(0).unwrap_or_default();
    // Modifiers do not matter.
    let plain = name.split_once('(').map_or(&*name, |(plain, _)| plain);
    match BuiltinType::of_name(plain) {
        Some(found) => Ok(Some(found)),
        None if plain == "-" => Ok(None),
        None => {
            let message = format!("type \"{name}\" does not exist");
            Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message).into())
        }
    }
}

fn format_type(call: &Call<'_>) -> ScalarValue {
    let Some(oid) = call.oid(0) else { return ScalarValue::Null };
    let modifier = call.number(1).map(|own| i32::try_from(own).unwrap_or(-1));
    match BuiltinType::of_oid(oid) {
        Some(own) => text(own.shown(modifier)),
        None if oid == 0 => text("-"),
        None => text("???"),
    }
}
