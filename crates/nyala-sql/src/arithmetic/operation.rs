//! Which operation is done with which numbers, and the error of what a type cannot hold.

use crate::error::{SqlError, SqlState};
use crate::type_name;
use arrow_schema::DataType;
use datafusion::logical_expr::Operator;

/// The error of a number that its type cannot hold.
pub(crate) fn out_of_range(data_type: &DataType) -> SqlError {
    let name = type_name::of(data_type);
    SqlError::new(SqlState::OUT_OF_RANGE, format!("{name} out of range"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Plus,
    Minus,
    Times,
    Divided,
}

/// What an operation is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Numbers {
    /// Whole numbers of one type.
    Integers,
    /// Floats of one type.
    Floats,
    /// Decimals, each with its own digits.
    Decimals,
}

impl Operation {
    pub(super) fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Plus),
            Operator::Minus => Some(Self::Minus),
            Operator::Multiply => Some(Self::Times),
            Operator::Divide => Some(Self::Divided),
            _ => None,
        }
    }
}
