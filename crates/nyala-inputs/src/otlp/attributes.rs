//! Attributes, which become tags: their values as text, as the collector shows them.

use super::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX};
use base64ct::{Base64, Encoding};
use nyala_core::{Error, Result};
use std::borrow::Cow;

/// Attributes in the order in which they were sent.
#[derive(Debug, Default, Clone)]
pub(super) struct Attributes<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Attributes<'a> {
    /// Adds an attribute. One without a key is left out.
    pub(super) fn add(&mut self, key: Cow<'a, str>, value: Cow<'a, str>) -> Result<()> {
        if key.len().max(value.len()) > ATTRIBUTE_BYTES_MAX {
            return Err(too_long());
        }
        if self.0.len() >= ATTRIBUTES_MAX {
            return Err(Error::limit(format!("more than {ATTRIBUTES_MAX} attributes")));
        }
        if !key.is_empty() {
            self.0.push((key, value));
        }
        Ok(())
    }

    /// Adds those of a resource before its scope's own.
    pub(super) fn below(&mut self, outer: &Attributes<'a>) {
        self.0.splice(0..0, outer.0.iter().cloned());
    }

    /// These and those of what is around, by key: of the same key these, and the last of them.
    pub(super) fn over<'b>(self, around: &'b Attributes<'_>) -> Vec<(Cow<'b, str>, Cow<'b, str>)>
    where
        'a: 'b,
    {
        let borrowed = |(key, value): &'b (Cow<'_, str>, Cow<'_, str>)| {
            (Cow::Borrowed(key.as_ref()), Cow::Borrowed(value.as_ref()))
        };
        let mut all: Vec<(Cow<'b, str>, Cow<'b, str>)> = around.0.iter().map(borrowed).collect();
        all.extend(self.0);
        all.sort_by(|one, other| one.0.cmp(&other.0));
        // Of neighbours the first is kept.
        all.reverse();
        all.dedup_by(|one, other| one.0 == other.0);
        all.reverse();
        all
    }
}

/// The error of an attribute that is too long.
pub(super) fn too_long() -> Error {
    Error::limit(format!("an attribute of more than {ATTRIBUTE_BYTES_MAX} bytes"))
}

/// The value of an attribute.
pub(super) enum AnyValue<'a> {
    Nothing,
    Text(Cow<'a, str>),
    Bool(bool),
    Integer(i64),
    Float(f64),
    Bytes(Cow<'a, [u8]>),
    List(Vec<AnyValue<'a>>),
    Map(Vec<(Cow<'a, str>, AnyValue<'a>)>),
}

impl<'a> AnyValue<'a> {
    /// The value as text; lists and maps are JSON.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            AnyValue::Nothing => "".into(),
            AnyValue::Text(text) => text,
            AnyValue::Bool(value) => value.to_string().into(),
            AnyValue::Integer(value) => value.to_string().into(),
            AnyValue::Float(value) => float(value).into(),
            AnyValue::Bytes(bytes) => Base64::encode_string(&bytes).into(),
            list => list.json().to_string().into(),
        }
    }

    fn json(self) -> serde_json::Value {
        match self {
            AnyValue::Nothing => serde_json::Value::Null,
            AnyValue::Text(text) => text.into(),
            AnyValue::Bool(value) => value.into(),
            AnyValue::Integer(value) => value.into(),
            AnyValue::Float(value) => value.into(),
            AnyValue::Bytes(bytes) => Base64::encode_string(&bytes).into(),
            AnyValue::List(values) => values.into_iter().map(AnyValue::json).collect(),
            AnyValue::Map(pairs) => {
                pairs.into_iter().map(|(key, value)| (key.into_owned(), value.json())).collect()
            }
        }
    }
}

/// A float as JSON of Go has it: small and large ones with an exponent.
fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) && value.is_finite() {
        let text = format!("{value:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}
