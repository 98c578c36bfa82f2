//! A template: what each part of a path is.

use crate::{Point, Refused, Value};
use std::borrow::Cow;

/// What the part of a path at one position is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Nothing,
    Measurement,
    /// Of this part and all that follow.
    MeasurementRest,
    Field,
    FieldRest,
    /// With its key.
    Tag(String),
}

/// What the parts of a path are.
#[derive(Debug, Clone)]
pub(super) struct Template {
    parts: Vec<Part>,
    tags: Vec<(String, String)>,
    separator: String,
}

impl Template {
    /// Reads a template and its tags, `key=value,…` or nothing.
    pub(super) fn parse(text: &str, tags: &str, separator: &str) -> Result<Self, String> {
        let part = |word: &str| match word {
            "" => Part::Nothing,
            "measurement" => Part::Measurement,
            "measurement*" => Part::MeasurementRest,
            "field" => Part::Field,
            "field*" => Part::FieldRest,
            key => Part::Tag(key.to_owned()),
        };
        let parts: Vec<Part> = text.split('.').map(part).collect();
        let has = |part: Part| parts.contains(&part);
        if !has(Part::Measurement) && !has(Part::MeasurementRest) {
            return Err(format!("the template {text:?} has no measurement"));
        }
        if has(Part::MeasurementRest) && has(Part::FieldRest) {
            return Err(format!("the template {text:?} has both measurement* and field*"));
        }
        let pair = |tag: &str| match tag.split('=').collect::<Vec<_>>()[..] {
            [key, value] if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("{tag:?} of the template {text:?} is not of the form tag=value")),
        };
        let tags = tags.split(',').filter(|_| !tags.is_empty()).map(pair).collect::<Result<_, _>>()?;
        Ok(Self { parts, tags, separator: separator.to_owned() })
    }

    /// The point of a path.
    pub(super) fn apply<'a>(
        &'a self,
        path: &'a str,
        value: Value,
        time_ns: Option<i64>,
    ) -> Result<Point<'a>, Refused> {
        let words: Vec<&str> = path.split('.').collect();
        let (mut measurement, mut field): (Vec<&str>, Option<Cow<'a, str>>) = (Vec::new(), None);
        let mut tags: Vec<(&str, Vec<&str>)> = Vec::new();
        for (key, value) in &self.tags {
            add(&mut tags, key, value);
        }
        for (index, (part, word)) in self.parts.iter().zip(&words).enumerate() {
            match part {
                Part::Nothing => {}
                Part::Measurement => measurement.push(word),
                Part::MeasurementRest => {
                    measurement.extend(&words[index..]);
                    break;
                }
                Part::Field if field.as_ref().is_some_and(|field| !field.is_empty()) => {
                    return Err(Refused::Invalid("the template has two fields"));
                }
                Part::Field => field = Some(Cow::Borrowed(word)),
                Part::FieldRest => {
                    field = Some(Cow::Owned(words[index..].join(&self.separator)));
                    break;
                }
                Part::Tag(key) => add(&mut tags, key, word),
            }
        }
        let measurement = measurement.join(&self.separator);
        let joined =
            |(key, values): (&'a str, Vec<&str>)| (Cow::Borrowed(key), values.join(&self.separator).into());
        Ok(Point {
            measurement: if measurement.is_empty() { path.into() } else { measurement.into() },
            tags: tags.into_iter().map(joined).collect(),
            fields: vec![(field.filter(|field| !field.is_empty()).unwrap_or("value".into()), value)],
            time_ns,
        })
    }
}

/// Adds a value to those of a tag.
fn add<'a>(tags: &mut Vec<(&'a str, Vec<&'a str>)>, key: &'a str, value: &'a str) {
    match tags.iter_mut().find(|(known, _)| *known == key) {
        Some((_, values)) => values.push(value),
        None => tags.push((key, vec![value])),
    }
}
