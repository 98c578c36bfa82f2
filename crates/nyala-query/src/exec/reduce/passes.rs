//! Medians, percentiles and deviations that read the values of a window several times instead of keeping them.

use super::Reduced;
use super::accumulator::collect;
use super::datum::Datum;
use super::rank::{RankSearch, Step};
use super::statistics::{mean_of_middle, percentile_rank};
use crate::plan::Function;
use arrow_array::Array;
use nyala_core::TimeRange;
use nyala_exec::aggregate::Reduction;
use nyala_exec::{Column, ValueType};

const SIGN: u64 = 1 << 63;

/// The search for a median or a percentile of numbers.
pub struct KeySearch {
    function: Function,
    /// Whether rows with equal values are distinguished by their times.
    is_timed: bool,
    number: Option<ValueType>,
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
        let number = match column {
            Column::Float(_) => ValueType::Float,
            Column::Integer(_) => ValueType::Integer,
            Column::Unsigned(_) => ValueType::Unsigned,
            _ => return,
        };
        self.number = Some(number);
        for (row, time_ns) in times_ns.iter().enumerate() {
            if range.contains(*time_ns)
                && let Some(key) = key(column, row, *time_ns, self.is_timed)
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
        let found = self.found?;
        (0..times_ns.len()).find(|row| key(column, *row, times_ns[*row], self.is_timed) == Some(found))
    }

    /// The value that was found, in the only window.
    pub fn finish(self) -> Reduction {
        let (Some(number), Some(high)) = (self.number, self.found) else { return Reduction::empty() };
        let time_ns = time_of(high);
        match (self.low, number) {
            (Some(low), ValueType::Float) => middle(&float_of(low), &float_of(high)),
            (Some(low), ValueType::Integer) => middle(&integer_of(low), &integer_of(high)),
            (Some(low), _) => middle(&unsigned_of(low), &unsigned_of(high)),
            (None, ValueType::Float) => only(float_of(high), time_ns),
            (None, ValueType::Integer) => only(integer_of(high), time_ns),
            (None, _) => only(unsigned_of(high), time_ns),
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
            1 => only(f64::NAN, 0),
            count => only((self.squares / (count - 1) as f64).sqrt(), 0),
        }
    }
}

fn only<T: Datum>(value: T, time_ns: i64) -> Reduction {
    collect([Reduced { window: 0, value: Some(value), time_ns, row: (0, 0) }].into_iter()).0
}

fn middle<T: Datum>(low: &T, high: &T) -> Reduction {
    only(mean_of_middle(low, high), 0)
}

/// The key of a number: the value in the high half, the time in the low half.
fn key(column: &Column, row: usize, time_ns: i64, is_timed: bool) -> Option<u128> {
    let value = match column {
        Column::Float(array) => array.is_valid(row).then(|| key_of_float(array.value(row)))?,
        Column::Integer(array) => array.is_valid(row).then(|| array.value(row) as u64 ^ SIGN)?,
        Column::Unsigned(array) => array.is_valid(row).then(|| array.value(row))?,
        _ => return None,
    };
    let time = if is_timed { time_ns as u64 ^ SIGN } else { 0 };
    Some(u128::from(value) << 64 | u128::from(time))
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
