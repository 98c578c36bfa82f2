//! Scans of series-keyed tables in key order: series ascending, times up or down.

mod block_filter;
mod last_rows;

use super::BATCH_ROWS;
use super::filter::{test, test_empty};
use super::partition::{Newest, PartitionReader, Segment};
use super::scan_buffer::{BATCH_BYTES, ScanBuffer};
use super::scan_spec::ScanSpec;
use crate::files::rowset::series::{Part, WholeGroups};
use crate::memory::version::{PartitionVersion, TableVersion};
use crate::rows::column_buffer::{Column, VALUE};
use crate::rows::key::SeriesKeys;
use crate::rows::merge::{RowBatch, keep_rows};
use crate::rows::tombstone::Tombstone;
use async_trait::async_trait;
use block_filter::BlockFilter;
use last_rows::LastRowRun;
use nyala_core::memory::{Charge, MemoryBudget};
use nyala_core::store::{Batch, Direction, RowStream, SeriesRun, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange, before_long_work};
use std::collections::VecDeque;
use std::sync::Arc;

/// A validated request of a series-keyed table.
#[derive(Clone)]
pub(crate) struct SeriesRequest {
    pub(crate) table: Arc<TableVersion>,
    pub(crate) sequence: u64,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) series: SeriesSet,
    /// Only keys in this range.
    pub(crate) keys: SeriesKeys,
    pub(crate) time: TimeRange,
    pub(crate) spec: Arc<ScanSpec>,
    pub(crate) direction: Direction,
    pub(crate) limit: Option<usize>,
    pub(crate) limit_per_series: Option<usize>,
}

/// Segments looked at before a scan is interrupted.
pub(crate) const STEPS_AT_ONCE: usize = 4096;
/// From so many series on, a scan that reads at least every second one decodes each shared row group only once.
const DENSE_SERIES: usize = 1024;

/// From so many series on their last rows are decoded together.
pub(crate) const MANY_SERIES: usize = 256;

impl SeriesRequest {
    /// Whether the newest row of each series is likely to be the answer.
    fn wants_newest(&self) -> bool {
        self.direction == Direction::Backward
            && self.limit_per_series == Some(1)
            && self.spec.predicates.is_empty()
    }

    fn series_at_least(&self, count: usize) -> bool {
        match &self.series {
            SeriesSet::All => true,
            SeriesSet::Ids(ids) => ids.len() >= count,
        }
    }

    fn is_dense(&self) -> bool {
        if self.limit_per_series.is_some() || self.limit.is_some() {
            return false;
        }
        match &self.series {
            SeriesSet::All => true,
            SeriesSet::Ids(ids) => {
                ids.len() >= DENSE_SERIES && (ids[ids.len() - 1].0 - ids[0].0) as usize / 2 <= ids.len()
            }
        }
    }
}

/// A scan under way.
pub(crate) struct SeriesScan {
    request: SeriesRequest,
    /// In the order they are read.
    partitions: Vec<PartitionSlot>,
    ids: Ids,
    current: Option<Current>,
    rows_left: usize,
    /// Some rows had none of the returned cells, so rows are tested before they are appended.
    has_gaps: bool,
    /// Last rows that lie next to each other in a rowset and will be appended together.
    waiting: Option<LastRowRun>,
    /// The predicates, if encoded blocks can evaluate all of them.
    tests: Option<BlockFilter>,
    /// The charge of the batch that was returned last.
    held: Option<Charge>,
    /// Vectors of the last series, to be reused.
    spare: (Vec<TimeRange>, VecDeque<Segment>),
}

/// A partition whose reader is made when it is needed.
pub(crate) enum PartitionSlot {
    Closed(Arc<PartitionVersion>),
    Open(Box<PartitionReader>),
}

#[derive(Clone, Copy)]
enum Ids {
    /// Position in the list.
    Listed(usize),
    /// The least series not read yet.
    All(Option<u32>),
}

