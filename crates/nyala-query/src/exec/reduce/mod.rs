//! Reduces the rows of windows to values, for functions and conditions that the store cannot compute.

mod accumulator;
mod best;
mod chunked_vec;
mod datum;
mod kept;
mod passes;
mod rank;
mod references;
mod statistics;
mod tag_sets;

pub use passes::{KeySearch, SquareSums};
pub use references::References;
pub use tag_sets::TagSets;

use crate::plan::Function;
use accumulator::WindowAccumulator;
use arrow_array::{Array, BooleanArray};
use kept::Item;
use nyala_core::Result;
use nyala_exec::aggregate::{Accumulator, NO_SLOT, Reduction, RowId, check_text_bytes};
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, QueryMemory};

/// One reduced window.
#[derive(Debug, Clone)]
pub struct Reduced<T> {
    /// The window.
    pub window: u32,
    /// The value; `None` is NULL.
    pub value: Option<T>,
    /// The time of the row that was selected, ns.
    pub time_ns: i64,
    /// The row that was selected.
    pub row: RowId,
}

/// What is shown of selected rows, and must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Their values.
    Values,
    /// Their times too.
    Times,
    /// Other columns too.
    Rows,
}

/// Reduces a column. Its type is known when its first values arrive.
pub struct Reducer {
    function: Function,
    ascending: bool,
    shown: Shown,
    held: MemoryCharge,
    feeds: u32,
    accumulator: Option<TypedAccumulator>,
}

enum TypedAccumulator {
    Aggregate(Accumulator),
    Float(WindowAccumulator<f64>),
    Integer(WindowAccumulator<i64>),
    Unsigned(WindowAccumulator<u64>),
    String(WindowAccumulator<String>),
    Boolean(WindowAccumulator<bool>),
}

impl Reducer {
    /// A reducer for one call of a query whose times rise, or fall.
    pub fn new(function: Function, ascending: bool, shown: Shown, memory: &QueryMemory) -> Self {
        Self { function, ascending, shown, held: memory.hold(), feeds: 0, accumulator: None }
    }

    /// Adds rows. `slots` holds the slot of each row's window; `tag_sets` the number of each row's tag set, if the function
    /// distinguishes these.
    pub fn feed(
        &mut self,
        times_ns: &[i64],
        slots: &[u32],
        tag_sets: Option<&[u32]>,
        column: &Column,
    ) -> Result<()> {
        let feed = self.feeds;
        self.feeds += 1;
        if let Some(aggregate) = self.function.aggregate() {
            let inverted = self.inverted(column);
            let column = inverted.as_ref().unwrap_or(column);
            if self.accumulator.is_none() {
                self.accumulator = Accumulator::of(aggregate, column).map(TypedAccumulator::Aggregate);
            }
            if let Some(TypedAccumulator::Aggregate(accumulator)) = &mut self.accumulator {
                accumulator.feed(feed, times_ns, slots, column);
                let text_bytes = accumulator.text_bytes();
                check_text_bytes(text_bytes)?;
                // As they are, and in a column.
                self.held.shrink_to(2 * text_bytes);
                self.held.charge(2 * text_bytes - self.held.bytes())?;
            }
            return Ok(());
        }
        let mut bytes = 0;
        macro_rules! add {
            ($variant:ident, $array:expr, $value:expr) => {{
                let new = || {
                    TypedAccumulator::$variant(WindowAccumulator::new(
                        self.function,
                        self.ascending,
                        self.shown,
                    ))
                };
                let accumulator = self.accumulator.get_or_insert_with(new);
                if let TypedAccumulator::$variant(accumulator) = accumulator {
                    for row in 0..times_ns.len() {
                        if slots[row] != NO_SLOT && $array.is_valid(row) {
                            let item =
                                Item { value: $value(row), time_ns: times_ns[row], row: (feed, row as u32) };
                            let tags = tag_sets.map(|numbers| numbers[row]);
                            bytes += accumulator.add(slots[row] as usize, tags, item);
                        }
                    }
                }
            }};
        }
        match column {
            Column::Float(array) => add!(Float, array, |row| array.value(row)),
            Column::Integer(array) => add!(Integer, array, |row| array.value(row)),
            Column::Unsigned(array) => add!(Unsigned, array, |row| array.value(row)),
            Column::String(array) => add!(String, array, |row| array.value(row).to_owned()),
            Column::Boolean(array) => add!(Boolean, array, |row| array.value(row)),
            Column::Tag(tags) => add!(String, tags, |row| tags.text(row).unwrap_or_default().to_owned()),
            Column::Texts(_) | Column::Null(_) => {}
        }
        self.held.charge(bytes)
    }

