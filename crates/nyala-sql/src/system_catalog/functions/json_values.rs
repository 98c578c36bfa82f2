//! Functions and operators of JSON.

use super::call::{Call, text};
use super::{Function, Gives, strict};
use crate::error::{SqlError, SqlState};
use crate::json_text::{Parts, decoded, parts_of, read};
use crate::jsonb_text::normal;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) const JSON: Gives = Gives::Typed("json", &DataType::Utf8);
pub(super) const JSONB: Gives = Gives::Typed("jsonb", &DataType::Utf8);

pub(super) static FUNCTIONS: &[Function] = &[
    strict("as::json", JSON, |call| written(call).map(text)),
    strict("as::jsonb", JSONB, |call| Ok(text(normal(&written(call)?)?))),
    strict("json::member", Gives::Json, |call| member(call).map(found)),
    strict("json::member_text", Gives::Text, |call| member(call).and_then(plain)),
    strict("json::path", Gives::Json, |call| at_path(call).map(found)),
    strict("json::path_text", Gives::Text, |call| at_path(call).and_then(plain)),
    strict("json_extract_path", JSON, |call| at_path(call).map(found)),
    strict("json_extract_path_text", Gives::Text, |call| at_path(call).and_then(plain)),
    strict("jsonb_extract_path", JSONB, |call| at_path(call).map(found)),
    strict("jsonb_extract_path_text", Gives::Text, |call| at_path(call).and_then(plain)),
    strict("json_array_length", Gives::Int, array_length),
    strict("jsonb_array_length", Gives::Int, array_length),
    strict("json_typeof", Gives::Text, |call| Ok(text(kind(&json_of(call))))),
    strict("jsonb_typeof", Gives::Text, |call| Ok(text(kind(&json_of(call))))),
];

fn json_of(call: &Call<'_>) -> String {
    call.text(0).unwrap_or_default()
}

/// A text that is a value of JSON.
fn written(call: &Call<'_>) -> Result<String> {
    let written = json_of(call);
    read(&written)?;
    Ok(written)
}

/// A part of a value, as JSON.
fn found(part: Option<String>) -> ScalarValue {
    ScalarValue::Utf8(part)
}

/// A part of a value, as a text without quotes; NULL of JSON is that of SQL.
fn plain(part: Option<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8(match part {
        Some(part) if part.starts_with('"') => Some(decoded(&part)?),
        part => part.filter(|part| part != "null"),
    }))
}

/// The member of an object with a name, or the element of an array at a place, which counts from the end if it is negative.
fn member(call: &Call<'_>) -> Result<Option<String>> {
    let (json, key) = (json_of(call), call.value(1));
    match (parts_of(&json), key.data_type().is_integer()) {
        (Parts::Array(elements), true) => Ok(call.number(1).and_then(|place| element(&elements, place))),
        (Parts::Object(members), false) => match call.text(1) {
            Some(name) => named(&members, &name),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn named(members: &[(&str, &str)], name: &str) -> Result<Option<String>> {
    for (own, value) in members.iter().rev() {
        if decoded(own)? == name {
            return Ok(Some((*value).to_owned()));
        }
    }
    Ok(None)
}

fn element(elements: &[&str], place: i64) -> Option<String> {
    let count = elements.len() as i64;
    let place = if place < 0 { place + count } else { place };
    elements.get(usize::try_from(place).ok()?).map(|own| (*own).to_owned())
}

/// The part at the end of a path: an array of names and places, or each of them as an argument.
fn at_path(call: &Call<'_>) -> Result<Option<String>> {
    let Some(path) = path_of(call) else { return Ok(None) };
    let mut found = json_of(call);
    for step in path {
        let part = match parts_of(&found) {
            Parts::Array(elements) => {
                step.trim().parse::<i64>().ok().and_then(|place| element(&elements, place))
            }
            Parts::Object(members) => named(&members, &step)?,
            Parts::Plain(_) => None,
        };
        let Some(part) = part else { return Ok(None) };
        found = part;
    }
    Ok(Some(found))
}

fn path_of(call: &Call<'_>) -> Option<Vec<String>> {
    match call.value(1) {
        ScalarValue::List(list) => {
            let steps = list.value(0);
            let step = |place| {
                let step = ScalarValue::try_from_array(&steps, place).ok()?;
                step.try_as_str().flatten().map(str::to_owned)
            };
            (0..steps.len()).map(step).collect()
        }
        _ => (1..call.values.len()).map(|place| call.text(place)).collect(),
    }
}

fn array_length(call: &Call<'_>) -> Result<ScalarValue> {
    match parts_of(&json_of(call)) {
        Parts::Array(elements) => Ok(ScalarValue::Int32(Some(elements.len() as i32))),
        Parts::Object(_) => refused("cannot get array length of a non-array"),
        Parts::Plain(_) => refused("cannot get array length of a scalar"),
    }
}

fn refused<T>(words: &str) -> Result<T> {
    Err(SqlError::new(SqlState::INVALID_PARAMETER, words).into())
}

fn kind(json: &str) -> &'static str {
    match parts_of(json) {
        Parts::Object(_) => "object",
        Parts::Array(_) => "array",
        Parts::Plain("null") => "null",
        Parts::Plain("true" | "false") => "boolean",
        Parts::Plain(own) if own.starts_with('"') => "string",
        Parts::Plain(_) => "number",
    }
}