/// The series at hand.
struct Current {
    series: SeriesId,
    /// Where it is in the list of ids, to go back to it.
    found: Ids,
    /// The next partition.
    partition: usize,
    /// Time ranges of the partition before it that were not cut into segments yet, the next one last.
    ranges: Vec<TimeRange>,
    segments: VecDeque<Segment>,
    rows_left: usize,
    /// How many rows are read at once when few are needed: more after each time that they did not suffice.
    rows_at_once: usize,
}

/// Why a scan stopped appending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// There are no more rows.
    All,
    /// The buffer is full.
    Full,
}

/// The most rows of a series for which it pays to look for them step by step.
const FEW_ROWS: usize = 64;

impl SeriesScan {
    pub(crate) fn new(request: SeriesRequest) -> Self {
        let mut partitions: Vec<_> =
            request.table.partitions_in(request.time).cloned().map(PartitionSlot::Closed).collect();
        if request.direction == Direction::Backward {
            partitions.reverse();
        }
        let ids = match &request.series {
            SeriesSet::All => Ids::All(Some(request.keys.start.0)),
            SeriesSet::Ids(_) => Ids::Listed(0),
        };
        let rows_left = request.limit.unwrap_or(usize::MAX);
        let tests = request.spec.block_tests().filter(|tests| !tests.is_empty());
        Self {
            request,
            partitions,
            ids,
            current: None,
            rows_left,
            has_gaps: false,
            waiting: None,
            tests: tests.map(BlockFilter::new),
            held: None,
            spare: Default::default(),
        }
    }

    fn reader(&mut self, partition: usize) -> Result<&mut PartitionReader> {
        let slot = &mut self.partitions[partition];
        if let PartitionSlot::Closed(version) = slot {
            let request = &self.request;
            let tombstones: &[Arc<Tombstone>] = &request.table.tombstones;
            let mut reader = PartitionReader::new(
                version,
                tombstones,
                request.sequence,
                request.time,
                request.spec.projection.clone(),
            )?;
            if request.wants_newest() {
                reader.read_last_rows(request.series_at_least(MANY_SERIES))?;
            }
            if request.is_dense() {
                reader.read_whole_groups(WholeGroups::Shared);
            }
            *slot = PartitionSlot::Open(Box::new(reader));
        }
        match slot {
            PartitionSlot::Open(reader) => Ok(reader),
            PartitionSlot::Closed(_) => unreachable!("was opened"),
        }
    }

    fn next_series(&mut self) -> Result<Option<SeriesId>> {
        match (&mut self.ids, &self.request.series) {
            (Ids::Listed(position), SeriesSet::Ids(ids)) => {
                let series = ids.get(*position).copied();
                *position += 1;
                Ok(series)
            }
            (Ids::All(least), _) => {
                let Some(least) = *least else { return Ok(None) };
                let mut next: Option<u32> = None;
                for partition in 0..self.partitions.len() {
                    let found = self.reader(partition)?.next_series(least)?;
                    next = next.into_iter().chain(found).min();
                }
                let next = next.filter(|next| *next <= self.request.keys.end.0);
                self.ids = Ids::All(next.and_then(|next| next.checked_add(1)));
                Ok(next.map(SeriesId))
            }
            (Ids::Listed(_), SeriesSet::All) => unreachable!("all series are not listed"),
        }
    }

