//! Where rowsets are cut before they are merged key range by key range, and which are joined because they are short.
//!
//! A *gap* lies between two rowsets of a run that follow each other: a cut anywhere in it cuts neither. Runs that were cut
//! at one key have gaps there that differ, because each run has other keys. So a cut is put where the gaps of all runs
//! meet: at the first key of one of them, it would cut slivers off the others, whose gaps would cut the next ones.

use crate::files::rowset::Rowset;
use nyala_core::Result;
use std::sync::Arc;

/// Bytes of what is between two cuts: a part of the greatest length of a rowset.
const SPAN_PART: u64 = 2;
/// So many rowsets one behind the other are joined if they are as short as one together.
const JOINED_MIN: usize = 8;

/// A rowset's first and last key, and its bytes.
type KeySpan<'a> = (&'a [u8], &'a [u8], u64);

fn key_span(rowset: &Arc<Rowset>) -> Result<KeySpan<'_>> {
    let (first, last) = rowset.key_bounds()?;
    Ok((first, last, rowset.meta.length_bytes))
}

/// Keys to cut the rowsets of some runs at, ascending: gaps of the largest run, and behind its last key, those of the next.
/// Runs that are one rowset have none.
pub(super) fn cuts(runs: &[&[Arc<Rowset>]], rowset_bytes_max: u64) -> Result<Vec<Vec<u8>>> {
    let runs = runs.iter().map(|run| run.iter().map(key_span).collect()).collect::<Result<Vec<Vec<_>>>>()?;
    Ok(cuts_of(&runs, rowset_bytes_max / SPAN_PART))
}

fn cuts_of(runs: &[Vec<KeySpan<'_>>], span_bytes_min: u64) -> Vec<Vec<u8>> {
    let mut largest_first: Vec<&Vec<KeySpan<'_>>> = runs.iter().filter(|run| run.len() > 1).collect();
    largest_first.sort_by_key(|run| std::cmp::Reverse(run.iter().map(|(.., bytes)| bytes).sum::<u64>()));
    let (mut cuts, mut reach) = (Vec::new(), None);
    for run in largest_first {
        for gap in gaps(run, reach, span_bytes_min) {
            cuts.push(narrowed(gap, runs).to_vec());
        }
        reach = reach.max(run.iter().map(|(_, last, _)| *last).max());
    }
    cuts.sort_unstable();
    cuts
}

/// The gaps of a run behind a key, each as the last key before it and the first one behind it, with at least so many bytes
/// between two of them: rowsets that are shorter stay together.
fn gaps<'a>(run: &[KeySpan<'a>], reach: Option<&'a [u8]>, bytes_min: u64) -> Vec<(&'a [u8], &'a [u8])> {
    let mut by_key: Vec<KeySpan<'a>> = run.to_vec();
    by_key.retain(|(first, ..)| reach.is_none_or(|reach| reach < *first));
    by_key.sort_unstable();
    // What is before the reach is long enough.
    let (mut gaps, mut last, mut bytes) = (Vec::new(), reach, reach.map_or(0, |_| bytes_min));
    for (first, end, length) in by_key {
        if let Some(last) = last.filter(|last| *last < first && bytes >= bytes_min) {
            gaps.push((last, first));
            bytes = 0;
        }
        last = last.max(Some(end));
        bytes += length;
    }
    gaps
}

/// A key in a gap, before which to cut, and which cuts no rowset that begins or ends in the gap.
fn narrowed<'a>((mut before, mut behind): (&'a [u8], &'a [u8]), runs: &[Vec<KeySpan<'a>>]) -> &'a [u8] {
    for (first, last, _) in runs.iter().flatten() {
        if before < *first && *first < behind {
            behind = first;
        } else if before < *last && *last < behind {
            before = last;
        }
    }
    behind
}

