//! The block cache: verified bytes of rowsets, bounded, accounted, in shards.
//!
//! Replacement is a clock: a block that was used since the hand passed stays for another round, an index page for several.
//! That needs no list to be kept in order on every hit.
//!
//! The blocks of a rowset are linked, so that a rowset that is gone takes them along without a walk through all the others:
//! there are millions, and a drop of a database removes thousands of rowsets.

use super::verified::VerifiedBlock;
use hashbrown::HashMap;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;
/// What an entry costs besides its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 240;
/// No entry has this place.
const NOWHERE: u32 = u32::MAX;

/// The id of a rowset and an offset in its file.
type BlockKey = (u64, u64);

/// Blocks by rowset and offset.
pub(crate) struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    /// Blocks that were found through an index page, without a look-up here.
    near_hits: AtomicU64,
    /// Questions to Bloom filters.
    filter_lookups: AtomicU64,
    /// Of them those that were answered: the key is not here.
    filter_rejections: AtomicU64,
    budget: Arc<MemoryBudget>,
}

struct Shard {
    blocks: HashMap<BlockKey, CachedBlock, foldhash::fast::RandomState>,
    entries: Vec<Entry>,
    /// Where the first entry of each rowset is.
    rowsets: HashMap<u64, u32, foldhash::fast::RandomState>,
    hand: usize,
    bytes: u64,
    charge: Charge,
    hits: u64,
    misses: u64,
}

struct CachedBlock {
    block: Arc<VerifiedBlock>,
    /// Where its entry is.
    index: usize,
}

/// An entry of the clock.
#[derive(Clone, Copy)]
struct Entry {
    key: BlockKey,
    bytes: u64,
    /// Where the entries of the same rowset before and after it are.
    previous: u32,
    next: u32,
}

impl BlockCache {
    /// A cache within the budget's share for it.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let shard = || Shard {
            blocks: HashMap::default(),
            entries: Vec::new(),
            rowsets: HashMap::default(),
            hand: 0,
            bytes: 0,
            charge: budget.charge(Component::BlockCache, 0),
            hits: 0,
            misses: 0,
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(shard())).collect();
        Self {
            shards,
            near_hits: AtomicU64::new(0),
            filter_lookups: AtomicU64::new(0),
            filter_rejections: AtomicU64::new(0),
            budget: budget.clone(),
        }
    }

    fn shard(&self, key: BlockKey) -> &Mutex<Shard> {
        let mixed = (key.0 ^ key.1.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }

    /// A block if it is here.
    pub(crate) fn get(&self, rowset: u64, offset: u64) -> Option<Arc<VerifiedBlock>> {
        let block = self.find((rowset, offset), true)?;
        block.set_used();
        Some(block)
    }

    /// A block if it is here. It does not stay for longer.
    pub(crate) fn peek(&self, rowset: u64, offset: u64) -> Option<Arc<VerifiedBlock>> {
        self.find((rowset, offset), true)
    }

    /// A block if it is here, made of others: that it is not is no reason to read from the file yet.
    pub(crate) fn get_made(&self, rowset: u64, offset: u64) -> Option<Arc<VerifiedBlock>> {
        let block = self.find((rowset, offset), false)?;
        block.set_used();
        Some(block)
    }

    fn find(&self, key: BlockKey, counts_miss: bool) -> Option<Arc<VerifiedBlock>> {
        let mut shard = self.shard(key).lock();
        let Some(known) = shard.blocks.get(&key) else {
            shard.misses += u64::from(counts_miss);
            return None;
        };
        let block = known.block.clone();
        shard.hits += 1;
        Some(block)
    }

    /// Whether so many bytes can come here before others go.
    pub(crate) fn has_room(&self, rowset: u64, offset: u64, bytes: u64) -> bool {
        let held = self.shard((rowset, offset)).lock().bytes;
        held + bytes + ENTRY_OVERHEAD_BYTES <= self.budget.cache_bytes_max() / SHARDS as u64
    }

    /// Whether a block is here. It is not counted, and does not stay for longer.
    pub(crate) fn has(&self, rowset: u64, offset: u64) -> bool {
        self.shard((rowset, offset)).lock().blocks.contains_key(&(rowset, offset))
    }

    /// Puts in a verified block.
    pub(crate) fn insert(&self, rowset: u64, offset: u64, block: Arc<VerifiedBlock>) {
        let key = (rowset, offset);
        let cost = block.memory_bytes() + ENTRY_OVERHEAD_BYTES;
        let shard_bytes_max = self.budget.cache_bytes_max() / SHARDS as u64;
        if cost > shard_bytes_max {
            return;
        }
        let mut shard = self.shard(key).lock();
        if shard.blocks.contains_key(&key) {
            return;
        }
        while shard.bytes + cost > shard_bytes_max {
            shard.evict();
        }
        shard.add(key, block, cost);
        let bytes = shard.bytes;
        shard.charge.set(bytes);
    }

    /// Puts in a block instead of one that is here.
    pub(crate) fn replace(&self, rowset: u64, offset: u64, block: Arc<VerifiedBlock>) {
        let key = (rowset, offset);
        let mut shard = self.shard(key).lock();
        if let Some(index) = shard.blocks.get(&key).map(|known| known.index) {
            shard.remove(index);
        }
        drop(shard);
        self.insert(rowset, offset, block);
    }

    /// Frees so many bytes, but keeps the guaranteed minimum.
    pub(crate) fn give_back(&self, bytes: u64) {
        let (each, kept) = (bytes.div_ceil(SHARDS as u64), self.budget.cache_bytes_min() / SHARDS as u64);
        let mut left = bytes;
        // If some shards hold less, others free more.
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

    /// Forgets the blocks of a rowset that is gone; returns how many entries it looked at.
    pub(crate) fn forget(&self, rowset: u64) -> usize {
        let mut seen = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            while let Some(index) = shard.rowsets.get(&rowset).copied() {
                shard.remove(index as usize);
                seen += 1;
            }
            let bytes = shard.bytes;
            shard.charge.set(bytes);
        }
        seen
    }

    /// Hits and misses so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.shards.iter().fold((self.near_hits.load(Ordering::Relaxed), 0), |(hits, misses), shard| {
            let shard = shard.lock();
            (hits + shard.hits, misses + shard.misses)
        })
    }

    /// Counts blocks that were found through an index page.
    pub(crate) fn add_near_hits(&self, count: u64) {
        self.near_hits.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts questions to Bloom filters, and how many of them were answered with no.
    pub(crate) fn count_filter_lookups(&self, asked: u64, ruled_out: u64) {
        self.filter_lookups.fetch_add(asked, Ordering::Relaxed);
        self.filter_rejections.fetch_add(ruled_out, Ordering::Relaxed);
    }

    /// Questions to Bloom filters so far, and how many of them were answered with no.
    pub(crate) fn filter_counts(&self) -> (u64, u64) {
        (self.filter_lookups.load(Ordering::Relaxed), self.filter_rejections.load(Ordering::Relaxed))
    }
}

