//! Aggregates of decoded rows.

use super::accumulator::{Accumulator, SelectedValue};
use super::{MeasureSource, WindowRows};
use crate::rows::column_buffer::{Column, VALUE, Values};
use crate::rows::merge::RowBatch;
use nyala_core::ColumnType;
use nyala_core::store::AggregateFunction;
use std::ops::Range;

impl Accumulator<'_> {
    /// Adds rows of the series, all at times that some window holds.
    pub(super) fn add_rows(&mut self, batch: &RowBatch<Vec<i64>>) {
        if batch.rows() == 0 {
            return;
        }
        let windows = self.windows_of(&batch.keys);
        for measure in 0..self.request.measures.len() {
            match self.sources[measure] {
                MeasureSource::Cell(position, column_type) => {
                    self.add_column(measure, &windows, &batch.columns[position], column_type, &batch.keys);
                }
                source => self.add_keys(measure, source, &windows, &batch.keys),
            }
        }
    }

    /// The windows of ascending times.
    pub(super) fn windows_of(&self, times: &[i64]) -> WindowRows {
        let windows = &self.request.windows;
        let index = |time: i64| windows.index_of(time).expect("times are clipped to the windows");
        let (first, last) = (index(times[0]), index(times[times.len() - 1]));
        let mut bounds = Vec::with_capacity(last - first + 2);
        bounds.push(0);
        let mut from = 0;
        for window in first + 1..=last {
            let start_ns = windows.range(window).start_ns;
            from = crate::rows::merge::gallop(from, times.len(), |row| times[row] < start_ns);
            bounds.push(from as u32);
        }
        bounds.push(times.len() as u32);
        WindowRows { first, bounds }
    }

    /// Adds times or series ids, which every row has.
    pub(super) fn add_keys(
        &mut self,
        measure: usize,
        source: MeasureSource,
        windows: &WindowRows,
        times: &[i64],
    ) {
        if self.function(measure) == AggregateFunction::Count {
            for (index, pair) in windows.bounds.windows(2).enumerate() {
                self.add_count(measure, windows.first + index, u64::from(pair[1] - pair[0]));
            }
            return;
        }
        let (column, column_type) = match source {
            MeasureSource::Series => {
                (Column::words(vec![self.series.0.into(); times.len()]), ColumnType::UInt32)
            }
            _ => (Column::words(times.iter().map(|time| *time as u64).collect()), ColumnType::Timestamp),
        };
        self.add_column(measure, windows, &column, column_type, times);
    }

    /// Adds cells; `windows` and `times` are those of the column's rows.
    pub(super) fn add_column(
        &mut self,
        measure: usize,
        windows: &WindowRows,
        column: &Column,
        column_type: ColumnType,
        times: &[i64],
    ) {
        for (index, pair) in windows.bounds.windows(2).enumerate() {
            let rows = pair[0] as usize..pair[1] as usize;
            if !rows.is_empty() {
                self.add_window(measure, windows.first + index, column, column_type, times, rows);
            }
        }
    }

    fn add_window(
        &mut self,
        measure: usize,
        window: usize,
        column: &Column,
        column_type: ColumnType,
        times: &[i64],
        rows: Range<usize>,
    ) {
        let validity = column.validity.as_deref();
        let valued = |row: &usize| validity.is_none_or(|validity| validity[*row] == VALUE);
        match self.function(measure) {
            AggregateFunction::Count => {
                let count = match validity {
                    None => rows.len(),
                    Some(_) => rows.filter(valued).count(),
                };
                self.add_count(measure, window, count as u64);
            }
            AggregateFunction::Sum => self.sum_window(measure, window, column, column_type, rows),
            AggregateFunction::Increase => {
                let words = words(column);
                let number = |row: usize| match column_type {
                    ColumnType::Float64 => f64::from_bits(words[row]),
                    ColumnType::UInt64 => words[row] as f64,
                    _ => words[row] as i64 as f64,
                };
                let values = rows.filter(valued).map(|row| (times[row], number(row)));
                self.add_increase(measure, window, values);
            }
            AggregateFunction::First => {
                if let Some(row) = rows.clone().find(valued) {
                    self.offer(measure, window, selected_value(column, column_type, row), times[row]);
                }
            }
            AggregateFunction::Last => {
                if let Some(row) = rows.clone().rev().find(valued) {
                    self.offer(measure, window, selected_value(column, column_type, row), times[row]);
                }
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let least = self.function(measure) == AggregateFunction::Min;
                let found = match column_type {
                    ColumnType::Float64 => {
                        // A NaN that comes first stays, later ones never win: nothing compares with them.
                        let floats = words(column);
                        let mut candidates = rows.clone().filter(valued);
                        let first = candidates.next();
                        let nan = |row: &usize| f64::from_bits(floats[*row]).is_nan();
                        if first.as_ref().is_some_and(nan) && self.is_vacant(measure, window) {
                            first
                        } else {
                            let others = rows.clone().filter(valued).filter(|row| !nan(row));
                            extreme(others, least, |row| f64::from_bits(floats[row]))
                        }
                    }
                    ColumnType::UInt64 | ColumnType::UInt32 | ColumnType::Bool => {
                        let words = words(column);
                        extreme(rows.filter(valued), least, |row| words[row])
                    }
                    _ => {
                        let words = words(column);
                        extreme(rows.filter(valued), least, |row| words[row] as i64)
                    }
                };
                if let Some(row) = found {
                    self.offer(measure, window, selected_value(column, column_type, row), times[row]);
                }
            }
        }
    }

    fn sum_window(
        &mut self,
        measure: usize,
        window: usize,
        column: &Column,
        column_type: ColumnType,
        rows: Range<usize>,
    ) {
        let validity = column.validity.as_deref();
        let valued = |row: &usize| validity.is_none_or(|validity| validity[*row] == VALUE);
        let words = words(column);
        if column_type == ColumnType::Float64 {
            let floats: Vec<f64> = rows.filter(valued).map(|row| f64::from_bits(words[row])).collect();
            self.add_floats(measure, window, &floats);
            return;
        }
        let (mut sum, mut count) = (0_i128, 0);
        for row in rows.filter(valued) {
            sum += if column_type == ColumnType::UInt64 {
                i128::from(words[row])
            } else {
                i128::from(words[row] as i64)
            };
            count += 1;
        }
        self.add_sum(measure, window, sum, count);
    }
}

fn words(column: &Column) -> &[u64] {
    match &column.values {
        Values::Word(words) => words,
        _ => unreachable!("numbers are words"),
    }
}

/// The first row of which no other's value is less (or greater).
fn extreme<T: PartialOrd>(
    rows: impl Iterator<Item = usize>,
    least: bool,
    value: impl Fn(usize) -> T,
) -> Option<usize> {
    rows.reduce(|best, row| {
        let better = if least { value(row) < value(best) } else { value(row) > value(best) };
        if better { row } else { best }
    })
}

pub(super) fn selected_value(column: &Column, column_type: ColumnType, row: usize) -> SelectedValue<'_> {
    match (&column.values, column_type) {
        (Values::Bytes(bytes), _) => SelectedValue::Text(bytes.get(row)),
        (Values::Word(words), ColumnType::UInt64 | ColumnType::UInt32) => SelectedValue::UInt(words[row]),
        (Values::Word(words), ColumnType::Float64) => SelectedValue::Float(f64::from_bits(words[row])),
        (Values::Word(words), ColumnType::Bool) => SelectedValue::Bool(words[row] != 0),
        (Values::Word(words), _) => SelectedValue::Int(words[row] as i64),
        (Values::Wide(_), _) => unreachable!("decimals are not selected"),
    }
}
