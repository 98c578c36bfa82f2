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

use super::Snapshot;
use super::predicate::Predicate;
use super::scan::{Batch, Direction, Order, RowSelection, ScanRequest, SeriesSet};
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, SeriesId, TableId};
use crate::schema::{ColumnType, TIME_COLUMN, TableSchema};
use crate::time::TimeRange;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use std::sync::Arc;

/// The most states (groups × windows × measures) one request may ask for.
pub const STATES_MAX: usize = 1 << 26;
/// Lanes of a sum of floats.
pub const FLOAT_SUM_LANES: usize = 8;

/// Which aggregates of which rows of a series-keyed table.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// The table.
    pub table: TableId,
    /// The series in ascending order, each with its group.
    pub series: Arc<[(SeriesId, u32)]>,
    /// One more than the largest group.
    pub groups: usize,
    /// Only rows at these times.
    pub time: TimeRange,
    /// The windows rows are put in; rows in none are left out.
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
        let states = self.slots().checked_mul(self.measures.len().max(1));
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
        use AggregateFunction::{Count, First, Last, Max, Min, Sum};
        let counts = || vec![0; slots];
        let selected = |values| {
            MeasureState::Selected(Selected { values, times_ns: vec![0; slots], series: vec![None; slots] })
        };
        Ok(match (function, column_type) {
            (Count, _) => MeasureState::Count(counts()),
            (Sum, ColumnType::Int64 | ColumnType::UInt64) => {
                MeasureState::SumInteger { sums: vec![0; slots], counts: counts() }
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
            AggregateFunction::Count | AggregateFunction::Sum => false,
        }
    }
}

/// A sum of floats in the fixed order of this module, fed value by value or in slices.
#[derive(Debug, Clone, Copy, Default)]
pub struct FloatSum {
    lanes: [f64; FLOAT_SUM_LANES],
    count: u64,
}

impl FloatSum {
    /// Adds the next value.
    pub fn add(&mut self, value: f64) {
        self.lanes[(self.count % FLOAT_SUM_LANES as u64) as usize] += value;
        self.count += 1;
    }

    /// Adds the next values.
    pub fn add_slice(&mut self, values: &[f64]) {
        let until_lane_0 = self.count.wrapping_neg() as usize % FLOAT_SUM_LANES;
        let (head, rest) = values.split_at(until_lane_0.min(values.len()));
        head.iter().for_each(|value| self.add(*value));
        let (rows, tail) = rest.as_chunks::<FLOAT_SUM_LANES>();
        for row in rows {
            self.lanes.iter_mut().zip(row).for_each(|(lane, value)| *lane += value);
        }
        self.count += (rows.len() * FLOAT_SUM_LANES) as u64;
        tail.iter().for_each(|value| self.add(*value));
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum.
    pub fn sum(&self) -> f64 {
        self.lanes.iter().sum()
    }
}

/// Computes what [`Snapshot::aggregate`] does from a scan: for stores without the capability, and the
/// judge of those with it.
pub async fn aggregate_by_scan(
    snapshot: &dyn Snapshot,
    request: &AggregateRequest,
) -> Result<AggregateStates> {
    let schema = snapshot.schema(request.table)?;
    request.validate(&schema)?;
    let mut states = request.empty_states(&schema)?;
    let ids: Vec<SeriesId> = request.series.iter().map(|(series, _)| *series).collect();
    let mut columns = vec![TIME_COLUMN];
    columns.extend(request.measures.iter().map(|measure| measure.column));
    let mut stream = snapshot
        .scan(ScanRequest {
            table: request.table,
            rows: RowSelection::Series { series: SeriesSet::Ids(ids.into()), time: request.time },
            columns,
            predicates: request.predicates.clone(),
            skip_empty_rows: false,
            order: Order::Key(Direction::Forward),
            ties: [].into(),
            limit: None,
            limit_per_prefix: None,
        })
        .await?;
    let mut float_sums = PendingFloatSums::default();
    while let Some(batch) = stream.next().await? {
        accumulate(request, &batch, &mut states, &mut float_sums);
    }
    float_sums.finish(&mut states);
    Ok(states)
}

/// The unfinished float sums of the series and window at hand, one per measure: a window may go on in
/// the next batch.
#[derive(Default)]
struct PendingFloatSums {
    series: Option<SeriesId>,
    window: usize,
    slot: usize,
    sums: Vec<FloatSum>,
}

impl PendingFloatSums {
    fn move_to(&mut self, series: SeriesId, window: usize, slot: usize, states: &mut AggregateStates) {
        if self.series != Some(series) || self.window != window {
            self.finish(states);
            *self = Self {
                series: Some(series),
                window,
                slot,
                sums: vec![FloatSum::default(); states.measures.len()],
            };
        }
    }

