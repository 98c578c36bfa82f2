//! Reads one partition of a series-keyed table, series by series: memtables and rowsets appear as one source.

mod newer_rows;
pub(crate) mod overlapping;
mod split;

use crate::files::rowset::Rowset;
use crate::files::rowset::series::{NotKnown, Part, RowsetCursor, WholeGroups};
use crate::memory::memtable::Memtable;
use crate::memory::memtable::series::SeriesMemtable;
use crate::memory::memtable::shard::newest::CellLocations;
use crate::memory::memtable::unresolved_rows::UnresolvedRows;
use crate::memory::version::PartitionVersion;
use crate::rows::column_buffer::Kind;
use crate::rows::merge::{self, Deletes, RowBatch, keep_rows};
use crate::rows::projection::Projection;
use crate::rows::series_tombstones::SeriesTombstones;
use crate::rows::tombstone::Tombstone;
use newer_rows::{MemtableRows, NewerRows};
use nyala_core::{Result, SeriesId, TimeRange};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most bytes of strings of one column in a group of a rowset, unless one string alone is longer.
const PART_BYTES: u64 = crate::files::rowset::writer::GROUP_STRING_BYTES_MAX as u64;
/// About how many bytes of strings of a memtable are read at once.
const UNRESOLVED_BYTES: u64 = 4 << 20;

/// Sources of a partition, from oldest to newest.
pub(crate) struct PartitionReader {
    pub(crate) cursors: Vec<RowsetCursor>,
    /// Cursors over the last rows of the same rowsets; none unless they are asked for.
    last_rows: Vec<RowsetCursor>,
    memtables: Vec<Arc<Memtable>>,
    /// Those that may hide rows of these sources.
    tombstones: SeriesTombstones,
    sequence: u64,
    pub(crate) projection: Projection,
    /// Series of the memtables, sorted, when all are read.
    memtable_series: Option<Vec<Vec<SeriesId>>>,
    /// What [`PartitionReader::newest_first`] returned.
    ranges: Vec<TimeRange>,
    within: TimeRange,
    /// Where the cells of the newest rows of memtables are.
    locations: CellLocations,
    /// About how many bytes of strings a part has at most.
    part_bytes: u64,
    /// What segments of the series at hand share, by ranges of times.
    memtable_rows: Vec<MemtableRows>,
    newer_rows: Vec<NewerRows>,
    /// Buffers that are reused from series to series.
    items: Vec<Bounded>,
    parts: Vec<Part>,
}

/// Rows of one series in a range of times that no other segment overlaps.
#[derive(Debug)]
pub(crate) enum Segment {
    /// Rows of one rowset; nothing hides any of them.
    Single { cursor: usize, part: Part, time: TimeRange },
    /// The last row of a series in a rowset; nothing hides it.
    Last { cursor: usize, part: Part },
    /// Rows of one memtable.
    Rows(RowBatch<Vec<i64>>),
    /// The same, with addresses instead of strings.
    Unresolved { memtable: usize, rows: UnresolvedRows },
    /// The row of a memtable at a time, which no other source has.
    Newest { memtable: usize, time_ns: i64 },
    /// Rows of one rowset, nothing older below them, with few newer ones above them, which add to them or hide them, and few
    /// deletes among them.
    Overlaid { cursor: usize, part: Part, time: TimeRange },
    /// Rows of several sources.
    Merged(TimeRange),
}

/// The newest row of a series in a range of times.
pub(crate) enum Newest {
    /// The row, and its time.
    Row(Segment, i64),
    /// There is none.
    None,
    /// It is not known: the caller has to read rows.
    NotKnown,
}

/// Where the newest row of a series was found.
enum NewestSource {
    Nothing,
    InMemtable(usize),
    InRowset(usize, Part),
}

enum Item {
    Part {
        cursor: usize,
        part: Part,
    },
    Rows {
        memtable: usize,
        rows: RowBatch<Vec<i64>>,
    },
    Unresolved {
        memtable: usize,
        rows: UnresolvedRows,
    },
    /// It was made a segment.
    Taken,
}

struct Bounded {
    first_ns: i64,
    last_ns: i64,
    rows: u64,
    /// About how many bytes of strings, at most.
    bytes: u64,
    /// Whether the bounds are those of the rows, not of their group.
    exact: bool,
    item: Item,
}

impl PartitionReader {
    pub(crate) fn new(
        partition: &PartitionVersion,
        tombstones: &[Arc<Tombstone>],
        sequence: u64,
        time: TimeRange,
        projection: Projection,
    ) -> Result<Self> {
        let within = partition.range.intersect(time);
        Self::of(&partition.rowsets, partition.memtables(), tombstones, sequence, within, projection)
    }

