//! Decodes the rows of a part: times, cells and markers, alone or out of the decoded group.

use super::block::BlockError;
use super::series::{Part, RowsetCursor, TIME_SOURCE};
use crate::rows::column_buffer::{ABSENT, Column, Kind, Values};
use crate::rows::merge::{DELETED, RowBatch, UPSERTED};
use nyala_core::{Result, TimeRange};
use std::ops::Range;

impl RowsetCursor {
    /// The time of a part of one row.
    pub(crate) fn time_of(&mut self, part: &Part) -> Result<i64> {
        if self.reads_whole(part)? {
            return Ok(self.whole_times(part, part.rows.clone())?[0] as i64);
        }
        Ok(self.times(part, part.rows.clone())?[0])
    }

    /// The rows of a part at these times.
    pub(crate) fn rows_at(&mut self, part: &Part, time: TimeRange) -> Result<Range<u32>> {
        if time.covers(part.time()) {
            return Ok(part.rows.clone());
        }
        if self.reads_whole(part)? {
            let first = part.rows.start;
            let times = self.whole_times(part, part.rows.clone())?;
            let bound = |value| first + times.partition_point(|time| (*time as i64) < value) as u32;
            return Ok(bound(time.start_ns)..bound(time.end_ns));
        }
        let loaded = self.time_block(part)?;
        let bound =
            |value| loaded.integers()?.lower_bound(part.rows.clone(), value).map_err(BlockError::from);
        let bounds = || Ok((bound(time.start_ns)?, bound(time.end_ns)?));
        let (start, end) = bounds().map_err(|error| self.rowset.corrupt_block(loaded.place, error))?;
        Ok(start..end.max(start))
    }

    /// Where the rows at these ascending times are in a part's group: one row for each, or none.
    pub(crate) fn places_of(&mut self, part: &Part, times_ns: &[i64]) -> Result<Vec<Range<u32>>> {
        let loaded = self.time_block(part)?;
        let edges: Vec<i64> = times_ns.iter().flat_map(|time| [*time, time.saturating_add(1)]).collect();
        let mut bounds = Vec::with_capacity(edges.len());
        let found = loaded.integers().and_then(|block| {
            block.lower_bounds(part.rows.clone(), &edges, &mut bounds)?;
            let rise = bounds.is_sorted() && bounds.len() == edges.len();
            if rise { Ok(()) } else { Err(BlockError("times are not in order")) }
        });
        found.map_err(|error| self.rowset.corrupt_block(loaded.place, error))?;
        Ok(bounds.chunks_exact(2).map(|bound| bound[0]..bound[1]).collect())
    }

    /// The first and last time of a part.
    pub(crate) fn time_ends(&mut self, part: &Part) -> Result<(i64, i64)> {
        let loaded = self.time_block(part)?;
        let ends = || loaded.integers()?.ends(part.rows.clone()).map_err(BlockError::from);
        ends().map_err(|error| self.rowset.corrupt_block(loaded.place, error))
    }

    /// The times of rows of a part's group.
    pub(crate) fn times(&mut self, part: &Part, rows: Range<u32>) -> Result<Vec<i64>> {
        let column = self.decode(part, TIME_SOURCE, rows)?;
        match column.values {
            Values::Word(words) => Ok(words.into_iter().map(|word| word as i64).collect()),
            _ => unreachable!("times are words"),
        }
    }

    /// Cells of a projected column of rows of a part's group.
    pub(crate) fn column(&mut self, part: &Part, column: usize, rows: Range<u32>) -> Result<Column> {
        self.decode(part, column + 1, rows)
    }

    /// The rows of a part that are deletes; `None` if no row hides older ones.
    pub(crate) fn deletes(&mut self, part: &Part) -> Result<Option<Vec<u32>>> {
        let Some(markers) = self.markers(part, part.rows.clone())? else { return Ok(None) };
        if markers.iter().all(|marker| *marker == UPSERTED) {
            return Ok(None);
        }
        let rows = part.rows.clone().zip(markers);
        Ok(Some(rows.filter(|(_, marker)| *marker == DELETED).map(|(row, _)| row).collect()))
    }

