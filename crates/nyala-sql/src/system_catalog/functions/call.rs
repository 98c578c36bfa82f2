//! A call of a function for one row.

use crate::error::{SqlError, SqlState};
use crate::identifier::parts_of;
use crate::system_catalog::objects::{Object, Objects};
use crate::system_catalog::viewer::Viewer;
use arrow_schema::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::cell::OnceCell;

/// A call.
pub(super) struct Call<'a> {
    pub(super) viewer: &'a Viewer,
    pub(super) values: &'a [ScalarValue],
    /// What the arguments are.
    pub(super) fields: &'a [FieldRef],
    /// The objects of the session's database, as soon as one of the rows needs them.
    pub(super) objects: &'a OnceCell<Objects>,
}

impl Call<'_> {
    pub(super) fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| Objects::of(self.viewer, &self.viewer.database))
    }

    pub(super) fn value(&self, place: usize) -> &ScalarValue {
        self.values.get(place).unwrap_or(&ScalarValue::Null)
    }

    /// An argument as text.
    pub(super) fn text(&self, place: usize) -> Option<String> {
        match self.value(place) {
            value if value.is_null() => None,
            value => match value.try_as_str() {
                Some(text) => text.map(str::to_owned),
                None => Some(value.to_string()),
            },
        }
    }

    /// An argument as a whole number.
    pub(super) fn number(&self, place: usize) -> Option<i64> {
        match self.value(place) {
            ScalarValue::Int8(own) => own.map(i64::from),
            ScalarValue::Int16(own) => own.map(i64::from),
            ScalarValue::Int32(own) => own.map(i64::from),
            ScalarValue::Int64(own) => *own,
            ScalarValue::UInt32(own) => own.map(i64::from),
            ScalarValue::UInt64(own) => own.and_then(|own| own.try_into().ok()),
            ScalarValue::Boolean(own) => own.map(i64::from),
            value => value.try_as_str().flatten().and_then(|text| text.trim().parse().ok()),
        }
    }

    /// An argument as the number of an object.
    pub(super) fn oid(&self, place: usize) -> Option<u32> {
        self.number(place).and_then(|own| own.try_into().ok())
    }

    /// Whether an argument is true.
    pub(super) fn is_true(&self, place: usize) -> bool {
        matches!(self.value(place), ScalarValue::Boolean(Some(true)))
    }

    /// The object that an argument means: its number, or its name.
    pub(super) fn object(&self, place: usize) -> Result<Option<&Object>> {
        if let Some(oid) = self.oid(place) {
            return Ok(self.objects().by_oid(oid));
        }
        let Some(name) = self.text(place) else { return Ok(None) };
        match self.named(&name) {
            Some(found) => Ok(Some(found)),
            None => {
                let message = format!("relation \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNKNOWN_TABLE, message).into())
            }
        }
    }

    /// The object with a name as it is written in SQL.
    pub(super) fn named(&self, name: &str) -> Option<&Object> {
        let parts = parts_of(name)?;
        match &parts[..] {
            [name] => self.objects().find(None, name),
            [schema, name] => self.objects().find(Some(schema), name),
            [database, schema, name] if *database == self.viewer.database => {
                self.objects().find(Some(schema), name)
            }
            _ => None,
        }
    }
}

pub(super) fn text(own: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8(Some(own.into()))
}

pub(super) fn oid(own: u32) -> ScalarValue {
    ScalarValue::Int64(Some(own.into()))
}

pub(super) fn bool(own: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(own))
}
