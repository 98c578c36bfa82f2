//! Aggregates of parts with few newer rows above them: encoded blocks answer for the rows between the changed ones.
//!
//! Windows are cut at the changed rows, for each column at those that change it; the kernels compute a partial result per
//! cut, and the newer values stand for the rows that they replace. What has no kernel is merged first.

use super::accumulator::Accumulator;
use super::encoded::{BlockResult, EncodedScratch, PartWindows, is_integer, widths};
use super::{MeasureSource, WindowRows};
use crate::files::rowset::block::{ColumnBlock, ValuesBlock};
use crate::files::rowset::series::{Part, RowsetCursor};
use crate::reading::scan::partition::PartitionReader;
use crate::reading::scan::partition::overlapping::OVERLAID_ROWS;
use crate::rows::column_buffer::{ABSENT, Column, Kind, VALUE, Values};
use crate::rows::merge::{DELETED, Deletes, RowBatch, UPSERTED, finish, merge};
use nyala_column::from_unsigned;
use nyala_core::store::AggregateFunction;
use nyala_core::{ColumnType, Result, TimeRange};
use std::ops::Range;

/// Newer rows above those of a part.
struct Overlay<'a> {
    newer: &'a RowBatch<Vec<i64>>,
    /// Which row of the part's group each of them has the time of, if any.
    places: Vec<Range<u32>>,
    /// The window of each, counted from that of the part's first row.
    windows: Vec<usize>,
}

/// Rows of a part, cut where newer ones change them: slot `i` has the rows from `bounds[i]` to `bounds[i + 1]`.
#[derive(Default)]
struct SplitRows {
    bounds: Vec<u32>,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
enum Slot {
    /// Rows of a window that nothing changes.
    Kept(usize),
    /// The row that a newer one replaces, or none.
    Newer(usize),
}

impl Overlay<'_> {
    /// SplitRows the windows at those newer rows that change something.
    fn cut(&self, windows: &PartWindows<'_>, changes: impl Fn(usize) -> bool) -> SplitRows {
        let mut split = SplitRows::default();
        let mut newer = (0..self.newer.rows()).filter(|row| changes(*row)).peekable();
        split.bounds.push(windows.bounds[0]);
        for window in 0..windows.count() {
            while let Some(row) = newer.next_if(|row| self.windows[*row] == window) {
                split.slots.extend([Slot::Kept(window), Slot::Newer(row)]);
                split.bounds.extend([self.places[row].start, self.places[row].end]);
            }
            split.slots.push(Slot::Kept(window));
            split.bounds.push(windows.bounds[window + 1]);
        }
        split
    }

    /// Whether a newer row says what the cell of a column is.
    fn changes_cell(&self, row: usize, column: usize) -> bool {
        self.newer.marker(row) != UPSERTED || self.newer.columns[column].state(row) != ABSENT
    }

    /// The word of a newer cell that has a value.
    fn word(&self, row: usize, column: usize) -> Option<u64> {
        let column = &self.newer.columns[column];
        match &column.values {
            Values::Word(words) if column.state(row) == VALUE => Some(words[row]),
            _ => None,
        }
    }
}

