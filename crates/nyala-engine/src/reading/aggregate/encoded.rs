//! Aggregates of encoded blocks: computed from index, directory and fused kernels, without decoding rows.

use super::accumulator::{Accumulator, SelectedValue};
use super::{MeasureSource, WindowRows};
use crate::files::rowset::block::{BlockError, ColumnBlock, ValuesBlock};
use crate::files::rowset::loaded::LoadedBlock;
use crate::files::rowset::series::{Part, RowsetCursor};
use crate::rows::column_buffer::{Column, Kind};
use nyala_column::{Bitmap, IntegerBlock, to_unsigned};
use nyala_core::store::AggregateFunction;
use nyala_core::{ColumnType, Result, TimeRange};
use std::collections::VecDeque;
use std::ops::Range;

/// Buffers used again from part to part.
#[derive(Default)]
pub(super) struct EncodedScratch {
    edges: Vec<i64>,
    pub(super) bounds: Vec<u32>,
    pub(super) dense: Vec<u32>,
    pub(super) extremes: Vec<(i64, i64)>,
    pub(super) floats: Vec<f64>,
    matches: Bitmap,
    known: VecDeque<KnownBounds>,
}

/// Row groups whose window bounds are remembered: as many as a series usually has one after the other.
const KNOWN_MAX: usize = 4;

/// Window bounds that were looked up lately: many series have rows at the same times.
struct KnownBounds {
    times: LoadedBlock,
    rows: Range<u32>,
    inside: TimeRange,
    bounds: Vec<u32>,
}

/// A part's rows in windows.
pub(super) struct PartWindows<'a> {
    pub(super) first: usize,
    /// Window `first + i` has the group's rows from `bounds[i]` to `bounds[i + 1]`.
    pub(super) bounds: &'a [u32],
    pub(super) group_rows: u32,
}

impl PartWindows<'_> {
    pub(super) fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn rows(&self) -> Range<u32> {
        self.bounds[0]..self.bounds[self.count()]
    }

    /// Whether all rows of the group are in one window.
    fn is_whole_group(&self) -> bool {
        matches!(self.bounds, [0, end] if *end == self.group_rows)
    }
}

/// Rows from bound to bound.
pub(super) fn widths(bounds: &[u32]) -> impl Iterator<Item = u64> + '_ {
    bounds.windows(2).map(|pair| u64::from(pair[1] - pair[0]))
}

pub(super) type BlockResult<T> = std::result::Result<T, BlockError>;

