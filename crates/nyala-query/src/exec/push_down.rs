//! Aggregates that the store computes on its own blocks.

use super::column::Column;
use super::measurement::MeasurementRows;
use super::memory::QueryMemory;
use super::reduce::Reduction;
use crate::plan::condition::only_column;
use crate::plan::{CallPlan, Fill, Function, MINIMUM_TIME_NS, Plan, Transformation};
use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use nyala_core::store::aggregate::SelectedValues;
use nyala_core::store::{
    AggregateFunction, AggregateRequest, AggregateStates, Measure, MeasureState, Predicate, Windows,
};
use nyala_core::{ColumnType, Result, SeriesId};
use std::ops::Range;

/// The most states asked for at once of one group.
const STATES_AT_ONCE: usize = 1 << 20;
/// As many of several groups: the first are written while the next are computed.
const GROUP_STATES_AT_ONCE: usize = 1 << 16;
/// The most groups, likewise.
const GROUPS_AT_ONCE: usize = 512;
/// They take at most this part of a query's memory: what is made of them until it is sent takes as much again, twice.
const STATES_SHARE: usize = 8;
/// What a state takes, about.
const STATE_BYTES: usize = 32;
/// The fewest windows computed at once where a limit may make the rest needless.
const WINDOWS_AT_ONCE: usize = 16;

/// The calls of a plan as measures of the store.
pub struct PushDown {
    measures: Vec<Measure>,
    predicates: Vec<Predicate>,
    /// Per call its function, its first measure and whether its column is unsigned.
    calls: Vec<(Function, usize, bool)>,
}

/// What was computed of some groups.
pub enum Computed {
    /// Every group has a value in every window: the columns of the calls, group after group.
    Whole(Vec<Column>),
    /// Per group, per call.
    Groups(Vec<Vec<Reduction>>),
}

impl Plan {
    /// Whether windows that all have values are shown as they are.
    fn shows_all_windows(&self) -> bool {
        let plain = |call: &CallPlan| call.transformations.is_empty();
        let uncut = self.limit == 0 && self.offset == 0;
        self.windows.is_some() && self.ascending && uncut && self.calls.iter().all(plain)
    }
}

fn searches(transformation: &Transformation) -> bool {
    matches!(transformation, Transformation::HoltWinters { .. })
}

impl PushDown {
    /// How the store can answer all calls of a plan, if it can.
    pub fn of(plan: &Plan, rows: &MeasurementRows) -> Option<Self> {
        if !plan.references.is_empty() {
            return None;
        }
        let predicates = rows.pushed_down()?.to_vec();
        let schema = rows.snapshot().schema(rows.measurement().table()).ok()?;
        let (mut measures, mut calls) = (Vec::new(), Vec::new());
        for call in &plan.calls {
            let (column, _) = only_column(rows.measurement(), &call.argument)?;
            let column_type = schema.column(column)?.column_type;
            // Calls that look at other times than the others are computed from rows.
            if (call.first_ns, call.last_ns) != (plan.first_ns, plan.last_ns) {
                return None;
            }
            let function = call.function?;
            let is_sum = matches!(function, Function::Sum | Function::Mean);
            // InfluxDB adds up in the order of time, the store side by side, and a search goes another way for it.
            if is_sum && column_type == ColumnType::Float64 && call.transformations.iter().any(searches) {
                return None;
            }
            let functions: &[AggregateFunction] = match function {
                Function::Count => &[AggregateFunction::Count],
                Function::Sum | Function::Mean => &[AggregateFunction::Sum],
                Function::Min => &[AggregateFunction::Min],
                Function::Max => &[AggregateFunction::Max],
                // Of equal times the store takes true.
                Function::First if column_type == ColumnType::Bool => return None,
                Function::First => &[AggregateFunction::First],
                Function::Last => &[AggregateFunction::Last],
                Function::Spread => &[AggregateFunction::Min, AggregateFunction::Max],
                _ => return None,
            };
            for function in functions {
                MeasureState::empty(*function, column_type, 0).ok()?;
            }
            calls.push((function, measures.len(), column_type == ColumnType::UInt64));
            measures.extend(functions.iter().map(|function| Measure { column, function: *function }));
        }
        Some(Self { measures, predicates, calls })
    }

    /// Whether a query has the memory for the states of a group, whose windows may be far more than those with rows.
    pub fn fits(&self, windows: &Windows, memory: &QueryMemory) -> bool {
        let bytes = windows.count().saturating_mul(self.measures.len()).saturating_mul(STATE_BYTES);
        bytes <= memory.limit_bytes() / 2
    }

