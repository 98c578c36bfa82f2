//! Calls of functions among selected columns: which values they take, how they gather the rows of a window, and how the
//! points are transformed.

use super::reference::{Reference, ReferenceKind};
use super::transformation::Transformation;
use super::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS};
use crate::influxql::{Call, DataType, Expr, VarRef};
use nyala_core::{Error, Result};
use nyala_exec::aggregate::Aggregate;
use nyala_exec::{TimeBounds, ValueType};

/// The functions that gather the rows of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// The number of values.
    Count,
    /// The number of distinct values.
    CountDistinct,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The value in the middle, or the mean of the two in the middle.
    Median,
    /// The most frequent value.
    Mode,
    /// The largest less the smallest.
    Spread,
    /// Their sample standard deviation.
    Stddev,
    /// Each distinct value once.
    Distinct,
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The value at the nearest rank of a percentage.
    Percentile(f64),
    /// That many of the largest values.
    Top(usize),
    /// That many of the smallest values.
    Bottom(usize),
    /// Random values.
    Sample {
        /// How many values.
        count: usize,
        /// The seed of the random numbers.
        seed: u64,
    },
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// The function that gathers the rows of a window; `None`: each row is a point.
    pub function: Option<Function>,
    /// The column it takes.
    pub argument: Reference,
    /// The tags by which `top` and `bottom` distinguish rows: of rows with the same tags only the best counts.
    pub distinct_tags: Option<Vec<Reference>>,
    /// The type of its values, if it has one.
    pub argument_type: Option<ValueType>,
    /// The transformations of the points, in this order.
    pub transformations: Vec<Transformation>,
    /// The times that are read. If a transformation needs an earlier value, they begin before the query's times, or end
    /// after them if times fall.
    pub times: TimeBounds,
}

impl Function {
    /// Whether the result is a stored row, with its time.
    pub fn is_selector(self) -> bool {
        use Function::{First, Last, Max, Min, Percentile};
        self.selects_several() || matches!(self, First | Last | Min | Max | Percentile(_))
    }

    /// Whether the results are several stored rows of a window, with their own times even where windows are shown.
    pub fn selects_several(self) -> bool {
        matches!(self, Function::Top(_) | Function::Bottom(_) | Function::Sample { .. })
    }

    /// The aggregate that stores compute too, which keeps at most two values of a window.
    pub fn aggregate(self) -> Option<Aggregate> {
        Some(match self {
            Function::Count => Aggregate::Count,
            Function::Sum => Aggregate::Sum,
            Function::Mean => Aggregate::Mean,
            Function::Min => Aggregate::Min,
            Function::Max => Aggregate::Max,
            Function::First => Aggregate::First,
            Function::Last => Aggregate::Last,
            Function::Spread => Aggregate::Spread,
            _ => return None,
        })
    }

    fn accepts(self, value_type: ValueType) -> bool {
        use Function::{Bottom, Max, Mean, Median, Min, Percentile, Spread, Stddev, Sum, Top};
        let number = !matches!(value_type, ValueType::String | ValueType::Boolean);
        match self {
            Sum | Mean | Median | Spread | Stddev | Percentile(_) | Top(_) | Bottom(_) => number,
            Min | Max => number || value_type == ValueType::Boolean,
            _ => true,
        }
    }
}

