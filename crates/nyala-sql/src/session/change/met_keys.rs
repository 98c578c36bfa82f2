//! The keys that a statement has met, so that it notices if it meets one again among rows that it writes later.

use crate::relation::entries::RowIndex;
use arrow_array::{Array, ArrayRef};
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// What a hash takes in the set, at most.
const HASH_BYTES: usize = 20;

/// Hashes of keys. Two keys with one hash among ten million are as rare as one statement in a million.
pub(super) struct MetKeys {
    hashes: HashSet<u64>,
    state: RandomState,
    held: MemoryCharge,
    most_bytes: usize,
    /// Whether there was no memory for more: then keys are forgotten, rather than that large statements are refused.
    is_full: bool,
}

impl MetKeys {
    /// None so far. They may take a quarter of the memory of their statement.
    pub(super) fn new(memory: &QueryMemory) -> Self {
        let most_bytes = memory.limit_bytes() / 4;
        Self {
            hashes: HashSet::new(),
            state: RandomState::new(),
            held: memory.hold(),
            most_bytes,
            is_full: false,
        }
    }

    /// Notes what rows have in a key or an index, each once. Returns whether one of them was noted before.
    pub(super) fn meets_again(&mut self, by: &RowIndex<'_>, rows: &[ArrayRef]) -> bool {
        let count = rows.first().map_or(0, |values| values.len());
        let bytes = count * HASH_BYTES;
        self.is_full |= self.held.bytes() + bytes > self.most_bytes || self.held.charge(bytes).is_err();
        let mut is_met = false;
        for values in (0..count).filter_map(|row| by.values(rows, row)) {
            let hash = self.state.hash_one(&values);
            is_met |= match self.is_full {
                true => self.hashes.contains(&hash),
                false => !self.hashes.insert(hash),
            };
        }
        is_met
    }
}