    /// How many groups to compute at once.
    pub fn groups_at_once(&self, windows: &Windows, memory: &QueryMemory) -> usize {
        let states = GROUP_STATES_AT_ONCE.min(memory.limit_bytes() / STATES_SHARE / STATE_BYTES);
        (states / (windows.count() * self.measures.len()).max(1)).clamp(1, GROUPS_AT_ONCE)
    }

    /// Computes the calls of some groups: per group, per call.
    pub async fn compute(
        &self,
        plan: &Plan,
        rows: &MeasurementRows,
        groups: Range<usize>,
        windows: &Windows,
        memory: &QueryMemory,
    ) -> Result<Computed> {
        let mut series: Vec<(SeriesId, u32)> = Vec::new();
        for (number, group) in groups.clone().enumerate() {
            let members = &rows.group_series[group];
            series.extend(members.iter().map(|id| (*id, number as u32)));
        }
        series.sort_unstable();
        let mut request = AggregateRequest {
            table: rows.measurement().table(),
            series: series.into(),
            groups: groups.len(),
            time: rows.time(),
            windows: windows.clone(),
            predicates: self.predicates.clone(),
            measures: self.measures.clone(),
            // Windows are shown at their starts.
            times: plan.windows.is_none(),
        };
        let all = windows.count();
        let slices_from =
            |needed: &usize| plan.windows.is_some() && all > needed.saturating_mul(4).max(WINDOWS_AT_ONCE);
        let Some(needed) = plan.windows_needed().filter(slices_from) else {
            let states = self.aggregate(rows, request, memory).await?;
            if plan.shows_all_windows() {
                let calls = self.reductions(&states, 0, groups.len() * all, 0);
                if calls.iter().all(|call| call.windows.len() == groups.len() * all) {
                    return Ok(Computed::Whole(calls.into_iter().map(|call| call.values).collect()));
                }
            }
            let groups = (0..groups.len()).map(|group| self.reductions(&states, group, all, 0));
            return Ok(Computed::Groups(groups.collect()));
        };
        // The limit may be reached long before the last window: go slice by slice, each twice as long.
        let mut found: Vec<Vec<Reduction>> = Vec::new();
        let (mut done, mut slice) = (0, needed);
        while done < all {
            let length = slice.min(all - done);
            let first = if plan.ascending { done } else { all - done - length };
            request.windows = windows.part(first, length);
            let states = self.aggregate(rows, request.clone(), memory).await?;
            for group in 0..groups.len() {
                let reductions = self.reductions(&states, group, length, first);
                match found.get_mut(group) {
                    None => found.push(reductions),
                    Some(known) => {
                        let pairs = known.iter_mut().zip(reductions);
                        pairs.for_each(|(known, more)| known.append(more, plan.ascending));
                    }
                }
            }
            done += length;
            slice = slice.saturating_mul(2).clamp(WINDOWS_AT_ONCE, STATES_AT_ONCE);
            let reached = |reduction: &Reduction| limit_reached(plan, reduction, all, done, needed);
            if found.iter().flatten().all(reached) {
                break;
            }
        }
        Ok(Computed::Groups(found))
    }

    /// Asks the store, while the query's memory is charged with what it answers.
    async fn aggregate(
        &self,
        rows: &MeasurementRows,
        request: AggregateRequest,
        memory: &QueryMemory,
    ) -> Result<AggregateStates> {
        let bytes = request.slots().saturating_mul(self.measures.len()).saturating_mul(STATE_BYTES);
        let mut held = memory.hold();
        held.charge(bytes)?;
        rows.snapshot().aggregate(request).await
    }

    fn reductions(
        &self,
        states: &AggregateStates,
        group: usize,
        windows: usize,
        first: usize,
    ) -> Vec<Reduction> {
        let slots = group * windows..(group + 1) * windows;
        self.calls
            .iter()
            .map(|(function, measure, unsigned)| {
                let measures = &states.measures[*measure..];
                reduction(*function, measures, *unsigned, slots.clone(), first)
            })
            .collect()
    }
}

/// Whether windows that were not computed cannot change what a limit lets through.
fn limit_reached(plan: &Plan, reduction: &Reduction, all: usize, done: usize, needed: usize) -> bool {
    let Some(first) = (if plan.ascending { reduction.windows.first() } else { reduction.windows.last() })
    else {
        return false;
    };
    if plan.fill == Fill::None {
        return reduction.windows.len() >= needed;
    }
    if plan.fill == Fill::Linear {
        return false;
    }
    let from_start = if plan.ascending { *first as usize } else { all - 1 - *first as usize };
    let skipped = if plan.first_ns > MINIMUM_TIME_NS { 0 } else { from_start };
    done - skipped.min(done) >= needed
}

