//! Aggregates computed where the data is: (series → group) × (time windows) × (column, function).
//!
//! States are partial in the sense that the caller finishes them (a mean is a sum over a count) and
//! may combine those of several requests. They are flat: the state of a group and window stands at
//! `group * windows + window`.
//!
//! Sums of floats depend on the order of addition. It is fixed here once for every store: within one
//! series and window the value number `i` (NULLs not counted) is added to lane `i % 8`, the lanes are
//! added up in order, and the series of a group are added in ascending order of their ids, starting
//! from the first. Block layout, flushes and the number of threads cannot show.

mod by_scan;
mod float_sum;
mod increase;
mod merge;
mod sliding;

pub use by_scan::aggregate_by_scan;
pub use float_sum::{FLOAT_SUM_LANES, FloatSum};
pub use increase::Increases;
pub use merge::aggregate_tables;
pub use sliding::{SlidingWindows, aggregate_sliding};

use super::predicate::Predicate;
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, SeriesId, TableId};
use crate::schema::{ColumnType, TableSchema};
use crate::time::TimeRange;
use std::sync::Arc;

/// The most states (groups × windows × measures) one request may ask for.
pub const STATES_MAX: usize = 1 << 26;

/// Which aggregates of which rows of a series-keyed table.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// The table.
    pub table: TableId,
    /// The series in ascending order, each once, with its group.
    pub series: Arc<[(SeriesId, u32)]>,
    /// One more than the largest group.
    pub groups: usize,
    /// Only rows at these times.
    pub time: TimeRange,
    /// The windows rows are put in, each wider than 0; rows in none are left out.
    pub windows: Windows,
    /// Conditions that must all hold for a row.
    pub predicates: Vec<Predicate>,
    /// What to compute.
    pub measures: Vec<Measure>,
    /// Whether anybody asks for the times of selected values. If not, times and series of a minimum or maximum
    /// mean nothing, except that a series says that there is a value: blocks need not be searched for its row.
    pub times: bool,
}

/// A function of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Measure {
    /// The column: a field, or the time column for [`AggregateFunction::Count`] of rows.
    pub column: ColumnId,
    /// The function.
    pub function: AggregateFunction,
}

/// What is computed over the values (never NULLs) of a group and window.
///
/// | function | of |
/// |---|---|
/// | count | every column but that of series |
/// | sum, increase | `Int64`, `UInt64`, `Float64` |
/// | minimum, maximum | these, `Timestamp`, `Bool` |
/// | first, last | these, `String` |
///
/// Others are unsupported. Values come by ascending series, then time, and take the place of what is selected as
/// [`AggregateFunction::prefers`] says: a NaN that comes first stays, another never takes the place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// How many.
    Count,
    /// Their sum, with how many. Only of numbers.
    Sum,
    /// The smallest; of equals the earliest, then the one of the lowest series. Not of strings.
    Min,
    /// The largest; of equals the earliest, then the one of the lowest series. Not of strings.
    Max,
    /// The earliest; of equal times the largest value, then the lowest series.
    First,
    /// The latest; of equal times the largest value, then the lowest series.
    Last,
    /// How much a counter grew, which begins again at zero where it gets less. Only of numbers, and of groups of one
    /// series.
    Increase,
}

/// The states of one measure.
#[derive(Debug, Clone, PartialEq)]
pub enum MeasureState {
    /// [`AggregateFunction::Count`].
    Count(Vec<u64>),
    /// [`AggregateFunction::Sum`] of an integer column (exact).
    SumInteger {
        /// Sums.
        sums: Vec<i128>,
        /// How many values.
        counts: Vec<u64>,
    },
    /// [`AggregateFunction::Sum`] of a float column.
    SumFloat {
        /// Sums.
        sums: Vec<f64>,
        /// How many values.
        counts: Vec<u64>,
    },
    /// The selecting functions.
    Selected(Selected),
    /// [`AggregateFunction::Increase`].
    Increase(Increases),
}

/// Selected values; where `series` is `None` nothing was there and the other members mean nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// The values.
    pub values: SelectedValues,
    /// Their times, ns.
    pub times_ns: Vec<i64>,
    /// Their series.
    pub series: Vec<Option<SeriesId>>,
}

/// Selected values by the type of the column.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedValues {
    /// Signed integers and timestamps.
    Int(Vec<i64>),
    /// Unsigned integers.
    UInt(Vec<u64>),
    /// Floats.
    Float(Vec<f64>),
    /// Booleans, `false < true`.
    Bool(Vec<bool>),
    /// Strings, in byte order.
    String(Vec<String>),
}

