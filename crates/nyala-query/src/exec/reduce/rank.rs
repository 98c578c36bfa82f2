//! Finds the key with a rank among more keys than memory holds, in several passes over the keys.
//!
//! A pass counts keys in ranges of equal width and continues with the range that holds the rank. So each pass finds 16 more
//! bits of the key. When few enough keys are left, the next pass collects them.

/// Ranges that a pass counts.
const RANGES: usize = 1 << 16;
/// The most keys that are collected.
const COLLECTED_MAX: u64 = 1 << 15;

/// The search for a rank. Every pass adds the same keys, in any order.
pub struct RankSearch {
    /// The range of the keys that are still possible.
    low: u128,
    high: u128,
    /// How many keys are less than all of these.
    below: u64,
    /// The number of keys, and the rank, after the first pass.
    sought: Option<(u64, u64)>,
    counts: Vec<u64>,
    collected: Option<Vec<u128>>,
}

/// The result of a pass.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It takes another pass.
    Again,
    /// The key with the rank, and the key of the next rank if it happens to be known.
    Found(u128, Option<u128>),
    /// No key has the rank.
    Nothing,
}

impl RankSearch {
    /// The most memory it takes, bytes.
    pub const BYTES: usize = RANGES * 8 + COLLECTED_MAX as usize * 16;

    /// A search without any keys yet.
    pub fn new() -> Self {
        Self { low: 0, high: u128::MAX, below: 0, sought: None, counts: vec![0; RANGES], collected: None }
    }

    /// Adds a key in a pass.
    pub fn add(&mut self, key: u128) {
        if key < self.low || key > self.high {
            return;
        }
        let shift = self.shift();
        match &mut self.collected {
            Some(keys) => keys.push(key),
            None => self.counts[((key - self.low) >> shift) as usize] += 1,
        }
    }

    /// Ends a pass. `rank_of` gives the rank for the number of keys.
    pub fn end_pass(&mut self, rank_of: impl FnOnce(u64) -> Option<u64>) -> Step {
        if let (Some(mut keys), Some((_, rank))) = (self.collected.take(), self.sought) {
            let position = (rank - self.below) as usize;
            keys.sort_unstable();
            return Step::Found(keys[position], keys.get(position + 1).copied());
        }
        let count = || self.counts.iter().sum();
        let sought = self.sought.or_else(|| rank_of(count()).map(|rank| (count(), rank)));
        let Some((_, rank)) = sought else { return Step::Nothing };
        self.sought = sought;
        let mut range = 0;
        while self.below + self.counts[range] <= rank {
            self.below += self.counts[range];
            range += 1;
        }
        let shift = self.shift();
        self.low += (range as u128) << shift;
        self.high = self.high.min(self.low.saturating_add((1 << shift) - 1));
        let left = self.counts[range];
        if self.low == self.high {
            return Step::Found(self.low, (self.below + left > rank + 1).then_some(self.low));
        }
        match left <= COLLECTED_MAX {
            true => self.collected = Some(Vec::with_capacity(left as usize)),
            false => self.counts.fill(0),
        }
        Step::Again
    }

    /// The number of keys, after the first pass.
    pub fn count(&self) -> u64 {
        self.sought.map_or(0, |(count, _)| count)
    }

    /// How many low bits differ between keys of one range.
    fn shift(&self) -> u32 {
        (u128::BITS - (self.high - self.low).leading_zeros()).saturating_sub(RANGES.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(keys: &[u128], rank: u64) -> (Step, usize) {
        let mut search = RankSearch::new();
        for passes in 1.. {
            keys.iter().for_each(|key| search.add(*key));
            let step = search.end_pass(|count| {
                assert_eq!(count, keys.len() as u64);
                (rank < count).then_some(rank)
            });
            if step != Step::Again {
                return (step, passes);
            }
        }
        unreachable!()
    }

    fn check(mut keys: Vec<u128>, rank: u64) {
        let (step, passes) = search(&keys, rank);
        assert!(passes <= 9, "{passes} passes");
        keys.sort_unstable();
        let at = |rank: u64| keys.get(rank as usize).copied();
        match step {
            Step::Found(key, next) => {
                assert_eq!(Some(key), at(rank));
                assert!(next.is_none() || next == at(rank + 1));
            }
            _ => assert_eq!(at(rank), None),
        }
    }

    proptest! {
        #[test]
        fn a_rank_has_the_same_key_as_in_sorted_keys(
            keys in prop::collection::vec(prop_oneof![any::<u128>(), 0..4_u128, Just(u128::MAX)], 0..200),
            rank in 0..220_u64,
        ) {
            check(keys, rank);
        }
    }

    #[test]
    fn many_close_or_equal_keys_take_several_passes() {
        let many = COLLECTED_MAX as usize * 3;
        let equal: Vec<u128> = (0..many).map(|index| u128::from(index % 3 == 0) << 70).collect();
        let close: Vec<u128> = (0..many as u128).map(|index| (7 << 90) + index * 31 % 1000).collect();
        for keys in [equal, close] {
            for rank in [0, many as u64 / 2, many as u64 * 2 / 3, many as u64 - 1, many as u64] {
                check(keys.clone(), rank);
            }
        }
    }
}