/// A sum that has wrapped around as sums of its type do.
fn sum_as_stored(sum: i128, unsigned: bool) -> f64 {
    if unsigned { sum as u64 as f64 } else { sum as i64 as f64 }
}

fn reduction(
    function: Function,
    measures: &[MeasureState],
    unsigned: bool,
    slots: Range<usize>,
    first_window: usize,
) -> Reduction {
    let start = slots.start;
    fn of(slots: &Range<usize>, present: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut all = Vec::with_capacity(slots.len());
        all.extend(slots.clone().filter(|slot| present(*slot)));
        all
    }
    let (present, values, times_ns): (Vec<usize>, Column, Vec<i64>) = match &measures[0] {
        MeasureState::Count(counts) => {
            let present = of(&slots, |slot| counts[slot] > 0);
            let values = present.iter().map(|slot| counts[*slot] as i64).collect::<Vec<_>>();
            (present, Column::Integer(values.into()), Vec::new())
        }
        MeasureState::SumInteger { sums, counts } => {
            let present = of(&slots, |slot| counts[slot] > 0);
            let values = if function == Function::Mean {
                let mean = |slot: &usize| sum_as_stored(sums[*slot], unsigned) / counts[*slot] as f64;
                Column::Float(present.iter().map(mean).collect::<Vec<_>>().into())
            } else if unsigned {
                Column::Unsigned(present.iter().map(|slot| sums[*slot] as u64).collect::<Vec<_>>().into())
            } else {
                Column::Integer(present.iter().map(|slot| sums[*slot] as i64).collect::<Vec<_>>().into())
            };
            (present, values, Vec::new())
        }
        MeasureState::SumFloat { sums, counts } => {
            let present = of(&slots, |slot| counts[slot] > 0);
            let value = |slot: &usize| match function {
                Function::Mean => sums[*slot] / counts[*slot] as f64,
                _ => sums[*slot],
            };
            let values = present.iter().map(value).collect::<Vec<_>>();
            (present, Column::Float(values.into()), Vec::new())
        }
        MeasureState::Selected(selected) => {
            let present = of(&slots, |slot| selected.series[slot].is_some());
            let values = match measures.get(1) {
                Some(MeasureState::Selected(most)) if function == Function::Spread => {
                    spread(&selected.values, &most.values, &present)
                }
                _ => selected_column(&selected.values, &present),
            };
            let times_ns = present.iter().map(|slot| selected.times_ns[*slot]).collect();
            (present, values, times_ns)
        }
        MeasureState::Increase(_) => unreachable!("no function of InfluxQL is one"),
    };
    let windows: Vec<u32> = present.iter().map(|slot| (slot - start + first_window) as u32).collect();
    // Only selected values have times, and references are not pushed down.
    Reduction { windows, values, times_ns, rows: Vec::new() }
}

fn selected_column(values: &SelectedValues, present: &[usize]) -> Column {
    let slots = present.iter();
    match values {
        SelectedValues::Int(values) => {
            Column::Integer(Int64Array::from_iter_values(slots.map(|slot| values[*slot])))
        }
        SelectedValues::UInt(values) => {
            Column::Unsigned(UInt64Array::from_iter_values(slots.map(|slot| values[*slot])))
        }
        SelectedValues::Float(values) => {
            Column::Float(Float64Array::from_iter_values(slots.map(|slot| values[*slot])))
        }
        SelectedValues::Bool(values) => {
            Column::Boolean(slots.map(|slot| Some(values[*slot])).collect::<BooleanArray>())
        }
        SelectedValues::String(values) => {
            Column::String(StringArray::from_iter_values(slots.map(|slot| &values[*slot])))
        }
    }
}

fn spread(least: &SelectedValues, most: &SelectedValues, present: &[usize]) -> Column {
    let slots = present.iter();
    match (least, most) {
        (SelectedValues::Int(least), SelectedValues::Int(most)) => Column::Integer(
            Int64Array::from_iter_values(slots.map(|slot| most[*slot].wrapping_sub(least[*slot]))),
        ),
        (SelectedValues::UInt(least), SelectedValues::UInt(most)) => Column::Unsigned(
            UInt64Array::from_iter_values(slots.map(|slot| most[*slot].wrapping_sub(least[*slot]))),
        ),
        (SelectedValues::Float(least), SelectedValues::Float(most)) => {
            Column::Float(Float64Array::from_iter_values(slots.map(|slot| most[*slot] - least[*slot])))
        }
        _ => Column::Null(present.len()),
    }
}
