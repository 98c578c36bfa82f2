//! Up to which sequence deleted ranges hide keys, without asking each range for each key.
//!
//! The ranges are cut at each other's ends. So they become intervals that lie one behind the other, each with the newest range in it.

use crate::rows::key::KeyRange;
use crate::rows::tombstone::{DeletedRange, Tombstone};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Deleted ranges of keys.
pub(crate) struct KeyTombstones {
    /// Each goes on to the next one, the last one to the end.
    intervals: Vec<Interval>,
}

struct Interval {
    /// It begins where this one does, or where it ends.
    tombstone: Arc<Tombstone>,
    is_end: bool,
    /// The sequence up to which its keys are hidden; 0: they are not.
    hidden_to: u64,
}

impl KeyTombstones {
    /// Those of some deleted ranges that are not newer than a sequence, and may hide keys of a range.
    pub(crate) fn new(tombstones: &[Arc<Tombstone>], sequence: u64, range: &KeyRange) -> Self {
        let is_seen = |each: &&Arc<Tombstone>| each.sequence <= sequence && each.overlaps_keys(range);
        let mut bounds: Vec<Interval> = Vec::new();
        for tombstone in tombstones.iter().filter(is_seen) {
            let Some(keys) = keys_of(tombstone).filter(|keys| !keys.is_empty()) else { continue };
            let bound = |is_end| Interval { tombstone: tombstone.clone(), is_end, hidden_to: 0 };
            bounds.push(bound(false));
            bounds.extend(keys.end.is_some().then(|| bound(true)));
        }
        bounds.sort_by(|a, b| a.start().cmp(b.start()));
        let hidden_to = newest_of(&bounds);
        let mut intervals: Vec<Interval> = Vec::new();
        for (bound, hidden_to) in bounds.into_iter().zip(hidden_to) {
            // Of those that begin at the same key the last one knows of all ranges.
            intervals.pop_if(|last| last.start() == bound.start());
            intervals.push(Interval { hidden_to, ..bound });
        }
        Self { intervals }
    }

    /// The sequence up to which an encoded key is hidden; 0: it is not.
    pub(crate) fn hidden_to(&self, key: &[u8]) -> u64 {
        let place = self.intervals.partition_point(|interval| interval.start() <= key);
        place.checked_sub(1).map_or(0, |place| self.intervals[place].hidden_to)
    }

    /// The sequence up to which some of the keys from one to another are hidden; 0: none is.
    pub(crate) fn hidden_between(&self, first: &[u8], last: &[u8]) -> u64 {
        let begin = self.intervals.partition_point(|interval| interval.start() <= first).saturating_sub(1);
        let behind = &self.intervals[begin..];
        let end = behind.partition_point(|interval| interval.start() <= last);
        behind[..end].iter().map(|interval| interval.hidden_to).max().unwrap_or(0)
    }
}

impl Interval {
    /// Its first key.
    fn start(&self) -> &[u8] {
        match keys_of(&self.tombstone) {
            Some(keys) if self.is_end => keys.end.as_deref().unwrap_or_default(),
            Some(keys) => &keys.start,
            None => &[],
        }
    }
}

/// The newest range at each of some ascending bounds, when all that begin there have begun.
fn newest_of(bounds: &[Interval]) -> Vec<u64> {
    // The ranges that have begun, the newest first. Those that have ended are taken out when they come first.
    let mut begun: BinaryHeap<(u64, Option<&[u8]>)> = BinaryHeap::new();
    let mut newest = Vec::with_capacity(bounds.len());
    for bound in bounds {
        if let (false, Some(keys)) = (bound.is_end, keys_of(&bound.tombstone)) {
            begun.push((bound.tombstone.sequence, keys.end.as_deref()));
        }
        let has_ended = |end: &Option<&[u8]>| end.is_some_and(|end| end <= bound.start());
        while begun.peek().is_some_and(|(_, end)| has_ended(end)) {
            begun.pop();
        }
        newest.push(begun.peek().map_or(0, |(sequence, _)| *sequence));
    }
    newest
}

fn keys_of(tombstone: &Tombstone) -> Option<&KeyRange> {
    match &tombstone.range {
        DeletedRange::Keys(keys) => Some(keys),
        DeletedRange::Series { .. } | DeletedRange::SeriesKeys(_) | DeletedRange::Times(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tombstone::hidden_to;
    use nyala_core::TimeRange;
    use proptest::prelude::*;

    fn range((start, end): (u8, Option<u8>)) -> KeyRange {
        // A key may begin with another one here.
        let key = |number: u8| if number.is_multiple_of(2) { vec![number] } else { vec![number - 1, 0] };
        KeyRange { start: key(start), end: end.map(key) }
    }

    proptest! {
        #[test]
        fn they_hide_what_each_range_hides(
            ranges in prop::collection::vec((0_u8..20, prop::option::of(0_u8..22)), 0..12),
            wanted in (0_u8..20, prop::option::of(0_u8..22)),
            sequence in 0_u64..14,
        ) {
            let times = DeletedRange::Times(TimeRange::ALL);
            let of_keys = ranges.into_iter().map(|keys| DeletedRange::Keys(range(keys)));
            let all: Vec<_> = (1..)
                .zip(of_keys.chain([times]))
                .map(|(sequence, range)| Arc::new(Tombstone::new(sequence, range)))
                .collect();
            let wanted = range(wanted);
            let found = KeyTombstones::new(&all, sequence, &wanted);
            let seen: Vec<_> = all.into_iter().filter(|each| each.sequence <= sequence).collect();
            let keys: Vec<Vec<u8>> = (0..24).map(|number| range((number, None)).start).collect();
            let hidden = |key: &Vec<u8>| hidden_to(&seen, key);
            for key in keys.iter().filter(|key| wanted.contains(key)) {
                prop_assert_eq!(found.hidden_to(key), hidden(key), "{:?}", key);
            }
            let all = KeyTombstones::new(&seen, u64::MAX, &KeyRange::all());
            for first in 0..keys.len() {
                for last in first..keys.len() {
                    let expected = keys[first..=last].iter().map(hidden).max();
                    prop_assert_eq!(Some(all.hidden_between(&keys[first], &keys[last])), expected);
                }
            }
        }
    }

    #[test]
    fn intervals_are_not_more_than_the_ends_of_ranges() {
        // Each is in the one before.
        let nested = (0..1000_u32).map(|number| {
            let (start, end) = (number.to_be_bytes().to_vec(), (3000 - number).to_be_bytes().to_vec());
            Arc::new(Tombstone::new(number.into(), DeletedRange::Keys(KeyRange { start, end: Some(end) })))
        });
        let found = KeyTombstones::new(&nested.collect::<Vec<_>>(), u64::MAX, &KeyRange::all());
        assert_eq!(found.intervals.len(), 2000);
        for (key, expected) in
            [(0, 0), (500, 500), (999, 999), (2000, 999), (2001, 998), (2998, 1), (2999, 0)]
        {
            assert_eq!(found.hidden_to(&u32::to_be_bytes(key)), expected, "{key}");
        }
    }
}