    /// A reader of some sources of a partition.
    pub(crate) fn of<'a>(
        rowsets: &[Arc<Rowset>],
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        tombstones: &[Arc<Tombstone>],
        sequence: u64,
        within: TimeRange,
        projection: Projection,
    ) -> Result<Self> {
        let overlaps = |range: TimeRange| range.overlaps(within);
        let cursors = rowsets
            .iter()
            .filter(|rowset| overlaps(rowset.meta.time()))
            .map(|rowset| RowsetCursor::new(rowset.clone(), projection.clone()))
            .collect::<Result<Vec<_>>>()?;
        let memtables: Vec<_> =
            memtables.filter(|memtable| memtable.time_bounds().is_some_and(overlaps)).cloned().collect();
        memtables.iter().try_for_each(|memtable| memtable.check())?;
        // Only those that may hide something here are kept.
        let may_hide = |tombstone: &Tombstone| {
            tombstone.sequence <= sequence
                && tombstone.times().is_some_and(overlaps)
                && (memtables.iter().any(|memtable| memtable.base_sequence() <= tombstone.sequence)
                    || cursors.iter().any(|cursor| cursor.rowset.may_be_hidden_by(tombstone)))
        };
        let tombstones = tombstones.iter().filter(|tombstone| may_hide(tombstone)).cloned().collect();
        Ok(Self {
            cursors,
            last_rows: Vec::new(),
            memtables,
            tombstones: SeriesTombstones::new(tombstones),
            sequence,
            part_bytes: projection.kinds.iter().filter(|kind| **kind == Kind::Bytes).count() as u64
                * PART_BYTES,
            projection,
            memtable_series: None,
            ranges: Vec::new(),
            within,
            locations: CellLocations::default(),
            memtable_rows: Vec::new(),
            newer_rows: Vec::new(),
            items: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Announces that everything is going to be read, in order.
    pub(crate) fn read_whole_groups(&mut self, which: WholeGroups) {
        self.cursors.iter_mut().for_each(|cursor| cursor.read_whole_groups(which));
    }

    /// Announces that many series are going to be read in order, all in the same columns.
    pub(crate) fn read_ahead(&mut self) {
        self.cursors.iter_mut().for_each(RowsetCursor::read_ahead);
    }

    /// Announces that everything is going to be read once, in order: the rowsets are about to be replaced.
    pub(crate) fn read_once(&mut self) {
        self.cursors.iter_mut().for_each(RowsetCursor::read_once);
    }

    /// Announces that the newest rows of series are going to be read, of `many` series in order or of some.
    pub(crate) fn read_last_rows(&mut self, many: bool) -> Result<()> {
        self.last_rows =
            self.cursors.iter().map(|cursor| cursor.of_last_rows(many)).collect::<Result<_>>()?;
        Ok(())
    }

    /// The cursor and the rows of a segment that one rowset has alone.
    pub(crate) fn rows_of_one<'a>(
        &mut self,
        segment: &'a Segment,
    ) -> Option<(&mut RowsetCursor, &'a Part, TimeRange)> {
        match segment {
            Segment::Single { cursor, part, time } => Some((&mut self.cursors[*cursor], part, *time)),
            Segment::Last { cursor, part } => Some((&mut self.last_rows[*cursor], part, TimeRange::ALL)),
            _ => None,
        }
    }

    /// The newest row of a series in a range of times, from memtables and from the last rows of rowsets. It is known if
    /// no other source can have a row at its time or later, and nothing hides it.
    pub(crate) fn newest(&mut self, series: SeriesId, range: TimeRange) -> Result<Newest> {
        let mut newest: Option<i64> = None;
        let (mut found, mut tied) = (NewestSource::Nothing, false);
        // Memtables are asked first: they usually have the newest row, and then rowsets that end before it are not
        // asked.
        for (number, memtable) in self.memtables.iter().enumerate() {
            let bounds = memtable.time_bounds().filter(|bounds| bounds.overlaps(range));
            let (Some(bounds), Some(rows)) = (bounds, memtable.series()) else { continue };
            let visibility = memtable.visibility(self.sequence, self.tombstones.of(series));
            if newest.is_some_and(|newest_ns| bounds.end_ns <= newest_ns) {
                continue;
            }
            if let Some(time_ns) = rows.newest_time(series, range, &visibility)
                && newest.is_none_or(|newest_ns| newest_ns <= time_ns)
            {
                tied = newest.replace(time_ns) == Some(time_ns);
                found = NewestSource::InMemtable(number);
            }
        }
        for (number, cursor) in self.last_rows.iter_mut().enumerate().rev() {
            let bounds = cursor.rowset.meta.time();
            if !bounds.overlaps(range) || newest.is_some_and(|newest_ns| bounds.end_ns <= newest_ns) {
                continue;
            }
            let part = match cursor.last_row(series)? {
                Ok(Some(part)) => part,
                Ok(None) => continue,
                Err(NotKnown) => return Ok(Newest::NotKnown),
            };
            let time_ns = cursor.time_of(&part)?;
            if time_ns >= range.end_ns {
                return Ok(Newest::NotKnown);
            }
            if time_ns >= range.start_ns && newest.is_none_or(|newest_ns| newest_ns <= time_ns) {
                tied = newest.replace(time_ns) == Some(time_ns);
                found = NewestSource::InRowset(number, part);
            }
        }
        let Some(time_ns) = newest else { return Ok(Newest::None) };
        Ok(match found {
            _ if tied => Newest::NotKnown,
            NewestSource::Nothing => Newest::None,
            NewestSource::InMemtable(memtable) => Newest::Row(Segment::Newest { memtable, time_ns }, time_ns),
            NewestSource::InRowset(cursor, part) => {
                let at = TimeRange::new(time_ns, time_ns.saturating_add(1));
                let hidden = !self.hidden(cursor, series, at).is_empty();
                match hidden || self.last_rows[cursor].has_markers(&part)? {
                    true => Newest::NotKnown,
                    false => Newest::Row(Segment::Last { cursor, part }, time_ns),
                }
            }
        })
    }

    /// Appends the row of a series that a memtable has alone to a batch. False, and nothing is appended, if it is made
    /// of several versions, or hides older ones.
    pub(crate) fn append_newest(
        &mut self,
        series: SeriesId,
        (memtable, time_ns): (usize, i64),
        batch: &mut RowBatch<Vec<i64>>,
    ) -> bool {
        let memtable = &self.memtables[memtable];
        let visibility = memtable.visibility(self.sequence, self.tombstones.of(series));
        let Some(rows) = memtable.series() else { return false };
        rows.append_at(series, time_ns, (&self.projection, &mut self.locations), &visibility, batch)
    }

    /// The first series with rows (perhaps hidden ones) that is not below `least`.
    pub(crate) fn next_series(&mut self, least: u32) -> Result<Option<u32>> {
        let mut next: Option<u32> = None;
        for cursor in &mut self.cursors {
            let found = cursor.next_series(least)?;
            next = next.into_iter().chain(found).min();
        }
        if self.memtable_series.is_none() {
            let series = |memtable: &Arc<Memtable>| memtable.series().map_or_else(Vec::new, |m| m.series());
            self.memtable_series = Some(self.memtables.iter().map(series).collect());
        }
        for series in self.memtable_series.iter().flatten() {
            let found = series.get(series.partition_point(|series| series.0 < least)).map(|series| series.0);
            next = next.into_iter().chain(found).min();
        }
        Ok(next)
    }

    /// Whether tombstones may hide rows of a series.
    pub(crate) fn has_tombstones_of(&mut self, series: SeriesId) -> bool {
        !self.tombstones.of(series).is_empty()
    }

    /// Ranges of times of a series that tombstones hide in a rowset.
    fn hidden(&mut self, cursor: usize, series: SeriesId, time: TimeRange) -> Vec<TimeRange> {
        let rowset = &self.cursors[cursor].rowset;
        self.tombstones
            .of(series)
            .iter()
            .filter(|tombstone| rowset.may_be_hidden_by(tombstone))
            .filter_map(|tombstone| tombstone.times_of(series))
            .filter(|range| range.overlaps(time))
            .collect()
    }

    /// Cuts the rows of a series in a range of times into segments, in order of time.
    pub(crate) fn segments(&mut self, series: SeriesId, time: TimeRange) -> Result<VecDeque<Segment>> {
        let mut segments = VecDeque::new();
        self.add_segments(series, time, &mut segments)?;
        Ok(segments)
    }

    /// Like [`PartitionReader::segments`]; appends them.
    pub(crate) fn add_segments(
        &mut self,
        series: SeriesId,
        time: TimeRange,
        segments: &mut VecDeque<Segment>,
    ) -> Result<()> {
        let (mut items, mut parts) = (std::mem::take(&mut self.items), std::mem::take(&mut self.parts));
        items.clear();
        parts.clear();
        self.memtable_rows.clear();
        self.newer_rows.clear();
        for (cursor, reader) in self.cursors.iter_mut().enumerate() {
            reader.parts(series, time, &mut parts)?;
            items.extend(parts.drain(..).map(|part| Bounded {
                first_ns: part.min_time_ns,
                last_ns: part.max_time_ns,
                rows: part.rows.len() as u64,
                bytes: self.part_bytes,
                exact: false,
                item: Item::Part { cursor, part },
            }));
        }
        for (number, memtable) in self.memtables.iter().enumerate() {
            let Some(rows) = memtable.series() else { continue };
            if !memtable.time_bounds().is_some_and(|bounds| bounds.overlaps(time)) {
                continue;
            }
            let visibility = memtable.visibility(self.sequence, self.tombstones.of(series));
            if let Some(addresses) = &self.projection.addresses {
                let unresolved = rows.read_unresolved(series, time, addresses, &visibility);
                add_unresolved(number, unresolved, &self.projection.kinds, &mut items);
                continue;
            }
            let batch = rows.read(series, time, &self.projection, &visibility);
            if let (Some(first), Some(last)) = (batch.keys.first(), batch.keys.last()) {
                items.push(Bounded {
                    first_ns: *first,
                    last_ns: *last,
                    rows: batch.rows() as u64,
                    bytes: 0,
                    exact: true,
                    item: Item::Rows { memtable: number, rows: batch },
                });
            }
        }
        if items.len() > 1 {
            if self.is_one_untouched_rowset(series, &items)? {
                for item in items.drain(..) {
                    let Item::Part { cursor, part } = item.item else { continue };
                    segments.push_back(Segment::Single { cursor, part, time });
                }
            } else {
                self.sharpen(&mut items)?;
                self.split_behind_older(&mut items)?;
                items.sort_unstable_by_key(|item| (item.first_ns, item.last_ns));
            }
        }
        let mut start = 0;
        while start < items.len() {
            let (mut end, mut last_ns) = (start + 1, items[start].last_ns);
            while end < items.len() && items[end].first_ns <= last_ns {
                last_ns = last_ns.max(items[end].last_ns);
                end += 1;
            }
            if end == start + 1 {
                segments.push_back(match std::mem::replace(&mut items[start].item, Item::Taken) {
                    Item::Rows { rows, .. } => Segment::Rows(rows),
                    Item::Unresolved { memtable, rows } => Segment::Unresolved { memtable, rows },
                    Item::Part { cursor, part } => self.single(series, time, cursor, part)?,
                    Item::Taken => unreachable!("items are taken once"),
                });
            } else {
                self.add_overlapping(series, time, &mut items[start..end], segments)?;
            }
            start = end;
        }
        (self.items, self.parts) = (items, parts);
        Ok(())
    }

    /// Whether all items are parts of one rowset of which nothing is hidden: they are in order of time then,
    /// and do not overlap, whatever their groups' bounds say.
    fn is_one_untouched_rowset(&mut self, series: SeriesId, items: &[Bounded]) -> Result<bool> {
        let (mut source, has_tombstones) = (None, self.has_tombstones_of(series));
        for item in items {
            let Item::Part { cursor, part } = &item.item else { return Ok(false) };
            let other = source.is_some_and(|source| source != *cursor);
            if other || has_tombstones || self.cursors[*cursor].has_markers(part)? {
                return Ok(false);
            }
            source = Some(*cursor);
        }
        Ok(true)
    }

    fn single(&mut self, series: SeriesId, time: TimeRange, cursor: usize, part: Part) -> Result<Segment> {
        let merged = Segment::Merged(time.intersect(part.time()));
        if self.is_hidden(series, cursor, &part) {
            return Ok(merged);
        }
        Ok(match self.cursors[cursor].deletes(&part)? {
            None => Segment::Single { cursor, part, time },
            Some(deletes) if overlapping::are_few(deletes.len() as f64, part.rows.len() as f64) => {
                Segment::Overlaid { cursor, time: time.intersect(part.time()), part }
            }
            Some(_) => merged,
        })
    }

    /// Whether tombstones hide rows of a part.
    fn is_hidden(&mut self, series: SeriesId, cursor: usize, part: &Part) -> bool {
        !self.hidden(cursor, series, part.time()).is_empty()
    }

    /// The time ranges that backward reads of a few rows visit, newest first. Each has one more source than the one
    /// before, so older sources are not read when newer ones suffice.
    pub(crate) fn newest_first(&mut self) -> &[TimeRange] {
        if self.ranges.is_empty() {
            let time = self.within;
            let rowsets = self.cursors.iter().map(|cursor| cursor.rowset.meta.time().end_ns);
            let memtables = self.memtables.iter().filter_map(|memtable| Some(memtable.time_bounds()?.end_ns));
            let mut ends: Vec<i64> = rowsets.chain(memtables).map(|end_ns| end_ns.min(time.end_ns)).collect();
            ends.retain(|end_ns| *end_ns > time.start_ns);
            ends.sort_unstable();
            ends.dedup();
            while let Some(end_ns) = ends.pop() {
                let start_ns = ends.last().copied().unwrap_or(time.start_ns);
                self.ranges.push(TimeRange::new(start_ns, end_ns));
            }
        }
        &self.ranges
    }

    /// A time in a range such that a memtable that has the series in order has about `rows` rows from it on.
    pub(crate) fn newest_rows_from(&self, series: SeriesId, time: TimeRange, rows: usize) -> Option<i64> {
        let memtables = self.memtables.iter().filter_map(|memtable| memtable.series());
        let from = memtables.filter_map(|memtable| memtable.newest_rows_from(series, rows));
        from.filter(|from_ns| time.contains(*from_ns)).max()
    }

    /// The rows of a segment, without hidden or duplicate rows.
    pub(crate) fn read(&mut self, series: SeriesId, segment: Segment) -> Result<RowBatch<Vec<i64>>> {
        if let Segment::Merged(time) | Segment::Overlaid { time, .. } = segment {
            return self.merged(series, time, 0, Deletes::Drop);
        }
        let batch = self.read_with_deletes(series, segment)?;
        Ok(merge::finish(batch, &self.projection.kinds))
    }

    /// Like [`PartitionReader::read`], with deletes.
    pub(crate) fn read_with_deletes(
        &mut self,
        series: SeriesId,
        segment: Segment,
    ) -> Result<RowBatch<Vec<i64>>> {
        match segment {
            Segment::Rows(batch) => Ok(batch),
            Segment::Unresolved { memtable, rows } => {
                let memtable = self.memtables[memtable].series();
                Ok(memtable.expect("had rows of a series").resolve(series, &rows, &self.projection.kinds))
            }
            Segment::Single { cursor, part, time } => {
                let rows = self.cursors[cursor].rows_at(&part, time)?;
                self.cursors[cursor].batch(&part, rows)
            }
            Segment::Last { cursor, part } => self.last_rows[cursor].batch(&part, part.rows.clone()),
            Segment::Newest { memtable, time_ns } => {
                let at = TimeRange::new(time_ns, time_ns.saturating_add(1));
                let tombstones = self.tombstones.of(series);
                let visibility = self.memtables[memtable].visibility(self.sequence, tombstones);
                let rows = self.memtables[memtable].series();
                let read = |rows: &SeriesMemtable| rows.read(series, at, &self.projection, &visibility);
                Ok(rows.map_or_else(|| RowBatch::empty(&self.projection.kinds), read))
            }
            Segment::Merged(time) | Segment::Overlaid { time, .. } => {
                self.merged(series, time, 0, Deletes::Keep)
            }
        }
    }
}

/// Adds rows of a memtable, cut where their strings are too long to be read at once.
fn add_unresolved(memtable: usize, unresolved: UnresolvedRows, kinds: &[Kind], items: &mut Vec<Bounded>) {
    let cuts = unresolved.cut(kinds, UNRESOLVED_BYTES);
    for (rows, bytes) in &cuts {
        let times = &unresolved.times()[rows.clone()];
        let (Some(first_ns), Some(last_ns)) = (times.first().copied(), times.last().copied()) else { return };
        let count = rows.len() as u64;
        let part = if cuts.len() == 1 { unresolved.clone() } else { unresolved.part(rows.clone()) };
        let item = Item::Unresolved { memtable, rows: part };
        items.push(Bounded { first_ns, last_ns, rows: count, bytes: *bytes, exact: true, item });
    }
}

/// The rows at times that are not hidden.
fn without(batch: RowBatch<Vec<i64>>, hidden: &[TimeRange], kinds: &[Kind]) -> RowBatch<Vec<i64>> {
    if hidden.is_empty() {
        return batch;
    }
    keep_rows(&batch, |row| !hidden.iter().any(|range| range.contains(batch.keys[row])), kinds)
}
