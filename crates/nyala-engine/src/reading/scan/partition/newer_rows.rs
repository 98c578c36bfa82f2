//! Rows of a series that several segments need: read once, and cut for each of them.

use super::{Bounded, Item, PartitionReader, without};
use crate::files::rowset::series::Part;
use crate::rows::merge::{self, DELETED, Deletes, RowBatch};
use nyala_core::{Result, SeriesId, TimeRange};

/// About how many rows are merged at once: a step of a scan holds them in memory.
pub(super) const MERGE_ROWS: u64 = 16_384;
/// The same for strings, in bytes.
pub(super) const MERGE_BYTES: u64 = 32 << 20;

/// What memtables have of a series in a range of times, where other sources have rows as well.
pub(super) struct MemtableRows {
    series: SeriesId,
    time: TimeRange,
    /// Oldest first.
    batches: Vec<RowBatch<Vec<i64>>>,
}

/// What sources have besides the parts that are read as they are, in the range of times that these span.
pub(super) struct NewerRows {
    series: SeriesId,
    time: TimeRange,
    /// Oldest first.
    parts: Vec<(usize, Part)>,
    /// With deletes; `None` until they are needed.
    rows: Option<RowBatch<Vec<i64>>>,
}

impl MemtableRows {
    /// Those of items of a series, which are taken.
    pub(super) fn taken(series: SeriesId, time: TimeRange, items: &mut [Bounded]) -> Self {
        let mut numbered: Vec<_> = (items.iter_mut())
            .filter_map(|item| match std::mem::replace(&mut item.item, Item::Taken) {
                Item::Rows { memtable, rows } => Some((memtable, rows)),
                _ => None,
            })
            .collect();
        numbered.sort_unstable_by_key(|(memtable, _)| *memtable);
        Self { series, time, batches: numbered.into_iter().map(|(_, rows)| rows).collect() }
    }

    fn covers(&self, series: SeriesId, time: TimeRange) -> bool {
        self.series == series && covers(self.time, time)
    }

    /// The rows in a range of times.
    fn within(&self, time: TimeRange) -> impl Iterator<Item = merge::Part<'_, Vec<i64>>> {
        let parts = self.batches.iter().map(move |batch| merge::Part { batch, rows: rows_in(batch, time) });
        parts.filter(|part| !part.rows.is_empty())
    }
}

impl NewerRows {
    /// What lies above parts that are read as they are, in the range of times that these span: the other items, whose
    /// times overlap. `None` if it is read for each of them.
    pub(super) fn above<'a>(
        series: SeriesId,
        time: TimeRange,
        others: impl Iterator<Item = &'a Bounded> + Clone,
    ) -> Option<Self> {
        let others = others.filter(|item| item.first_ns < time.end_ns && time.start_ns <= item.last_ns);
        let (rows, bytes) =
            others.clone().fold((0, 0), |(rows, bytes), item| (rows + item.rows, bytes + item.bytes));
        if rows > MERGE_ROWS || bytes > MERGE_BYTES {
            return None;
        }
        let mut parts: Vec<(usize, Part)> = others
            .filter_map(|item| match &item.item {
                Item::Part { cursor, part } => Some((*cursor, part.clone())),
                _ => None,
            })
            .collect();
        parts.sort_by_key(|(cursor, _)| *cursor);
        Some(Self { series, time, parts, rows: None })
    }

    fn covers(&self, series: SeriesId, time: TimeRange) -> bool {
        self.series == series && covers(self.time, time)
    }
}

fn covers(whole: TimeRange, time: TimeRange) -> bool {
    whole.start_ns <= time.start_ns && time.end_ns <= whole.end_ns
}

fn rows_in(batch: &RowBatch<Vec<i64>>, time: TimeRange) -> std::ops::Range<usize> {
    let row = |time_ns| batch.keys.partition_point(|key| *key < time_ns);
    row(time.start_ns)..row(time.end_ns)
}