    /// Visits the rows that can still be selected, if rows are shown.
    fn visit_rows(&mut self, visit: &mut dyn FnMut(&mut RowId)) {
        match &mut self.accumulator {
            None => {}
            Some(TypedAccumulator::Aggregate(accumulator)) => accumulator.visit_rows(visit),
            Some(TypedAccumulator::Float(state)) => state.visit_rows(visit),
            Some(TypedAccumulator::Integer(state)) => state.visit_rows(visit),
            Some(TypedAccumulator::Unsigned(state)) => state.visit_rows(visit),
            Some(TypedAccumulator::String(state)) => state.visit_rows(visit),
            Some(TypedAccumulator::Boolean(state)) => state.visit_rows(visit),
        }
    }

    /// Of several booleans at one time InfluxDB's `first` takes false, and the contract's the greatest. Therefore booleans
    /// are inverted before and after.
    fn inverted(&self, column: &Column) -> Option<Column> {
        match column {
            Column::Boolean(array) if self.function == Function::First => {
                let values = BooleanArray::new(!array.values(), array.nulls().cloned());
                Some(Column::Boolean(values))
            }
            _ => None,
        }
    }

    /// The reduced windows, and their rows if the function selects rows; `order` holds the windows, ascending, each with its
    /// slot.
    pub fn finish(mut self, order: &[(u32, u32)]) -> (Reduction, Vec<RowId>) {
        let function = self.function;
        let Some(accumulator) = self.accumulator.take() else { return (Reduction::empty(), Vec::new()) };
        match accumulator {
            TypedAccumulator::Aggregate(accumulator) => {
                let (reduction, rows) = accumulator.finish(order);
                let values = self.inverted(&reduction.values).unwrap_or(reduction.values);
                (Reduction { values, ..reduction }, rows)
            }
            TypedAccumulator::Float(state) => state.finish(function, order),
            TypedAccumulator::Integer(state) => state.finish(function, order),
            TypedAccumulator::Unsigned(state) => state.finish(function, order),
            TypedAccumulator::String(state) => state.finish(function, order),
            TypedAccumulator::Boolean(state) => state.finish(function, order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::Windows;
    use nyala_exec::aggregate::WindowSlots;
    use nyala_exec::column::Scalar;

    /// The values of the windows of 10 ns that have any.
    fn reduced(function: Function, rows: &[(i64, Column)]) -> Vec<(u32, Option<Scalar>)> {
        let windows = Windows::Regular { start_ns: 0, width_ns: 10, count: 4_000_000_000 };
        let memory = QueryMemory::new(1 << 20, &nyala_core::memory::MemoryBudget::new(1 << 30));
        let mut slots = WindowSlots::new(&memory);
        let mut reducer = Reducer::new(function, true, Shown::Times, &memory);
        for (time_ns, column) in rows {
            let slots = slots.of_times(&windows, &[*time_ns]).unwrap();
            reducer.feed(&[*time_ns], &slots, None, column).unwrap();
        }
        let (reduction, _) = reducer.finish(&slots.in_order());
        let windows = reduction.windows.iter().enumerate();
        windows.map(|(row, window)| (*window, reduction.values.scalar(row))).collect()
    }

    fn integer(time_ns: i64, value: i64) -> (i64, Column) {
        (time_ns, Column::Integer(vec![value].into()))
    }

    fn boolean(time_ns: i64, value: bool) -> (i64, Column) {
        (time_ns, Column::Boolean(vec![value].into()))
    }

    #[test]
    fn windows_far_apart_take_one_slot_each() {
        let rows = [integer(39_999_999_999, 5), integer(3, 1), integer(4, 2), integer(-1, 9)];
        let expected = [(0, Some(Scalar::Integer(3))), (3_999_999_999, Some(Scalar::Integer(5)))];
        assert_eq!(reduced(Function::Sum, &rows), expected);
    }

    #[test]
    fn selected_texts_take_the_memory_of_the_query() {
        let windows = Windows::Regular { start_ns: 0, width_ns: 10, count: 100 };
        let memory = QueryMemory::new(1 << 20, &nyala_core::memory::MemoryBudget::new(1 << 30));
        let mut slots = WindowSlots::new(&memory);
        let mut reducer = Reducer::new(Function::Last, true, Shown::Values, &memory);
        let text = "x".repeat(10_000);
        let mut feed = |time_ns: i64| {
            let slots = slots.of_times(&windows, &[time_ns])?;
            reducer.feed(&[time_ns], &slots, None, &Column::String(vec![text.as_str()].into()))
        };
        // Of a window only the last text is kept.
        (0..200).for_each(|_| feed(5).expect("fits"));
        let refused = (1..100).find_map(|window| feed(10 * window).err());
        assert_eq!(refused.expect("a megabyte of texts does not fit").kind(), nyala_core::ErrorKind::Limit);
    }

    #[test]
    fn ties_of_first_and_last() {
        let rows = [integer(5, 1), integer(5, 3), integer(5, 2)];
        assert_eq!(reduced(Function::First, &rows), [(0, Some(Scalar::Integer(3)))]);
        assert_eq!(reduced(Function::Last, &rows), [(0, Some(Scalar::Integer(3)))]);
        let rows = [boolean(5, true), boolean(5, false), boolean(5, true)];
        assert_eq!(reduced(Function::First, &rows), [(0, Some(Scalar::Boolean(false)))]);
        assert_eq!(reduced(Function::Last, &rows), [(0, Some(Scalar::Boolean(true)))]);
    }

    #[test]
    fn the_mode_of_equally_many_booleans_is_true() {
        assert_eq!(
            reduced(Function::Mode, &[boolean(1, true), boolean(2, false)]),
            [(0, Some(Scalar::Boolean(true)))]
        );
        assert_eq!(reduced(Function::Mode, &[boolean(1, false)]), [(0, Some(Scalar::Boolean(false)))]);
        let rows = [integer(1, 7), integer(2, 7), integer(3, 4), integer(4, 4), integer(5, 1)];
        assert_eq!(reduced(Function::Mode, &rows), [(0, Some(Scalar::Integer(7)))]);
    }

    #[test]
    fn zero_and_negative_zero_are_one_value() {
        let float = |time_ns: i64, value: f64| (time_ns, Column::Float(vec![value].into()));
        let rows = [float(1, -0.0), float(2, 0.0), float(3, 1.5), float(4, -0.0)];
        assert_eq!(reduced(Function::CountDistinct, &rows), [(0, Some(Scalar::Integer(2)))]);
        assert_eq!(reduced(Function::Distinct, &rows).len(), 2);
    }

    #[test]
    fn a_percentile_is_of_the_nearest_rank() {
        let rows: Vec<_> = (1..=10).map(|value| integer(0, value)).collect();
        let value = |percentage| reduced(Function::Percentile(percentage), &rows);
        assert_eq!(value(50.0), [(0, Some(Scalar::Integer(5)))]);
        assert_eq!(value(100.0), [(0, Some(Scalar::Integer(10)))]);
        assert_eq!(value(0.0), []);
        assert_eq!(value(110.0), []);
    }
}
