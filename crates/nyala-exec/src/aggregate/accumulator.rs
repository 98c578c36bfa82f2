//! Aggregates of rows that are fed batch by batch, in the contract's accumulators: the contract decides which of two
//! values is preferred, and accumulators become columns as the store's do.
//!
//! Only sums of floats differ from the store's. Here floats are added in the order of the rows, which is the order of time
//! where answers must show InfluxDB's digits. The store adds series by series, in lanes
//! (`nyala_core::store::aggregate`). Results show every digit, so neither order can replace the other.

use super::{Aggregate, NO_SLOT, Reduction, finished};
use crate::column::Column;
use arrow_array::Array;
use nyala_core::store::aggregate::{Selected, SelectedValues};
use nyala_core::store::{AggregateFunction, PartialAggregate};
use nyala_core::{ColumnType, SeriesId};

/// A row among those that were fed: the number of the feed, and the row in it.
pub type RowId = (u32, u32);

/// The series of a row does not matter here.
const ANY_SERIES: SeriesId = SeriesId(0);

/// An aggregate of the rows that were fed so far, by slots of windows.
pub struct Accumulator {
    aggregate: Aggregate,
    /// The type of the columns that are accumulated; columns of other types are ignored.
    column_type: ColumnType,
    measures: Vec<PartialAggregate>,
    /// The selected row of each slot, if the aggregate selects one.
    rows: Vec<RowId>,
    /// The bytes of the selected texts.
    text_bytes: usize,
}

impl Accumulator {
    /// An empty accumulator for columns like this one; `None` if the aggregate does not exist for its type.
    pub fn of(aggregate: Aggregate, column: &Column) -> Option<Self> {
        let column_type = type_of(column)?;
        let empty = |function: &AggregateFunction| PartialAggregate::empty(*function, column_type, 0).ok();
        let measures = aggregate.measures().iter().map(empty).collect::<Option<_>>()?;
        Some(Self { aggregate, column_type, measures, rows: Vec::new(), text_bytes: 0 })
    }

    /// Adds the rows of a feed. `slots` gives the slot of each row's window. Columns of another type than the first are
    /// ignored.
    pub fn feed(&mut self, feed: u32, times_ns: &[i64], slots: &[u32], column: &Column) {
        if type_of(column) != Some(self.column_type) {
            return;
        }
        let count = slots.iter().filter(|slot| **slot != NO_SLOT).max().map_or(0, |slot| *slot as usize + 1);
        for (state, function) in self.measures.iter_mut().zip(self.aggregate.measures()) {
            grow(state, count);
            match state {
                PartialAggregate::Selected(selected) => {
                    if self.rows.len() < selected.series.len() {
                        self.rows.resize(selected.series.len(), (0, 0));
                    }
                    let rows = FedRows { feed, times_ns, slots };
                    rows.select(*function, column, selected, &mut self.rows, &mut self.text_bytes);
                }
                state => add(state, slots, column),
            }
        }
    }

    /// The bytes of the texts that are selected so far: unlike other values they have no bound.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Visits the rows that are selected so far.
    pub fn visit_rows(&mut self, visit: &mut dyn FnMut(&mut RowId)) {
        if let ([PartialAggregate::Selected(selected)], rows) = (&self.measures[..], &mut self.rows) {
            let selected = selected.series.iter().zip(rows).filter(|(series, _)| series.is_some());
            selected.for_each(|(_, row)| visit(row));
        }
    }

    /// The windows and the selected rows, if any. `order` holds the windows, ascending, each with its slot.
    pub fn finish(mut self, order: &[(u32, u32)]) -> (Reduction, Vec<RowId>) {
        let slots = order.iter().map(|(_, slot)| *slot as usize + 1).max().unwrap_or(0);
        self.measures.iter_mut().for_each(|state| grow(state, slots));
        let of_windows = finished::present(&self.measures[0], order.iter(), |(_, slot)| *slot as usize);
        let present: Vec<usize> = of_windows.iter().map(|(_, slot)| *slot as usize).collect();
        let unsigned = self.column_type == ColumnType::UInt64;
        let reduction = Reduction {
            windows: of_windows.iter().map(|(window, _)| *window).collect(),
            values: finished::values(self.aggregate, &self.measures, unsigned, &present),
            times_ns: finished::times_ns(&self.measures[0], &present),
        };
        // A spread shows neither the largest nor the smallest value.
        let rows = match self.measures.len() {
            1 => present.iter().filter_map(|slot| self.rows.get(*slot).copied()).collect(),
            _ => Vec::new(),
        };
        (reduction, rows)
    }
}

