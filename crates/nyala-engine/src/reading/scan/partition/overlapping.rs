//! Cuts rows of several sources whose times overlap into segments.

use super::newer_rows::{MERGE_BYTES, MERGE_ROWS, MemtableRows, NewerRows};
use super::{Bounded, Item, PartitionReader, Segment};
use crate::files::rowset::series::Part;
use crate::rows::merge::RowBatch;
use nyala_core::{Result, SeriesId, TimeRange};
use std::collections::VecDeque;
use std::ops::Range;

/// So many rows with nothing older below them are worth a part of their own.
const SPLIT_ROWS_MIN: u32 = 64;
/// The rows of a part for each newer one above it, at least: with fewer, all are merged.
pub(crate) const OVERLAID_ROWS: usize = 8;

/// Whether so few rows are changed that the others are read as they are.
pub(super) fn are_few(changed: f64, rows: f64) -> bool {
    changed * OVERLAID_ROWS as f64 <= rows
}

impl Bounded {
    /// Which source it is: older ones first.
    pub(super) fn source(&self) -> usize {
        match &self.item {
            Item::Part { cursor, .. } => *cursor,
            _ => usize::MAX,
        }
    }

    fn overlaps(&self, other: &Bounded) -> bool {
        self.first_ns <= other.last_ns && other.first_ns <= self.last_ns
    }

    /// How many of its rows are at times of another one: about so many where it is not in memory, as if they were evenly
    /// spread.
    fn rows_within(&self, other: &Bounded) -> f64 {
        if let Item::Rows { rows, .. } = &self.item {
            let row = |time_ns| rows.keys.partition_point(|key| *key < time_ns);
            return (row(other.last_ns.saturating_add(1)) - row(other.first_ns)) as f64;
        }
        let width = |first_ns: i64, last_ns: i64| (last_ns as f64 - first_ns as f64).max(0.0) + 1.0;
        let common = width(self.first_ns.max(other.first_ns), self.last_ns.min(other.last_ns));
        self.rows as f64 * common / width(self.first_ns, self.last_ns)
    }
}

impl PartitionReader {
    /// Cuts parts whose rows may hide others where the rows of older sources end: deletes of old rows were flushed together
    /// with new rows, which hide nothing.
    pub(super) fn split_behind_older(&mut self, items: &mut Vec<Bounded>) -> Result<()> {
        let mut ends_ns = vec![i64::MIN; self.cursors.len()];
        for item in items.iter() {
            if let Item::Part { cursor, .. } = &item.item {
                ends_ns[*cursor] = ends_ns[*cursor].max(item.last_ns);
            }
        }
        let mut older_ns = i64::MIN;
        for end_ns in &mut ends_ns {
            older_ns = older_ns.max(std::mem::replace(end_ns, older_ns));
        }
        for index in 0..items.len() {
            let Bounded { first_ns, last_ns, bytes, item: Item::Part { cursor, part }, .. } = &items[index]
            else {
                continue;
            };
            let (cursor, bytes, end_ns) = (*cursor, *bytes, ends_ns[*cursor]);
            if end_ns < *first_ns || *last_ns <= end_ns || !self.cursors[cursor].has_markers(part)? {
                continue;
            }
            let part = part.clone();
            let behind = self.cursors[cursor].rows_at(&part, TimeRange::new(end_ns + 1, i64::MAX))?.start;
            if behind == part.rows.start || part.rows.end - behind < SPLIT_ROWS_MIN {
                continue;
            }
            let mut item = |rows: Range<u32>| -> Result<Bounded> {
                let mut part = Part { rows, ..part.clone() };
                let (first_ns, last_ns) = self.cursors[cursor].time_ends(&part)?;
                (part.min_time_ns, part.max_time_ns) = (first_ns, last_ns);
                let rows = part.rows.len() as u64;
                Ok(Bounded { first_ns, last_ns, rows, bytes, exact: true, item: Item::Part { cursor, part } })
            };
            let (above, behind) = (item(part.rows.start..behind)?, item(behind..part.rows.end)?);
            items[index] = above;
            items.push(behind);
        }
        Ok(())
    }

    /// Looks up the exact time bounds of parts that only have those of their group, where groups seem to overlap.
    pub(super) fn sharpen(&mut self, items: &mut [Bounded]) -> Result<()> {
        for index in 0..items.len() {
            let (first_ns, last_ns) = (items[index].first_ns, items[index].last_ns);
            let overlaps = |other: &Bounded| other.first_ns <= last_ns && first_ns <= other.last_ns;
            let alone = items.iter().enumerate().all(|(at, other)| at == index || !overlaps(other));
            let item = &mut items[index];
            if alone || item.exact {
                continue;
            }
            if let Item::Part { cursor, part } = &mut item.item {
                let times = self.cursors[*cursor].time_ends(part)?;
                (item.first_ns, item.last_ns, item.exact) = (times.0, times.1, true);
                (part.min_time_ns, part.max_time_ns) = times;
            }
        }
        Ok(())
    }

