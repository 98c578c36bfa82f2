//! Arrays that clients send as parameters: `{1,2,NULL}`, or their binary form.

use crate::error::Failure;
use crate::value::types::{ColumnType, PgType};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use nyala_exec::Zone;
use nyala_sql::ScalarValue;

/// Reads an array from text.
pub(super) fn of_text(text: &str, of: PgType, zone: Zone) -> Result<ScalarValue, Failure> {
    let malformed = || {
        let shown: String = text.chars().take(128).collect();
        Failure::new("22P02", format!("malformed array literal: \"{shown}\""))
    };
    let (wanted, read_as) = (element_type(of), read_as(of));
    let elements = split(text.trim()).ok_or_else(malformed)?;
    let values = elements.into_iter().map(|element| match element {
        Some(element) => super::of_text(&element, of, &read_as, zone),
        None => null(&wanted),
    });
    list(values.collect::<Result<_, _>>()?, wanted)
}

/// Reads an array from its binary form.
pub(super) fn of_binary(bytes: &[u8], of: PgType) -> Result<ScalarValue, Failure> {
    let invalid = || Failure::invalid_binary("array");
    let (wanted, read_as) = (element_type(of), read_as(of));
    let mut rest = bytes;
    let mut number = || {
        let (number, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(i32::from_be_bytes(*number))
    };
    let header = (number(), number(), number());
    let (Some(dimensions), Some(_has_nulls), Some(element_oid)) = header else { return Err(invalid()) };
    if element_oid as u32 != of.oid() {
        return Err(Failure::new("42804", format!("the elements of an array must be of type {}", of.name())));
    }
    let count = match dimensions {
        0 => 0,
        1 => number().zip(number()).ok_or_else(invalid)?.0,
        _ => return Err(Failure::unsupported("parameters that are arrays of arrays")),
    };
    let mut values = Vec::new();
    for _ in 0..usize::try_from(count).map_err(|_| invalid())? {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(invalid)?;
        rest = after;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            values.push(null(&wanted)?);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| invalid())?;
        let (element, after) = rest.split_at_checked(length).ok_or_else(invalid)?;
        rest = after;
        values.push(super::of_binary(element, of, &read_as)?);
    }
    match rest.is_empty() {
        true => list(values, wanted),
        false => Err(invalid()),
    }
}

fn element_type(of: PgType) -> DataType {
    ColumnType { of, is_array: false, digits: None, length: None }.values()
}

/// What an element is read as. A decimal number keeps its own digits: how many the statement wants is known of the list only.
fn read_as(of: PgType) -> DataType {
    match of {
        PgType::Numeric => DataType::Null,
        _ => element_type(of),
    }
}

fn null(wanted: &DataType) -> Result<ScalarValue, Failure> {
    ScalarValue::try_new_null(wanted).map_err(|error| Failure::unsupported(error.to_string()))
}

fn list(values: Vec<ScalarValue>, of: DataType) -> Result<ScalarValue, Failure> {
    // Decimal numbers come with digits of their own, and a list has one type: none of them is rounded.
    let of = match values.iter().filter_map(scale).max() {
        Some(scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
        None => values.iter().find(|value| !value.is_null()).map_or(of, ScalarValue::data_type),
    };
    let same: Result<Vec<_>, _> = values.iter().map(|value| value.cast_to(&of)).collect();
    let same = same.map_err(|error| Failure::new("22003", error.to_string()))?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&same, &of)))
}

/// The digits behind the point of a decimal number.
fn scale(value: &ScalarValue) -> Option<i8> {
    match value {
        ScalarValue::Decimal128(Some(_), _, scale) => Some(*scale),
        _ => None,
    }
}

/// The elements of `{a,"b c",NULL}`; `None` if that is not what it is.
fn split(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    let mut letters = inner.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_ascii_whitespace()).is_some() {}
        let (mut element, mut is_escaped) = (String::new(), false);
        let is_quoted = letters.next_if_eq(&'"').is_some();
        loop {
            match letters.peek().copied() {
                Some('\\') => {
                    letters.next();
                    element.push(letters.next()?);
                    is_escaped = true;
                }
                Some('"') if is_quoted => {
                    letters.next();
                    break;
                }
                Some('"' | '{' | '}') if !is_quoted => return None,
                Some(',') if !is_quoted => break,
                Some(letter) => {
                    element.push(letter);
                    letters.next();
                }
                None if is_quoted => return None,
                None => break,
            }
        }
        if !is_quoted {
            element.truncate(element.trim_end().len());
            if element.is_empty() {
                return None;
            }
        }
        let is_null = !is_quoted && !is_escaped && element.eq_ignore_ascii_case("NULL");
        elements.push((!is_null).then_some(element));
        while letters.next_if(|letter| letter.is_ascii_whitespace()).is_some() {}
        match letters.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}