    /// Appends the next rows; false at the end.
    fn step(&mut self, buffer: &mut ScanBuffer) -> Result<bool> {
        if self.rows_left == 0 {
            return Ok(false);
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                let found = self.ids;
                let Some(series) = self.next_series()? else { return Ok(false) };
                let rows_left = self.request.limit_per_series.unwrap_or(usize::MAX);
                let (ranges, segments) = std::mem::take(&mut self.spare);
                Current { series, found, partition: 0, ranges, segments, rows_left, rows_at_once: rows_left }
            }
        };
        while current.segments.is_empty() {
            if current.rows_left == 0 || !self.find_segments(&mut current)? {
                self.end_series(current);
                return Ok(true);
            }
        }
        let backward = self.request.direction == Direction::Backward;
        let segment = if backward { current.segments.pop_back() } else { current.segments.pop_front() };
        let mut segment = segment.expect("was filled");
        if let Segment::Last { cursor, part } = &segment
            && !self.has_gaps
            && current.rows_left == 1
        {
            let last = LastRowRun {
                partition: current.partition - 1,
                cursor: *cursor,
                part: part.clone(),
                first: current.found,
            };
            if self.await_others(last, buffer)? {
                buffer.runs.push(SeriesRun { series: current.series, rows: 1 });
                self.rows_left -= 1;
            }
            self.end_series(current);
            return Ok(true);
        }
        if !self.append_waiting(buffer)? {
            self.end_series(current);
            return Ok(true);
        }
        let rows_max = current.rows_left.min(self.rows_left);
        if rows_max <= FEW_ROWS
            && let Segment::Single { cursor, part, time } = &segment
        {
            let cursor = *cursor;
            let all = self.reader(current.partition - 1)?.cursors[cursor].rows_at(part, *time)?;
            let count = current.rows_at_once.min(all.len()) as u32;
            current.rows_at_once = current.rows_at_once.saturating_mul(4);
            let (rows, rest) = match backward {
                true => (all.end - count..all.end, all.start..all.end - count),
                false => (all.start..all.start + count, all.start + count..all.end),
            };
            let cut =
                |rows| Segment::Single { cursor, part: Part { rows, ..part.clone() }, time: TimeRange::ALL };
            let rest = (!rest.is_empty()).then(|| cut(rest));
            segment = cut(rows);
            match (rest, backward) {
                (Some(rest), true) => current.segments.push_back(rest),
                (Some(rest), false) => current.segments.push_front(rest),
                (None, _) => {}
            }
        }
        let added = match self.append_single(&current, &segment, buffer)? {
            Some(rows) => rows,
            None => {
                let batch = self.read(current.partition - 1, current.series, segment, rows_max)?;
                let rows = batch.rows().min(rows_max);
                buffer.batch.append(&batch, 0..rows);
                rows
            }
        };
        if added > 0 {
            match buffer.runs.last_mut() {
                Some(run) if run.series == current.series => run.rows += added as u32,
                _ => buffer.runs.push(SeriesRun { series: current.series, rows: added as u32 }),
            }
            self.rows_left -= added;
            current.rows_left -= added;
        }
        if current.rows_left > 0 {
            self.current = Some(current);
        } else {
            self.end_series(current);
        }
        Ok(true)
    }

    /// Keeps the lists of a series for the next one.
    fn end_series(&mut self, mut current: Current) {
        current.ranges.clear();
        current.segments.clear();
        self.spare = (current.ranges, current.segments);
    }

    /// Cuts the next range of times into segments; false when there is none left.
    fn find_segments(&mut self, current: &mut Current) -> Result<bool> {
        let few = self.request.direction == Direction::Backward && current.rows_left <= FEW_ROWS;
        let one = self.request.wants_newest() && current.rows_left == 1;
        let Some(mut range) = current.ranges.pop() else {
            if current.partition == self.partitions.len() {
                return Ok(false);
            }
            let within = self.request.keys.times_of(current.series.0);
            let time = within.map_or(TimeRange::new(0, 0), |within| within.intersect(self.request.time));
            if time.is_empty() {
                return Ok(false);
            }
            if few {
                let ranges = self
                    .reader(current.partition)?
                    .newest_first()
                    .iter()
                    .rev()
                    .map(|range| range.intersect(time));
                current.ranges.extend(ranges.filter(|range| !range.is_empty()));
            } else {
                current.ranges.push(time);
            }
            current.partition += 1;
            return Ok(true);
        };
        let reader = self.reader(current.partition - 1)?;
        if one {
            match reader.newest(current.series, range)? {
                Newest::Row(segment, time_ns) => {
                    current.ranges.push(TimeRange::new(range.start_ns, time_ns));
                    current.segments.push_back(segment);
                    return Ok(true);
                }
                Newest::None => return Ok(true),
                Newest::NotKnown => {}
            }
        }
        if few && let Some(from_ns) = reader.newest_rows_from(current.series, range, current.rows_left) {
            if from_ns > range.start_ns {
                current.ranges.push(TimeRange::new(range.start_ns, from_ns));
            }
            range.start_ns = from_ns;
        }
        let uncut = current.ranges.len();
        if !few {
            reader.cut(current.series, range, &mut current.ranges);
        }
        match current.ranges.len() == uncut {
            true => reader.add_segments(current.series, range, &mut current.segments)?,
            // The next one stands last.
            false if self.request.direction == Direction::Forward => current.ranges[uncut..].reverse(),
            false => {}
        }
        Ok(true)
    }

    /// Appends the rows of a segment directly, when nothing has to be decoded for tests and rows need not be reversed.
    /// `None` if that is not the case.
    fn append_single(
        &mut self,
        current: &Current,
        segment: &Segment,
        buffer: &mut ScanBuffer,
    ) -> Result<Option<usize>> {
        let spec = self.request.spec.clone();
        if !matches!(segment, Segment::Single { .. } | Segment::Last { .. } | Segment::Newest { .. }) {
            return Ok(None);
        }
        if self.has_gaps || !spec.predicates.is_empty() && self.tests.is_none() {
            return Ok(None);
        }
        let (backward, rows_left) = (self.request.direction == Direction::Backward, self.rows_left);
        // Taken out because the cursor borrows the scan; it is put back below.
        let mut filter = self.tests.take();
        let reader = self.reader(current.partition - 1)?;
        let before = buffer.batch.rows();
        let appended = if let Segment::Newest { memtable, time_ns } = segment {
            filter.is_none() && reader.append_newest(current.series, (*memtable, *time_ns), &mut buffer.batch)
        } else {
            let Some((cursor, part, time)) = reader.rows_of_one(segment) else { unreachable!("was tested") };
            let rows = cursor.rows_at(part, time)?;
            if rows.len() > current.rows_left.min(rows_left) || backward && rows.len() > 1 {
                false
            } else if let Some(filter) = &mut filter {
                filter.append(cursor, part, rows, &mut buffer.batch)?
            } else {
                cursor.append_batch(part, rows, &mut buffer.batch)?;
                true
            }
        };
        self.tests = filter;
        if !appended {
            return Ok(None);
        }
        let shown = |column: &Column| match &column.validity {
            None => true,
            Some(validity) => validity[before..].iter().all(|state| *state == VALUE),
        };
        if spec.skip_empty_rows && !spec.returned_cells(&buffer.batch.columns).any(shown) {
            buffer.batch.truncate(before);
            self.has_gaps = true;
            return Ok(None);
        }
        Ok(Some(buffer.batch.rows() - before))
    }

    /// The rows of a segment that satisfy the request, in its direction.
    fn read(
        &mut self,
        partition: usize,
        series: SeriesId,
        segment: Segment,
        rows_max: usize,
    ) -> Result<RowBatch<Vec<i64>>> {
        let spec = self.request.spec.clone();
        let backward = self.request.direction == Direction::Backward;
        if let Some(batch) = self.read_overlaid(partition, series, &segment)? {
            return Ok(if backward { reversed(&batch) } else { batch });
        }
        let reader = self.reader(partition)?;
        let kinds = spec.projection.kinds.clone();
        let batch = match reader.rows_of_one(&segment) {
            Some((reader, part, time)) => {
                let mut rows = reader.rows_at(part, time)?;
                if !spec.filters() && rows.len() > rows_max {
                    // Only the end that is needed.
                    let rows_max = rows_max as u32;
                    rows = if backward {
                        rows.end - rows_max..rows.end
                    } else {
                        rows.start..rows.start + rows_max
                    };
                }
                if rows.is_empty() {
                    return Ok(RowBatch::empty(&kinds));
                }
                let keys = reader.times(part, rows.clone())?;
                let mut columns = (0..spec.tested)
                    .map(|column| reader.column(part, column, rows.clone()))
                    .collect::<Result<Vec<_>>>()?;
                let keep = test(&spec, keys.len(), &columns, |key| key_column(key, series, &keys));
                if keep.as_ref().is_some_and(|keep| !keep.contains(&true)) {
                    return Ok(RowBatch::empty(&kinds));
                }
                for column in spec.tested..spec.projection.columns.len() {
                    columns.push(reader.column(part, column, rows.clone())?);
                }
                filtered(&spec, RowBatch { keys, markers: None, columns }, keep)
            }
            None => tested(&spec, series, reader.read(series, segment)?),
        };
        Ok(if backward { reversed(&batch) } else { batch })
    }

    /// The rows of a part with few newer ones above it that satisfy the request, if blocks can evaluate its predicates.
    fn read_overlaid(
        &mut self,
        partition: usize,
        series: SeriesId,
        segment: &Segment,
    ) -> Result<Option<RowBatch<Vec<i64>>>> {
        let Segment::Overlaid { cursor, part, time } = segment else { return Ok(None) };
        // Taken out because the reader borrows the scan.
        let Some(mut filter) = self.tests.take() else { return Ok(None) };
        let spec = self.request.spec.clone();
        let found = self
            .reader(partition)
            .and_then(|reader| filter.read_overlaid(reader, series, (*cursor, part, *time), &spec));
        self.tests = Some(filter);
        found
    }

    /// Gathers the next rows, until there are `rows_max` of them, or `bytes_max` bytes, about.
    pub(crate) async fn gather(
        &mut self,
        buffer: &mut ScanBuffer,
        rows_max: usize,
        bytes_max: u64,
    ) -> Result<Amount> {
        let mut steps = 0;
        loop {
            let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.part.rows.len());
            let is_full = buffer.batch.rows() + waiting >= rows_max || buffer.hold()? >= bytes_max;
            if is_full || !self.step(buffer)? {
                if self.append_waiting(buffer)? {
                    return Ok(if is_full { Amount::Full } else { Amount::All });
                }
                continue;
            }
            steps += 1;
            // The caller may cancel a scan that finds little.
            if steps % STEPS_AT_ONCE == 0 {
                before_long_work().await;
            }
        }
    }
}