impl Accumulator<'_> {
    /// Adds the rows of a part in a range of times, with those of newer sources. False, and nothing is added, if there
    /// are more newer rows than was expected.
    pub(super) fn add_overlaid(
        &mut self,
        reader: &mut PartitionReader,
        (cursor, part, time): (usize, &Part, TimeRange),
        scratch: &mut EncodedScratch,
    ) -> Result<bool> {
        let inside = time.intersect(part.time());
        let newer = reader.changes(self.series, (cursor, part, time))?;
        let is_inside = newer.keys.iter().all(|time_ns| inside.contains(*time_ns));
        if newer.rows() * OVERLAID_ROWS / 2 > part.rows.len() || !is_inside {
            return Ok(false);
        }
        let cursor = &mut reader.cursors[cursor];
        if newer.rows() == 0 {
            self.add_encoded(cursor, part, time, scratch)?;
            return Ok(true);
        }
        if self.prunes && self.is_beaten(cursor, part, self.windows_in(inside))? {
            // What the newer rows leave to the older ones cannot replace an extreme.
            self.add_rows(&finish(newer, &reader.projection.kinds));
            return Ok(true);
        }
        let mut bounds = std::mem::take(&mut scratch.bounds);
        let added = self.add_with_newer(cursor, (part, inside), &newer, &mut bounds, scratch);
        scratch.bounds = bounds;
        added.map(|()| true)
    }

    fn add_with_newer(
        &mut self,
        cursor: &mut RowsetCursor,
        (part, inside): (&Part, TimeRange),
        newer: &RowBatch<Vec<i64>>,
        bounds: &mut Vec<u32>,
        scratch: &mut EncodedScratch,
    ) -> Result<()> {
        let those = self.windows_in(inside);
        let first = those.start;
        self.find_bounds(cursor, part, inside, those, (bounds, scratch))?;
        let window = |time_ns: &i64| match self.request.windows.count() {
            1 => 0,
            _ => self.request.windows.index_of(*time_ns).expect("the range lies in the windows") - first,
        };
        let windows = newer.keys.iter().map(window).collect();
        let overlay = Overlay { newer, places: cursor.places_of(part, &newer.keys)?, windows };
        let windows = PartWindows { first, bounds, group_rows: cursor.group_rows(part)? };
        for measure in 0..self.sources.len() {
            let (source, function) = (self.sources[measure], self.function(measure));
            match source {
                MeasureSource::Cell(position, column_type) => {
                    let column = (position, column_type);
                    if !(0..newer.rows()).any(|row| overlay.changes_cell(row, position)) {
                        self.add_encoded_column(cursor, part, measure, column, &windows, scratch)?;
                    } else if !self.add_cut_column(
                        cursor,
                        part,
                        measure,
                        column,
                        (&windows, &overlay),
                        scratch,
                    )? {
                        self.add_merged_column(cursor, part, measure, column, (&windows, newer))?;
                    }
                }
                _ if function == AggregateFunction::Count => {
                    let is_new = |row: usize| overlay.places[row].is_empty();
                    let split = overlay.cut(&windows, |row| is_new(row) || newer.marker(row) == DELETED);
                    for (slot, width) in split.slots.iter().zip(widths(&split.bounds)) {
                        match *slot {
                            Slot::Kept(window) => self.add_count(measure, first + window, width),
                            Slot::Newer(row) if newer.marker(row) == DELETED => {}
                            Slot::Newer(row) => self.add_count(measure, first + overlay.windows[row], 1),
                        }
                    }
                }
                source => {
                    let older = cursor.times(part, windows.rows())?;
                    let merged = merged_cells((older, None), newer, None);
                    if merged.rows() > 0 {
                        let rows = self.windows_of(&merged.keys);
                        self.add_keys(measure, source, &rows, &merged.keys);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a column by kernels; false if there is none for it.
    fn add_cut_column(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        measure: usize,
        (position, column_type): (usize, ColumnType),
        (windows, overlay): (&PartWindows<'_>, &Overlay<'_>),
        scratch: &mut EncodedScratch,
    ) -> Result<bool> {
        let has_kernel = match self.function(measure) {
            AggregateFunction::Count => true,
            AggregateFunction::Sum => is_integer(column_type) || column_type == ColumnType::Float64,
            AggregateFunction::Min | AggregateFunction::Max => !self.request.times && is_integer(column_type),
            _ => false,
        };
        let Some(entry) = cursor.column_entry(part, position)?.filter(|_| has_kernel) else {
            return Ok(false);
        };
        let split = overlay.cut(windows, |row| overlay.changes_cell(row, position));
        let those = windows.first..windows.first + windows.count();
        let cut = CutColumn { measure, position, windows: those, split, overlay };
        if self.function(measure) == AggregateFunction::Count && entry.values == windows.group_rows {
            self.add_cut_counts(&cut, &cut.split.bounds);
            return Ok(true);
        }
        let Some(loaded) = cursor.column_block(part, position)? else { return Ok(false) };
        let place = loaded.place;
        let mut add = || self.add_cut_block(&cut, &loaded.parse()?, scratch);
        let added = add();
        added.map_err(|error| cursor.rowset.corrupt_block(place, error))?;
        cursor.fetch_ahead(part, position, windows.rows(), windows.group_rows);
        Ok(true)
    }

    fn add_cut_block(
        &mut self,
        cut: &CutColumn<'_>,
        block: &ColumnBlock<'_>,
        scratch: &mut EncodedScratch,
    ) -> BlockResult<()> {
        let mut dense = std::mem::take(&mut scratch.dense);
        dense.clear();
        // SplitRows in values instead of rows.
        let values = match &block.validity {
            None => cut.split.bounds.as_slice(),
            Some(validity) => {
                validity.rank_bounds(&cut.split.bounds, &mut dense);
                dense.as_slice()
            }
        };
        let slots = || cut.split.slots.iter().zip(values.windows(2));
        let unsigned = matches!(block.values, ValuesBlock::Unsigned(_));
        match (self.function(cut.measure), &block.values) {
            (AggregateFunction::Count, _) => self.add_cut_counts(cut, values),
            (AggregateFunction::Sum, ValuesBlock::Integers(integers) | ValuesBlock::Unsigned(integers)) => {
                let mut sums = vec![0; cut.split.slots.len()];
                integers.sum_windows(values, &mut sums)?;
                for ((slot, pair), sum) in slots().zip(sums) {
                    let count = pair[1] - pair[0];
                    // Unsigned numbers are stored minus 2⁶³.
                    let offset = if unsigned { i128::from(count) << 63 } else { 0 };
                    match *slot {
                        Slot::Kept(window) => {
                            self.add_sum(cut.measure, cut.windows.start + window, sum + offset, count.into());
                        }
                        Slot::Newer(row) => {
                            let Some(word) = cut.word(row) else { continue };
                            let value = if unsigned { word.into() } else { i128::from(word as i64) };
                            self.add_sum(cut.measure, cut.window(row), value, 1);
                        }
                    }
                }
            }
            (AggregateFunction::Sum, ValuesBlock::Floats(floats)) => {
                let start = values[0];
                scratch.floats.clear();
                floats.decode_range(start..values[values.len() - 1], &mut scratch.floats)?;
                for (slot, pair) in slots() {
                    match *slot {
                        Slot::Kept(window) => {
                            let kept =
                                &scratch.floats[(pair[0] - start) as usize..(pair[1] - start) as usize];
                            self.add_floats(cut.measure, cut.windows.start + window, kept);
                        }
                        Slot::Newer(row) => {
                            let value = cut.word(row).map(f64::from_bits);
                            self.add_floats(cut.measure, cut.window(row), value.as_slice());
                        }
                    }
                }
            }
            (_, ValuesBlock::Integers(integers) | ValuesBlock::Unsigned(integers)) => {
                let so_far = &mut scratch.extremes;
                self.extremes_so_far(cut.measure, cut.windows.clone(), so_far);
                // Nothing can widen what is not wanted.
                let start = |slot: &Slot| match *slot {
                    Slot::Kept(window) => so_far[window],
                    Slot::Newer(_) => (i64::MIN, i64::MAX),
                };
                let mut extremes: Vec<_> = cut.split.slots.iter().map(start).collect();
                integers.min_max_windows(values, &mut extremes)?;
                for ((slot, pair), found) in slots().zip(extremes) {
                    match *slot {
                        Slot::Kept(window) => {
                            self.add_extremes(
                                cut.measure,
                                cut.windows.start + window,
                                pair,
                                &[found],
                                unsigned,
                            );
                        }
                        Slot::Newer(row) => {
                            let Some(word) = cut.word(row) else { continue };
                            let value = if unsigned { from_unsigned(word) } else { word as i64 };
                            let window = cut.window(row);
                            self.add_extremes(cut.measure, window, &[0, 1], &[(value, value)], unsigned);
                        }
                    }
                }
            }
            _ => unreachable!("only columns with kernels are cut"),
        }
        scratch.dense = dense;
        Ok(())
    }

    /// Counts the values of a column; `values` are the bounds of its split in values.
    fn add_cut_counts(&mut self, cut: &CutColumn<'_>, values: &[u32]) {
        for (slot, width) in cut.split.slots.iter().zip(widths(values)) {
            match *slot {
                Slot::Kept(window) => self.add_count(cut.measure, cut.windows.start + window, width),
                Slot::Newer(row) if cut.has_value(row) => self.add_count(cut.measure, cut.window(row), 1),
                Slot::Newer(_) => {}
            }
        }
    }

    /// Adds a column of the part and of newer rows, merged.
    fn add_merged_column(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        measure: usize,
        (position, column_type): (usize, ColumnType),
        (windows, newer): (&PartWindows<'_>, &RowBatch<Vec<i64>>),
    ) -> Result<()> {
        let times = cursor.times(part, windows.rows())?;
        let column = cursor.column(part, position, windows.rows())?;
        let merged = merged_cells((times, Some((Kind::of(column_type), column))), newer, Some(position));
        if merged.rows() > 0 {
            let rows: WindowRows = self.windows_of(&merged.keys);
            self.add_column(measure, &rows, &merged.columns[0], column_type, &merged.keys);
        }
        Ok(())
    }
}

/// A column of a part, cut for a measure.
struct CutColumn<'a> {
    measure: usize,
    position: usize,
    /// The windows that the part has rows in.
    windows: Range<usize>,
    split: SplitRows,
    overlay: &'a Overlay<'a>,
}

impl CutColumn<'_> {
    fn window(&self, row: usize) -> usize {
        self.windows.start + self.overlay.windows[row]
    }

    fn word(&self, row: usize) -> Option<u64> {
        self.overlay.word(row, self.position)
    }

    fn has_value(&self, row: usize) -> bool {
        self.overlay.newer.columns[self.position].state(row) == VALUE
    }
}

/// The rows of a part and newer ones, with one column or none.
fn merged_cells(
    (times, column): (Vec<i64>, Option<(Kind, Column)>),
    newer: &RowBatch<Vec<i64>>,
    position: Option<usize>,
) -> RowBatch<Vec<i64>> {
    let (kinds, columns) = column.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let older = RowBatch { keys: times, markers: None, columns };
    let newer = RowBatch {
        keys: newer.keys.clone(),
        markers: newer.markers.clone(),
        columns: position.iter().map(|position| newer.columns[*position].clone()).collect(),
    };
    merge(vec![older, newer], &kinds, Deletes::Drop)
}