/// What the plan of a call depends on.
#[derive(Clone, Copy)]
pub struct CallContext {
    /// Whether some rows come from an inner query.
    pub of_inner_rows: bool,
    /// The width of the windows that rows are grouped by, ns.
    pub interval_ns: Option<i64>,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The arguments of a call that are shown as columns after it: those between the first and the last of `top` and
/// `bottom`.
pub fn arguments_shown(call: &Call) -> impl Iterator<Item = &VarRef> {
    let shown = match call.name.as_str() {
        "top" | "bottom" => call.args.get(1..call.args.len().saturating_sub(1)),
        _ => None,
    };
    shown.unwrap_or_default().iter().filter_map(|argument| match argument {
        Expr::VarRef(reference) => Some(reference),
        _ => None,
    })
}

/// The number of rows in the last argument of a call.
fn last_count(call: &Call) -> Result<usize> {
    match call.args.last() {
        Some(Expr::Integer(count)) => Ok(usize::try_from(*count).unwrap_or(0)),
        _ => Err(Error::invalid(format!("expected integer as last argument in {}()", call.name))),
    }
}

impl CallPlan {
    /// The plan of a call.
    pub fn of(call: &Call, context: CallContext) -> Result<Self> {
        if let Some(transformation) = Transformation::of(call, context.interval_ns)? {
            let mut plan = match call.args.first() {
                Some(Expr::Call(inner)) => Self::of(inner, context)?,
                _ => Self::of_argument(None, argument_of(call)?, context),
            };
            if let Some(input) = plan.value_type().filter(|input| !transformation.accepts(*input)) {
                let (name, iterator) = (transformation.name(), plan.iterator(input));
                return Err(Error::invalid(format!("unsupported {name} iterator type: *query.{iterator}")));
            }
            plan.transformations.push(transformation);
            return Ok(plan);
        }
        let unsupported = || Error::unsupported(format!("unsupported call: {}", call.name));
        let function = match call.name.as_str() {
            "count" => match call.args.first() {
                Some(Expr::Call(inner)) if inner.name == "distinct" => {
                    return Ok(Self::of_argument(
                        Some(Function::CountDistinct),
                        argument_of(inner)?,
                        context,
                    ));
                }
                Some(Expr::Distinct(name)) => {
                    let argument = Reference::of(&VarRef { name: name.clone(), data_type: None });
                    return Ok(Self::of_argument(Some(Function::CountDistinct), argument, context));
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
            "top" => Function::Top(last_count(call)?),
            "bottom" => Function::Bottom(last_count(call)?),
            "sample" => Function::Sample { count: last_count(call)?, seed: context.seed },
            _ => return Err(unsupported()),
        };
        let mut plan = Self::of_argument(Some(function), argument_of(call)?, context);
        if arguments_shown(call).next().is_some() {
            // Fields distinguish no rows, but still only the best row counts.
            plan.distinct_tags =
                Some(arguments_shown(call).map(Reference::of).filter(Reference::is_tag).collect());
        }
        if let Some(value_type) = plan.argument_type.filter(|value_type| !function.accepts(*value_type)) {
            let (function, name) = (&call.name, DataType::of(value_type).as_str());
            return Err(Error::invalid(format!(
                "unsupported {function} iterator type: *query.{name}InterruptIterator"
            )));
        }
        Ok(plan)
    }

    fn of_argument(function: Option<Function>, argument: Reference, context: CallContext) -> Self {
        let argument_type = match argument.kind {
            ReferenceKind::Field(value_type) => Some(value_type),
            // Tags are text in the columns of an inner query.
            ReferenceKind::Tag if context.of_inner_rows => Some(ValueType::String),
            _ => None,
        };
        Self {
            function,
            argument,
            distinct_tags: None,
            argument_type,
            transformations: Vec::new(),
            times: TimeBounds::ALL,
        }
    }

    /// Sets the times that are read, for the times of the query.
    pub fn set_times(&mut self, times: TimeBounds, ascending: bool, interval_ns: Option<i64>) {
        let windows =
            self.transformations.iter().filter(|transformation| transformation.looks_back()).count();
        let extra_ns = interval_ns.unwrap_or(0).saturating_mul(windows as i64);
        self.times = extended(times, extra_ns, ascending);
    }

    /// Whether the result is a stored row, with its time.
    pub fn is_selector(&self) -> bool {
        self.transformations.is_empty() && self.function.is_some_and(Function::is_selector)
    }

    /// Whether it reads the rows of an inner query in order of time; `in_order`: whether its own query is read so. What
    /// InfluxDB can compute series by series it also reads so.
    pub fn reads_in_order(&self, in_order: bool) -> bool {
        use Function::{Bottom, Count, First, Last, Max, Mean, Min, Mode, Spread, Stddev, Sum, Top};
        match self.function {
            Some(Count | First | Last | Max | Mean | Min | Sum) => false,
            Some(Top(_) | Bottom(_)) if self.distinct_tags.is_some() => false,
            Some(Bottom(_) | Mode | Spread | Stddev | Top(_)) => in_order,
            _ => true,
        }
    }

    /// The type of the gathered values.
    pub fn gathered_type(&self) -> Option<ValueType> {
        match self.function {
            Some(Function::Count | Function::CountDistinct) => Some(ValueType::Integer),
            Some(Function::Mean | Function::Median | Function::Stddev) => Some(ValueType::Float),
            _ => self.argument_type,
        }
    }

    /// The type of the results.
    pub fn value_type(&self) -> Option<ValueType> {
        let gathered = self.gathered_type();
        self.transformations.iter().fold(gathered, |input, transformation| transformation.output(input))
    }

    /// InfluxDB's name for the source of values of a type.
    fn iterator(&self, value_type: ValueType) -> String {
        let name = DataType::of(value_type).as_str();
        match self.function {
            Some(Function::Distinct) => format!("{name}IntervalIterator"),
            Some(function) if function.selects_several() => {
                let capital = name[..1].to_uppercase() + &name[1..];
                format!("{name}Reduce{capital}Iterator")
            }
            _ => format!("{name}InterruptIterator"),
        }
    }
}

/// A time range that begins earlier, or ends later if times fall. Missing bounds stay missing.
pub fn extended(times: TimeBounds, extra_ns: i64, ascending: bool) -> TimeBounds {
    match ascending {
        true if times.begins() => {
            let first_ns = times.first_ns.saturating_sub(extra_ns).max(MINIMUM_TIME_NS);
            TimeBounds { first_ns, ..times }
        }
        false if times.ends() => {
            let last_ns = times.last_ns.saturating_add(extra_ns).min(MAXIMUM_TIME_NS);
            TimeBounds { last_ns, ..times }
        }
        _ => times,
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