    /// Cuts overlapping rows where one of their sources begins or ends: times that only one source has need no merging.
    /// Parts with few newer rows above them stay whole. What is merged is cut so that a step holds a bounded number of
    /// rows.
    pub(super) fn add_overlapping(
        &mut self,
        series: SeriesId,
        time: TimeRange,
        items: &mut [Bounded],
        segments: &mut VecDeque<Segment>,
    ) -> Result<()> {
        let mut overlaid: VecDeque<(TimeRange, usize, Part)> = VecDeque::new();
        let mut is_overlaid = vec![false; items.len()];
        for (place, item) in items.iter().enumerate() {
            if let Some((cursor, part)) = self.overlaid(series, items, item)? {
                is_overlaid[place] = true;
                let range = TimeRange::new(item.first_ns, item.last_ns.saturating_add(1));
                overlaid.push_back((range.intersect(time), cursor, part.clone()));
            }
        }
        overlaid.retain(|(range, ..)| !range.is_empty());
        if let (Some((first, ..)), Some((last, ..))) = (overlaid.front(), overlaid.back())
            && overlaid.len() > 1
        {
            let span = TimeRange::new(first.start_ns, last.end_ns);
            let others = items.iter().zip(&is_overlaid).filter(|(_, is)| !**is).map(|(item, _)| item);
            self.newer_rows.extend(NewerRows::above(series, span, others));
        }
        let ends = items.iter().flat_map(|item| [item.first_ns, item.last_ns.saturating_add(1)]);
        let mut cuts: Vec<i64> = ends.map(|cut_ns| cut_ns.clamp(time.start_ns, time.end_ns)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // The range being merged that is not a segment yet, and about how many rows and string bytes end in it.
        let mut merged: Option<(TimeRange, u64, u64)> = None;
        // Where the overlaid part ends that became a segment last.
        let mut covered_ns = i64::MIN;
        for cut in cuts.windows(2) {
            let range = TimeRange::new(cut[0], cut[1]);
            if range.start_ns < covered_ns {
                continue;
            }
            if let Some((time, cursor, part)) =
                overlaid.pop_front_if(|(time, ..)| time.contains(range.start_ns))
            {
                segments.extend(merged.take().map(|(range, ..)| Segment::Merged(range)));
                covered_ns = time.end_ns;
                segments.push_back(Segment::Overlaid { cursor, part, time });
                continue;
            }
            let mut sources = items.iter().filter(|item| item.first_ns <= cut[0] && cut[0] <= item.last_ns);
            let (first, second) = (sources.next(), sources.next());
            let (Some(item), None) = (first, second) else {
                if first.is_some() {
                    let ended = items.iter().filter(|item| item.last_ns < cut[1] && cut[0] <= item.last_ns);
                    let (rows, bytes) =
                        ended.fold((0, 0), |(rows, bytes), item| (rows + item.rows, bytes + item.bytes));
                    merged = match merged {
                        Some((before, gathered, strings))
                            if gathered < MERGE_ROWS / 2 && strings < MERGE_BYTES / 2 =>
                        {
                            let range = TimeRange::new(before.start_ns, range.end_ns);
                            Some((range, gathered + rows, strings + bytes))
                        }
                        full => {
                            segments.extend(full.map(|(range, ..)| Segment::Merged(range)));
                            Some((range, rows, bytes))
                        }
                    };
                }
                continue;
            };
            segments.extend(merged.take().map(|(range, ..)| Segment::Merged(range)));
            segments.push_back(match &item.item {
                Item::Rows { rows, .. } => {
                    let row = |time_ns| rows.keys.partition_point(|key| *key < time_ns);
                    let mut inside = RowBatch::empty(&self.projection.kinds);
                    inside.append(rows, row(range.start_ns)..row(range.end_ns));
                    Segment::Rows(inside)
                }
                Item::Unresolved { memtable, rows } => {
                    let row = |time_ns| rows.times().partition_point(|key| *key < time_ns);
                    let rows = rows.part(row(range.start_ns)..row(range.end_ns));
                    Segment::Unresolved { memtable: *memtable, rows }
                }
                Item::Part { cursor, part } => self.single(series, range, *cursor, part.clone())?,
                Item::Taken => unreachable!("items are taken once"),
            });
        }
        segments.extend(merged.map(|(range, ..)| Segment::Merged(range)));
        if self.projection.addresses.is_none() {
            let (first, last) = (cuts[0], cuts[cuts.len() - 1]);
            self.memtable_rows.push(MemtableRows::taken(series, TimeRange::new(first, last), items));
        }
        Ok(())
    }

    /// The part that an item is, if all that overlaps it is newer and has few rows: it is read as it is then, and its
    /// changed rows are left out. Such parts do not overlap each other.
    fn overlaid<'a>(
        &mut self,
        series: SeriesId,
        items: &[Bounded],
        item: &'a Bounded,
    ) -> Result<Option<(usize, &'a Part)>> {
        let Item::Part { cursor, part } = &item.item else { return Ok(None) };
        let mut newer_rows = 0.0;
        for other in items.iter().filter(|other| other.overlaps(item) && !std::ptr::eq(*other, item)) {
            if other.source() <= *cursor {
                return Ok(None);
            }
            newer_rows += other.rows_within(item);
        }
        if newer_rows == 0.0
            || !are_few(newer_rows, item.rows as f64)
            || self.is_hidden(series, *cursor, part)
        {
            return Ok(None);
        }
        let deletes = self.cursors[*cursor].deletes(part)?.map_or(0, |deletes| deletes.len());
        Ok(are_few(newer_rows + deletes as f64, item.rows as f64).then_some((*cursor, part)))
    }
}