/// The type that the values of a column are accumulated as.
fn type_of(column: &Column) -> Option<ColumnType> {
    Some(match column {
        Column::Float(_) => ColumnType::Float64,
        Column::Integer(_) => ColumnType::Int64,
        Column::Unsigned(_) => ColumnType::UInt64,
        Column::String(_) | Column::Tag(_) => ColumnType::String,
        Column::Boolean(_) => ColumnType::Bool,
        Column::Texts(_) | Column::Null(_) => return None,
    })
}

/// The number of slots.
fn slots_of(state: &PartialAggregate) -> usize {
    match state {
        PartialAggregate::Count(counts)
        | PartialAggregate::SumInteger { counts, .. }
        | PartialAggregate::SumFloat { counts, .. } => counts.len(),
        PartialAggregate::Selected(selected) => selected.series.len(),
        PartialAggregate::Increase(increases) => increases.counts.len(),
    }
}

/// Makes room for `slots` slots, if there are fewer.
fn grow(state: &mut PartialAggregate, slots: usize) {
    if slots <= slots_of(state) {
        return;
    }
    match state {
        PartialAggregate::Count(counts) => counts.resize(slots, 0),
        PartialAggregate::SumInteger { sums, counts } => {
            sums.resize(slots, 0);
            counts.resize(slots, 0);
        }
        PartialAggregate::SumFloat { sums, counts } => {
            sums.resize(slots, 0.0);
            counts.resize(slots, 0);
        }
        PartialAggregate::Selected(Selected { values, times_ns, series }) => {
            match values {
                SelectedValues::Int(values) => values.resize(slots, 0),
                SelectedValues::UInt(values) => values.resize(slots, 0),
                SelectedValues::Float(values) => values.resize(slots, 0.0),
                SelectedValues::Bool(values) => values.resize(slots, false),
                SelectedValues::String(values) => values.resize(slots, String::new()),
            }
            times_ns.resize(slots, 0);
            series.resize(slots, None);
        }
        PartialAggregate::Increase(_) => unreachable!("no aggregate is an increase"),
    }
}

/// The rows that are in a window and have a value, each with its slot.
fn counted<'a>(slots: &'a [u32], array: &'a impl Array) -> impl Iterator<Item = (usize, usize)> + 'a {
    let rows = slots.iter().enumerate().filter(|(row, slot)| **slot != NO_SLOT && array.is_valid(*row));
    rows.map(|(row, slot)| (row, *slot as usize))
}

fn add(state: &mut PartialAggregate, slots: &[u32], column: &Column) {
    match (state, column) {
        (PartialAggregate::Count(counts), column) => count(counts, slots, column),
        (PartialAggregate::SumInteger { sums, counts }, Column::Integer(array)) => {
            for (row, slot) in counted(slots, array) {
                sums[slot] += i128::from(array.value(row));
                counts[slot] += 1;
            }
        }
        (PartialAggregate::SumInteger { sums, counts }, Column::Unsigned(array)) => {
            for (row, slot) in counted(slots, array) {
                sums[slot] += i128::from(array.value(row));
                counts[slot] += 1;
            }
        }
        (PartialAggregate::SumFloat { sums, counts }, Column::Float(array)) => {
            for (row, slot) in counted(slots, array) {
                // A sum starts with 0, as InfluxDB's and the store's do: that of negative zeros is positive.
                sums[slot] += array.value(row);
                counts[slot] += 1;
            }
        }
        _ => {}
    }
}

