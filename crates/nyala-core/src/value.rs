//! A single typed value, for key bounds, predicates and assignments. Columns of data are arrays.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A scalar. Values of one variant are totally ordered, floats by IEEE 754 total order.
#[derive(Debug, Clone)]
pub enum Value {
    /// Boolean.
    Bool(bool),
    /// Every signed integer type, dates (days) and timestamps (ns).
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Both float types.
    Float(f64),
    /// Unscaled decimal.
    Decimal(i128),
    /// UTF-8 text.
    String(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl Value {
    fn rank(&self) -> u8 {
        match self {
            Value::Bool(_) => 0,
            Value::Int(_) => 1,
            Value::UInt(_) => 2,
            Value::Float(_) => 3,
            Value::Decimal(_) => 4,
            Value::String(_) => 5,
            Value::Binary(_) => 6,
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::UInt(a), Value::UInt(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Bool(own) => own.hash(state),
            Value::Int(own) => own.hash(state),
            Value::UInt(own) => own.hash(state),
            // Floats of one place in the total order have the same bits.
            Value::Float(own) => own.to_bits().hash(state),
            Value::Decimal(own) => own.hash(state),
            Value::String(own) => own.hash(state),
            Value::Binary(own) => own.hash(state),
        }
    }
}
