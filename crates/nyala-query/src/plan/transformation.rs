//! Functions of consecutive points.

use super::indicator::Indicator;
use crate::influxql::{Call, Expr};
use nyala_core::{Error, Result};
use nyala_exec::ValueType;

/// A function of consecutive points, in the order of the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transformation {
    /// The slope between a point and the previous one.
    Derivative {
        /// The unit of time, ns.
        unit_ns: i64,
        /// Whether falling values are left out.
        non_negative: bool,
    },
    /// The difference to the previous value.
    Difference {
        /// Whether falling values are left out.
        non_negative: bool,
    },
    /// The time since the previous point.
    Elapsed {
        /// The unit of time, ns.
        unit_ns: i64,
    },
    /// The mean of that many values up to a point.
    MovingAverage(usize),
    /// The sum of all values up to a point.
    CumulativeSum,
    /// The area below the values.
    Integral {
        /// The unit of time, ns.
        unit_ns: i64,
    },
    /// An indicator of technical analysis.
    Indicator(Indicator),
    /// A forecast by the method of Holt and Winters.
    HoltWinters {
        /// How many points are forecast.
        horizon: usize,
        /// How many points make a season; fewer than two mean no season.
        season: usize,
        /// Whether the fitted points are shown before the forecast.
        with_fit: bool,
        /// The distance of the points, ns.
        interval_ns: i64,
    },
}

/// The default unit of time of `derivative` and `integral`, ns.
const SECOND_NS: i64 = 1_000_000_000;

impl Transformation {
    /// The transformation that a call names, if any. `interval_ns`: the width of windows.
    pub fn of(call: &Call, interval_ns: Option<i64>) -> Result<Option<Self>> {
        let unit_ns = match call.args.get(1) {
            Some(Expr::Duration(unit_ns)) => Some(*unit_ns),
            _ => None,
        };
        let derivative_ns = unit_ns.or(interval_ns).unwrap_or(SECOND_NS);
        Ok(Some(match call.name.as_str() {
            "derivative" => Self::Derivative { unit_ns: derivative_ns, non_negative: false },
            "non_negative_derivative" => Self::Derivative { unit_ns: derivative_ns, non_negative: true },
            "difference" => Self::Difference { non_negative: false },
            "non_negative_difference" => Self::Difference { non_negative: true },
            "elapsed" => Self::Elapsed { unit_ns: unit_ns.unwrap_or(1) },
            "moving_average" => Self::MovingAverage(count(call, 1)?),
            "cumulative_sum" => Self::CumulativeSum,
            "integral" => Self::Integral { unit_ns: unit_ns.unwrap_or(SECOND_NS) },
            "holt_winters" | "holt_winters_with_fit" => Self::HoltWinters {
                horizon: count(call, 1)?,
                season: count(call, 2)?,
                with_fit: call.name == "holt_winters_with_fit",
                interval_ns: interval_ns.unwrap_or(SECOND_NS),
            },
            _ => return Ok(Indicator::of(call)?.map(Self::Indicator)),
        }))
    }

    /// Its name in InfluxDB's errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Derivative { .. } => "derivative",
            Self::Difference { .. } => "difference",
            Self::Elapsed { .. } => "elapsed",
            Self::MovingAverage(_) => "moving average",
            Self::CumulativeSum => "cumulative sum",
            Self::Integral { .. } => "integral",
            Self::Indicator(indicator) => indicator.name(),
            // InfluxDB uses the name of another function here.
            Self::HoltWinters { .. } => "elapsed",
        }
    }

    /// Whether it takes values of a type.
    pub fn accepts(self, input: ValueType) -> bool {
        let number = !matches!(input, ValueType::String | ValueType::Boolean);
        match self {
            Self::Elapsed { .. } => true,
            Self::HoltWinters { .. } => number && input != ValueType::Unsigned,
            _ => number,
        }
    }

    /// The type of its results for an input type.
    pub fn output(self, input: Option<ValueType>) -> Option<ValueType> {
        match self {
            Self::Difference { .. } | Self::CumulativeSum => input,
            Self::Elapsed { .. } => Some(ValueType::Integer),
            _ => Some(ValueType::Float),
        }
    }

    /// Whether it gives points at other times than those of its input.
    pub fn lags(self) -> bool {
        matches!(self, Self::Integral { .. } | Self::HoltWinters { .. })
    }

    /// Whether it reads one window before the first, to have a value there.
    pub fn looks_back(self) -> bool {
        !matches!(self, Self::CumulativeSum | Self::Integral { .. } | Self::HoltWinters { .. })
    }
}

/// A number of values, from an argument that was checked to be one.
fn count(call: &Call, position: usize) -> Result<usize> {
    match call.args.get(position) {
        Some(Expr::Integer(count)) => Ok(usize::try_from(*count).unwrap_or(0)),
        _ => Err(Error::invalid(format!("{} needs a number as argument {}", call.name, position + 1))),
    }
}
