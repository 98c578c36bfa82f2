//! Counts the rows of rowsets that deleted ranges hide, and picks rowsets that are worth rewriting without them.
//!
//! The count comes from the index, without reading rows. It is exact when a deleted range hides nothing: readers skip
//! that range from then on, and the next flush drops it.

use super::find;
use super::pick::Candidate;
use crate::files::rowset::Rowset;
use crate::files::rowset::format::GroupEntry;
use crate::files::rowset::reader::{HiddenRows, Use};
use crate::memory::publisher::VersionPublisher;
use crate::memory::version::{PartitionVersion, Version};
use crate::rows::key::KeyRange;
use crate::rows::key_tombstones::KeyTombstones;
use crate::rows::series_tombstones::SeriesTombstones;
use crate::rows::tombstone::Tombstone;
use nyala_core::{Result, SeriesId, TableId, TimeRange};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A rowset is rewritten when one row in so many is hidden: then at most so many times the bytes are written as are
/// freed.
const HIDDEN_SHARE: u64 = 8;
/// Or when so many ranges hide rows of it, because each reader looks at all of them.
const RANGES_MAX: usize = 128;
/// While clients write, hidden rows of a rowset are counted at most so often.
const COUNT_PAUSE: Duration = Duration::from_secs(10);

/// A table with deleted ranges, and the rowsets in which these may hide rows. It is not its version, because
/// counting reads index pages, and a version held meanwhile would hold memtables that are flushed.
struct DeletedFrom {
    table: TableId,
    is_series_keyed: bool,
    /// By sequence.
    ranges: Vec<Arc<Tombstone>>,
    /// With the numbers of their partitions.
    rowsets: Vec<(u64, Arc<Rowset>)>,
}

/// Rowsets worth rewriting without the rows that are hidden, most of them first. Only deleted ranges up to a sequence
/// are looked at: all of them are in the version, and none is lost in a power cut.
pub(crate) fn pick_hidden(versions: &VersionPublisher, durable: u64, is_quiet: bool) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let tables = with_deleted_ranges(&versions.current(), durable);
    for DeletedFrom { table, is_series_keyed, ranges, rowsets } in tables {
        for (partition, rowset) in rowsets {
            let counted = match count_hidden(&rowset, is_series_keyed, &ranges, is_quiet) {
                Ok(counted) => counted,
                Err(error) => {
                    tracing::error!(%error, "the deleted rows of a rowset cannot be counted");
                    let version = versions.current();
                    if let Some((_, partition)) = find(version.tables.get(&table), partition) {
                        partition.set_unreadable(&[rowset.meta.id], &error);
                    }
                    continue;
                }
            };
            let HiddenRows { rows, ranges, .. } = counted;
            let is_worth = rows >= rowset.meta.rows.div_ceil(HIDDEN_SHARE) || ranges > RANGES_MAX;
            if rows > 0 && is_worth {
                candidates.push(Candidate {
                    table,
                    partition,
                    rowsets: vec![rowset.meta.id],
                    cuts: Vec::new(),
                    score: rows as f64 / rowset.meta.rows as f64,
                    runs: 0,
                });
            }
        }
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates
}

/// The tables with deleted ranges up to a sequence, and their rowsets that can be read.
fn with_deleted_ranges(version: &Version, durable: u64) -> Vec<DeletedFrom> {
    let mut tables = Vec::new();
    for table in version.tables.values() {
        let ranges = table.tombstones.iter().filter(|tombstone| tombstone.sequence <= durable);
        let ranges: Vec<Arc<Tombstone>> = ranges.cloned().collect();
        if ranges.is_empty() {
            continue;
        }
        let of_partition = |partition: &Arc<PartitionVersion>| {
            let readable = partition.rowsets.iter().filter(|rowset| !rowset.is_unreadable());
            readable.map(|rowset| (partition.id, rowset.clone())).collect::<Vec<_>>()
        };
        let rowsets = table.partitions.iter().flat_map(of_partition).collect();
        let is_series_keyed = table.schema.is_series_keyed();
        tables.push(DeletedFrom { table: table.id, is_series_keyed, ranges, rowsets });
    }
    tables
}

/// How many rows of a rowset the ranges of its table hide, as far as it is known; it is found out if that is due.
fn count_hidden(
    rowset: &Arc<Rowset>,
    is_series_keyed: bool,
    all: &[Arc<Tombstone>],
    is_quiet: bool,
) -> Result<HiddenRows> {
    let newest = all.last().map_or(0, |newest| newest.sequence);
    let may_hide = |tombstone: &&Arc<Tombstone>| rowset.may_be_hidden_by(tombstone);
    let mut known = rowset.hidden_rows.lock();
    if let Some(counted) = &mut *known {
        // Mostly there are none, or they concern others.
        let added = &all[all.partition_point(|tombstone| tombstone.sequence <= counted.sequence)..];
        let is_same = !added.iter().any(|tombstone| may_hide(&tombstone));
        if is_same {
            counted.sequence = counted.sequence.max(newest);
        }
        if is_same || (!is_quiet && counted.at.elapsed() < COUNT_PAUSE) {
            return Ok(*counted);
        }
    }
    let ranges: Vec<Arc<Tombstone>> = all.iter().filter(may_hide).cloned().collect();
    let rows = match (ranges.is_empty(), is_series_keyed) {
        (true, _) => 0,
        (false, true) => hidden_rows(rowset, &ranges)?,
        (false, false) => hidden_keyed_rows(rowset, &ranges)?,
    };
    let counted = HiddenRows { sequence: newest, rows, ranges: ranges.len(), at: Instant::now() };
    *known = Some(counted);
    if rows == 0 {
        rowset.set_clean_to(newest);
    }
    Ok(counted)
}

