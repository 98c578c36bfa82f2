//! A point, as all protocols give it.

use std::borrow::Cow;
use std::fmt;

/// A point with its tags and fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'a> {
    /// The measurement.
    pub measurement: Cow<'a, str>,
    /// Tags, each key once. An empty value is no tag.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Fields, at least one, each name once.
    pub fields: Vec<(Cow<'a, str>, Value)>,
    /// When; `None`: now.
    pub time_ns: Option<i64>,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// It is finite.
    Float(f64),
    /// A whole number.
    Integer(i64),
}

/// Why something that was sent is no point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its value is not a number, or infinite. Senders say so that they have none.
    NotANumber,
    /// It is not as its protocol says.
    Invalid(&'static str),
    /// Nobody knows which values its type has.
    UnknownType,
    /// It is not protected as it must be, or not by one of those who may send.
    NotAuthentic,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::NotANumber => "the value is not a finite number",
            Refused::Invalid(words) => words,
            Refused::UnknownType => "the type is unknown",
            Refused::NotAuthentic => "it is not signed or encrypted by a known user",
        })
    }
}

impl Value {
    /// A value that can be stored.
    pub(crate) fn finite(value: f64) -> Result<Self, Refused> {
        if value.is_finite() { Ok(Value::Float(value)) } else { Err(Refused::NotANumber) }
    }
}
