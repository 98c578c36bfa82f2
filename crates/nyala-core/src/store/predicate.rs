//! Conditions on single columns that stores evaluate while they scan.
//!
//! A NULL or absent cell satisfies only [`Comparison::IsNull`], a NaN only [`Comparison::NotEqual`] and
//! [`Comparison::IsNotNull`].

use crate::ids::ColumnId;
use crate::value::Value;

/// A condition on one column. All conditions of a scan must hold. Values have the column's variant of [`Value`], but
/// may lie outside the range of its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// The column.
    pub column: ColumnId,
    /// The condition.
    pub comparison: Comparison,
}

/// The test that a cell must pass.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Equal to the value.
    Equal(Value),
    /// Not equal to the value, and not NULL.
    NotEqual(Value),
    /// Less than the value.
    Less(Value),
    /// Less than or equal to the value.
    LessOrEqual(Value),
    /// Greater than the value.
    Greater(Value),
    /// Greater than or equal to the value.
    GreaterOrEqual(Value),
    /// Equal to one of the values.
    In(Vec<Value>),
    /// NULL or absent.
    IsNull,
    /// Not NULL.
    IsNotNull,
}

impl Comparison {
    /// Whether a cell satisfies the condition. This naive definition is the reference for every kernel. Floats compare
    /// as numbers (`-0.0 = 0.0`), not by total order.
    pub fn holds(&self, cell: Option<&Value>) -> bool {
        let Some(cell) = cell else { return matches!(self, Comparison::IsNull) };
        let ordering = |other: &Value| match (cell, other) {
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            _ => Some(cell.cmp(other)),
        };
        match self {
            Comparison::Equal(value) => ordering(value).is_some_and(|o| o.is_eq()),
            Comparison::NotEqual(value) => ordering(value).is_none_or(|o| o.is_ne()),
            Comparison::Less(value) => ordering(value).is_some_and(|o| o.is_lt()),
            Comparison::LessOrEqual(value) => ordering(value).is_some_and(|o| o.is_le()),
            Comparison::Greater(value) => ordering(value).is_some_and(|o| o.is_gt()),
            Comparison::GreaterOrEqual(value) => ordering(value).is_some_and(|o| o.is_ge()),
            Comparison::In(values) => values.iter().any(|value| ordering(value).is_some_and(|o| o.is_eq())),
            Comparison::IsNull => false,
            Comparison::IsNotNull => true,
        }
    }
}
