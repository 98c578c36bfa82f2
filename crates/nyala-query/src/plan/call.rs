//! Aggregates and selectors: which function of which column.

use super::reference::{Reference, ReferenceKind, ValueType};
use crate::influxql::{Call, Expr, VarRef};
use nyala_core::{Error, Result};

/// The functions that gather the rows of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// How many values.
    Count,
    /// How many distinct values.
    CountDistinct,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The middle one, or the mean of the two in the middle.
    Median,
    /// The most frequent.
    Mode,
    /// The largest less the smallest.
    Spread,
    /// Their sample standard deviation.
    Stddev,
    /// Each once.
    Distinct,
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The nearest rank of a percentage.
    Percentile(f64),
}

/// A function of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// The function.
    pub function: Function,
    /// The column.
    pub argument: Reference,
}

impl Function {
    /// Whether another order of the values gives another result, if only in the last place.
    pub fn depends_on_order(self) -> bool {
        matches!(self, Function::Sum | Function::Mean | Function::Stddev)
    }

    /// Whether the result is a stored row, with its time.
    pub fn is_selector(self) -> bool {
        use Function::{First, Last, Max, Min, Percentile};
        matches!(self, First | Last | Min | Max | Percentile(_))
    }

    fn accepts(self, value_type: ValueType) -> bool {
        use Function::{Max, Mean, Median, Min, Percentile, Spread, Stddev, Sum};
        let number = !matches!(value_type, ValueType::String | ValueType::Boolean);
        match self {
            Sum | Mean | Median | Spread | Stddev | Percentile(_) => number,
            Min | Max => number || value_type == ValueType::Boolean,
            _ => true,
        }
    }
}

impl CallPlan {
    /// The plan of a call, of rows some of which may come from an inner query.
    pub fn of(call: &Call, of_inner_rows: bool) -> Result<Self> {
        let unsupported = || Error::unsupported(format!("unsupported function {}()", call.name));
        let function = match call.name.as_str() {
            "count" => match call.args.first() {
                Some(Expr::Call(inner)) if inner.name == "distinct" => {
                    return Ok(Self { function: Function::CountDistinct, argument: argument_of(inner)? });
                }
                Some(Expr::Distinct(name)) => {
                    let argument = Reference::of(&VarRef { name: name.clone(), data_type: None });
                    return Ok(Self { function: Function::CountDistinct, argument });
                }
                _ => Function::Count,
            },
            "sum" => Function::Sum,
            "mean" => Function::Mean,
            "median" => Function::Median,
            "mode" => Function::Mode,
            "spread" => Function::Spread,
            "stddev" => Function::Stddev,
            "distinct" => Function::Distinct,
            "first" => Function::First,
            "last" => Function::Last,
            "min" => Function::Min,
            "max" => Function::Max,
            "percentile" => match call.args.get(1) {
                Some(Expr::Number(percentage)) => Function::Percentile(*percentage),
                Some(Expr::Integer(percentage)) => Function::Percentile(*percentage as f64),
                _ => return Err(Error::invalid("expected float argument in percentile()")),
            },
            _ => return Err(unsupported()),
        };
        let plan = Self { function, argument: argument_of(call)? };
        let value_type = match plan.argument.kind {
            ReferenceKind::Field(value_type) => Some(value_type),
            // Tags are text once they are columns of an inner query.
            ReferenceKind::Tag if of_inner_rows => Some(ValueType::String),
            _ => None,
        };
        if let Some(value_type) = value_type.filter(|value_type| !plan.function.accepts(*value_type)) {
            let (function, name) = (&call.name, value_type.data_type().as_str());
            return Err(Error::invalid(format!(
                "unsupported {function} iterator type: *query.{name}InterruptIterator"
            )));
        }
        Ok(plan)
    }
}

fn argument_of(call: &Call) -> Result<Reference> {
    match call.args.first() {
        Some(Expr::VarRef(reference)) => Ok(Reference::of(reference)),
        Some(Expr::Call(inner)) => {
            Err(Error::unsupported(format!("unsupported function {}() inside {}()", inner.name, call.name)))
        }
        _ => Err(Error::invalid(format!("expected field argument in {}()", call.name))),
    }
}
