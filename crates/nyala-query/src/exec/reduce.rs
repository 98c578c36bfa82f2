//! Reducing the rows of windows to values, for functions and conditions that the store cannot answer.

use super::column::Column;
use super::memory::QueryMemory;
use super::pieces::Pieces;
use crate::plan::Function;
use arrow_array::Array;
use hashbrown::HashMap;
use nyala_core::store::Windows;
use nyala_core::{Result, TimeRange};
use std::cmp::Ordering;

/// In a list of slots by row: the row is in no window.
const NO_SLOT: u32 = u32::MAX;
/// What a window costs in each reducer, bytes, about.
const SLOT_BYTES: usize = 64;

/// The windows that have rows, numbered as they are met: there may be far more that have none.
#[derive(Default)]
pub struct WindowSlots {
    slots: HashMap<u32, u32>,
    windows: Vec<u32>,
    /// The window of the row before, which the next row is likely to be in.
    last: Option<(TimeRange, u32)>,
}

impl WindowSlots {
    /// The slot of each row.
    pub fn of_times(
        &mut self,
        windows: &Windows,
        times_ns: &[i64],
        memory: &QueryMemory,
    ) -> Result<Vec<u32>> {
        let known = self.windows.len();
        let slots = times_ns.iter().map(|time_ns| self.of_time(windows, *time_ns)).collect();
        memory.charge((self.windows.len() - known) * SLOT_BYTES)?;
        Ok(slots)
    }

    fn of_time(&mut self, windows: &Windows, time_ns: i64) -> u32 {
        if let Some((range, slot)) = self.last
            && range.contains(time_ns)
        {
            return slot;
        }
        let Some(index) = windows.index_of(time_ns) else { return NO_SLOT };
        let next = self.windows.len() as u32;
        let slot = *self.slots.entry(index as u32).or_insert(next);
        if slot == next {
            self.windows.push(index as u32);
        }
        self.last = Some((windows.range(index), slot));
        slot
    }

    /// The windows met in ascending order, each with its slot.
    pub fn in_order(&self) -> Vec<(u32, u32)> {
        let mut order: Vec<(u32, u32)> =
            self.windows.iter().enumerate().map(|(slot, window)| (*window, slot as u32)).collect();
        order.sort_unstable();
        order
    }
}

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

/// A row among those that were fed: which feed, and which row of it.
pub type RowId = (u32, u32);

/// The reduced windows of one call, ascending.
pub struct Reduction {
    /// Which windows.
    pub windows: Vec<u32>,
    /// Their values.
    pub values: Column,
    /// Times of the selected rows, ns.
    pub times_ns: Vec<i64>,
    /// The selected rows.
    pub rows: Vec<RowId>,
}

/// Reduces a column whose type shows with its first values.
pub struct Reducer {
    function: Function,
    ascending: bool,
    memory: QueryMemory,
    feeds: u32,
    states: Option<States>,
}

enum States {
    Float(State<f64>),
    Integer(State<i64>),
    Unsigned(State<u64>),
    String(State<String>),
    Boolean(State<bool>),
}

impl Reducer {
    /// A reducer for one call of a query whose times rise, or fall.
    pub fn new(function: Function, ascending: bool, memory: QueryMemory) -> Self {
        Self { function, ascending, memory, feeds: 0, states: None }
    }

