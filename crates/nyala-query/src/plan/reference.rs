//! References: names of a query and their meaning.

use crate::influxql::{DataType, VarRef};
use nyala_db::catalog::Field;
use nyala_exec::ValueType;
use std::collections::HashMap;
use std::hash::Hash;

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

/// Up to this many items are compared with each other instead of being hashed.
pub const FEW: usize = 16;

/// Items in the order they were added, each once.
#[derive(Debug, Clone)]
pub struct Distinct<T> {
    list: Vec<T>,
    /// Their positions, once there are more than a few.
    positions: HashMap<T, usize>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), positions: HashMap::new() }
    }
}

impl<T: Eq + Hash + Clone> Distinct<T> {
    /// The position of an item, which is added at the end if it is new.
    pub fn position(&mut self, item: T) -> usize {
        if self.list.len() < FEW {
            return self.list.iter().position(|other| *other == item).unwrap_or_else(|| {
                self.list.push(item);
                self.list.len() - 1
            });
        }
        if self.positions.is_empty() {
            self.positions = self.list.iter().cloned().zip(0..).collect();
        }
        *self.positions.entry(item).or_insert_with_key(|item| {
            self.list.push(item.clone());
            self.list.len() - 1
        })
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub fn into_list(self) -> Vec<T> {
        self.list
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
