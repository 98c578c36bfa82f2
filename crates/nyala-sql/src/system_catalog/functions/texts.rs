//! Functions of texts and arrays that DataFusion lacks, or means otherwise.

use super::call::{Call, bool, text};
use super::{Function, Gives, strict, tolerant};
use crate::error::{SqlError, SqlState};
use crate::row_wise::{BATCH_BYTES_MAX, too_long};
use crate::similar::regular_expression;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use regex::RegexBuilder;
use std::sync::Arc;

pub(super) static FUNCTIONS: &[Function] = &[
    strict("pg_encoding_to_char", super::NAME, |call| {
        Ok(text(if call.number(0) == Some(6) { "UTF8" } else { "" }))
    }),
    strict("pg_size_pretty", Gives::Text, |call| Ok(text(size_text(call.number(0).unwrap_or_default())))),
    tolerant("array_to_string", Gives::Text, joined),
    strict("regexp_split_to_array", Gives::Names, split),
    strict("array::subscripts", Gives::Positions, |call| {
        let positions = (1..=elements_of(call)).map(|own| ScalarValue::Int32(Some(own)));
        Ok(list(positions.collect(), &DataType::Int32))
    }),
    strict("array::numbered", Gives::Numbered, numbered),
    strict("like::pattern", Gives::Text, |call| {
        Ok(text(with_backslashes(&call.text(0).unwrap_or_default(), &call.text(1).unwrap_or_default())))
    }),
    strict("similar::pattern", Gives::Text, |call| {
        let escape = match call.values.len() {
            1 => Some('\\'),
            _ => call.text(1).unwrap_or_default().chars().next(),
        };
        Ok(text(regular_expression(&call.text(0).unwrap_or_default(), escape)?))
    }),
    strict("array_lower", Gives::Int, |call| Ok(bound(call, false))),
    strict("array_upper", Gives::Int, |call| Ok(bound(call, true))),
    strict("array::equals", Gives::Bool, |call| Ok(bool(array_text(call, 0)? == array_text(call, 1)?))),
    tolerant("array::or_empty", Gives::Same, |call| match call.value(0) {
        ScalarValue::List(list) if list.is_null(0) => {
            let element = list.values().data_type().clone();
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&[], &element)))
        }
        other => Ok(other.clone()),
    }),
];

/// The number of the first or last element of an array; NULL if there is none.
fn bound(call: &Call<'_>, is_last: bool) -> ScalarValue {
    let ScalarValue::List(list) = call.value(0) else { return ScalarValue::Null };
    let length = if call.number(1) == Some(1) { list.value_length(0) } else { 0 };
    match length {
        0 => ScalarValue::Null,
        length => ScalarValue::Int32(Some(if is_last { length } else { 1 })),
    }
}

/// How many elements an array has.
fn elements_of(call: &Call<'_>) -> i32 {
    let ScalarValue::List(list) = call.value(0) else { return 0 };
    if call.values.len() > 1 && call.number(1) != Some(1) { 0 } else { list.value_length(0) }
}

fn list(values: Vec<ScalarValue>, of: &DataType) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(&values, of))
}

/// The type of a numbered element: PostgreSQL calls its parts `x` and `n`.
pub(super) fn numbered_type(element: DataType) -> DataType {
    DataType::Struct(vec![Field::new("x", element, true), Field::new("n", DataType::Int32, true)].into())
}

fn numbered(call: &Call<'_>) -> Result<ScalarValue> {
    let ScalarValue::List(array) = call.value(0) else { return Ok(ScalarValue::Null) };
    let elements = array.value(0);
    let of = numbered_type(elements.data_type().clone());
    let DataType::Struct(fields) = &of else { return Ok(ScalarValue::Null) };
    let positions: ArrayRef = Arc::new(Int32Array::from_iter_values((1..).take(elements.len())));
    let pairs = StructArray::try_new(fields.clone(), vec![elements, positions], None)?;
    let offsets = OffsetBuffer::from_lengths([pairs.len()]);
    let field = Arc::new(Field::new_list_field(of, true));
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, Arc::new(pairs), None)?)))
}

/// A pattern of LIKE with another letter in front of what means itself.
fn with_backslashes(pattern: &str, escape: &str) -> String {
    let Some(escape) = escape.chars().next() else { return pattern.replace('\\', "\\\\") };
    let mut changed = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == escape => {
                changed.push('\\');
                changed.extend(letters.next());
            }
            '\\' => changed.push_str("\\\\"),
            letter => changed.push(letter),
        }
    }
    changed
}

/// An array as text, without quotes around its elements.
fn array_text(call: &Call<'_>, place: usize) -> Result<String> {
    let ScalarValue::List(list) = call.value(place) else { return Ok(call.text(place).unwrap_or_default()) };
    let parts = elements(&list.value(0), Some("NULL"))?;
    Ok(format!("{{{}}}", parts.join(",")))
}

/// The elements of an array, with something between them; NULLs are left out unless a text for them is given.
fn joined(call: &Call<'_>) -> Result<ScalarValue> {
    let (ScalarValue::List(list), Some(between)) = (call.value(0), call.text(1)) else {
        return Ok(ScalarValue::Null);
    };
    if list.is_null(0) {
        return Ok(ScalarValue::Null);
    }
    let parts = elements(&list.value(0), call.text(2).as_deref())?;
    let bytes: usize = parts.iter().map(|own| own.len() + between.len()).sum();
    if bytes > BATCH_BYTES_MAX {
        return Err(too_long("array_to_string"));
    }
    Ok(text(parts.join(&between)))
}

/// The parts of a text between matches of a regular expression.
fn split(call: &Call<'_>) -> Result<ScalarValue> {
    let (words, pattern) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
    let is_insensitive = call.text(2).is_some_and(|flags| flags.contains('i'));
    let pattern = RegexBuilder::new(&pattern).case_insensitive(is_insensitive).build().map_err(|error| {
        let message = format!("invalid regular expression: {error}");
        SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message)
    })?;
    let (mut parts, mut begin) = (Vec::new(), 0);
    for found in pattern.find_iter(&words) {
        // An empty match does not divide at the beginning or the end.
        let is_nothing = found.is_empty() && (found.start() == 0 || found.start() == words.len());
        if !is_nothing {
            parts.push(text(&words[begin..found.start()]));
            begin = found.end();
        }
    }
    parts.push(text(&words[begin..]));
    Ok(list(parts, &DataType::Utf8))
}

/// The elements of an array as texts. NULLs are left out unless there is a text for them.
fn elements(array: &dyn Array, for_null: Option<&str>) -> Result<Vec<String>> {
    let mut parts = Vec::with_capacity(array.len());
    for place in 0..array.len() {
        let element = ScalarValue::try_from_array(array, place)?;
        if element.is_null() {
            parts.extend(for_null.map(str::to_owned));
        } else {
            parts.push(match element.try_as_str() {
                Some(words) => words.unwrap_or_default().to_owned(),
                None => element.to_string(),
            });
        }
    }
    Ok(parts)
}

/// As PostgreSQL rounds sizes.
fn size_text(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes, 0);
    // The first unit goes up to ten times the next one.
    while size.unsigned_abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        size = size.saturating_add(512 * size.signum()) / 1024;
        unit += 1;
    }
    format!("{size} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::size_text;

    #[test]
    fn sizes_are_shown() {
        assert_eq!(
            [0, 8192, 10_240, 7_716_000, -20_480].map(size_text),
            ["0 bytes", "8192 bytes", "10 kB", "7535 kB", "-20 kB"]
        );
    }
}