/// The answer: one state per measure, in the order of the request.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateStates {
    /// States by measure.
    pub measures: Vec<MeasureState>,
}

impl AggregateRequest {
    /// States of each measure.
    pub fn slots(&self) -> usize {
        self.groups * self.windows.count()
    }

    /// Checks against the schema and the limits.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        if !schema.is_series_keyed() {
            return Err(Error::unsupported(format!(
                "aggregates of table {}: not keyed by series",
                schema.shown_name()
            )));
        }
        if self.measures.iter().any(|measure| measure.function == AggregateFunction::Increase) {
            let mut has_series = vec![false; self.groups];
            for (_, group) in self.series.iter() {
                if std::mem::replace(&mut has_series[*group as usize], true) {
                    return Err(Error::invalid("the increase of a group of several series"));
                }
            }
        }
        let slots = self.groups.checked_mul(self.windows.count());
        let states = slots.and_then(|slots| slots.checked_mul(self.measures.len().max(1)));
        if states.is_none_or(|states| states > STATES_MAX) {
            return Err(Error::limit(format!(
                "more than {STATES_MAX} groups × windows × functions in one query"
            )));
        }
        self.empty_states(schema).map(drop)
    }

    /// States before any row.
    pub fn empty_states(&self, schema: &TableSchema) -> Result<AggregateStates> {
        let slots = self.slots();
        let measures = self
            .measures
            .iter()
            .map(|measure| {
                let column = schema.column(measure.column).ok_or_else(|| {
                    Error::missing(format!("column {} of table {}", measure.column, schema.shown_name()))
                })?;
                MeasureState::empty(measure.function, column.column_type, slots)
            })
            .collect::<Result<_>>()?;
        Ok(AggregateStates { measures })
    }
}

impl MeasureState {
    /// The state of `slots` groups and windows without any value.
    pub fn empty(function: AggregateFunction, column_type: ColumnType, slots: usize) -> Result<Self> {
        use AggregateFunction::{Count, First, Increase, Last, Max, Min, Sum};
        let counts = || vec![0; slots];
        let selected = |values| {
            MeasureState::Selected(Selected { values, times_ns: vec![0; slots], series: vec![None; slots] })
        };
        Ok(match (function, column_type) {
            (Count, _) => MeasureState::Count(counts()),
            (Sum, ColumnType::Int64 | ColumnType::UInt64) => {
                MeasureState::SumInteger { sums: vec![0; slots], counts: counts() }
            }
            (Increase, ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64) => {
                MeasureState::Increase(Increases::empty(slots))
            }
            (Sum, ColumnType::Float64) => MeasureState::SumFloat { sums: vec![0.0; slots], counts: counts() },
            (Min | Max | First | Last, ColumnType::Int64 | ColumnType::Timestamp) => {
                selected(SelectedValues::Int(vec![0; slots]))
            }
            (Min | Max | First | Last, ColumnType::UInt64) => selected(SelectedValues::UInt(vec![0; slots])),
            (Min | Max | First | Last, ColumnType::Float64) => {
                selected(SelectedValues::Float(vec![0.0; slots]))
            }
            (Min | Max | First | Last, ColumnType::Bool) => {
                selected(SelectedValues::Bool(vec![false; slots]))
            }
            (First | Last, ColumnType::String) => {
                selected(SelectedValues::String(vec![String::new(); slots]))
            }
            (function, column_type) => {
                return Err(Error::unsupported(format!("{function:?} of a column of type {column_type:?}")));
            }
        })
    }
}

impl AggregateFunction {
    /// Whether a candidate takes the place of the selected one. Series only count where all else is equal.
    pub fn prefers<T: PartialOrd>(self, candidate: (T, i64, SeriesId), selected: (T, i64, SeriesId)) -> bool {
        let (value, time_ns, series) = candidate;
        let (old_value, old_time_ns, old_series) = selected;
        let earlier = time_ns < old_time_ns || (time_ns == old_time_ns && series < old_series);
        let larger = value > old_value || (value == old_value && series < old_series);
        match self {
            AggregateFunction::Min => value < old_value || (value == old_value && earlier),
            AggregateFunction::Max => value > old_value || (value == old_value && earlier),
            AggregateFunction::First => time_ns < old_time_ns || (time_ns == old_time_ns && larger),
            AggregateFunction::Last => time_ns > old_time_ns || (time_ns == old_time_ns && larger),
            AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Increase => false,
        }
    }
}
