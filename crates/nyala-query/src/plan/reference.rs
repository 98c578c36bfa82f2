//! Names of a query once it is known what they mean.

use crate::influxql::{DataType, VarRef};
use nyala_db::catalog::FieldType;

/// The type of a field's values. Of several types that one name has, the first in this order is what queries see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// Floats.
    Float,
    /// Integers.
    Integer,
    /// Unsigned integers.
    Unsigned,
    /// Text.
    String,
    /// Booleans.
    Boolean,
}

impl ValueType {
    /// The type of a stored field.
    pub fn of_field(field_type: FieldType) -> Self {
        match field_type {
            FieldType::Float => ValueType::Float,
            FieldType::Integer => ValueType::Integer,
            FieldType::Unsigned => ValueType::Unsigned,
            FieldType::String => ValueType::String,
            FieldType::Boolean => ValueType::Boolean,
        }
    }

    /// The type that InfluxQL calls so.
    pub fn of(data_type: DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Float => ValueType::Float,
            DataType::Integer => ValueType::Integer,
            DataType::Unsigned => ValueType::Unsigned,
            DataType::String => ValueType::String,
            DataType::Boolean => ValueType::Boolean,
            DataType::Tag | DataType::AnyField => return None,
        })
    }

    /// What InfluxQL calls the type.
    pub fn data_type(self) -> DataType {
        match self {
            ValueType::Float => DataType::Float,
            ValueType::Integer => DataType::Integer,
            ValueType::Unsigned => DataType::Unsigned,
            ValueType::String => DataType::String,
            ValueType::Boolean => DataType::Boolean,
        }
    }
}

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A tag; NULL where it is absent.
    Tag,
    /// A tag that rows are grouped by; empty where it is absent.
    GroupTag,
    /// A field, converted to a type.
    Field(ValueType),
    /// A field of whatever type it has.
    AnyField,
    /// Nothing has the name.
    Nothing,
}

/// A name and what it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// What it refers to.
    pub kind: ReferenceKind,
}

impl Reference {
    /// What a reference whose type was looked up refers to.
    pub fn of(reference: &VarRef) -> Self {
        let kind = match reference.data_type {
            None => ReferenceKind::Nothing,
            Some(DataType::Tag) => ReferenceKind::Tag,
            Some(data_type) => match ValueType::of(data_type) {
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

/// The place of a reference in a list of distinct ones, added if it is new.
pub fn position(references: &mut Vec<Reference>, reference: Reference) -> usize {
    references.iter().position(|other| *other == reference).unwrap_or_else(|| {
        references.push(reference);
        references.len() - 1
    })
}