    /// Markers of rows of a part's group.
    pub(crate) fn markers(&mut self, part: &Part, rows: Range<u32>) -> Result<Option<Vec<u8>>> {
        if !self.has_markers(part)? {
            return Ok(None);
        }
        let source = self.sources.len() - 1;
        match self.decode(part, source, rows)?.values {
            Values::Word(words) => Ok(Some(words.into_iter().map(|word| word as u8).collect())),
            _ => unreachable!("markers are words"),
        }
    }

    /// The column of the whole group of a part.
    fn whole_column(&mut self, part: &Part, source: usize) -> Result<&Column> {
        let rows = self.group_rows(part)?;
        if self.decoded[source].is_none() {
            let mut column = Column::new(Kind::of(self.sources[source].column_type));
            self.append_decoded(part, source, 0..rows, &mut column)?;
            self.decoded[source] = Some(column);
        }
        Ok(self.decoded[source].as_ref().expect("was decoded"))
    }

    /// Times of rows of a part's group, out of those of the whole group.
    fn whole_times(&mut self, part: &Part, rows: Range<u32>) -> Result<&[u64]> {
        match &self.whole_column(part, TIME_SOURCE)?.values {
            Values::Word(times) => Ok(&times[rows.start as usize..rows.end as usize]),
            _ => unreachable!("times are words"),
        }
    }

    fn decode(&mut self, part: &Part, source: usize, rows: Range<u32>) -> Result<Column> {
        let mut column = Column::new(Kind::of(self.sources[source].column_type));
        self.append(part, source, rows, &mut column)?;
        Ok(column)
    }

    fn append(&mut self, part: &Part, source: usize, rows: Range<u32>, column: &mut Column) -> Result<()> {
        if self.reads_whole(part)? && rows != (0..self.group_rows(part)?) {
            column.extend(self.whole_column(part, source)?, rows.start as usize..rows.end as usize);
            return Ok(());
        }
        self.append_decoded(part, source, rows, column)
    }

    fn append_decoded(
        &mut self,
        part: &Part,
        source: usize,
        rows: Range<u32>,
        column: &mut Column,
    ) -> Result<()> {
        let Some(loaded) = self.load(part, source)? else {
            column.push_state(ABSENT, rows.len());
            return Ok(());
        };
        let decoded = loaded.parse().and_then(|block| block.decode(rows, column));
        let place = loaded.place;
        decoded.map_err(|error| self.rowset.corrupt_block(place, error))
    }

    /// Appends all projected cells of rows of a part's group, which has no markers, to a batch.
    pub(crate) fn append_batch(
        &mut self,
        part: &Part,
        rows: Range<u32>,
        batch: &mut RowBatch<Vec<i64>>,
    ) -> Result<()> {
        if self.reads_whole(part)? {
            let times = self.whole_times(part, rows.clone())?;
            batch.keys.extend(times.iter().map(|time| *time as i64));
        } else {
            let loaded = self.time_block(part)?;
            let decoded = loaded.integers().and_then(|block| {
                block.decode_range(rows.clone(), &mut batch.keys).map_err(BlockError::from)
            });
            decoded.map_err(|error| self.rowset.corrupt_block(loaded.place, error))?;
        }
        for (column, cells) in batch.columns.iter_mut().enumerate() {
            self.append(part, column + 1, rows.clone(), cells)?;
        }
        Ok(())
    }

    /// All projected cells of rows of a part's group.
    pub(crate) fn batch(&mut self, part: &Part, rows: Range<u32>) -> Result<RowBatch<Vec<i64>>> {
        if rows.is_empty() {
            return Ok(RowBatch::empty(&self.projection.kinds));
        }
        let keys = self.times(part, rows.clone())?;
        let markers = self.markers(part, rows.clone())?;
        let columns = (0..self.projection.columns.len())
            .map(|column| self.column(part, column, rows.clone()))
            .collect::<Result<_>>()?;
        Ok(RowBatch { keys, markers, columns })
    }
}
