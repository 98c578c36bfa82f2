//! The block cache: verified bytes of rowsets, bounded, accounted, in shards.
//!
//! Replacement is a clock: a block that was used since the hand passed stays for another round. That
//! needs no list to be kept in order on every hit.

use super::verified::VerifiedBlock;
use hashbrown::HashMap;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;
/// What an entry costs besides its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 224;

/// A place in a rowset: its id and an offset.
type Place = (u64, u64);

/// Blocks by place.
pub(crate) struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    /// Hits of those who knew where a block is.
    near_hits: AtomicU64,
    budget: Arc<MemoryBudget>,
}

struct Shard {
    places: HashMap<Place, Known, foldhash::fast::RandomState>,
    entries: Vec<Entry>,
    hand: usize,
    bytes: u64,
    charge: Charge,
    hits: u64,
    misses: u64,
}

struct Known {
    block: Arc<VerifiedBlock>,
    /// Where its entry is.
    index: usize,
}

/// What the hand passes over.
struct Entry {
    place: Place,
    bytes: u64,
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
            hits: 0,
            misses: 0,
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(shard())).collect();
        Self { shards, near_hits: AtomicU64::new(0), budget: budget.clone() }
    }

    fn shard(&self, place: Place) -> &Mutex<Shard> {
        let mixed = (place.0 ^ place.1.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }

    /// A block if it is here.
    pub(crate) fn get(&self, rowset: u64, offset: u64) -> Option<Arc<VerifiedBlock>> {
        let place = (rowset, offset);
        let mut shard = self.shard(place).lock();
        let Some(known) = shard.places.get(&place) else {
            shard.misses += 1;
            return None;
        };
        let block = known.block.clone();
        shard.hits += 1;
        drop(shard);
        block.set_used();
        Some(block)
    }

    /// Puts in a verified block.
    pub(crate) fn insert(&self, rowset: u64, offset: u64, block: Arc<VerifiedBlock>) {
        let place = (rowset, offset);
        let cost = block.memory_bytes() + ENTRY_OVERHEAD_BYTES;
        let shard_bytes_max = self.budget.cache_bytes_max() / SHARDS as u64;
        if cost > shard_bytes_max {
            return;
        }
        let mut shard = self.shard(place).lock();
        if shard.places.contains_key(&place) {
            return;
        }
        while shard.bytes + cost > shard_bytes_max {
            shard.evict();
        }
        let index = shard.entries.len();
        shard.entries.push(Entry { place, bytes: cost });
        shard.places.insert(place, Known { block, index });
        shard.bytes += cost;
        let bytes = shard.bytes;
        shard.charge.set(bytes);
    }

    /// Gives so many bytes back, as far as more is held than is always kept.
    pub(crate) fn give_back(&self, bytes: u64) {
        let (each, kept) = (bytes.div_ceil(SHARDS as u64), self.budget.cache_bytes_min() / SHARDS as u64);
        let mut left = bytes;
        // Shards that hold less leave the others to give more.
        for each in [each, bytes] {
            for shard in &self.shards {
                let mut shard = shard.lock();
                let before = shard.bytes;
                while shard.bytes > kept && left.min(each) > before - shard.bytes {
                    shard.evict();
                }
                let after = shard.bytes;
                shard.charge.set(after);
                left = left.saturating_sub(before - after);
            }
        }
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
        self.shards.iter().fold((self.near_hits.load(Ordering::Relaxed), 0), |(hits, misses), shard| {
            let shard = shard.lock();
            (hits + shard.hits, misses + shard.misses)
        })
    }

    /// Counts blocks that were found without being asked for here.
    pub(crate) fn add_near_hits(&self, count: u64) {
        self.near_hits.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shard {
    fn evict(&mut self) {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            match self.places.get(&self.entries[self.hand].place) {
                Some(known) if known.block.take_used() => {}
                _ => break,
            }
            self.hand += 1;
        }
        self.remove(self.hand);
    }

    fn remove(&mut self, index: usize) {
        let entry = self.entries.swap_remove(index);
        self.places.remove(&entry.place);
        self.bytes -= entry.bytes;
        if let Some(moved) = self.entries.get(index)
            && let Some(known) = self.places.get_mut(&moved.place)
        {
            known.index = index;
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
        let block = |byte: u8| Arc::new(VerifiedBlock::plain(vec![byte; 4096]));
        for round in 0..90_u64 {
            for number in 0..100 {
                cache.insert(round, number * 4096, block(round as u8));
                cache.insert(1000, 0, block(7));
                assert_eq!(cache.get(1000, 0).expect("is used all the time").bytes()[0], 7);
            }
        }
        assert!(budget.used_bytes(Component::BlockCache) <= budget.cache_bytes_max());
        assert!(cache.get(0, 0).is_none() && cache.get(89, 99 * 4096).is_some());
        let room = budget.used_bytes(Component::BlockCache);
        let others = budget.charge(Component::Memtable, 40 << 20);
        for round in 90..100_u64 {
            (0..100).for_each(|number| cache.insert(round, number * 4096, block(7)));
        }
        let less = budget.used_bytes(Component::BlockCache);
        assert!(less <= budget.cache_bytes_max() && less < room, "{less} of {room}");
        drop(others);
        let held = budget.used_bytes(Component::BlockCache);
        cache.give_back(1 << 20);
        let given = held - budget.used_bytes(Component::BlockCache);
        assert!((1 << 20..2 << 20).contains(&given), "{given}");
        cache.give_back(u64::MAX);
        assert!(budget.used_bytes(Component::BlockCache) <= budget.cache_bytes_min());
        cache.insert(89, 99 * 4096, block(89));
        cache.forget(89);
        assert!(cache.get(89, 99 * 4096).is_none());
        drop(cache);
        assert_eq!(budget.total_bytes(), 0);
    }
}