impl Accumulator<'_> {
    /// Adds the rows of a part in a range of times that lies in the windows.
    pub(super) fn add_encoded(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        time: TimeRange,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let inside = time.intersect(part.time());
        if inside.is_empty() {
            return Ok(());
        }
        let mut bounds = std::mem::take(&mut scratch.bounds);
        let added = self.add_windows(cursor, part, inside, &mut bounds, scratch);
        scratch.bounds = bounds;
        added
    }

    /// The windows of a range of times that lies in them.
    pub(super) fn windows_in(&self, inside: TimeRange) -> Range<usize> {
        let windows = &self.request.windows;
        let index = |time_ns| windows.index_of(time_ns).expect("the range lies in the windows");
        match windows.count() {
            1 => 0..1,
            _ => index(inside.start_ns)..index(inside.end_ns - 1) + 1,
        }
    }

    fn add_windows(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        inside: TimeRange,
        bounds: &mut Vec<u32>,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let those = self.windows_in(inside);
        let first = those.start;
        if self.prunes && self.is_beaten(cursor, part, those.clone())? {
            return Ok(());
        }
        // With many series, the next one is prefetched while one is read.
        let cells = self.sources.iter().filter_map(|source| source.cell());
        if !cursor.reads_ahead() {
            cursor.prefetch_blocks(part, cells.clone())?;
        }
        self.find_bounds(cursor, part, inside, those, (bounds, scratch))?;
        if bounds.first() == bounds.last() {
            return Ok(());
        }
        let windows = PartWindows { first, bounds, group_rows: cursor.group_rows(part)? };
        if !cursor.reads_ahead() {
            cursor.prefetch_columns(part, cells, windows.rows())?;
        }
        for measure in 0..self.sources.len() {
            match self.sources[measure] {
                MeasureSource::Cell(position, column_type) => {
                    self.add_encoded_column(
                        cursor,
                        part,
                        measure,
                        (position, column_type),
                        &windows,
                        scratch,
                    )?;
                }
                _ if self.function(measure) == AggregateFunction::Count => {
                    self.add_counts(measure, first, widths(bounds));
                }
                MeasureSource::Series if self.function(measure) != AggregateFunction::Sum => {
                    self.add_times(cursor, part, measure, &windows, |series, times| {
                        (Column::words(vec![series.into(); times.len()]), ColumnType::UInt32)
                    })?;
                }
                _ => self.add_times(cursor, part, measure, &windows, |_, times| {
                    (Column::words(times.iter().map(|time| *time as u64).collect()), ColumnType::Timestamp)
                })?,
            }
        }
        Ok(())
    }

    /// Sets `bounds` to where windows begin and end among the rows of a part that are in a range of times.
    pub(super) fn find_bounds(
        &self,
        cursor: &mut RowsetCursor,
        part: &Part,
        inside: TimeRange,
        those: Range<usize>,
        (bounds, scratch): (&mut Vec<u32>, &mut EncodedScratch),
    ) -> Result<()> {
        bounds.clear();
        if those.len() == 1 && inside.covers(part.time()) {
            bounds.extend([part.rows.start, part.rows.end]);
        } else {
            let times = cursor.time_block(part)?;
            let same = |known: &&KnownBounds| {
                (&known.rows, known.inside) == (&part.rows, inside) && known.times.is_same(&times)
            };
            if let Some(known) = scratch.known.iter().find(same) {
                bounds.extend_from_slice(&known.bounds);
            } else {
                scratch.edges.clear();
                scratch.edges.push(inside.start_ns);
                self.request.windows.push_starts(those.start + 1..those.end, &mut scratch.edges);
                scratch.edges.push(inside.end_ns);
                let found = times.integers().and_then(|times| {
                    times.lower_bounds(part.rows.clone(), &scratch.edges, bounds)?;
                    let rise = bounds.is_sorted() && bounds.len() == scratch.edges.len();
                    if rise { Ok(()) } else { Err(BlockError("times are not in order")) }
                });
                found.map_err(|error| cursor.rowset.corrupt_block(times.place, error))?;
                let last = if scratch.known.len() < KNOWN_MAX { None } else { scratch.known.pop_back() };
                let mut known = last.map_or(Vec::new(), |last| last.bounds);
                known.clone_from(bounds);
                let known = KnownBounds { times, rows: part.rows.clone(), inside, bounds: known };
                scratch.known.push_front(known);
            }
        }
        Ok(())
    }

    /// Whether the index says that no value of a part's group can replace an extreme in some windows. Few of many
    /// series hold extremes, and the others need not be read.
    pub(super) fn is_beaten(
        &self,
        cursor: &mut RowsetCursor,
        part: &Part,
        windows: Range<usize>,
    ) -> Result<bool> {
        for (measure, source) in self.sources.iter().enumerate() {
            let MeasureSource::Cell(position, column_type) = *source else { return Ok(false) };
            let Some(found) = self.weakest_extreme(measure, windows.clone()) else { return Ok(false) };
            let Some(entry) = cursor.column_entry(part, position)? else { continue };
            let is_known = entry.min <= entry.max && is_integer(column_type);
            let beaten = match self.function(measure) {
                AggregateFunction::Min => entry.min >= found,
                _ => entry.max <= found,
            };
            if !(is_known && beaten) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds what is made of the rows' times.
    fn add_times(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        measure: usize,
        windows: &PartWindows<'_>,
        column: impl Fn(u32, &[i64]) -> (Column, ColumnType),
    ) -> Result<()> {
        let (start, end) = (windows.bounds[0], windows.bounds[windows.count()]);
        let times = cursor.times(part, start..end)?;
        let relative = WindowRows {
            first: windows.first,
            bounds: windows.bounds.iter().map(|bound| bound - start).collect(),
        };
        let (column, column_type) = column(self.series.0, &times);
        self.add_column(measure, &relative, &column, column_type, &times);
        Ok(())
    }

    pub(super) fn add_encoded_column(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        measure: usize,
        (position, column_type): (usize, ColumnType),
        windows: &PartWindows<'_>,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let function = self.function(measure);
        let by_index = match function {
            AggregateFunction::Count => true,
            AggregateFunction::Sum => windows.is_whole_group() && column_type != ColumnType::Float64,
            _ => false,
        };
        if by_index {
            let Some(entry) = cursor.column_entry(part, position)? else { return Ok(()) };
            match function {
                AggregateFunction::Sum => {
                    self.add_sum(measure, windows.first, entry.sum, entry.values.into());
                    return Ok(());
                }
                _ if windows.is_whole_group() => {
                    self.add_count(measure, windows.first, entry.values.into());
                    return Ok(());
                }
                _ if entry.values == windows.group_rows => {
                    self.add_counts(measure, windows.first, widths(windows.bounds));
                    return Ok(());
                }
                _ => {}
            }
        }
        // Times of single rows are looked up only when the answer needs them.
        let times = match function {
            AggregateFunction::Count | AggregateFunction::Sum => None,
            AggregateFunction::Min | AggregateFunction::Max
                if !self.request.times && is_integer(column_type) =>
            {
                None
            }
            _ => Some(cursor.time_block(part)?),
        };
        let Some(loaded) = cursor.column_block(part, position)? else { return Ok(()) };
        let mut add = || {
            let times = times.as_ref().map(|times| times.integers()).transpose()?;
            self.add_block(measure, column_type, &loaded.parse()?, windows, times, scratch)
        };
        let place = loaded.place;
        add().map_err(|error| cursor.rowset.corrupt_block(place, error))?;
        cursor.fetch_ahead(part, position, windows.rows(), windows.group_rows);
        Ok(())
    }

    fn add_block(
        &mut self,
        measure: usize,
        column_type: ColumnType,
        block: &ColumnBlock<'_>,
        windows: &PartWindows<'_>,
        times: Option<IntegerBlock<'_>>,
        scratch: &mut EncodedScratch,
    ) -> BlockResult<()> {
        // Windows in values instead of rows.
        let mut dense = std::mem::take(&mut scratch.dense);
        dense.clear();
        let values = match &block.validity {
            None => windows.bounds,
            Some(validity) => {
                validity.rank_bounds(windows.bounds, &mut dense);
                dense.as_slice()
            }
        };
        let first = windows.first;
        let function = self.function(measure);
        match (function, &block.values) {
            (AggregateFunction::Count, _) => self.add_counts(measure, first, widths(values)),
            (AggregateFunction::Sum, ValuesBlock::Integers(integers)) => {
                let (sums, counts) = self.integer_sums(measure, first, windows.count());
                integers.sum_windows(values, sums)?;
                counts.iter_mut().zip(widths(values)).for_each(|(count, width)| *count += width);
            }
            (AggregateFunction::Sum, ValuesBlock::Unsigned(integers)) => {
                let (sums, counts) = self.integer_sums(measure, first, windows.count());
                integers.sum_windows(values, sums)?;
                for ((sum, count), width) in sums.iter_mut().zip(counts).zip(widths(values)) {
                    // Unsigned numbers are stored minus 2⁶³.
                    *sum += i128::from(width) << 63;
                    *count += width;
                }
            }
            (AggregateFunction::Sum, ValuesBlock::Floats(floats)) => {
                let (start, end) = (values[0], values[values.len() - 1]);
                scratch.floats.clear();
                floats.decode_range(start..end, &mut scratch.floats)?;
                for (index, pair) in values.windows(2).enumerate() {
                    let slice = &scratch.floats[(pair[0] - start) as usize..(pair[1] - start) as usize];
                    self.add_floats(measure, first + index, slice);
                }
            }
            (
                AggregateFunction::Min | AggregateFunction::Max,
                ValuesBlock::Integers(integers) | ValuesBlock::Unsigned(integers),
            ) => {
                if times.is_none() {
                    let those = first..first + windows.count();
                    self.extremes_so_far(measure, those, &mut scratch.extremes);
                } else {
                    scratch.extremes.clear();
                    scratch.extremes.resize(windows.count(), (i64::MAX, i64::MIN));
                }
                integers.min_max_windows(values, &mut scratch.extremes)?;
                let unsigned = matches!(block.values, ValuesBlock::Unsigned(_));
                match times {
                    None => self.add_extremes(measure, first, values, &scratch.extremes, unsigned),
                    Some(times) => {
                        let found = Extremes { measure, first, values, integers, unsigned };
                        self.offer_extremes(&found, block, &times, scratch)?;
                    }
                }
            }
            _ => {
                let times = times.ok_or(BlockError("times are missing"))?;
                self.add_decoded(block, measure, column_type, windows, &times)?;
            }
        }
        scratch.dense = dense;
        Ok(())
    }

    /// Offers extremes of integers: when one is preferred, its first row is looked up.
    fn offer_extremes(
        &mut self,
        found: &Extremes<'_>,
        block: &ColumnBlock<'_>,
        times: &IntegerBlock<'_>,
        scratch: &mut EncodedScratch,
    ) -> BlockResult<()> {
        let least = self.function(found.measure) == AggregateFunction::Min;
        for (index, pair) in found.values.windows(2).enumerate() {
            if pair[0] == pair[1] {
                continue;
            }
            let window = found.first + index;
            let (min, max) = scratch.extremes[index];
            let value = if least { min } else { max };
            let selected_value = match found.unsigned {
                true => SelectedValue::UInt(to_unsigned(value)),
                false => SelectedValue::Int(value),
            };
            // Its time matters only among equal values, so the earliest possible time is assumed here.
            if !self.prefers(found.measure, window, selected_value, i64::MIN) {
                continue;
            }
            scratch.matches.clear();
            found.integers.between(pair[0]..pair[1], value, value, &mut scratch.matches)?;
            let Some(first) = scratch.matches.ones().next() else {
                return Err(BlockError("an extreme that no value has"));
            };
            let row = row_of(block, pair[0] + first as u32);
            self.offer(found.measure, window, selected_value, times.value_at(row)?);
        }
        Ok(())
    }

    /// First and last values, and everything without a kernel of its own.
    fn add_decoded(
        &mut self,
        block: &ColumnBlock<'_>,
        measure: usize,
        column_type: ColumnType,
        windows: &PartWindows<'_>,
        times: &IntegerBlock<'_>,
    ) -> BlockResult<()> {
        let function = self.function(measure);
        if function == AggregateFunction::Increase {
            // Every value counts, so all windows are decoded together.
            let (start, end) = (windows.bounds[0], windows.bounds[windows.count()]);
            let mut column = Column::new(Kind::of(column_type));
            block.decode(start..end, &mut column)?;
            let mut decoded = Vec::with_capacity((end - start) as usize);
            times.decode_range(start..end, &mut decoded)?;
            let bounds = windows.bounds.iter().map(|bound| bound - start).collect();
            self.add_column(
                measure,
                &WindowRows { first: windows.first, bounds },
                &column,
                column_type,
                &decoded,
            );
            return Ok(());
        }
        let ends = matches!(function, AggregateFunction::First | AggregateFunction::Last);
        for (index, pair) in windows.bounds.windows(2).enumerate() {
            let mut rows = pair[0]..pair[1];
            if ends {
                // One row is enough: the first or last with a value.
                let row = match (&block.validity, function) {
                    (None, AggregateFunction::First) => rows.next(),
                    (None, _) => rows.next_back(),
                    (Some(validity), first_or_last) => {
                        let valued = validity.rank(rows.start)..validity.rank(rows.end);
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
            times.decode_range(rows.clone(), &mut decoded)?;
            let window = WindowRows { first: windows.first + index, bounds: vec![0, rows.len() as u32] };
            self.add_column(measure, &window, &column, column_type, &decoded);
        }
        Ok(())
    }
}

pub(super) fn is_integer(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Int64 | ColumnType::UInt64)
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

/// The row that has a value, by its number among the values.
fn row_of(block: &ColumnBlock<'_>, value: u32) -> u32 {
    let Some(validity) = &block.validity else { return value };
    // The last row before which there are as many values.
    let (mut low, mut high) = (value, validity.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if validity.rank(middle + 1) > value {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
