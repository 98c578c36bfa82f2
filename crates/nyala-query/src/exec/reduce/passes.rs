//! Medians, percentiles and deviations that read the values of a window several times instead of keeping them.

use super::Reduced;
use super::accumulator::collect;
use super::rank::{RankSearch, Step};
use super::statistics::{mean_of_middle, percentile_rank};
use crate::plan::Function;
use arrow_array::{Array, Float64Array, Int64Array, UInt64Array};
use nyala_core::TimeRange;
use nyala_exec::Column;
use nyala_exec::aggregate::Reduction;

const SIGN: u64 = 1 << 63;

/// Types whose values can be turned into keys with the same order.
#[derive(Clone, Copy)]
enum Number {
    Float,
    Integer,
    Unsigned,
}

/// The search for a median or a percentile of numbers.
pub struct KeySearch {
    function: Function,
    /// Whether rows with equal values are distinguished by their times.
    is_timed: bool,
    number: Option<Number>,
    search: RankSearch,
    /// The lower of the two values in the middle, while the other is searched.
    low: Option<u128>,
    found: Option<u128>,
}

impl KeySearch {
    /// The most memory it takes, bytes.
    pub const BYTES: usize = RankSearch::BYTES;

    /// A search without any rows yet.
    pub fn new(function: Function, is_timed: bool) -> Self {
        Self { function, is_timed, number: None, search: RankSearch::new(), low: None, found: None }
    }

    /// Adds the rows in a time range, in a pass.
    pub fn feed(&mut self, times_ns: &[i64], range: TimeRange, column: &Column) {
        let is_timed = self.is_timed;
        let Some(keys) = Keys::of(column) else { return };
        self.number = Some(keys.number());
        for (row, time_ns) in times_ns.iter().enumerate() {
            if range.contains(*time_ns)
                && let Some(key) = keys.key(row, *time_ns, is_timed)
            {
                self.search.add(key);
            }
        }
    }

    /// Ends a pass. Returns whether it was the last.
    pub fn end_pass(&mut self) -> bool {
        let step = self.search.end_pass(|count| match (self.function, self.low) {
            (Function::Percentile(percentage), _) => percentile_rank(count, percentage),
            // If the number is even, two values are in the middle.
            (_, None) => count.checked_sub(1).map(|last| last / 2),
            (_, Some(_)) => Some(count / 2),
        });
        match step {
            Step::Again => return false,
            Step::Nothing => {}
            Step::Found(low, next) if self.function == Function::Median && self.low.is_none() => {
                self.low = Some(low);
                self.found = if self.search.count().is_multiple_of(2) { next } else { Some(low) };
                self.search = RankSearch::new();
                return self.found.is_some();
            }
            Step::Found(key, _) => self.found = Some(key),
        }
        true
    }

    /// The first row that has the key that was found.
    pub fn find(&self, times_ns: &[i64], column: &Column) -> Option<usize> {
        let (keys, found) = (Keys::of(column)?, self.found?);
        (0..times_ns.len()).find(|row| keys.key(*row, times_ns[*row], self.is_timed) == Some(found))
    }

    /// The value that was found, in the only window.
    pub fn finish(self) -> Reduction {
        let (Some(number), Some(high)) = (self.number, self.found) else { return Reduction::empty() };
        match (self.low, number) {
            (Some(low), number) => collect([reduced(number.mean_of_middle(low, high), 0)].into_iter()).0,
            (None, Number::Float) => collect([reduced(float_of(high), time_of(high))].into_iter()).0,
            (None, Number::Integer) => collect([reduced(integer_of(high), time_of(high))].into_iter()).0,
            (None, Number::Unsigned) => collect([reduced(unsigned_of(high), time_of(high))].into_iter()).0,
        }
    }
}

/// The standard deviation of numbers: the first pass computes the mean, the second the squares of the differences.
#[derive(Default)]
pub struct SquareSums {
    mean: f64,
    count: u64,
    squares: f64,
}

impl SquareSums {
    /// Adds the rows in a time range, in the same order in both passes.
    pub fn feed(&mut self, pass: usize, times_ns: &[i64], range: TimeRange, column: &Column) {
        let rows = times_ns.iter().enumerate().filter(|(_, time_ns)| range.contains(**time_ns));
        for value in rows.filter_map(|(row, _)| column.float(row)) {
            match pass {
                0 => {
                    self.count += 1;
                    self.mean += (value - self.mean) / self.count as f64;
                }
                _ => self.squares += (value - self.mean).powi(2),
            }
        }
    }

    /// The deviation, in the only window.
    pub fn finish(self) -> Reduction {
        match self.count {
            0 => Reduction::empty(),
            1 => collect([reduced(f64::NAN, 0)].into_iter()).0,
            count => collect([reduced((self.squares / (count - 1) as f64).sqrt(), 0)].into_iter()).0,
        }
    }
}

fn reduced<T>(value: T, time_ns: i64) -> Reduced<T> {
    Reduced { window: 0, value: Some(value), time_ns, row: (0, 0) }
}

/// Columns of numbers that are turned into keys: the value in the high half, the time in the low half.
enum Keys<'a> {
    Float(&'a Float64Array),
    Integer(&'a Int64Array),
    Unsigned(&'a UInt64Array),
}

impl<'a> Keys<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        match column {
            Column::Float(array) => Some(Keys::Float(array)),
            Column::Integer(array) => Some(Keys::Integer(array)),
            Column::Unsigned(array) => Some(Keys::Unsigned(array)),
            Column::String(_) | Column::Boolean(_) | Column::Tag(_) | Column::Texts(_) | Column::Null(_) => {
                None
            }
        }
    }

    fn number(&self) -> Number {
        match self {
            Keys::Float(_) => Number::Float,
            Keys::Integer(_) => Number::Integer,
            Keys::Unsigned(_) => Number::Unsigned,
        }
    }

    fn key(&self, row: usize, time_ns: i64, is_timed: bool) -> Option<u128> {
        let value = match self {
            Keys::Float(array) => array.is_valid(row).then(|| key_of_float(array.value(row)))?,
            Keys::Integer(array) => array.is_valid(row).then(|| array.value(row) as u64 ^ SIGN)?,
            Keys::Unsigned(array) => array.is_valid(row).then(|| array.value(row))?,
        };
        let time = if is_timed { time_ns as u64 ^ SIGN } else { 0 };
        Some(u128::from(value) << 64 | u128::from(time))
    }
}

impl Number {
    fn mean_of_middle(self, low: u128, high: u128) -> f64 {
        match self {
            Number::Float => mean_of_middle(&float_of(low), &float_of(high)),
            Number::Integer => mean_of_middle(&integer_of(low), &integer_of(high)),
            Number::Unsigned => mean_of_middle(&unsigned_of(low), &unsigned_of(high)),
        }
    }
}

fn key_of_float(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn float_of(key: u128) -> f64 {
    let bits = (key >> 64) as u64;
    f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN })
}

fn integer_of(key: u128) -> i64 {
    ((key >> 64) as u64 ^ SIGN) as i64
}

fn unsigned_of(key: u128) -> u64 {
    (key >> 64) as u64
}

fn time_of(key: u128) -> i64 {
    (key as u64 ^ SIGN) as i64
}
