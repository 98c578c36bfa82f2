//! Functions that make JSON of values of SQL. Aggregates come here in two steps (`rewrite/function.rs`): each value becomes a text
//! of JSON, and then the array of these texts becomes one.

use super::call::{Call, text};
use super::json_values::{JSON, JSONB};
use super::{Function, Gives, strict, tolerant};
use crate::bytes_text::hexadecimal;
use crate::error::{SqlError, SqlState};
use crate::float_text::{write_f32, write_f64};
use crate::json_text::quoted;
use crate::jsonb_text;
use crate::pg_type::TYPE_KEY;
use crate::time_printing::{Span, write_exact_timestamp};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{Field, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use nyala_exec::Zone;

pub(super) static FUNCTIONS: &[Function] = &[
    tolerant("json::kept", JSON, |call| Ok(call.value(0).clone())),
    tolerant("jsonb::kept", JSONB, |call| Ok(call.value(0).clone())),
    strict("to_json", JSON, |call| written(call, 0).map(text)),
    strict("to_jsonb", JSONB, |call| normal(&written(call, 0)?)),
    strict("array_to_json", JSON, |call| written(call, 0).map(text)),
    tolerant("json_build_object", JSON, |call| object(call).map(text)),
    tolerant("jsonb_build_object", JSONB, |call| normal(&object(call)?)),
    tolerant("json_build_array", JSON, |call| array(call).map(text)),
    tolerant("jsonb_build_array", JSONB, |call| normal(&array(call)?)),
    tolerant("json::element", Gives::Text, |call| written(call, 0).map(text)),
    tolerant("json::pair", Gives::Text, |call| pair(call, 0).map(text)),
    strict("json::of_elements", JSON, |call| Ok(text(format!("[{}]", joined(call)?)))),
    strict("jsonb::of_elements", JSONB, |call| normal(&format!("[{}]", joined(call)?))),
    strict("json::of_pairs", JSON, |call| Ok(text(format!("{{ {} }}", joined(call)?)))),
    strict("jsonb::of_pairs", JSONB, |call| normal(&format!("{{{}}}", joined(call)?))),
];

fn normal(json: &str) -> Result<ScalarValue> {
    Ok(text(jsonb_text::normal(json)?))
}

/// An argument as JSON.
fn written(call: &Call<'_>, place: usize) -> Result<String> {
    let zone = call.viewer.setting("TimeZone");
    let zone = zone.and_then(|name| Zone::named(&name)).unwrap_or(Zone::UTC);
    of_value(call.value(place), call.fields.get(place).map(|field| &**field), zone)
}

/// A value as JSON. `field` says what it is for PostgreSQL.
fn of_value(value: &ScalarValue, field: Option<&Field>, zone: Zone) -> Result<String> {
    let mut out = Vec::new();
    if value.is_null() {
        return Ok("null".to_owned());
    }
    match value {
        ScalarValue::Boolean(Some(own)) => return Ok(own.to_string()),
        ScalarValue::Dictionary(_, own) => return of_value(own, field, zone),
        ScalarValue::Float64(Some(own)) => {
            write_f64(*own, &mut out);
            return Ok(number(&String::from_utf8_lossy(&out), own.is_finite()));
        }
        ScalarValue::Float32(Some(own)) => {
            write_f32(*own, &mut out);
            return Ok(number(&String::from_utf8_lossy(&out), own.is_finite()));
        }
        ScalarValue::List(own) => return of_elements(&own.value(0), zone),
        ScalarValue::LargeList(own) => return of_elements(&own.value(0), zone),
        ScalarValue::Struct(own) => return of_struct(own, zone),
        value if value.data_type().is_numeric() => return Ok(value.to_string()),
        ScalarValue::TimestampNanosecond(..)
        | ScalarValue::TimestampMicrosecond(..)
        | ScalarValue::TimestampMillisecond(..)
        | ScalarValue::TimestampSecond(..) => return of_timestamp(value, zone),
        ScalarValue::IntervalMonthDayNano(Some(own)) => {
            Span { months: own.months, days: own.days, us: own.nanoseconds / 1_000 }.write(&mut out);
            return Ok(quoted(&String::from_utf8_lossy(&out)));
        }
        ScalarValue::Binary(Some(own)) | ScalarValue::LargeBinary(Some(own)) => {
            return Ok(quoted(&format!("\\x{}", hexadecimal(own))));
        }
        _ => {}
    }
    let words = match value.try_as_str() {
        Some(words) => words.unwrap_or_default().to_owned(),
        None => value.to_string(),
    };
    let kind = field.and_then(|field| field.metadata().get(TYPE_KEY));
    let is_json = kind.is_some_and(|kind| kind == "json" || kind == "jsonb");
    Ok(if is_json { words } else { quoted(&words) })
}

/// Numbers that JSON does not have are texts.
fn number(words: &str, is_finite: bool) -> String {
    if is_finite { words.to_owned() } else { quoted(words) }
}

fn of_elements(elements: &ArrayRef, zone: Zone) -> Result<String> {
    let element = |place| of_value(&ScalarValue::try_from_array(elements, place)?, None, zone);
    let elements = (0..elements.len()).map(element).collect::<Result<Vec<_>>>()?;
    Ok(format!("[{}]", elements.join(",")))
}

fn of_struct(row: &StructArray, zone: Zone) -> Result<String> {
    let member = |(field, values): (&arrow_schema::FieldRef, &ArrayRef)| {
        let value = of_value(&ScalarValue::try_from_array(values, 0)?, Some(field), zone)?;
        Ok(format!("{}:{value}", quoted(field.name())))
    };
    let members = row.fields().iter().zip(row.columns()).map(member).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", members.join(",")))
}

/// As ISO 8601 has it: `2024-01-01T10:00:00+02:00`.
fn of_timestamp(value: &ScalarValue, zone: Zone) -> Result<String> {
    let data_type = value.data_type();
    let arrow_schema::DataType::Timestamp(_, own_zone) = &data_type else { return Ok("null".to_owned()) };
    let exact = arrow_schema::DataType::Timestamp(TimeUnit::Nanosecond, own_zone.clone());
    let exact = ScalarValue::try_from_array(&cast(&value.to_array()?, &exact)?, 0)?;
    let ScalarValue::TimestampNanosecond(Some(time_ns), _) = exact else { return Ok("null".to_owned()) };
    let mut out = Vec::new();
    let zone = own_zone.as_ref().map(|_| zone);
    write_exact_timestamp(time_ns, zone, &mut out);
    let mut words = String::from_utf8_lossy(&out).replacen(' ', "T", 1);
    let has_hours_alone = words.rfind(['+', '-']).is_some_and(|sign| sign + 3 == words.len());
    if zone.is_some() && has_hours_alone {
        words.push_str(":00");
    }
    Ok(quoted(&words))
}

/// `{"a" : 1, "b" : null}`
fn object(call: &Call<'_>) -> Result<String> {
    if !call.values.len().is_multiple_of(2) {
        let words = "argument list must have even number of elements";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, words).into());
    }
    let pairs = (0..call.values.len()).step_by(2).map(|place| pair(call, place));
    Ok(format!("{{{}}}", pairs.collect::<Result<Vec<_>>>()?.join(", ")))
}

/// `"a" : 1`
fn pair(call: &Call<'_>, place: usize) -> Result<String> {
    if call.value(place).is_null() {
        let message = format!("argument {} cannot be null", place + 1);
        let error = SqlError::new(SqlState::INVALID_PARAMETER, message);
        return Err(error.with_hint("Object keys should be text.").into());
    }
    let name = written(call, place)?;
    let name = if name.starts_with('"') { name } else { quoted(&name) };
    Ok(format!("{name} : {}", written(call, place + 1)?))
}

fn array(call: &Call<'_>) -> Result<String> {
    let elements = (0..call.values.len()).map(|place| written(call, place));
    Ok(format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(", ")))
}

/// The texts of an array.
fn joined(call: &Call<'_>) -> Result<String> {
    let ScalarValue::List(list) = call.value(0) else { return Ok(String::new()) };
    let elements = list.value(0);
    let mut texts = Vec::with_capacity(elements.len());
    for place in 0..elements.len() {
        let element = ScalarValue::try_from_array(&elements, place)?;
        texts.push(element.try_as_str().flatten().unwrap_or("null").to_owned());
    }
    Ok(texts.join(", "))
}
