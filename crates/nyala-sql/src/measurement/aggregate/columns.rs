//! The store's states as rows.

use super::{Function, Grouping, Key};
use crate::arithmetic::decimals::{QUOTIENT_SCALE, mean};
use crate::arithmetic::out_of_range;
use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray, new_null_array,
};
use arrow_schema::{DataType, SchemaRef};
use nyala_core::store::aggregate::{Selected, SelectedValues};
use nyala_core::store::{PartialAggregate, Windows};
use nyala_db::series::GroupValues;
use std::sync::Arc;

/// The values of a tag by groups.
pub(super) struct TagColumn {
    /// Each value once.
    values: StringArray,
    /// By group the number of its value.
    numbers: Vec<Option<i32>>,
    dictionary: ArrayRef,
}

impl TagColumn {
    /// The values of one of the tags.
    pub(super) fn of(groups: &GroupValues, key: usize) -> Self {
        let (mut texts, mut numbers) = (Vec::new(), Vec::with_capacity(groups.len()));
        for group in 0..groups.len() {
            let text = groups.of(group).nth(key).unwrap_or("");
            // Groups are sorted, so that equal values often follow each other.
            if !text.is_empty() && texts.last() != Some(&text) {
                texts.push(text);
            }
            numbers.push((!text.is_empty()).then(|| texts.len() as i32 - 1));
        }
        let values = StringArray::from(texts);
        Self { dictionary: Arc::new(values.clone()), values, numbers }
    }

    /// The value of a group, if it has the tag.
    pub(super) fn text(&self, group: u32) -> Option<&str> {
        self.numbers[group as usize].map(|number| self.values.value(number as usize))
    }

    fn column(&self, groups: impl Iterator<Item = u32>) -> ArrayRef {
        let keys: Int32Array = groups.map(|group| self.numbers[group as usize]).collect();
        Arc::new(DictionaryArray::<Int32Type>::new(keys, self.dictionary.clone()))
    }
}

/// The states of some groups and buckets.
pub(super) struct Answer<'a> {
    pub(super) grouping: &'a Grouping,
    pub(super) states: Vec<PartialAggregate>,
    pub(super) places: &'a [Option<usize>],
    /// The number of rows, if it had to be counted.
    pub(super) rows: Option<PartialAggregate>,
    pub(super) groups: &'a [u32],
    pub(super) windows: Windows,
    pub(super) by_bucket: bool,
    pub(super) backwards: bool,
    pub(super) tags: &'a [TagColumn],
    /// Whether there are no rows, and so no states.
    pub(super) is_empty: bool,
    /// Whether there is one group even if there are no rows.
    pub(super) is_whole: bool,
}