    /// Adds rows, whose windows have these slots.
    pub fn feed(&mut self, times_ns: &[i64], slots: &[u32], column: &Column) -> Result<()> {
        let feed = self.feeds;
        self.feeds += 1;
        macro_rules! add {
            ($variant:ident, $array:expr, $value:expr) => {{
                let states = self
                    .states
                    .get_or_insert_with(|| States::$variant(State::new(self.function, self.ascending)));
                if let States::$variant(state) = states {
                    for row in 0..times_ns.len() {
                        if slots[row] != NO_SLOT && $array.is_valid(row) {
                            let item =
                                Item { value: $value(row), time_ns: times_ns[row], row: (feed, row as u32) };
                            state.add(slots[row] as usize, item, &self.memory)?;
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
            Column::Null(_) => {}
        }
        Ok(())
    }

    /// The reduced windows; `order` is that of the slots.
    pub fn finish(self, order: &[(u32, u32)]) -> Reduction {
        let function = self.function;
        match self.states {
            None => Reduction {
                windows: Vec::new(),
                values: Column::Null(0),
                times_ns: Vec::new(),
                rows: Vec::new(),
            },
            Some(States::Float(state)) => state.finish(function, order),
            Some(States::Integer(state)) => state.finish(function, order),
            Some(States::Unsigned(state)) => state.finish(function, order),
            Some(States::String(state)) => state.finish(function, order),
            Some(States::Boolean(state)) => state.finish(function, order),
        }
    }
}

/// A type of values.
trait Datum: Clone + PartialOrd {
    type Key: std::hash::Hash + Eq;
    fn key(&self) -> Self::Key;
    fn to_float(&self) -> f64;
    /// Adds as the type adds: integers wrap around.
    fn plus(&self, other: &Self) -> Self;
    fn minus(&self, other: &Self) -> Self;
    fn column(values: Vec<Option<Self>>) -> Column;
    /// Whether `first` takes it rather than another value of the same time: the larger, but of booleans false.
    fn is_first_before(&self, other: &Self) -> bool {
        self > other
    }
    /// The most frequent of some values.
    fn mode(items: Vec<Item<Self>>) -> Self {
        mode(items)
    }
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

macro_rules! number_datum {
    ($type:ty, $key:ty, $variant:ident, $to_key:expr, $plus:expr, $minus:expr) => {
        impl Datum for $type {
            type Key = $key;
            fn key(&self) -> $key {
                $to_key(*self)
            }
            fn to_float(&self) -> f64 {
                *self as f64
            }
            fn plus(&self, other: &Self) -> Self {
                $plus(*self, *other)
            }
            fn minus(&self, other: &Self) -> Self {
                $minus(*self, *other)
            }
            fn column(values: Vec<Option<Self>>) -> Column {
                Column::$variant(values.into())
            }
        }
    };
}

number_datum!(f64, u64, Float, f64::to_bits, |a, b| a + b, |a, b| a - b);
number_datum!(i64, i64, Integer, |value| value, i64::wrapping_add, i64::wrapping_sub);
number_datum!(u64, u64, Unsigned, |value| value, u64::wrapping_add, u64::wrapping_sub);

impl Datum for String {
    type Key = String;
    fn key(&self) -> String {
        self.clone()
    }
    fn to_float(&self) -> f64 {
        f64::NAN
    }
    fn plus(&self, _other: &Self) -> Self {
        self.clone()
    }
    fn minus(&self, _other: &Self) -> Self {
        self.clone()
    }
    fn column(values: Vec<Option<Self>>) -> Column {
        Column::String(values.into_iter().collect())
    }
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.len()
    }
}

impl Datum for bool {
    type Key = bool;
    fn key(&self) -> bool {
        *self
    }
    fn to_float(&self) -> f64 {
        f64::NAN
    }
    fn plus(&self, other: &Self) -> Self {
        *self || *other
    }
    fn minus(&self, other: &Self) -> Self {
        *self != *other
    }
    fn column(values: Vec<Option<Self>>) -> Column {
        Column::Boolean(values.into())
    }
    fn is_first_before(&self, other: &Self) -> bool {
        !*self && *other
    }
    /// Of as many of both it is true.
    fn mode(items: Vec<Item<Self>>) -> Self {
        2 * items.iter().filter(|item| item.value).count() >= items.len()
    }
}

#[derive(Clone)]
struct Item<T> {
    value: T,
    time_ns: i64,
    row: RowId,
}

/// The states of a function, per window.
enum State<T: Datum> {
    Count(Vec<u64>),
    Sum(Vec<Option<(T, u64)>>),
    Chosen(Function, Vec<Option<Item<T>>>),
    Extremes(Vec<Option<(T, T)>>),
    Values(Vec<Pieces<Item<T>>>),
    /// The times are those that values are met at first: the earliest, or the latest if times fall.
    Distinct(bool, Vec<HashMap<T::Key, Item<T>>>),
}

fn slot_of<S: Default>(states: &mut Vec<S>, slot: usize) -> &mut S {
    if states.len() <= slot {
        states.resize_with(slot + 1, S::default);
    }
    &mut states[slot]
}

impl<T: Datum> State<T> {
    fn new(function: Function, ascending: bool) -> Self {
        use Function::{
            Count, CountDistinct, Distinct, First, Last, Max, Mean, Median, Min, Mode, Percentile, Spread,
            Stddev, Sum,
        };
        match function {
            Count => State::Count(Vec::new()),
            Sum | Mean => State::Sum(Vec::new()),
            First | Last | Min | Max => State::Chosen(function, Vec::new()),
            Spread => State::Extremes(Vec::new()),
            Distinct | CountDistinct => State::Distinct(ascending, Vec::new()),
            Median | Mode | Stddev | Percentile(_) => State::Values(Vec::new()),
        }
    }

    fn add(&mut self, slot: usize, item: Item<T>, memory: &QueryMemory) -> Result<()> {
        match self {
            State::Count(counts) => *slot_of(counts, slot) += 1,
            State::Sum(sums) => {
                let state = slot_of(sums, slot);
                *state = Some(match state.take() {
                    Some((sum, count)) => (sum.plus(&item.value), count + 1),
                    None => (item.value, 1),
                });
            }
            State::Chosen(function, chosen) => {
                let state = slot_of(chosen, slot);
                if state.as_ref().is_none_or(|old| prefers(*function, &item, old)) {
                    *state = Some(item);
                }
            }
            State::Extremes(extremes) => {
                let state = slot_of(extremes, slot);
                match state {
                    None => *state = Some((item.value.clone(), item.value)),
                    Some((least, _)) if item.value < *least => *least = item.value,
                    Some((_, most)) if item.value > *most => *most = item.value,
                    Some(_) => {}
                }
            }
            State::Values(values) => {
                memory.charge(item.value.held_bytes() + 16)?;
                slot_of(values, slot).push(item);
            }
            State::Distinct(ascending, distinct) => {
                let seen = slot_of(distinct, slot);
                match seen.get_mut(&item.value.key()) {
                    Some(old)
                        if item.time_ns != old.time_ns && (item.time_ns < old.time_ns) == *ascending =>
                    {
                        *old = item
                    }
                    Some(_) => {}
                    None => {
                        memory.charge(2 * item.value.held_bytes() + 32)?;
                        seen.insert(item.value.key(), item);
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self, function: Function, order: &[(u32, u32)]) -> Reduction {
        match self {
            State::Count(counts) => {
                let reduced = in_order(counts, order).filter(|(_, count)| *count > 0);
                collect(reduced.map(|(window, count)| plain(window, Some(count as i64))))
            }
            State::Sum(sums) => {
                let sums = in_order(sums, order).filter_map(|(window, sum)| Some((window, sum?)));
                match function {
                    Function::Mean => collect(
                        sums.map(|(window, (sum, count))| plain(window, Some(sum.to_float() / count as f64))),
                    ),
                    _ => collect(sums.map(|(window, (sum, _))| plain(window, Some(sum)))),
                }
            }
            State::Chosen(_, chosen) => {
                collect(in_order(chosen, order).filter_map(|(window, item)| Some(selected(window, item?))))
            }
            State::Extremes(extremes) => {
                collect(in_order(extremes, order).filter_map(|(window, extremes)| {
                    let (least, most) = extremes?;
                    Some(plain(window, Some(most.minus(&least))))
                }))
            }
            State::Values(values) => {
                let values = in_order(values, order)
                    .filter(|(_, items)| !items.is_empty())
                    .map(|(window, items)| (window, items.into_vec()));
                match function {
                    Function::Median => {
                        collect(values.map(|(window, items)| plain(window, Some(median(items)))))
                    }
                    Function::Stddev => {
                        collect(values.map(|(window, items)| plain(window, Some(stddev(&items)))))
                    }
                    Function::Percentile(percentage) => collect(values.filter_map(|(window, items)| {
                        Some(selected(window, percentile(items, percentage)?))
                    })),
                    _ => collect(values.map(|(window, items)| plain(window, Some(T::mode(items))))),
                }
            }
            State::Distinct(ascending, distinct) => {
                let distinct = in_order(distinct, order).filter(|(_, seen)| !seen.is_empty());
                match function {
                    Function::CountDistinct => {
                        collect(distinct.map(|(window, seen)| plain(window, Some(seen.len() as i64))))
                    }
                    _ => collect(distinct.flat_map(|(window, seen)| {
                        let mut items: Vec<Item<T>> = seen.into_values().collect();
                        // Backwards they are read from the end, but of one time still from the smallest.
                        let at_once = |a: &Item<T>, b: &Item<T>| match ascending {
                            true => by_value(a, b),
                            false => by_value(b, a),
                        };
                        items.sort_by(|a, b| a.time_ns.cmp(&b.time_ns).then(at_once(a, b)));
                        items.into_iter().map(move |item| selected(window, item))
                    })),
                }
            }
        }
    }
}

/// States by window. Slots past the last state have none.
fn in_order<S: Default>(mut states: Vec<S>, order: &[(u32, u32)]) -> impl Iterator<Item = (u32, S)> {
    order.iter().filter_map(move |(window, slot)| {
        let state = states.get_mut(*slot as usize)?;
        Some((*window, std::mem::take(state)))
    })
}

fn plain<T>(window: u32, value: Option<T>) -> Reduced<T> {
    Reduced { window, value, time_ns: 0, row: (0, 0) }
}

fn selected<T>(window: u32, item: Item<T>) -> Reduced<T> {
    Reduced { window, value: Some(item.value), time_ns: item.time_ns, row: item.row }
}

fn collect<T: Datum>(reduced: impl Iterator<Item = Reduced<T>>) -> Reduction {
    let (mut windows, mut values, mut times_ns, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for reduced in reduced {
        windows.push(reduced.window);
        values.push(reduced.value);
        times_ns.push(reduced.time_ns);
        rows.push(reduced.row);
    }
    Reduction { windows, values: T::column(values), times_ns, rows }
}

fn prefers<T: Datum>(function: Function, item: &Item<T>, old: &Item<T>) -> bool {
    let at_once = item.time_ns == old.time_ns;
    let earlier_equal = item.value == old.value && item.time_ns < old.time_ns;
    match function {
        Function::First => item.time_ns < old.time_ns || (at_once && item.value.is_first_before(&old.value)),
        Function::Last => item.time_ns > old.time_ns || (at_once && item.value > old.value),
        Function::Min => item.value < old.value || earlier_equal,
        _ => item.value > old.value || earlier_equal,
    }
}

fn by_value<T: PartialOrd>(a: &Item<T>, b: &Item<T>) -> Ordering {
    a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal)
}

fn sort_by_value<T: Datum>(items: &mut [Item<T>]) {
    items.sort_by(|a, b| by_value(a, b).then(a.time_ns.cmp(&b.time_ns)));
}

/// The middle value; of an even number the mean of the two in the middle.
fn median<T: Datum>(mut items: Vec<Item<T>>) -> f64 {
    items.sort_unstable_by(by_value);
    let middle = items.len() / 2;
    let high = items[middle].value.to_float();
    match items.len() % 2 {
        1 => high,
        _ => {
            let low = items[middle - 1].value.to_float();
            low + (high - low) / 2.0
        }
    }
}

/// The sample standard deviation; of a single value not a number.
fn stddev<T: Datum>(items: &[Item<T>]) -> f64 {
    if items.len() < 2 {
        return f64::NAN;
    }
    let mut mean = 0.0;
    for (count, item) in items.iter().enumerate() {
        mean += (item.value.to_float() - mean) / (count + 1) as f64;
    }
    let squares: f64 = items.iter().map(|item| (item.value.to_float() - mean).powi(2)).sum();
    (squares / (items.len() - 1) as f64).sqrt()
}

/// The value at the nearest rank.
fn percentile<T: Datum>(mut items: Vec<Item<T>>, percentage: f64) -> Option<Item<T>> {
    let rank = (items.len() as f64 * percentage / 100.0 + 0.5).floor() - 1.0;
    if !(rank >= 0.0 && rank < items.len() as f64) {
        return None;
    }
    let order = |a: &Item<T>, b: &Item<T>| by_value(a, b).then(a.time_ns.cmp(&b.time_ns));
    let (_, item, _) = items.select_nth_unstable_by(rank as usize, order);
    Some(item.clone())
}

/// The most frequent value; of several the earliest. A value that occurs once counts only if it is the smallest.
fn mode<T: Datum>(mut items: Vec<Item<T>>) -> T {
    sort_by_value(&mut items);
    let mut best = (items[0].value.clone(), 0, items[0].time_ns);
    let mut current = (items[0].value.clone(), 0, items[0].time_ns);
    for item in items {
        if item.value != current.0 {
            current = (item.value, 1, item.time_ns);
            continue;
        }
        current.1 += 1;
        if best.1 > current.1 || (best.1 == current.1 && current.2 > best.2) {
            continue;
        }
        best = current.clone();
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::column::Scalar;

    /// The values of the windows of 10 ns that have any.
    fn reduced(function: Function, rows: &[(i64, Column)]) -> Vec<(u32, Option<Scalar>)> {
        let windows = Windows::Regular { start_ns: 0, width_ns: 10, count: 4_000_000_000 };
        let memory = QueryMemory::new(1 << 20, &nyala_core::memory::MemoryBudget::new(1 << 30));
        let (mut slots, mut reducer) = (WindowSlots::default(), Reducer::new(function, true, memory.clone()));
        for (time_ns, column) in rows {
            let slots = slots.of_times(&windows, &[*time_ns], &memory).unwrap();
            reducer.feed(&[*time_ns], &slots, column).unwrap();
        }
        let reduction = reducer.finish(&slots.in_order());
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
    fn windows_far_apart_cost_no_more_than_two() {
        let rows = [integer(39_999_999_999, 5), integer(3, 1), integer(4, 2), integer(-1, 9)];
        let expected = [(0, Some(Scalar::Integer(3))), (3_999_999_999, Some(Scalar::Integer(5)))];
        assert_eq!(reduced(Function::Sum, &rows), expected);
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
    fn the_mode_of_as_many_of_both_is_true() {
        assert_eq!(
            reduced(Function::Mode, &[boolean(1, true), boolean(2, false)]),
            [(0, Some(Scalar::Boolean(true)))]
        );
        assert_eq!(reduced(Function::Mode, &[boolean(1, false)]), [(0, Some(Scalar::Boolean(false)))]);
        let rows = [integer(1, 7), integer(2, 7), integer(3, 4), integer(4, 4), integer(5, 1)];
        assert_eq!(reduced(Function::Mode, &rows), [(0, Some(Scalar::Integer(7)))]);
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