impl PartitionReader {
    /// What changes rows of a part in a range of times, with deletes: the deletes among them, and what newer sources have.
    pub(crate) fn changes(
        &mut self,
        series: SeriesId,
        (cursor, part, time): (usize, &Part, TimeRange),
    ) -> Result<RowBatch<Vec<i64>>> {
        let newer = self.newer(series, cursor, time)?;
        let Some(deletes) = self.cursors[cursor].deletes(part)? else { return Ok(newer) };
        let inside = self.cursors[cursor].rows_at(part, time)?;
        let rows: Vec<u32> = deletes.into_iter().filter(|row| inside.contains(row)).collect();
        let mut own = RowBatch::empty(&self.projection.kinds);
        if !rows.is_empty() {
            self.cursors[cursor].append_rows(part, &rows, &mut own)?;
        }
        own.markers = Some(vec![DELETED; rows.len()]);
        Ok(merge::merge(vec![own, newer], &self.projection.kinds, Deletes::Keep))
    }

    /// What sources that are newer than a rowset have in a range of times, with deletes.
    fn newer(&mut self, series: SeriesId, cursor: usize, time: TimeRange) -> Result<RowBatch<Vec<i64>>> {
        let Some(place) = self.newer_rows.iter().position(|own| own.covers(series, time)) else {
            return self.merged(series, time, cursor + 1, Deletes::Keep);
        };
        if self.newer_rows[place].rows.is_none() {
            let all = self.newer_rows[place].time;
            let mut batches = Vec::new();
            for (cursor, part) in std::mem::take(&mut self.newer_rows[place].parts) {
                self.add_rows(series, all, cursor, &part, &mut batches)?;
            }
            self.newer_rows[place].rows =
                Some(self.merged_with_memtables(series, all, batches, Deletes::Keep));
        }
        let mut rows = RowBatch::empty(&self.projection.kinds);
        if let Some(all) = &self.newer_rows[place].rows {
            rows.append(all, rows_in(all, time));
        }
        Ok(rows)
    }

    /// The rows of sources in a range of times, merged: of the rowsets from the `oldest` cursor on, and of memtables.
    pub(super) fn merged(
        &mut self,
        series: SeriesId,
        time: TimeRange,
        oldest: usize,
        deletes: Deletes,
    ) -> Result<RowBatch<Vec<i64>>> {
        let mut batches = Vec::new();
        let mut parts = Vec::new();
        for cursor in oldest..self.cursors.len() {
            self.cursors[cursor].parts(series, time, &mut parts)?;
            for part in parts.drain(..) {
                self.add_rows(series, time, cursor, &part, &mut batches)?;
            }
        }
        Ok(self.merged_with_memtables(series, time, batches, deletes))
    }

    /// Adds the rows of a part in a range of times that are not hidden.
    fn add_rows(
        &mut self,
        series: SeriesId,
        time: TimeRange,
        cursor: usize,
        part: &Part,
        batches: &mut Vec<RowBatch<Vec<i64>>>,
    ) -> Result<()> {
        let hidden = self.hidden(cursor, series, time);
        let reader = &mut self.cursors[cursor];
        let rows = reader.rows_at(part, time)?;
        let batch = reader.batch(part, rows)?;
        batches.push(without(batch, &hidden, &self.projection.kinds));
        Ok(())
    }

    fn merged_with_memtables(
        &mut self,
        series: SeriesId,
        time: TimeRange,
        mut batches: Vec<RowBatch<Vec<i64>>>,
        deletes: Deletes,
    ) -> RowBatch<Vec<i64>> {
        let kinds = &self.projection.kinds;
        if let Some(known) = self.memtable_rows.iter().find(|own| own.covers(series, time)) {
            batches.retain(|batch| batch.rows() > 0);
            let whole = batches.iter().map(|batch| merge::Part { batch, rows: 0..batch.rows() });
            let parts: Vec<_> = whole.chain(known.within(time)).collect();
            return match parts.len() == batches.len() {
                true => merge::merge(batches, kinds, deletes),
                false => merge::merge_parts(&parts, kinds, deletes),
            };
        }
        for memtable in &self.memtables {
            let visibility = memtable.visibility(self.sequence, self.tombstones.of(series));
            let rows = memtable.series().map(|rows| rows.read(series, time, &self.projection, &visibility));
            batches.extend(rows);
        }
        merge::merge(batches, kinds, deletes)
    }
}