impl Answer<'_> {
    /// Whether every group has a value in every bucket.
    pub(super) fn shows_all(states: &[PartialAggregate], slots: usize) -> bool {
        let is_full = |state: &PartialAggregate| (0..slots).all(|slot| has_value(state, slot));
        states.iter().any(is_full)
            || !states.is_empty() && (0..slots).all(|slot| states.iter().any(|own| has_value(own, slot)))
    }

    /// The groups that have rows, in their order.
    pub(super) fn rows(&self, schema: &SchemaRef) -> SqlResult<RecordBatch> {
        let slots = self.slots();
        let buckets = self.windows.count().max(1);
        let group = |slot: &usize| self.groups[slot / buckets];
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        let mut tags = self.tags.iter();
        for (key, field) in self.grouping.keys.iter().zip(schema.fields()) {
            columns.push(match key {
                Key::Tag(_) => tags.next().expect("one column per tag").column(slots.iter().map(group)),
                Key::Bucket(_) => {
                    let mut starts_ns = Vec::with_capacity(buckets);
                    self.windows.push_starts(0..self.windows.count(), &mut starts_ns);
                    let starts = slots.iter().map(|slot| starts_ns[slot % buckets]);
                    let times = PrimitiveArray::<TimestampNanosecondType>::from_iter_values(starts);
                    Arc::new(times.with_data_type(field.data_type().clone()))
                }
            });
        }
        let fields = &schema.fields()[self.grouping.keys.len()..];
        for ((aggregate, place), field) in self.grouping.aggregates.iter().zip(self.places).zip(fields) {
            let state = place.filter(|_| !self.is_empty).map(|place| &self.states[place]);
            columns.push(match state {
                Some(state) => column(aggregate.function, state, field.data_type(), &slots)?,
                None if aggregate.function.counts() => {
                    Arc::new(PrimitiveArray::<Int64Type>::from_value(0, slots.len()))
                }
                None => new_null_array(field.data_type(), slots.len()),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .map_err(|error| SqlError::new(SqlState::INTERNAL, format!("an aggregate: {error}")))
    }

    /// The states that are shown, in order.
    fn slots(&self) -> Vec<usize> {
        if self.is_empty {
            return if self.is_whole { vec![0] } else { Vec::new() };
        }
        let (groups, buckets) = (self.groups.len(), self.windows.count());
        let window = |number: usize| if self.backwards { buckets - 1 - number } else { number };
        let all = groups * buckets;
        let slots = (0..all).map(|number| match self.by_bucket {
            true => (number % groups) * buckets + window(number / groups),
            false => number / buckets * buckets + window(number % buckets),
        });
        match &self.rows {
            Some(rows) if !self.is_whole => slots.filter(|slot| has_value(rows, *slot)).collect(),
            _ => slots.collect(),
        }
    }
}

fn has_value(state: &PartialAggregate, slot: usize) -> bool {
    match state {
        PartialAggregate::Count(counts)
        | PartialAggregate::SumInteger { counts, .. }
        | PartialAggregate::SumFloat { counts, .. } => counts[slot] > 0,
        PartialAggregate::Selected(selected) => selected.series[slot].is_some(),
        PartialAggregate::Increase(increases) => increases.counts[slot] > 0,
    }
}

/// The values of a function, which are NULL where it had no value to work on.
fn column(
    function: Function,
    state: &PartialAggregate,
    data_type: &DataType,
    slots: &[usize],
) -> SqlResult<ArrayRef> {
    Ok(match state {
        PartialAggregate::Count(counts) => {
            let counts = slots.iter().map(|slot| counts[*slot] as i64);
            Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(counts))
        }
        PartialAggregate::SumInteger { sums, counts } if function == Function::Mean => {
            let mean = |slot: usize| {
                let value = mean(sums[slot], counts[slot], QUOTIENT_SCALE);
                value.ok_or_else(|| out_of_range(data_type))
            };
            let values = slots.iter().map(|slot| (counts[*slot] > 0).then(|| mean(*slot)).transpose());
            let values = values.collect::<SqlResult<PrimitiveArray<Decimal128Type>>>()?;
            Arc::new(values.with_data_type(data_type.clone()))
        }
        PartialAggregate::SumInteger { sums, counts } => {
            let mut values = PrimitiveBuilder::<Decimal128Type>::with_capacity(slots.len());
            slots.iter().for_each(|slot| values.append_option((counts[*slot] > 0).then_some(sums[*slot])));
            Arc::new(values.finish().with_data_type(data_type.clone()))
        }
        PartialAggregate::SumFloat { sums, counts } => optional::<Float64Type>(slots, |slot| {
            let count = if function == Function::Mean { counts[slot] as f64 } else { 1.0 };
            (counts[slot] > 0).then(|| sums[slot] / count)
        }),
        PartialAggregate::Selected(selected) => selected_column(selected, slots),
        PartialAggregate::Increase(_) => unreachable!("no function of SQL is an increase"),
    })
}

fn selected_column(selected: &Selected, slots: &[usize]) -> ArrayRef {
    let is_there = |slot: usize| selected.series[slot].is_some();
    match &selected.values {
        SelectedValues::Int(values) => {
            optional::<Int64Type>(slots, |slot| is_there(slot).then(|| values[slot]))
        }
        SelectedValues::UInt(values) => {
            optional::<UInt64Type>(slots, |slot| is_there(slot).then(|| values[slot]))
        }
        SelectedValues::Float(values) => {
            optional::<Float64Type>(slots, |slot| is_there(slot).then(|| values[slot]))
        }
        SelectedValues::Bool(values) => {
            let values = slots.iter().map(|slot| is_there(*slot).then(|| values[*slot]));
            Arc::new(values.collect::<BooleanArray>())
        }
        SelectedValues::String(values) => {
            let values = slots.iter().map(|slot| is_there(*slot).then(|| values[*slot].as_str()));
            Arc::new(values.collect::<StringArray>())
        }
    }
}

fn optional<Type: ArrowPrimitiveType>(
    slots: &[usize],
    value: impl Fn(usize) -> Option<Type::Native>,
) -> ArrayRef {
    let mut values = PrimitiveBuilder::<Type>::with_capacity(slots.len());
    slots.iter().for_each(|slot| values.append_option(value(*slot)));
    Arc::new(values.finish())
}
