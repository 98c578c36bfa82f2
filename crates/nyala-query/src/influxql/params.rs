//! Values for bound parameters (`$name`), which replace tokens while a query is parsed.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::num::IntErrorKind;

use super::duration::format_duration;
use super::token::Kind;

/// The values of a query's bound parameters.
#[derive(Clone, Debug, Default)]
pub struct Params(HashMap<String, Param>);

/// The replacement of a parameter. A value that cannot be bound is an error only if it is used: then the token stays a
/// bound parameter, and its text says why.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Params {
    /// Reads the JSON object that the `params` argument of a query holds. The error is what InfluxDB answers.
    pub fn from_json(json: &str) -> Result<Params, String> {
        // As in InfluxDB, one value is read, and text after it is ignored.
        let mut reader = serde_json::Deserializer::from_str(json);
        let values = Option::<HashMap<String, Box<RawValue>>>::deserialize(&mut reader)
            .map_err(|error| format!("error parsing query parameters: {}", json_error(json, &error)))?;
        let mut params = Params::default();
        for (name, value) in values.unwrap_or_default() {
            check_number(value.get()).map_err(|error| format!("error parsing json value: {error}"))?;
            let value: serde_json::Value = serde_json::from_str(value.get())
                .map_err(|error| format!("error parsing query parameters: {error}"))?;
            params.insert(name, &value);
        }
        Ok(params)
    }

    /// Binds one value.
    pub fn insert(&mut self, name: impl Into<String>, value: &serde_json::Value) {
        self.0.insert(name.into(), bind(value));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Param> {
        self.0.get(name)
    }
}

/// A number with a decimal point is a float, any other an integer; if it is neither, this is Go's error.
fn check_number(text: &str) -> Result<(), String> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(());
    }
    if text.contains('.') {
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(()),
            _ => Err(format!("strconv.ParseFloat: parsing \"{text}\": value out of range")),
        };
    }
    let Err(error) = text.parse::<i64>() else { return Ok(()) };
    let words = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    Err(format!("strconv.ParseInt: parsing \"{text}\": {words}"))
}

/// The error of Go's decoder for an error of serde's.
fn json_error(json: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return if json.trim().is_empty() { "EOF" } else { "unexpected EOF" }.to_owned();
    }
    if error.is_data() {
        let kind = match json.trim_start().as_bytes().first() {
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            _ => "number",
        };
        return format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    }
    let words = error.to_string();
    let place = match words.split(" at line ").next().unwrap_or_default() {
        "expected value" => "looking for beginning of value",
        "key must be a string" | "trailing comma" => "looking for beginning of object key string",
        "expected `:`" => "after object key",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `,` or `]`" => "after array element",
        "invalid number" => "in numeric literal",
        "invalid escape" => "in string escape code",
        _ => return words,
    };
    let line = json.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let at = error.column().saturating_sub(1);
    match line.get(at..).and_then(|rest| rest.chars().next()) {
        Some(letter) => format!("invalid character {letter:?} {place}"),
        None => words,
    }
}

fn param(kind: Kind, text: impl Into<String>) -> Param {
    Param { kind, text: text.into() }
}

fn refused(why: impl Into<String>) -> Param {
    param(Kind::BoundParameter, why)
}

fn boolean(value: bool) -> Param {
    param(if value { Kind::True } else { Kind::False }, "")
}

fn number(value: &serde_json::Number) -> Param {
    match value.as_i64() {
        Some(integer) => param(Kind::Integer, integer.to_string()),
        None if value.is_u64() => {
            refused(format!("strconv.ParseInt: parsing \"{value}\": value out of range"))
        }
        None => float(value),
    }
}

fn float(value: &serde_json::Number) -> Param {
    param(Kind::Number, value.as_f64().unwrap_or(f64::NAN).to_string())
}

fn bind(value: &serde_json::Value) -> Param {
    use serde_json::Value;
    match value {
        Value::Bool(value) => boolean(*value),
        Value::Number(value) => number(value),
        Value::String(text) => param(Kind::String, text),
        Value::Object(entries) => match entries.iter().next() {
            Some((name, value)) if entries.len() == 1 => bind_typed(name, value),
            _ => refused("bound object parameter value must have exactly one entry"),
        },
        Value::Null => refused("unable to bind parameter with type <nil>"),
        Value::Array(_) => refused("unable to bind parameter with type []interface {}"),
    }
}

/// `{"type": value}`
fn bind_typed(name: &str, value: &serde_json::Value) -> Param {
    use serde_json::Value;
    match (name, value) {
        ("ident" | "identifier", Value::String(text)) => param(Kind::Identifier, text),
        ("ident" | "identifier", _) => refused("identifier must be a string value"),
        ("regex", Value::String(text)) => param(Kind::Regex, text),
        ("regex", _) => refused("regex literal must be a string value"),
        ("string", Value::String(text)) => param(Kind::String, text),
        ("string", _) => refused("string literal must be a string value"),
        ("float" | "number", Value::Number(value)) => float(value),
        ("float" | "number", _) => refused("number literal must be a float value"),
        ("int" | "integer", Value::Number(value)) if value.is_i64() => number(value),
        ("int" | "integer", _) => refused("integer literal must be an integer value"),
        ("duration", Value::String(text)) => param(Kind::DurationValue, text),
        ("duration", Value::Number(value)) if value.is_i64() => {
            param(Kind::DurationValue, format_duration(value.as_i64().unwrap_or_default()))
        }
        ("duration", _) => refused("duration literal must be a string or integer value"),
        _ => refused(format!("unknown bind object type: {name}")),
    }
}
