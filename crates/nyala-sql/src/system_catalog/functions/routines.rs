//! What functions take and give, as texts, and functions as numbers.

use super::call::{Call, oid, text};
use super::{Function, Gives, OID, strict};
use crate::error::{SqlError, SqlState};
use crate::system_catalog::builtin_function::{BuiltinFunction, function_name};
use crate::system_catalog::builtin_type::BuiltinType;
use arrow_array::Array;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) static FUNCTIONS: &[Function] = &[
    strict("regproc::oid", OID, number),
    strict("regproc::text", Gives::Typed("regproc", &DataType::Utf8), |call| {
        let number = match call.oid(0) {
            Some(number) => number,
            None => match number(call)? {
                ScalarValue::Int64(Some(number)) => u32::try_from(number).unwrap_or_default(),
                _ => return Ok(ScalarValue::Null),
            },
        };
        Ok(text(function_name(number).map_or_else(|| number.to_string(), str::to_owned)))
    }),
    strict("pg_get_function_arguments", Gives::Text, |call| Ok(found(call, arguments))),
    strict("pg_get_function_identity_arguments", Gives::Text, |call| Ok(found(call, arguments))),
    strict("pg_get_function_result", Gives::Text, |call| {
        Ok(found(call, |own| {
            let of = type_name(own.result);
            if own.gives_rows { format!("SETOF {of}") } else { of }
        }))
    }),
    strict("oidvectortypes", Gives::Text, |call| {
        let ScalarValue::List(list) = call.value(0) else { return Ok(ScalarValue::Null) };
        let numbers = list.value(0);
        let name = |place| {
            Ok(match ScalarValue::try_from_array(&numbers, place)? {
                ScalarValue::Int64(Some(own)) => type_name(u32::try_from(own).unwrap_or_default()),
                _ => "-".to_owned(),
            })
        };
        let names = (0..numbers.len()).map(name).collect::<Result<Vec<_>>>()?;
        Ok(text(names.join(", ")))
    }),
];

/// The number of the function that the argument means.
fn number(call: &Call<'_>) -> Result<ScalarValue> {
    if let Some(number) = call.oid(0) {
        return Ok(oid(number));
    }
    let written = call.text(0).unwrap_or_default();
    let parts = crate::identifier::parts_of(&written).unwrap_or_default();
    let name = match &parts[..] {
        [name] => Some(name),
        [schema, name] if schema == "pg_catalog" => Some(name),
        _ => None,
    };
    match name.map_or(&[][..], |name| BuiltinFunction::of_name(name)) {
        [] if written == "-" => Ok(oid(0)),
        [] => {
            let message = format!("function \"{written}\" does not exist");
            Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, message).into())
        }
        [own] => Ok(oid(own.oid)),
        _ => {
            let message = format!("more than one function named \"{written}\"");
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).into())
        }
    }
}

fn found(call: &Call<'_>, shown: impl Fn(&BuiltinFunction) -> String) -> ScalarValue {
    let function = call.oid(0).and_then(BuiltinFunction::of_oid);
    function.map_or(ScalarValue::Null, |own| text(shown(own)))
}

fn type_name(oid: u32) -> String {
    BuiltinType::of_oid(oid).map_or_else(|| "???".to_owned(), |own| own.shown(None))
}

/// `text, VARIADIC "any"`
fn arguments(own: &BuiltinFunction) -> String {
    let last = own.arguments.len();
    let argument = |(of, number): (&u32, usize)| {
        let mode = if own.variadic != 0 && number == last { "VARIADIC " } else { "" };
        let name = own.names.get(number - 1).map(|name| format!("{name} ")).unwrap_or_default();
        format!("{mode}{name}{}", type_name(*of))
    };
    own.arguments.iter().zip(1..).map(argument).collect::<Vec<_>>().join(", ")
}
