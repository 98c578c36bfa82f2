//! Accumulators of the contract as columns, once all rows are in.

use super::Aggregate;
use crate::column::Column;
use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use nyala_core::store::PartialAggregate;
use nyala_core::store::aggregate::SelectedValues;

/// Keeps those things whose slots have a value.
pub(super) fn present<Thing>(
    state: &PartialAggregate,
    things: impl ExactSizeIterator<Item = Thing>,
    slot_of: impl Fn(&Thing) -> usize,
) -> Vec<Thing> {
    fn filtered<Thing>(
        things: impl ExactSizeIterator<Item = Thing>,
        has_value: impl Fn(&Thing) -> bool,
    ) -> Vec<Thing> {
        let mut all = Vec::with_capacity(things.len());
        all.extend(things.filter(has_value));
        all
    }
    match state {
        PartialAggregate::Count(counts)
        | PartialAggregate::SumInteger { counts, .. }
        | PartialAggregate::SumFloat { counts, .. } => filtered(things, |thing| counts[slot_of(thing)] > 0),
        PartialAggregate::Selected(selected) => {
            filtered(things, |thing| selected.series[slot_of(thing)].is_some())
        }
        PartialAggregate::Increase(increases) => {
            filtered(things, |thing| increases.counts[slot_of(thing)] > 0)
        }
    }
}

/// The values of the slots that have one. `unsigned`: whether the aggregated column is unsigned.
pub(super) fn values(
    aggregate: Aggregate,
    measures: &[PartialAggregate],
    unsigned: bool,
    present: &[usize],
) -> Column {
    match &measures[0] {
        PartialAggregate::Count(counts) => {
            Column::Integer(present.iter().map(|slot| counts[*slot] as i64).collect::<Vec<_>>().into())
        }
        PartialAggregate::SumInteger { sums, counts } => {
            if aggregate == Aggregate::Mean {
                let mean = |slot: &usize| sum_as_stored(sums[*slot], unsigned) / counts[*slot] as f64;
                Column::Float(present.iter().map(mean).collect::<Vec<_>>().into())
            } else if unsigned {
                Column::Unsigned(present.iter().map(|slot| sums[*slot] as u64).collect::<Vec<_>>().into())
            } else {
                Column::Integer(present.iter().map(|slot| sums[*slot] as i64).collect::<Vec<_>>().into())
            }
        }
        PartialAggregate::SumFloat { sums, counts } => {
            let value = |slot: &usize| match aggregate {
                Aggregate::Mean => sums[*slot] / counts[*slot] as f64,
                _ => sums[*slot],
            };
            Column::Float(present.iter().map(value).collect::<Vec<_>>().into())
        }
        PartialAggregate::Selected(selected) => match measures.get(1) {
            Some(PartialAggregate::Selected(most)) if aggregate == Aggregate::Spread => {
                spread(&selected.values, &most.values, present)
            }
            _ => selected_column(&selected.values, present),
        },
        PartialAggregate::Increase(_) => unreachable!("no aggregate is an increase"),
    }
}

/// The times of the selected rows, ns; none if the function selects no row.
pub(super) fn times_ns(state: &PartialAggregate, present: &[usize]) -> Vec<i64> {
    match state {
        PartialAggregate::Selected(selected) => present.iter().map(|slot| selected.times_ns[*slot]).collect(),
        _ => Vec::new(),
    }
}

/// A sum as a float, after it wrapped around as sums of its type do.
fn sum_as_stored(sum: i128, unsigned: bool) -> f64 {
    if unsigned { sum as u64 as f64 } else { sum as i64 as f64 }
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
