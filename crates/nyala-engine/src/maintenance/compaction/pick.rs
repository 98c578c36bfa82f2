//! Which rowsets to merge next: tiers by size, and what is too much for one step, key range by key range.
//!
//! Rowsets of about one size are merged when there are several next to each other. A row is so rewritten
//! once per tier, and a partition settles at a few rowsets.
//!
//! **What may be merged.** Newer rows win over older ones of the same key, and a rowset has only one range of
//! sequences. So rowsets can become one if every other rowset whose keys lie between theirs is older than all of
//! them, or newer than all of them. From that follows the invariant of a partition: *two rowsets that have keys in
//! common have disjoint sequences*.
//!
//! A *sorted run* is a set of rowsets whose sequences overlap or are the same; the runs of a partition have disjoint
//! sequences, one after the other. Mostly a run is one rowset. A merge writes rowsets of a bounded length, so a large
//! run is several rowsets of the same sequences, one behind the other by key. Tiers are those of runs. Runs that are
//! small together are merged in one step. Of larger ones, rowsets that reach across the bounds of the largest run's
//! rowsets are cut there first, one in a step (`cuts.rs`); then a step merges those rowsets that have keys in common: as
//! long as one of the largest run's and what the others have of its keys, however large the partition is. In tables that are not
//! keyed by series all runs are merged when the later ones have as many bytes as the oldest, so that overwritten rows take
//! at most about as much space as the others. With the first of
//! these steps the runs become one, some keys of which are merged and others are not yet; the next steps merge the
//! rest. Where nothing else is to be done, short rowsets of a run are joined.

use super::cuts::{cuts, first_with_common_keys, reaches_across, short_neighbours};
use super::find;
use crate::files::rowset::Rowset;
use crate::memory::publisher::VersionPublisher;
use crate::memory::version::Version;
use crate::options::EngineOptions;
use nyala_core::{Result, TableId};
use std::ops::Range;
use std::sync::Arc;

/// Rowsets of one tier next to each other that are worth merging while writes come in: every step of size then
/// costs another writing of each row, and readers pass by rowsets of other times for little.
pub(crate) const FAN_IN_BUSY: usize = 8;
/// The same while no client writes: readers gain, and the processor is idle.
pub(crate) const FAN_IN_QUIET: usize = 3;
/// Runs merged at once at most.
const FAN_IN_MAX: usize = 16;
/// A tier is this many times larger than the one below.
const TIER_FACTOR: u64 = 4;
/// Runs up to this size are one tier.
const SMALLEST_TIER_BYTES: u64 = 1 << 20;
/// At most so many rowsets of the greatest length are merged in one step, unless there are no bounds to split them at.
const STEP_ROWSETS: u64 = 4;

/// Rowsets of a partition to rewrite.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) table: TableId,
    pub(crate) partition: u64,
    pub(crate) rowsets: Vec<u64>,
    /// Keys at which another rowset begins, besides where one is long enough.
    pub(crate) cuts: Vec<Vec<u8>>,
    /// The gain per byte rewritten: how many rowsets fewer per MiB.
    pub(crate) score: f64,
    /// The sorted runs of the partition: how many places a reader has to look at.
    pub(crate) runs: usize,
}

fn tier(bytes: u64) -> u32 {
    let mut tier = 0;
    let mut limit = SMALLEST_TIER_BYTES;
    while bytes > limit {
        tier += 1;
        limit = limit.saturating_mul(TIER_FACTOR);
    }
    tier
}

/// The runs that are worth merging, by sizes from oldest to newest: the lowest tier first, in one tier the oldest.
fn pick_sizes(sizes: &[u64], fan_in: usize) -> Vec<Range<usize>> {
    let mut picked: Vec<(u32, Range<usize>)> = Vec::new();
    for start in 0..sizes.len() {
        // No picked run has a larger tier than the first, so small new ones join older small ones.
        let highest = tier(sizes[start]);
        let mut end = start;
        while end < sizes.len() && end - start < FAN_IN_MAX && tier(sizes[end]) <= highest {
            end += 1;
        }
        let equals = sizes[start..end].iter().filter(|size| tier(**size) == highest).count();
        if equals >= fan_in {
            picked.push((highest, start..end));
        }
    }
    picked.sort_by_key(|(tier, range)| (*tier, range.start));
    picked.into_iter().map(|(_, range)| range).collect()
}

/// Whether later runs have as many bytes as the oldest one: if they overwrite its rows, half of all bytes are no longer
/// needed. Merging all of them then costs another two writings of each byte at most.
fn is_outweighed(sizes: &[u64]) -> bool {
    sizes.len() > 1 && tier(sizes[0]) > 0 && sizes[1..].iter().sum::<u64>() >= sizes[0]
}