/// About how many rows of a rowset of a series-keyed table are hidden; 0 says that none is.
fn hidden_rows(rowset: &Arc<Rowset>, ranges: &[Arc<Tombstone>]) -> Result<u64> {
    let mut hidden = 0;
    let (mut times, mut tombstones) = (Vec::new(), SeriesTombstones::new(ranges.to_vec()));
    let mut add = |series: u32, time: TimeRange, rows: u32| {
        let series = SeriesId(series);
        let of_series = tombstones.of(series).iter().filter_map(|tombstone| tombstone.times_of(series));
        times.clear();
        times.extend(of_series.map(|range| range.intersect(time)).filter(|range| !range.is_empty()));
        hidden += share_of(&mut times, time, rows.into());
    };
    let footer = rowset.footer()?;
    for page in &footer.pages {
        let page_time = TimeRange::new(page.min_time_ns, page.max_time_ns.saturating_add(1));
        if !ranges.iter().any(|range| range.times().is_some_and(|time| time.overlaps(page_time))) {
            continue;
        }
        let entries = rowset.group_page(page)?;
        for group in 0..page.groups as usize {
            let entry = GroupEntry::at(entries.bytes(), group);
            let time = TimeRange::new(entry.min_time_ns, entry.max_time_ns.saturating_add(1));
            let runs = rowset.runs(&entry, Use::Once)?;
            match runs.as_ref().and_then(|runs| runs.group_runs()) {
                Some(runs) => {
                    let mut start = 0;
                    for (series, end) in runs.series.iter().zip(&runs.ends) {
                        add(*series, time, end - start);
                        start = *end;
                    }
                }
                None => add(entry.first_series, time, entry.rows),
            }
        }
    }
    Ok(hidden)
}

/// The share of rows at some times that lies in some of these, if they are spread evenly; at least 1 if there are any.
fn share_of(times: &mut [TimeRange], all: TimeRange, rows: u64) -> u64 {
    if times.is_empty() {
        return 0;
    }
    times.sort_unstable_by_key(|time| time.start_ns);
    let (mut covered, mut end_ns) = (0_i128, i64::MIN);
    for time in times.iter() {
        let start_ns = time.start_ns.max(end_ns);
        if start_ns < time.end_ns {
            covered += i128::from(time.end_ns) - i128::from(start_ns);
            end_ns = time.end_ns;
        }
    }
    let width = (i128::from(all.end_ns) - i128::from(all.start_ns)).max(1);
    ((i128::from(rows) * covered / width) as u64).max(1)
}

/// The same for a table with another key: counts all rows of groups that have a key in a range.
fn hidden_keyed_rows(rowset: &Arc<Rowset>, ranges: &[Arc<Tombstone>]) -> Result<u64> {
    let tombstones = KeyTombstones::new(ranges, u64::MAX, &KeyRange::all());
    let footer = rowset.footer()?;
    let mut hidden = 0;
    for (number, page) in footer.pages.iter().enumerate() {
        let block = rowset.keyed_page(&footer, page)?;
        let index = block.as_keyed_page().expect("was checked");
        for group in 0..index.groups() {
            let first = index.first_key(group);
            // The first key that is not in the group any more, or for the last one its last key.
            let next = match group + 1 < index.groups() {
                true => index.first_key(group + 1),
                false => footer.pages.get(number + 1).map_or(&footer.last_key, |page| &page.first_key),
            };
            if rowset.hidden_from() <= tombstones.hidden_between(first, next) {
                hidden += u64::from(index.entry(group).rows);
            }
        }
    }
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::{Engine, EngineOptions, block_on, single_series};
    use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};

    #[test]
    fn a_flush_gives_memory_back_while_hidden_rows_are_counted() -> Result<()> {
        let fs = Arc::new(SimulatedFs::new());
        let engine =
            Engine::open(EngineOptions { fs, maintenance_threads: 0, ..EngineOptions::new("/data") })?;
        let table = single_series::create(&engine, 1000)?;
        for time_ns in [10, 20] {
            single_series::write(&engine, table, time_ns..time_ns + 1)?;
            assert!(engine.flush()?);
        }
        let rows = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(0, 100) };
        block_on(engine.delete(Delete { table, rows, predicates: Vec::new() }))?;
        single_series::write(&engine, table, 30..31)?;
        let partition = engine.versions.current().table(table)?.partitions[0].clone();
        let memtable = Arc::downgrade(partition.active_if_made().expect("has a row"));
        let rowsets = partition.rowsets.clone();
        drop(partition);
        let [first, second] = &rowsets[..] else { panic!("two flushes") };
        // The second rowset is on a slow disk.
        let counted = second.hidden_rows.lock();
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| pick_hidden(&engine.versions, u64::MAX, true));
            while first.hidden_rows.lock().is_none() {
                std::thread::yield_now();
            }
            assert!(engine.flush()?);
            assert!(memtable.upgrade().is_none(), "the memtable is held by who counts");
            drop(counted);
            assert_eq!(counting.join().expect("does not panic").len(), 2);
            Ok(())
        })
    }

    #[test]
    fn ranges_that_overlap_count_once() {
        let range = TimeRange::new;
        assert_eq!(share_of(&mut [], range(0, 100), 50), 0);
        assert_eq!(share_of(&mut [range(50, 70), range(0, 50), range(10, 60)], range(0, 100), 1000), 700);
        assert_eq!(share_of(&mut [range(5, 6)], range(0, 1000), 10), 1, "there may be one");
        assert_eq!(share_of(&mut [TimeRange::ALL], TimeRange::ALL, 10), 10);
    }
}