fn count(counts: &mut [u64], slots: &[u32], column: &Column) {
    match column {
        Column::Float(array) => counted(slots, array).for_each(|(_, slot)| counts[slot] += 1),
        Column::Integer(array) => counted(slots, array).for_each(|(_, slot)| counts[slot] += 1),
        Column::Unsigned(array) => counted(slots, array).for_each(|(_, slot)| counts[slot] += 1),
        Column::String(array) => counted(slots, array).for_each(|(_, slot)| counts[slot] += 1),
        Column::Boolean(array) => counted(slots, array).for_each(|(_, slot)| counts[slot] += 1),
        Column::Tag(tags) => {
            let rows =
                slots.iter().enumerate().filter(|(row, slot)| **slot != NO_SLOT && tags.is_valid(*row));
            rows.for_each(|(_, slot)| counts[*slot as usize] += 1);
        }
        Column::Texts(_) | Column::Null(_) => {}
    }
}

/// The rows of one feed.
struct FedRows<'a> {
    feed: u32,
    times_ns: &'a [i64],
    slots: &'a [u32],
}

impl FedRows<'_> {
    fn select(
        &self,
        function: AggregateFunction,
        column: &Column,
        selected: &mut Selected,
        rows: &mut [RowId],
        text_bytes: &mut usize,
    ) {
        let Selected { values, times_ns, series } = selected;
        macro_rules! select {
            ($values:expr, $is_valid:expr, $value:expr, $view:expr, $keep:expr) => {
                for (row, slot) in self.slots.iter().enumerate() {
                    let slot = *slot as usize;
                    if slot == NO_SLOT as usize || !$is_valid(row) {
                        continue;
                    }
                    let (value, time_ns) = ($value(row), self.times_ns[row]);
                    let old = ($view(&$values[slot]), times_ns[slot], ANY_SERIES);
                    if series[slot].is_none() || function.prefers((value, time_ns, ANY_SERIES), old) {
                        $keep(&mut $values[slot], value);
                        (times_ns[slot], series[slot]) = (time_ns, Some(ANY_SERIES));
                        rows[slot] = (self.feed, row as u32);
                    }
                }
            };
        }
        macro_rules! plain {
            ($values:expr, $array:expr) => {
                select!(
                    $values,
                    |row| $array.is_valid(row),
                    |row| $array.value(row),
                    |old: &_| *old,
                    |old: &mut _, new| *old = new
                )
            };
        }
        let mut keep_text = |old: &mut String, new: &str| {
            *text_bytes = *text_bytes - old.len() + new.len();
            *old = new.to_owned();
        };
        match (values, column) {
            (SelectedValues::Int(values), Column::Integer(array)) => plain!(values, array),
            (SelectedValues::UInt(values), Column::Unsigned(array)) => plain!(values, array),
            (SelectedValues::Float(values), Column::Float(array)) => plain!(values, array),
            (SelectedValues::Bool(values), Column::Boolean(array)) => plain!(values, array),
            (SelectedValues::String(values), Column::String(array)) => {
                select!(values, |row| array.is_valid(row), |row| array.value(row), String::as_str, keep_text);
            }
            (SelectedValues::String(values), Column::Tag(tags)) => {
                select!(
                    values,
                    |row| tags.is_valid(row),
                    |row| tags.text(row).unwrap_or_default(),
                    String::as_str,
                    keep_text
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Scalar;
    use nyala_core::store::aggregate::FloatSum;

    /// The windows, values and rows of an aggregate of feeds of times, slots and values.
    fn accumulated(
        aggregate: Aggregate,
        feeds: &[(&[i64], &[u32], Column)],
    ) -> Vec<(u32, Option<Scalar>, Option<RowId>)> {
        let mut accumulator =
            Accumulator::of(aggregate, &feeds[0].2).expect("the aggregate exists for the type");
        for (feed, (times_ns, slots, column)) in feeds.iter().enumerate() {
            accumulator.feed(feed as u32, times_ns, slots, column);
        }
        // Slot 9 has no rows.
        let (reduction, rows) = accumulator.finish(&[(5, 1), (7, 0), (8, 9)]);
        let windows = reduction.windows.iter().enumerate();
        windows.map(|(at, window)| (*window, reduction.values.scalar(at), rows.get(at).copied())).collect()
    }

    #[test]
    fn rows_accumulate_by_slot_and_finish_by_window() {
        let floats = |values: &[f64]| Column::Float(values.to_vec().into());
        let feeds: [(&[i64], &[u32], Column); 2] = [
            (&[3, 4, 5], &[0, 1, NO_SLOT], floats(&[1.0, 2.0, 100.0])),
            (&[2, 9], &[0, 0], floats(&[4.0, 0.5])),
        ];
        let of = |aggregate| accumulated(aggregate, &feeds);
        let float = |value| Some(Scalar::Float(value));
        assert_eq!(of(Aggregate::Sum), [(5, float(2.0), None), (7, float(5.5), None)]);
        assert_eq!(of(Aggregate::Mean), [(5, float(2.0), None), (7, float(5.5 / 3.0), None)]);
        assert_eq!(of(Aggregate::Spread), [(5, float(0.0), None), (7, float(3.5), None)]);
        assert_eq!(of(Aggregate::First), [(5, float(2.0), Some((0, 1))), (7, float(4.0), Some((1, 0)))]);
        assert_eq!(of(Aggregate::Last), [(5, float(2.0), Some((0, 1))), (7, float(0.5), Some((1, 1)))]);
        assert_eq!(of(Aggregate::Max), [(5, float(2.0), Some((0, 1))), (7, float(4.0), Some((1, 0)))]);
        let count = |value| Some(Scalar::Integer(value));
        assert_eq!(of(Aggregate::Count), [(5, count(1), None), (7, count(3), None)]);
    }

    #[test]
    fn sums_of_integers_wrap_around_and_columns_of_other_types_are_ignored() {
        let integers = |values: &[i64]| Column::Integer(values.to_vec().into());
        let feeds: [(&[i64], &[u32], Column); 3] = [
            (&[1, 2], &[0, 0], integers(&[i64::MAX, 1])),
            (&[3], &[0], Column::Boolean(vec![true].into())),
            (&[4], &[0], Column::Integer(vec![None].into())),
        ];
        let of = |aggregate| accumulated(aggregate, &feeds);
        assert_eq!(of(Aggregate::Sum), [(7, Some(Scalar::Integer(i64::MIN)), None)]);
        assert_eq!(of(Aggregate::Mean), [(7, Some(Scalar::Float(i64::MIN as f64 / 2.0)), None)]);
        assert_eq!(of(Aggregate::Count), [(7, Some(Scalar::Integer(2)), None)]);
        assert!(Accumulator::of(Aggregate::Sum, &feeds[1].2).is_none());
    }

    #[test]
    fn a_sum_of_negative_zeros_is_what_the_store_gives() {
        let values = [-0.0, -0.0];
        let mut stored = FloatSum::default();
        stored.add_slice(&values);
        let feeds: [(&[i64], &[u32], Column); 1] =
            [(&[1, 2], &[0, 0], Column::Float(values.to_vec().into()))];
        for (aggregate, expected) in
            [(Aggregate::Sum, stored.sum()), (Aggregate::Mean, stored.sum() / 2.0), (Aggregate::Min, -0.0)]
        {
            let [(_, Some(Scalar::Float(value)), _)] = accumulated(aggregate, &feeds)[..] else {
                panic!("one window");
            };
            assert_eq!(value.to_bits(), expected.to_bits(), "{aggregate:?}: {value}, not {expected}");
        }
        assert_eq!(stored.sum().to_bits(), 0);
    }

    #[test]
    fn texts_are_selected_by_time() {
        let texts = |values: &[&str]| Column::String(values.to_vec().into());
        let feeds: [(&[i64], &[u32], Column); 1] = [(&[2, 1, 2], &[0, 0, 0], texts(&["b", "a", "c"]))];
        let of = |aggregate| accumulated(aggregate, &feeds);
        let text = |text: &str| Some(Scalar::String(text.to_owned()));
        assert_eq!(of(Aggregate::First), [(7, text("a"), Some((0, 1)))]);
        assert_eq!(of(Aggregate::Last), [(7, text("c"), Some((0, 2)))]);
    }
}