/// Rowsets whose sequences hang together, as a range of those of a partition.
struct SortedRun {
    rowsets: Range<usize>,
    bytes: u64,
    max_sequence: u64,
    /// They do not all have the same sequences.
    is_mixed: bool,
    is_readable: bool,
}

/// The sorted runs of rowsets in the order of a partition, oldest first.
fn sorted_runs(rowsets: &[Arc<Rowset>]) -> Vec<SortedRun> {
    let mut runs: Vec<SortedRun> = Vec::new();
    for (position, rowset) in rowsets.iter().enumerate() {
        let meta = &rowset.meta;
        match runs.last_mut().filter(|run| meta.min_sequence <= run.max_sequence) {
            Some(run) => {
                let first = &rowsets[run.rowsets.start].meta;
                run.is_mixed |=
                    (meta.min_sequence, meta.max_sequence) != (first.min_sequence, first.max_sequence);
                run.rowsets.end = position + 1;
                run.bytes += meta.length_bytes;
                run.max_sequence = run.max_sequence.max(meta.max_sequence);
                run.is_readable &= !rowset.is_unreadable();
            }
            None => runs.push(SortedRun {
                rowsets: position..position + 1,
                bytes: meta.length_bytes,
                max_sequence: meta.max_sequence,
                is_mixed: false,
                is_readable: !rowset.is_unreadable(),
            }),
        }
    }
    runs
}

/// The rowsets to rewrite in one step, and the keys to cut at.
type Step<'a> = (Vec<&'a Arc<Rowset>>, Vec<Vec<u8>>);

/// A partition of which rowsets may be merged. It is not its version, because picking reads footers, and a version held
/// meanwhile would hold memtables that are flushed.
struct Mergeable {
    table: TableId,
    partition: u64,
    rowset_bytes_max: u64,
    /// Rows are often written twice.
    overwrites: bool,
    rowsets: Vec<Arc<Rowset>>,
}

fn pick_of_partition<'a>(
    Mergeable { rowsets, rowset_bytes_max, overwrites, .. }: &'a Mergeable,
    runs: &[SortedRun],
    fan_in: usize,
) -> Result<Option<Step<'a>>> {
    let (rowset_bytes_max, overwrites) = (*rowset_bytes_max, *overwrites);
    let bytes_max = rowset_bytes_max.saturating_mul(STEP_ROWSETS);
    // A large merge takes many steps. Flushes do not pile up meanwhile.
    let newest = runs.rsplit(|run| run.is_mixed || !run.is_readable).next().unwrap_or_default();
    if newest.len() < runs.len() {
        let sizes: Vec<u64> = newest.iter().map(|run| run.bytes).collect();
        if let Some(picked) = pick_sizes(&sizes, fan_in).into_iter().next()
            && sizes[picked.clone()].iter().sum::<u64>() <= bytes_max
        {
            let all = newest[picked.start].rowsets.start..newest[picked.end - 1].rowsets.end;
            return Ok(Some((rowsets[all].iter().collect(), Vec::new())));
        }
    }
    for run in runs.iter().filter(|run| run.is_mixed && run.is_readable) {
        if let Some(group) = first_with_common_keys(&rowsets[run.rowsets.clone()])? {
            return Ok(Some((group, Vec::new())));
        }
    }
    // Damaged rowsets stay where they are; only what is between them can be merged.
    for readable in runs.split(|run| !run.is_readable) {
        let sizes: Vec<u64> = readable.iter().map(|run| run.bytes).collect();
        let mut all_picked = pick_sizes(&sizes, fan_in);
        if overwrites && is_outweighed(&sizes) {
            all_picked.push(0..sizes.len());
        }
        for picked in all_picked {
            let picked = &readable[picked];
            let first = picked[0].rowsets.start;
            let all = &rowsets[first..picked[picked.len() - 1].rowsets.end];
            let bytes: u64 = picked.iter().map(|run| run.bytes).sum();
            if bytes <= bytes_max {
                return Ok(Some((all.iter().collect(), Vec::new())));
            }
            let runs: Vec<_> = picked.iter().map(|run| &rowsets[run.rowsets.clone()]).collect();
            let cuts = cuts(&runs, rowset_bytes_max)?;
            for rowset in all {
                if reaches_across(rowset, &cuts)? {
                    return Ok(Some((vec![rowset], cuts)));
                }
            }
            if let Some(group) = first_with_common_keys(all)? {
                return Ok(Some((group, Vec::new())));
            }
        }
    }
    // While rows come in, short rowsets are what is cut for a merge that waits.
    for run in runs.iter().filter(|run| run.is_readable && fan_in == FAN_IN_QUIET) {
        if let Some(short) = short_neighbours(&rowsets[run.rowsets.clone()], rowset_bytes_max)? {
            return Ok(Some((short, Vec::new())));
        }
    }
    Ok(None)
}