impl Shard {
    fn add(&mut self, key: BlockKey, block: Arc<VerifiedBlock>, bytes: u64) {
        let index = self.entries.len();
        let next = self.rowsets.insert(key.0, index as u32).unwrap_or(NOWHERE);
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.previous = index as u32;
        }
        self.entries.push(Entry { key, bytes, previous: NOWHERE, next });
        self.blocks.insert(key, CachedBlock { block, index });
        self.bytes += bytes;
    }

    fn evict(&mut self) {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            match self.blocks.get(&self.entries[self.hand].key) {
                Some(known) if known.block.take_life() => {}
                _ => break,
            }
            self.hand += 1;
        }
        self.remove(self.hand);
    }

    fn remove(&mut self, index: usize) {
        let Entry { key, bytes, previous, next } = self.entries[index];
        self.set_next(key.0, previous, next);
        self.set_previous(next, previous);
        self.blocks.remove(&key);
        self.bytes -= bytes;
        self.entries.swap_remove(index);
        // The last entry has its place now.
        if let Some(Entry { key, previous, next, .. }) = self.entries.get(index).copied() {
            self.set_next(key.0, previous, index as u32);
            self.set_previous(next, index as u32);
            if let Some(known) = self.blocks.get_mut(&key) {
                known.index = index;
            }
        }
    }

    /// Sets what comes after an entry of a rowset, or first if there is no such entry.
    fn set_next(&mut self, rowset: u64, place: u32, next: u32) {
        match self.entries.get_mut(place as usize) {
            Some(entry) => entry.next = next,
            None if next == NOWHERE => drop(self.rowsets.remove(&rowset)),
            None => drop(self.rowsets.insert(rowset, next)),
        }
    }

    fn set_previous(&mut self, place: u32, previous: u32) {
        if let Some(entry) = self.entries.get_mut(place as usize) {
            entry.previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        /// Blocks come, are replaced and evicted, and rowsets go.
        #[test]
        fn a_rowset_that_is_gone_takes_its_blocks_along_and_no_others(
            steps in prop::collection::vec((0_u8..12, 0_u64..6, 0_u64..60), 1..400),
        ) {
            let budget = MemoryBudget::new(64 << 20);
            let cache = BlockCache::new(&budget);
            for (step, rowset, offset) in steps {
                let block = Arc::new(VerifiedBlock::plain(vec![7; 4096]));
                let held = |cache: &BlockCache| -> Vec<BlockKey> {
                    let of_shard = |shard: &Mutex<Shard>| shard.lock().blocks.keys().copied().collect::<Vec<_>>();
                    let mut keys: Vec<_> = cache.shards.iter().flat_map(of_shard).collect();
                    keys.sort_unstable();
                    keys
                };
                match step {
                    0 => {
                        let mut kept = held(&cache);
                        let before = kept.len();
                        kept.retain(|key| key.0 != rowset);
                        prop_assert_eq!(cache.forget(rowset), before - kept.len());
                        prop_assert_eq!(held(&cache), kept);
                    }
                    1 => cache.shards.iter().for_each(|shard| {
                        let mut shard = shard.lock();
                        if !shard.entries.is_empty() {
                            shard.evict();
                        }
                    }),
                    2 => cache.replace(rowset, offset, block),
                    _ => cache.insert(rowset, offset, block),
                }
            }
            for rowset in 0..6 {
                cache.forget(rowset);
            }
            for shard in &cache.shards {
                let shard = shard.lock();
                let left = (shard.entries.len(), shard.blocks.len(), shard.rowsets.len(), shard.bytes);
                prop_assert_eq!(left, (0, 0, 0, 0));
            }
            prop_assert_eq!(budget.used_bytes(Component::BlockCache), 0);
        }
    }
}