/// The rows in the opposite order.
fn reversed(batch: &RowBatch<Vec<i64>>) -> RowBatch<Vec<i64>> {
    RowBatch {
        keys: batch.keys.iter().rev().copied().collect(),
        markers: None,
        columns: batch.columns.iter().map(Column::reversed).collect(),
    }
}

/// Those rows of a series that satisfy the request.
fn tested(spec: &ScanSpec, series: SeriesId, batch: RowBatch<Vec<i64>>) -> RowBatch<Vec<i64>> {
    let keep = test(spec, batch.rows(), &batch.columns, |key| key_column(key, series, &batch.keys));
    filtered(spec, batch, keep)
}

fn filtered(
    spec: &ScanSpec,
    mut batch: RowBatch<Vec<i64>>,
    mut keep: Option<Vec<bool>>,
) -> RowBatch<Vec<i64>> {
    batch.markers = None;
    test_empty(spec, batch.rows(), &batch.columns, &mut keep);
    match keep {
        None => batch,
        Some(keep) => keep_rows(&batch, |row| keep[row], &spec.projection.kinds),
    }
}

pub(crate) fn key_column(position: usize, series: SeriesId, times: &[i64]) -> Column {
    if position == 0 {
        Column::words(vec![series.0.into(); times.len()])
    } else {
        Column::words(times.iter().map(|time| *time as u64).collect())
    }
}

#[async_trait]
impl RowStream for SeriesScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        self.held = None;
        let mut buffer = ScanBuffer::new(&self.request.spec.projection.kinds, &self.request.budget);
        self.gather(&mut buffer, BATCH_ROWS, BATCH_BYTES).await?;
        let (batch, held) = buffer.into_batch(&self.request.spec)?;
        self.held = Some(held);
        Ok(batch)
    }
}