    fn finish(&mut self, states: &mut AggregateStates) {
        for (pending, state) in self.sums.drain(..).zip(&mut states.measures) {
            if let (MeasureState::SumFloat { sums, counts }, true) = (state, pending.count() > 0) {
                let first = counts[self.slot] == 0;
                sums[self.slot] = if first { pending.sum() } else { sums[self.slot] + pending.sum() };
                counts[self.slot] += pending.count();
            }
        }
    }
}

fn accumulate(
    request: &AggregateRequest,
    batch: &Batch,
    states: &mut AggregateStates,
    float_sums: &mut PendingFloatSums,
) {
    let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
    let windows = request.windows.count();
    let mut row = 0;
    for run in &batch.series {
        let position = request.series.binary_search_by_key(&run.series, |(series, _)| *series);
        let group = request.series[position.expect("the scan yields only what was asked")].1 as usize;
        for row in row..row + run.rows as usize {
            let Some(window) = request.windows.index_of(times[row]) else { continue };
            let slot = group * windows + window;
            float_sums.move_to(run.series, window, slot, states);
            for (index, measure) in request.measures.iter().enumerate() {
                let column = &batch.columns[index + 1];
                if column.is_valid(row) {
                    let cell = Cell {
                        function: measure.function,
                        column,
                        row,
                        time_ns: times[row],
                        series: run.series,
                    };
                    cell.add_to(&mut states.measures[index], &mut float_sums.sums[index], slot);
                }
            }
        }
        row += run.rows as usize;
    }
}

struct Cell<'a> {
    function: AggregateFunction,
    column: &'a ArrayRef,
    row: usize,
    time_ns: i64,
    series: SeriesId,
}

impl Cell<'_> {
    fn add_to(&self, state: &mut MeasureState, float_sum: &mut FloatSum, slot: usize) {
        let (column, row) = (self.column, self.row);
        match state {
            MeasureState::Count(counts) => counts[slot] += 1,
            MeasureState::SumInteger { sums, counts } => {
                sums[slot] += match column.as_primitive_opt::<Int64Type>() {
                    Some(array) => i128::from(array.value(row)),
                    None => i128::from(column.as_primitive::<UInt64Type>().value(row)),
                };
                counts[slot] += 1;
            }
            MeasureState::SumFloat { .. } => float_sum.add(column.as_primitive::<Float64Type>().value(row)),
            MeasureState::Selected(selected) => {
                let Selected { values, times_ns, series } = selected;
                let place = (times_ns[slot], series[slot]);
                let replaced = match values {
                    SelectedValues::Int(values) => {
                        let value = match column.as_primitive_opt::<Int64Type>() {
                            Some(array) => array.value(row),
                            None => column.as_primitive::<TimestampNanosecondType>().value(row),
                        };
                        self.select(value, &mut values[slot], place)
                    }
                    SelectedValues::UInt(values) => {
                        self.select(column.as_primitive::<UInt64Type>().value(row), &mut values[slot], place)
                    }
                    SelectedValues::Float(values) => {
                        self.select(column.as_primitive::<Float64Type>().value(row), &mut values[slot], place)
                    }
                    SelectedValues::Bool(values) => {
                        self.select(column.as_boolean().value(row), &mut values[slot], place)
                    }
                    SelectedValues::String(values) => {
                        self.select(column.as_string::<i32>().value(row).to_owned(), &mut values[slot], place)
                    }
                };
                if replaced {
                    times_ns[slot] = self.time_ns;
                    series[slot] = Some(self.series);
                }
            }
        }
    }

    fn select<T: PartialOrd + Clone>(
        &self,
        value: T,
        selected: &mut T,
        place: (i64, Option<SeriesId>),
    ) -> bool {
        let preferred = match place {
            (_, None) => true,
            (time_ns, Some(series)) => self
                .function
                .prefers((value.clone(), self.time_ns, self.series), (selected.clone(), time_ns, series)),
        };
        if preferred {
            *selected = value;
        }
        preferred
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_add_up_as_single_values_do() {
        let values: Vec<f64> = (0..100).map(|index| f64::from(index) * 0.1 + 1e9).collect();
        let mut single = FloatSum::default();
        values.iter().for_each(|value| single.add(*value));
        for cut in 0..40 {
            let mut sliced = FloatSum::default();
            sliced.add_slice(&values[..cut]);
            sliced.add_slice(&values[cut..cut + 5]);
            sliced.add_slice(&values[cut + 5..]);
            assert_eq!((sliced.sum(), sliced.count()), (single.sum(), 100));
        }
    }
}
