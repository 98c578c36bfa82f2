//! Cuts rows of several sources whose times overlap into segments.

use super::{Bounded, Item, PartitionReader, Segment};
use crate::files::rowset::series::Part;
use crate::rows::merge::RowBatch;
use nyala_core::{Result, SeriesId, TimeRange};
use std::collections::VecDeque;

/// About how many rows are merged at once: a step of a scan holds them in memory.
const MERGE_ROWS: u64 = 16_384;
/// The same for strings, in bytes.
const MERGE_BYTES: u64 = 32 << 20;
/// The rows of a part for each newer one above it, at least: with fewer, all are merged.
pub(crate) const OVERLAID_ROWS: usize = 8;

impl Bounded {
    /// Which source it is: older ones first.
    fn source(&self) -> usize {
        match &self.item {
            Item::Part { cursor, .. } => *cursor,
            _ => usize::MAX,
        }
    }

    fn overlaps(&self, other: &Bounded) -> bool {
        self.first_ns <= other.last_ns && other.first_ns <= self.last_ns
    }

    /// About how many of its rows are at times of another one, as if they were evenly spread.
    fn rows_within(&self, other: &Bounded) -> f64 {
        let width = |first_ns: i64, last_ns: i64| (last_ns as f64 - first_ns as f64).max(0.0) + 1.0;
        let common = width(self.first_ns.max(other.first_ns), self.last_ns.min(other.last_ns));
        self.rows as f64 * common / width(self.first_ns, self.last_ns)
    }
}

impl PartitionReader {
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
        items: &[Bounded],
        segments: &mut VecDeque<Segment>,
    ) -> Result<()> {
        let mut overlaid: VecDeque<(TimeRange, usize, Part)> = VecDeque::new();
        for item in items {
            if let Some((cursor, part)) = self.overlaid(series, items, item)? {
                let range = TimeRange::new(item.first_ns, item.last_ns.saturating_add(1));
                overlaid.push_back((range.intersect(time), cursor, part.clone()));
            }
        }
        overlaid.retain(|(range, ..)| !range.is_empty());
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
                Item::Rows(batch) => {
                    let row = |time_ns| batch.keys.partition_point(|key| *key < time_ns);
                    let mut inside = RowBatch::empty(&self.projection.kinds);
                    inside.append(batch, row(range.start_ns)..row(range.end_ns));
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
        let few = newer_rows > 0.0 && newer_rows * OVERLAID_ROWS as f64 <= item.rows as f64;
        Ok((few && !self.is_touched(series, *cursor, part)?).then_some((*cursor, part)))
    }
}
