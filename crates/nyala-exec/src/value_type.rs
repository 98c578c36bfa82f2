//! Types of values, as queries see them.

use nyala_db::catalog::FieldType;

/// The type of a field's values. If one name has several types, queries see the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}
