//! Which rowsets to merge next: tiers by size.
//!
//! Rowsets of about one size are merged when there are several next to each other. A row is so rewritten
//! once per tier, and a partition settles at a few rowsets.

use crate::version::Version;
use nyala_core::TableId;
use std::ops::Range;

/// Rowsets of one tier next to each other that are worth merging while writes come in: every step of size then
/// costs another writing of each row, and readers pass by rowsets of other times for little.
pub(crate) const FAN_IN_BUSY: usize = 8;
/// The same while none do: readers gain, and the processor has nothing better to do.
pub(crate) const FAN_IN_QUIET: usize = 3;
/// Rowsets merged at once at most.
const FAN_IN_MAX: usize = 16;
/// A tier is this many times larger than the one below.
const TIER_FACTOR: u64 = 4;
/// Rowsets up to this size are one tier.
const SMALLEST_TIER_BYTES: u64 = 1 << 20;
/// The most bytes merged in one step.
const STEP_BYTES_MAX: u64 = 4 << 30;

/// Rowsets of a partition to merge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) table: TableId,
    pub(crate) partition: u64,
    /// By position in the partition.
    pub(crate) rowsets: Range<usize>,
    /// What is gained per byte rewritten: rowsets fewer per MiB.
    pub(crate) score: f64,
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

/// What is worth merging of rowsets of these sizes, oldest first.
fn pick_sizes(sizes: &[u64], fan_in: usize) -> Option<Range<usize>> {
    let mut best: Option<(u32, Range<usize>)> = None;
    for start in 0..sizes.len() {
        // A run never has a larger tier than its first rowset, so small new ones join older small ones.
        let highest = tier(sizes[start]);
        let mut end = start;
        let mut bytes = 0;
        while end < sizes.len()
            && end - start < FAN_IN_MAX
            && tier(sizes[end]) <= highest
            && bytes + sizes[end] <= STEP_BYTES_MAX
        {
            bytes += sizes[end];
            end += 1;
        }
        let equals = sizes[start..end].iter().filter(|size| tier(**size) == highest).count();
        if equals >= fan_in && best.as_ref().is_none_or(|(tier, _)| highest < *tier) {
            best = Some((highest, start..end));
        }
    }
    best.map(|(_, range)| range)
}

/// Everything worth merging now, best first, of at least so many rowsets.
pub(crate) fn pick(version: &Version, fan_in: usize) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for table in version.tables.values() {
        for partition in &table.partitions {
            // Damaged rowsets stay where they are; only what is between them can be merged.
            let mut begin = 0;
            for readable in partition.rowsets.split(|rowset| rowset.is_unreadable()) {
                let sizes: Vec<u64> = readable.iter().map(|rowset| rowset.meta.length_bytes).collect();
                if let Some(picked) = pick_sizes(&sizes, fan_in) {
                    let bytes: u64 = sizes[picked.clone()].iter().sum();
                    let score = (picked.len() - 1) as f64 / (bytes as f64 / 1048576.0 + 1.0);
                    let rowsets = begin + picked.start..begin + picked.end;
                    candidates.push(Candidate { table: table.id, partition: partition.id, rowsets, score });
                }
                begin += readable.len() + 1;
            }
        }
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_equals_and_settles() {
        let quiet = |sizes: &[u64]| pick_sizes(sizes, FAN_IN_QUIET);
        assert_eq!(quiet(&[10 << 20; 2]), None);
        assert_eq!(quiet(&[10 << 20; 3]), Some(0..3));
        assert_eq!(quiet(&[500 << 20, 5 << 20, 6 << 20, 5 << 20, 7 << 20]), Some(1..5));
        // Every flush of 5 MiB: the number of rowsets stays small, and so does what is rewritten.
        for (fan_in, rowsets_most, rewritten_most) in [(FAN_IN_QUIET, 16, 5), (FAN_IN_BUSY, 22, 2)] {
            let (mut sizes, mut rewritten, mut written) = (Vec::<u64>::new(), 0, 0);
            for _ in 0..200 {
                sizes.push(5 << 20);
                written += 5 << 20;
                while let Some(range) = pick_sizes(&sizes, fan_in) {
                    let merged: u64 = sizes[range.clone()].iter().sum();
                    rewritten += merged;
                    sizes.splice(range, [merged]);
                }
            }
            assert!(sizes.len() <= rowsets_most, "{sizes:?}");
            assert!(rewritten <= written * rewritten_most, "rewritten {} times", rewritten / written);
        }
    }
}
