//! References: names of a query and their meaning.

use crate::influxql::{DataType, VarRef};
use nyala_db::catalog::Field;
use nyala_exec::ValueType;

impl DataType {
    /// The type of the values of a field of such a type; `None`: they may be of any, or it is a tag.
    pub fn value_type(self) -> Option<ValueType> {
        Some(match self {
            DataType::Float => ValueType::Float,
            DataType::Integer => ValueType::Integer,
            DataType::Unsigned => ValueType::Unsigned,
            DataType::String => ValueType::String,
            DataType::Boolean => ValueType::Boolean,
            DataType::Tag | DataType::AnyField => return None,
        })
    }

    /// What InfluxQL calls a type.
    pub fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::Float => DataType::Float,
            ValueType::Integer => DataType::Integer,
            ValueType::Unsigned => DataType::Unsigned,
            ValueType::String => DataType::String,
            ValueType::Boolean => DataType::Boolean,
        }
    }
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// A tag; NULL if it is absent.
    Tag,
    /// A tag that rows are grouped by; empty if it is absent.
    GroupTag,
    /// A field, converted to a type.
    Field(ValueType),
    /// A field of whatever type it has.
    AnyField,
    /// No field or tag has the name.
    Nothing,
}

/// A name and its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The meaning.
    pub kind: ReferenceKind,
}

impl Reference {
    /// The reference of a name whose type was resolved.
    pub fn of(reference: &VarRef) -> Self {
        let kind = match reference.data_type {
            None => ReferenceKind::Nothing,
            Some(DataType::Tag) => ReferenceKind::Tag,
            Some(data_type) => match data_type.value_type() {
                Some(value_type) => ReferenceKind::Field(value_type),
                None => ReferenceKind::AnyField,
            },
        };
        Self { name: reference.name.clone(), kind }
    }

    /// The type of a field.
    pub fn value_type(&self) -> Option<ValueType> {
        match self.kind {
            ReferenceKind::Field(value_type) => Some(value_type),
            _ => None,
        }
    }

    /// Whether it is a tag.
    pub fn is_tag(&self) -> bool {
        matches!(self.kind, ReferenceKind::Tag | ReferenceKind::GroupTag)
    }
}

/// The position of a reference in a short list of distinct ones; it is added if it is new.
pub fn position(references: &mut Vec<Reference>, reference: Reference) -> usize {
    references.iter().position(|other| *other == reference).unwrap_or_else(|| {
        references.push(reference);
        references.len() - 1
    })
}

/// The fields with a name, one per type, among a measurement's fields, which are sorted by name.
pub fn fields_named<'a>(fields: &'a [Field], name: &str) -> &'a [Field] {
    let first = fields.partition_point(|field| field.name.as_str() < name);
    let count = fields[first..].iter().take_while(|field| field.name == name).count();
    &fields[first..first + count]
}
