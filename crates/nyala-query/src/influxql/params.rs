//! Values for bound parameters (`$name`), which replace tokens while a query is parsed.

use std::collections::HashMap;

use super::duration::format_duration;
use super::token::Kind;

/// The values of a query's bound parameters.
#[derive(Clone, Debug, Default)]
pub struct Params(HashMap<String, Param>);

/// What a parameter is replaced by. A value that cannot be bound is only an error where it is used; the token stays
/// a bound parameter then, and its text says why.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Params {
    /// Reads the JSON object that the `params` argument of a query holds. The error is what InfluxDB answers.
    pub fn from_json(json: &str) -> Result<Params, String> {
        let values: HashMap<String, serde_json::Value> =
            serde_json::from_str(json).map_err(|error| format!("error parsing query parameters: {error}"))?;
        Ok(Params(values.into_iter().map(|(name, value)| (name, bind(&value))).collect()))
    }

    /// Binds one value.
    pub fn insert(&mut self, name: impl Into<String>, value: &serde_json::Value) {
        self.0.insert(name.into(), bind(value));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Param> {
        self.0.get(name)
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
