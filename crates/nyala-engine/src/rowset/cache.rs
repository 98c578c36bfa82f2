//! The block cache: verified bytes of rowsets, bounded, accounted, in shards.
//!
//! Replacement is a clock: a block that was used since the hand passed stays for another round. That
//! needs no list to be kept in order on every hit.

use bytes::Bytes;
use hashbrown::HashMap;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;
/// What an entry costs besides its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// A place in a rowset: its id and an offset.
type Place = (u64, u64);

/// Blocks by place.
pub(crate) struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_bytes_max: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Shard {
    places: HashMap<Place, usize, foldhash::fast::RandomState>,
    entries: Vec<Entry>,
    hand: usize,
    bytes: u64,
    charge: Charge,
}

struct Entry {
    place: Place,
    block: Bytes,
    used: bool,
}

impl BlockCache {
    /// A cache within the budget's share for it.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let shard = || Shard {
            places: HashMap::default(),
            entries: Vec::new(),
            hand: 0,
            bytes: 0,
            charge: budget.charge(Component::BlockCache, 0),
        };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            shard_bytes_max: budget.cache_bytes_max() / SHARDS as u64,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn shard(&self, place: Place) -> &Mutex<Shard> {
        let mixed = (place.0 ^ place.1.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }

    /// A block if it is here.
    pub(crate) fn get(&self, rowset: u64, offset: u64) -> Option<Bytes> {
        let place = (rowset, offset);
        let mut shard = self.shard(place).lock();
        let found = shard.places.get(&place).copied().map(|index| {
            let entry = &mut shard.entries[index];
            entry.used = true;
            entry.block.clone()
        });
        drop(shard);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Puts in a verified block.
    pub(crate) fn insert(&self, rowset: u64, offset: u64, block: Bytes) {
        let place = (rowset, offset);
        let cost = block.len() as u64 + ENTRY_OVERHEAD_BYTES;
        if cost > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(place).lock();
        if shard.places.contains_key(&place) {
            return;
        }
        while shard.bytes + cost > self.shard_bytes_max {
            shard.evict();
        }
        let index = shard.entries.len();
        shard.entries.push(Entry { place, block, used: false });
        shard.places.insert(place, index);
        shard.bytes += cost;
        let bytes = shard.bytes;
        shard.charge.set(bytes);
    }

    /// Forgets the blocks of a rowset that is gone.
    pub(crate) fn forget(&self, rowset: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut index = 0;
            while index < shard.entries.len() {
                if shard.entries[index].place.0 == rowset {
                    shard.remove(index);
                } else {
                    index += 1;
                }
            }
            let bytes = shard.bytes;
            shard.charge.set(bytes);
        }
    }

    /// Hits and misses so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

impl Shard {
    fn evict(&mut self) {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let entry = &mut self.entries[self.hand];
            if !entry.used {
                break;
            }
            entry.used = false;
            self.hand += 1;
        }
        self.remove(self.hand);
    }

    fn remove(&mut self, index: usize) {
        let entry = self.entries.swap_remove(index);
        self.places.remove(&entry.place);
        self.bytes -= entry.block.len() as u64 + ENTRY_OVERHEAD_BYTES;
        if let Some(moved) = self.entries.get(index) {
            self.places.insert(moved.place, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_share_and_keeps_what_is_used() {
        let budget = MemoryBudget::new(64 << 20);
        let cache = BlockCache::new(&budget);
        for round in 0..50_u64 {
            for block in 0..100 {
                cache.insert(round, block * 4096, Bytes::from(vec![round as u8; 4096]));
                cache.insert(1000, 0, Bytes::from(vec![7; 4096]));
                assert_eq!(cache.get(1000, 0).expect("is used all the time")[0], 7);
            }
        }
        assert!(budget.used_bytes(Component::BlockCache) <= budget.cache_bytes_max());
        assert!(cache.get(0, 0).is_none() && cache.get(49, 99 * 4096).is_some());
        cache.forget(49);
        assert!(cache.get(49, 99 * 4096).is_none());
        drop(cache);
        assert_eq!(budget.total_bytes(), 0);
    }
}
