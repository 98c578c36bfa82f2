//! Aggregates and selectors: which function of which column.

use crate::influxql::{Call, DataType, Expr, VarRef};
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
    pub argument: VarRef,
}

impl Function {
    /// Whether the result is a stored row, with its time.
    pub fn is_selector(self) -> bool {
        use Function::{First, Last, Max, Min, Percentile};
        matches!(self, First | Last | Min | Max | Percentile(_))
    }

    fn accepts(self, data_type: DataType) -> bool {
        use DataType::{Boolean, Float, Integer, Unsigned};
        use Function::{Max, Mean, Median, Min, Percentile, Spread, Stddev, Sum};
        let number = matches!(data_type, Float | Integer | Unsigned);
        match self {
            Sum | Mean | Median | Spread | Stddev | Percentile(_) => number,
            Min | Max => number || data_type == Boolean,
            _ => true,
        }
    }
}

impl CallPlan {
    /// The plan of a call.
    pub fn of(call: &Call) -> Result<Self> {
        let unsupported = || Error::unsupported(format!("unsupported function {}()", call.name));
        let function = match call.name.as_str() {
            "count" => match call.args.first() {
                Some(Expr::Call(inner)) if inner.name == "distinct" => {
                    return Ok(Self { function: Function::CountDistinct, argument: argument_of(inner)? });
                }
                Some(Expr::Distinct(name)) => {
                    let argument = VarRef { name: name.clone(), data_type: None };
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
        if let Some(data_type) = plan.argument.data_type
            && !matches!(data_type, DataType::Tag | DataType::AnyField)
            && !function.accepts(data_type)
        {
            let name = data_type.as_str();
            return Err(Error::invalid(format!(
                "unsupported {} iterator type: *query.{name}InterruptIterator",
                call.name
            )));
        }
        Ok(plan)
    }
}

fn argument_of(call: &Call) -> Result<VarRef> {
    match call.args.first() {
        Some(Expr::VarRef(reference)) => Ok(reference.clone()),
        Some(Expr::Call(inner)) => {
            Err(Error::unsupported(format!("unsupported function {}() inside {}()", inner.name, call.name)))
        }
        _ => Err(Error::invalid(format!("expected field argument in {}()", call.name))),
    }
}
