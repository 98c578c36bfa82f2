//! Attributes, which become tags: their values as text, as the collector shows them.

use super::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX};
use base64ct::{Base64, Encoding};
use nyala_core::{Error, Result};
use std::borrow::Cow;

/// A key and a value.
pub(super) type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Attributes in the order in which they were sent.
#[derive(Debug, Default, Clone)]
pub(super) struct Attributes<'a>(Vec<Pair<'a>>);

/// The attributes that the data points of a scope inherit from it and its resource.
///
/// A small request may have many attributes and very many data points. So what is done for each data point grows with what is
/// written of it, and with what was sent for it alone: a scope's attributes are put together once, and when the first of its data
/// points needs them, and those without a value are no longer among them.
pub(super) struct Inherited<'a> {
    resource: &'a [Pair<'a>],
    scope: Attributes<'a>,
    tags: Option<Vec<Pair<'a>>>,
}

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

    /// These alone as tags.
    pub(super) fn tags(self) -> Vec<Pair<'a>> {
        self.over(&[])
    }

    /// The tags of these and of those around them, by key: of the same key the last of these, else that around. One without a
    /// value is none, and hides that around.
    pub(super) fn over<'b>(self, around: &'b [Pair<'_>]) -> Vec<Pair<'b>>
    where
        'a: 'b,
    {
        let own = self.by_key();
        let mut tags = Vec::with_capacity(around.len() + own.len());
        let mut around = around.iter().map(borrowed).peekable();
        for (key, value) in own {
            while let Some(before) = around.next_if(|(known, _)| *known < key) {
                tags.push(before);
            }
            drop(around.next_if(|(known, _)| *known == key));
            if !value.is_empty() {
                tags.push((key, value));
            }
        }
        tags.extend(around);
        tags
    }

    /// Each key once, with the last of its values.
    fn by_key(self) -> Vec<Pair<'a>> {
        let mut all = self.0;
        all.sort_by(|one, other| one.0.cmp(&other.0));
        // Of neighbours the first is kept.
        all.reverse();
        all.dedup_by(|one, other| one.0 == other.0);
        all.reverse();
        all
    }
}

fn borrowed<'b>((key, value): &'b Pair<'_>) -> Pair<'b> {
    (Cow::Borrowed(key.as_ref()), Cow::Borrowed(value.as_ref()))
}

impl<'a> Inherited<'a> {
    /// Those of a scope, and the tags of its resource.
    pub(super) fn new(resource: &'a [Pair<'a>], scope: Attributes<'a>) -> Self {
        Self { resource, scope, tags: None }
    }

    /// The tags that they are.
    pub(super) fn tags(&mut self) -> &[Pair<'a>] {
        self.tags.get_or_insert_with(|| std::mem::take(&mut self.scope).over(self.resource))
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