/// Everything worth merging now, best first, of at least so many runs.
pub(crate) fn pick(versions: &VersionPublisher, fan_in: usize, options: &EngineOptions) -> Vec<Candidate> {
    let partitions = mergeable(&versions.current(), options);
    let mut candidates = Vec::new();
    for partition in partitions {
        let runs = sorted_runs(&partition.rowsets);
        let (rowsets, cuts) = match pick_of_partition(&partition, &runs, fan_in) {
            Ok(Some(step)) => step,
            Ok(None) => continue,
            Err(error) => {
                tracing::error!(%error, "rowsets cannot be merged: the footer of one cannot be read");
                let all: Vec<u64> = partition.rowsets.iter().map(|rowset| rowset.meta.id).collect();
                let version = versions.current();
                if let Some((_, now)) = find(version.tables.get(&partition.table), partition.partition) {
                    now.set_unreadable(&all, &error);
                }
                continue;
            }
        };
        let bytes: u64 = rowsets.iter().map(|rowset| rowset.meta.length_bytes).sum();
        candidates.push(Candidate {
            table: partition.table,
            partition: partition.partition,
            score: (rowsets.len() - 1) as f64 / (bytes as f64 / 1048576.0 + 1.0),
            rowsets: rowsets.iter().map(|rowset| rowset.meta.id).collect(),
            cuts,
            runs: runs.len(),
        });
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates
}

/// The partitions of several rowsets.
fn mergeable(version: &Version, options: &EngineOptions) -> Vec<Mergeable> {
    let mut partitions = Vec::new();
    for table in version.tables.values() {
        let rowset_bytes_max = options.rowset_bytes_max_of(&table.schema);
        // Points are seldom written twice.
        let overwrites = !table.schema.is_series_keyed();
        for partition in table.partitions.iter().filter(|partition| partition.rowsets.len() > 1) {
            let (table, partition, rowsets) = (table.id, partition.id, partition.rowsets.clone());
            partitions.push(Mergeable { table, partition, rowset_bytes_max, overwrites, rowsets });
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::{Engine, single_series};

    /// Footers that merges are picked by may be read for long.
    #[test]
    fn a_flush_gives_memory_back_while_merges_are_picked() -> Result<()> {
        let options = EngineOptions {
            fs: Arc::new(SimulatedFs::new()),
            maintenance_threads: 0,
            ..EngineOptions::new("/data")
        };
        let engine = Engine::open(options.clone())?;
        let table = single_series::create(&engine, 1000)?;
        for time_ns in [10, 20, 30] {
            single_series::write(&engine, table, time_ns..time_ns + 1)?;
            assert!(engine.flush()?);
        }
        single_series::write(&engine, table, 40..41)?;
        let partition = engine.versions.current().table(table)?.partitions[0].clone();
        let memtable = Arc::downgrade(partition.active_if_made().expect("has a row"));
        drop(partition);
        let looked_at = mergeable(&engine.versions.current(), &options);
        assert!(engine.flush()?);
        assert!(memtable.upgrade().is_none(), "the memtable is held by who picks");
        assert_eq!(looked_at[0].rowsets.len(), 3);
        let runs = sorted_runs(&looked_at[0].rowsets);
        let step = pick_of_partition(&looked_at[0], &runs, FAN_IN_QUIET)?;
        assert_eq!(step.map(|(rowsets, _)| rowsets.len()), Some(3));
        Ok(())
    }

    #[test]
    fn merges_equals_and_settles() {
        let quiet = |sizes: &[u64]| pick_sizes(sizes, FAN_IN_QUIET).into_iter().next();
        assert_eq!(quiet(&[10 << 20; 2]), None);
        assert_eq!(quiet(&[10 << 20; 3]), Some(0..3));
        assert_eq!(quiet(&[500 << 20, 5 << 20, 6 << 20, 5 << 20, 7 << 20]), Some(1..5));
        // Every flush of 5 MiB: the number of runs stays small, and so does what is rewritten.
        for (fan_in, runs_most, rewritten_most) in [(FAN_IN_QUIET, 16, 5), (FAN_IN_BUSY, 22, 2)] {
            let (mut sizes, mut rewritten, mut written) = (Vec::<u64>::new(), 0, 0);
            for _ in 0..200 {
                sizes.push(5 << 20);
                written += 5 << 20;
                while let Some(range) = pick_sizes(&sizes, fan_in).into_iter().next() {
                    let merged: u64 = sizes[range.clone()].iter().sum();
                    rewritten += merged;
                    sizes.splice(range, [merged]);
                }
            }
            assert!(sizes.len() <= runs_most, "{sizes:?}");
            assert!(rewritten <= written * rewritten_most, "rewritten {} times", rewritten / written);
        }
    }
}
