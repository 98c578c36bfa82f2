//! Aggregates of encoded blocks: index, directory and fused kernels instead of rows.

use super::states::{Accumulator, Candidate};
use super::{Source, WindowRows};
use crate::cells::{Column, Kind};
use crate::rowset::block::{BlockError, ColumnBlock, ValuesBlock};
use crate::rowset::format::BlockRef;
use crate::rowset::series::{Part, RowsetCursor};
use nyala_column::{Bitmap, IntegerBlock, to_unsigned};
use nyala_core::store::AggregateFunction;
use nyala_core::{ColumnType, Result, TimeRange};
use std::ops::Range;

/// Buffers used again from part to part.
#[derive(Default)]
pub(super) struct EncodedScratch {
    edges: Vec<i64>,
    bounds: Vec<u32>,
    sums: Vec<i128>,
    extremes: Vec<(i64, i64)>,
    floats: Vec<f64>,
    matches: Bitmap,
}

/// Times of a part's group.
struct Times<'a> {
    block: IntegerBlock<'a>,
    place: BlockRef,
}

impl Accumulator<'_> {
    /// Adds the rows of a part in a range of times that lies in the windows.
    pub(super) fn add_encoded(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        time: TimeRange,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let group_rows = cursor.group_rows(part)?;
        let time_block = cursor.time_block(part)?;
        let parsed = cursor.rowset.parse(
            &time_block.bytes,
            time_block.entry.block,
            ColumnType::Timestamp,
            group_rows,
        )?;
        let ValuesBlock::Integers(block) = parsed.values else { unreachable!("times are integers") };
        let times = Times { block, place: time_block.entry.block };
        let corrupt = |error: BlockError| cursor.rowset.corrupt_block(times.place, error);
        let rows = match time.covers(part.time()) {
            true => part.rows.clone(),
            false => {
                let start = times
                    .block
                    .lower_bound(part.rows.clone(), time.start_ns)
                    .map_err(|error| corrupt(error.into()))?;
                let end = times
                    .block
                    .lower_bound(part.rows.clone(), time.end_ns)
                    .map_err(|error| corrupt(error.into()))?;
                start..end
            }
        };
        if rows.is_empty() {
            return Ok(());
        }
        let windows = self.window_rows(&times, rows.clone(), scratch).map_err(corrupt)?;
        for measure in 0..self.request.measures.len() {
            match self.sources[measure] {
                Source::Cell(position, column_type) => {
                    let column = Cells { position, column_type, group_rows };
                    self.add_encoded_column(cursor, part, measure, &column, &windows, &times, scratch)?;
                }
                _ if self.function(measure) == AggregateFunction::Count => {
                    for (index, pair) in windows.bounds.windows(2).enumerate() {
                        self.add_count(measure, windows.first + index, u64::from(pair[1] - pair[0]));
                    }
                }
                _ => {
                    let decoded = cursor.times(part, rows.clone())?;
                    let relative = relative(&windows);
                    let column = Column::words(decoded.iter().map(|time| *time as u64).collect());
                    self.add_column(measure, &relative, &column, ColumnType::Timestamp, &decoded);
                }
            }
        }
        scratch.bounds = windows.bounds;
        Ok(())
    }

    /// The windows of rows of a group.
    fn window_rows(
        &self,
        times: &Times<'_>,
        rows: Range<u32>,
        scratch: &mut EncodedScratch,
    ) -> std::result::Result<WindowRows, BlockError> {
        let windows = &self.request.windows;
        let mut bounds = std::mem::take(&mut scratch.bounds);
        bounds.clear();
        if windows.count() == 1 {
            bounds.extend([rows.start, rows.end]);
            return Ok(WindowRows { first: 0, bounds });
        }
        let outside = || BlockError("times are not in order");
        let first = windows.index_of(times.block.value_at(rows.start)?).ok_or_else(outside)?;
        let last = windows.index_of(times.block.value_at(rows.end - 1)?).ok_or_else(outside)?;
        scratch.edges.clear();
        scratch.edges.extend((first + 1..=last).map(|window| windows.range(window).start_ns));
        bounds.push(rows.start);
        times.block.lower_bounds(rows.clone(), &scratch.edges, &mut bounds)?;
        bounds.push(rows.end);
        if last < first || !bounds.is_sorted() {
            return Err(outside());
        }
        Ok(WindowRows { first, bounds })
    }

    #[expect(clippy::too_many_arguments, reason = "one step of a loop, split for its length")]
    fn add_encoded_column(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        measure: usize,
        column: &Cells,
        windows: &WindowRows,
        times: &Times<'_>,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let Some(entry) = cursor.column_entry(part, column.position)? else { return Ok(()) };
        let function = self.function(measure);
        let whole =
            windows.bounds.len() == 2 && windows.bounds[0] == 0 && windows.bounds[1] == column.group_rows;
        match function {
            AggregateFunction::Count if whole => {
                self.add_count(measure, windows.first, entry.values.into());
                return Ok(());
            }
            AggregateFunction::Count if entry.values == column.group_rows => {
                for (index, pair) in windows.bounds.windows(2).enumerate() {
                    self.add_count(measure, windows.first + index, u64::from(pair[1] - pair[0]));
                }
                return Ok(());
            }
            AggregateFunction::Sum if whole && column.column_type != ColumnType::Float64 => {
                self.add_sum(measure, windows.first, entry.sum, entry.values.into());
                return Ok(());
            }
            _ => {}
        }
        let Some(loaded) = cursor.column_block(part, column.position)? else { return Ok(()) };
        let place = loaded.entry.block;
        let block = cursor.rowset.parse(&loaded.bytes, place, column.column_type, column.group_rows)?;
        let corrupt = |error: BlockError| cursor.rowset.corrupt_block(place, error);
        // Windows in values instead of rows.
        let mut dense = Vec::new();
        let values = match &block.states {
            None => windows.bounds.as_slice(),
            Some(states) => {
                states.rank_bounds(&windows.bounds, &mut dense);
                dense.as_slice()
            }
        };
        let counts = values.windows(2).map(|pair| u64::from(pair[1] - pair[0]));
        match (function, &block.values) {
            (AggregateFunction::Count, _) => {
                for (index, count) in counts.enumerate() {
                    self.add_count(measure, windows.first + index, count);
                }
            }
            (AggregateFunction::Sum, ValuesBlock::Integers(integers) | ValuesBlock::Unsigned(integers)) => {
                scratch.sums.clear();
                scratch.sums.resize(values.len() - 1, 0);
                integers.sum_windows(values, &mut scratch.sums).map_err(|error| corrupt(error.into()))?;
                let unsigned = matches!(block.values, ValuesBlock::Unsigned(_));
                for (index, (sum, count)) in scratch.sums.iter().zip(counts).enumerate() {
                    // Unsigned numbers are stored less 2⁶³ each.
                    let sum = if unsigned { *sum + (i128::from(count) << 63) } else { *sum };
                    self.add_sum(measure, windows.first + index, sum, count);
                }
            }
            (AggregateFunction::Sum, ValuesBlock::Floats(floats)) => {
                let (start, end) = (values[0], values[values.len() - 1]);
                scratch.floats.clear();
                floats
                    .decode_range(start..end, &mut scratch.floats)
                    .map_err(|error| corrupt(error.into()))?;
                for (index, pair) in values.windows(2).enumerate() {
                    let slice = &scratch.floats[(pair[0] - start) as usize..(pair[1] - start) as usize];
                    self.add_floats(measure, windows.first + index, slice);
                }
            }
            (AggregateFunction::Min | AggregateFunction::Max, ValuesBlock::Integers(integers)) => {
                let found = Extremes { measure, first: windows.first, values, integers, unsigned: false };
                self.add_extremes(&found, &block, times, scratch).map_err(corrupt)?;
            }
            (AggregateFunction::Min | AggregateFunction::Max, ValuesBlock::Unsigned(integers)) => {
                let found = Extremes { measure, first: windows.first, values, integers, unsigned: true };
                self.add_extremes(&found, &block, times, scratch).map_err(corrupt)?;
            }
            _ => self.add_decoded(&block, measure, column.column_type, windows, times).map_err(corrupt)?,
        }
        Ok(())
    }

    /// Extremes of integers: where one is preferred, its first row is looked up.
    fn add_extremes(
        &mut self,
        found: &Extremes<'_>,
        block: &ColumnBlock<'_>,
        times: &Times<'_>,
        scratch: &mut EncodedScratch,
    ) -> std::result::Result<(), BlockError> {
        let least = self.function(found.measure) == AggregateFunction::Min;
        scratch.extremes.clear();
        scratch.extremes.resize(found.values.len() - 1, (i64::MAX, i64::MIN));
        found.integers.min_max_windows(found.values, &mut scratch.extremes)?;
        for (index, pair) in found.values.windows(2).enumerate() {
            if pair[0] == pair[1] {
                continue;
            }
            let window = found.first + index;
            let (min, max) = scratch.extremes[index];
            let value = if least { min } else { max };
            let candidate = match found.unsigned {
                true => Candidate::UInt(to_unsigned(value)),
                false => Candidate::Int(value),
            };
            // Its time matters only among equals: no time is before the earliest.
            if !self.prefers(found.measure, window, candidate, i64::MIN) {
                continue;
            }
            scratch.matches.clear();
            found.integers.between(pair[0]..pair[1], value, value, &mut scratch.matches)?;
            let Some(first) = scratch.matches.ones().next() else {
                return Err(BlockError("an extreme that no value has"));
            };
            let row = row_of(block, pair[0] + first as u32);
            self.offer(found.measure, window, candidate, times.block.value_at(row)?);
        }
        Ok(())
    }

    /// First and last values, and everything without a kernel of its own.
    fn add_decoded(
        &mut self,
        block: &ColumnBlock<'_>,
        measure: usize,
        column_type: ColumnType,
        windows: &WindowRows,
        times: &Times<'_>,
    ) -> std::result::Result<(), BlockError> {
        let function = self.function(measure);
        let ends = matches!(function, AggregateFunction::First | AggregateFunction::Last);
        for (index, pair) in windows.bounds.windows(2).enumerate() {
            let mut rows = pair[0]..pair[1];
            if ends {
                // One row is enough: the first or last with a value.
                let row = match (&block.states, function) {
                    (None, AggregateFunction::First) => rows.next(),
                    (None, _) => rows.next_back(),
                    (Some(states), first_or_last) => {
                        let valued = states.rank(rows.start)..states.rank(rows.end);
                        let value = match first_or_last {
                            AggregateFunction::First => valued.clone().next(),
                            _ => valued.clone().next_back(),
                        };
                        value.map(|value| row_of(block, value))
                    }
                };
                let Some(row) = row else { continue };
                rows = row..row + 1;
            }
            if rows.is_empty() {
                continue;
            }
            let mut column = Column::new(Kind::of(column_type));
            block.decode(rows.clone(), &mut column)?;
            let mut decoded = Vec::with_capacity(rows.len());
            times.block.decode_range(rows.clone(), &mut decoded)?;
            let window = WindowRows { first: windows.first + index, bounds: vec![0, rows.len() as u32] };
            self.add_column(measure, &window, &column, column_type, &decoded);
        }
        Ok(())
    }
}

/// A column of a part's group.
struct Cells {
    position: usize,
    column_type: ColumnType,
    group_rows: u32,
}

/// Extremes being looked for.
struct Extremes<'a> {
    measure: usize,
    first: usize,
    /// Window bounds in values.
    values: &'a [u32],
    integers: &'a IntegerBlock<'a>,
    unsigned: bool,
}

/// The same windows counted from their first row.
fn relative(windows: &WindowRows) -> WindowRows {
    let start = windows.bounds[0];
    WindowRows { first: windows.first, bounds: windows.bounds.iter().map(|bound| bound - start).collect() }
}

/// The row that has a value, by its number among the values.
fn row_of(block: &ColumnBlock<'_>, value: u32) -> u32 {
    let Some(states) = &block.states else { return value };
    // The last row before which there are as many values.
    let (mut low, mut high) = (value, states.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if states.rank(middle + 1) > value {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