/// Whether a rowset has keys on both sides of one of these cuts.
pub(super) fn reaches_across(rowset: &Rowset, cuts: &[Vec<u8>]) -> Result<bool> {
    let (first, last) = rowset.key_bounds()?;
    let next = cuts.partition_point(|cut| cut <= first);
    Ok(cuts.get(next).is_some_and(|cut| cut <= last))
}

/// The first rowsets by key that have keys in common, directly or through others; they stay in order of sequences.
pub(super) fn first_with_common_keys(rowsets: &[Arc<Rowset>]) -> Result<Option<Vec<&Arc<Rowset>>>> {
    let mut group: Vec<usize> = Vec::new();
    let mut last: Option<&[u8]> = None;
    for ((first, end, _), position) in by_key(rowsets)? {
        if last.is_none_or(|last| last < first) {
            if group.len() > 1 {
                break;
            }
            group.clear();
        }
        group.push(position);
        last = last.max(Some(end));
    }
    group.sort_unstable();
    Ok((group.len() > 1).then(|| group.into_iter().map(|position| &rowsets[position]).collect()))
}

/// Short rowsets of a run that lie one behind the other by key, and make one: each of them is asked for by readers, and
/// opened. The run's rowsets have no keys in common.
pub(super) fn short_neighbours(
    run: &[Arc<Rowset>],
    rowset_bytes_max: u64,
) -> Result<Option<Vec<&Arc<Rowset>>>> {
    if run.len() < JOINED_MIN {
        return Ok(None);
    }
    let by_key = by_key(run)?;
    for start in 0..=by_key.len() - JOINED_MIN {
        let mut bytes = 0;
        let fits = by_key[start..].iter().take_while(|((.., length), _)| {
            bytes += length;
            bytes <= rowset_bytes_max
        });
        let count = fits.count();
        if count >= JOINED_MIN {
            let mut joined: Vec<usize> =
                by_key[start..start + count].iter().map(|(_, position)| *position).collect();
            joined.sort_unstable();
            return Ok(Some(joined.into_iter().map(|position| &run[position]).collect()));
        }
    }
    Ok(None)
}

fn by_key(rowsets: &[Arc<Rowset>]) -> Result<Vec<(KeySpan<'_>, usize)>> {
    let mut by_key = rowsets
        .iter()
        .enumerate()
        .map(|(position, rowset)| Ok((key_span(rowset)?, position)))
        .collect::<Result<Vec<_>>>()?;
    by_key.sort_unstable();
    Ok(by_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bounds: &'static [(&'static str, &'static str)]) -> Vec<KeySpan<'static>> {
        bounds.iter().map(|(first, last)| (first.as_bytes(), last.as_bytes(), 10)).collect()
    }

    #[test]
    fn a_cut_lies_where_the_gaps_of_all_runs_meet() {
        // Cut at `m` before, each with keys of its own; and one that was not cut.
        let a = run(&[("a", "lx"), ("mc", "z"), ("za", "zz")]);
        let b = run(&[("ab", "lz"), ("ma", "y")]);
        let whole = run(&[("aa", "zb")]);
        let cuts = cuts_of(&[a.clone(), b.clone(), whole], 1);
        assert_eq!(cuts, [b"ma".to_vec(), b"za".to_vec()]);
        // Whichever is the largest, neither is cut again.
        assert_eq!(cuts_of(&[b, a], 1)[0], b"ma".to_vec());
    }

    #[test]
    fn what_lies_behind_the_largest_run_is_cut_off() {
        let early = run(&[("a", "c"), ("d", "f"), ("g", "i")]);
        let late = run(&[("h", "k"), ("m", "p")]);
        assert_eq!(cuts_of(&[late, early], 1), [b"d".to_vec(), b"g".to_vec(), b"m".to_vec()]);
    }

    #[test]
    fn short_rowsets_stay_together() {
        let slivers = run(&[("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("i", "j"), ("k", "l")]);
        assert_eq!(cuts_of(&[slivers], 25), [b"g".to_vec()]);
    }
}
