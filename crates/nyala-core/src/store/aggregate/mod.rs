//! Aggregates computed where the data is: (series → group) × (time windows) × (column, function).
//!
//! States are partial: the caller finishes them (a mean is a sum divided by a count) and may combine the states of
//! several requests. They are flat: the state of a group and window is at index `group * windows + window`.
//!
//! The result of a float sum depends on the order of addition, so the order is fixed here for every store. Within one
//! series and window, value number `i` (NULLs are not counted) is added to lane `i % 8`. Then the lanes are added in
//! order. The sums of the series of a group are added in ascending order of series ids, starting from the first. So
//! block layout, flushes and the number of threads never change a result.

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
pub const PARTIAL_AGGREGATES_MAX: usize = 1 << 26;

/// Which aggregates to compute over which rows of a table of series.
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
    /// The windows that rows are assigned to, each wider than 0. Rows outside all windows are left out.
    pub windows: Windows,
    /// Conditions that must all hold for a row.
    pub predicates: Vec<Predicate>,
    /// What to compute.
    pub measures: Vec<Measure>,
    /// Whether the caller needs the times of selected values. If not, the times and series of a minimum or maximum mean
    /// nothing, except that a series that is `Some` says that there is a value. So a store need not search a block for
    /// the row.
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
/// Any other combination is unsupported. Values are visited by ascending series, then by ascending time.
/// [`AggregateFunction::prefers`] says when a value replaces the selected one. A NaN that comes first stays selected; a
/// later NaN never replaces a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// The number of values.
    Count,
    /// The sum and the number of values. Only of numbers.
    Sum,
    /// The smallest value. Among equal values the earliest, then the one of the lowest series. Not of strings.
    Min,
    /// The largest value. Among equal values the earliest, then the one of the lowest series. Not of strings.
    Max,
    /// The earliest value. Among equal times the largest value, then the lowest series.
    First,
    /// The latest value. Among equal times the largest value, then the lowest series.
    Last,
    /// The increase of a counter, which restarts at zero where its value decreases. Only of numbers, and only for
    /// groups of one series.
    Increase,
}

/// The states of one measure.
#[derive(Debug, Clone, PartialEq)]
pub enum PartialAggregate {
    /// [`AggregateFunction::Count`].
    Count(Vec<u64>),
    /// [`AggregateFunction::Sum`] of an integer column (exact).
    SumInteger {
        /// Sums.
        sums: Vec<i128>,
        /// The number of values.
        counts: Vec<u64>,
    },
    /// [`AggregateFunction::Sum`] of a float column.
    SumFloat {
        /// Sums.
        sums: Vec<f64>,
        /// The number of values.
        counts: Vec<u64>,
    },
    /// The selecting functions.
    Selected(Selected),
    /// [`AggregateFunction::Increase`].
    Increase(Increases),
}

/// Selected values. Where `series` is `None` there was no value, and the other members mean nothing.
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
pub struct PartialAggregates {
    /// States by measure.
    pub measures: Vec<PartialAggregate>,
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
        if states.is_none_or(|states| states > PARTIAL_AGGREGATES_MAX) {
            return Err(Error::limit(format!(
                "more than {PARTIAL_AGGREGATES_MAX} groups × windows × functions in one query"
            )));
        }
        self.empty_states(schema).map(drop)
    }

    /// States before any row.
    pub fn empty_states(&self, schema: &TableSchema) -> Result<PartialAggregates> {
        let slots = self.slots();
        let measures = self
            .measures
            .iter()
            .map(|measure| {
                let column = schema.column(measure.column).ok_or_else(|| {
                    Error::missing(format!("column {} of table {}", measure.column, schema.shown_name()))
                })?;
                PartialAggregate::empty(measure.function, column.column_type, slots)
            })
            .collect::<Result<_>>()?;
        Ok(PartialAggregates { measures })
    }
}

impl PartialAggregate {
    /// The state of `slots` groups and windows without values.
    pub fn empty(function: AggregateFunction, column_type: ColumnType, slots: usize) -> Result<Self> {
        use AggregateFunction::{Count, First, Increase, Last, Max, Min, Sum};
        let counts = || vec![0; slots];
        let selected = |values| {
            PartialAggregate::Selected(Selected {
                values,
                times_ns: vec![0; slots],
                series: vec![None; slots],
            })
        };
        Ok(match (function, column_type) {
            (Count, _) => PartialAggregate::Count(counts()),
            (Sum, ColumnType::Int64 | ColumnType::UInt64) => {
                PartialAggregate::SumInteger { sums: vec![0; slots], counts: counts() }
            }
            (Increase, ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64) => {
                PartialAggregate::Increase(Increases::empty(slots))
            }
            (Sum, ColumnType::Float64) => {
                PartialAggregate::SumFloat { sums: vec![0.0; slots], counts: counts() }
            }
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
    /// Whether a candidate replaces the selected value. The series only matter when everything else is equal.
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
