//! Caches of things that each rowset has one of: open files, bounded by their number, and footers, bounded by their
//! bytes.
//!
//! There may be a rowset for each measurement and shard, so a rowset keeps neither for its life: it has a [`Cached`]
//! for each, and a [`ClockCache`] empties those that were not used for a while. Readers keep a value that they took: a
//! file is closed, and the memory of a footer is freed, when the last reader drops it. The file of a rowset has its
//! name as long as the rowset lives, so it can always be opened again.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A value of one rowset, while it is in the cache.
pub(crate) struct Cached<T> {
    value: Mutex<Option<T>>,
    /// Since the hand passed.
    used: AtomicBool,
}

impl<T: Clone> Cached<T> {
    pub(crate) fn empty() -> Arc<Self> {
        Arc::new(Self { value: Mutex::new(None), used: AtomicBool::new(false) })
    }

    /// The value, if it is here.
    pub(crate) fn get(&self) -> Option<T> {
        let value = self.value.lock().clone();
        if value.is_some() && !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        value
    }
}

/// All values of a kind.
pub(crate) struct ClockCache<T> {
    clock: Mutex<Clock<T>>,
}

struct Clock<T> {
    /// With the cost of each; of a rowset that is gone until the hand comes by.
    entries: Vec<(Weak<Cached<T>>, u64)>,
    hand: usize,
    cost: u64,
}

impl<T: Clone> ClockCache<T> {
    pub(crate) fn new() -> Self {
        Self { clock: Mutex::new(Clock { entries: Vec::new(), hand: 0, cost: 0 }) }
    }

    /// Puts a value in, after others were emptied until all together cost `most` or less. Returns the value that is
    /// there: another one if somebody was faster.
    pub(crate) fn put(&self, entry: &Arc<Cached<T>>, value: T, cost: u64, most: u64) -> T {
        // The lock of an entry is taken while that of the clock is held, or alone.
        let mut clock = self.clock.lock();
        {
            let mut here = entry.value.lock();
            if let Some(value) = &*here {
                return value.clone();
            }
            *here = Some(value.clone());
        }
        let emptied = clock.empty_until(most.saturating_sub(cost));
        clock.entries.push((Arc::downgrade(entry), cost));
        clock.cost += cost;
        drop(clock);
        // Files are closed without keeping others waiting.
        drop(emptied);
        value
    }

    /// Empties entries until all together cost `most` or less.
    pub(crate) fn give_back(&self, most: u64) {
        let emptied = self.clock.lock().empty_until(most);
        drop(emptied);
    }
}

impl<T> Clock<T> {
    fn empty_until(&mut self, most: u64) -> Vec<T> {
        let mut emptied = Vec::new();
        while self.cost > most && !self.entries.is_empty() {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let (entry, cost) = &self.entries[self.hand];
            let entry = entry.upgrade();
            if entry.as_ref().is_some_and(|entry| entry.used.swap(false, Ordering::Relaxed)) {
                self.hand += 1;
                continue;
            }
            self.cost -= cost;
            self.entries.swap_remove(self.hand);
            emptied.extend(entry.and_then(|entry| entry.value.lock().take()));
        }
        emptied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_all_together_are_bounded() {
        let cache = ClockCache::new();
        let entries: Vec<_> = (0..1000).map(|_| Cached::empty()).collect();
        for (number, entry) in entries.iter().enumerate() {
            assert_eq!(cache.put(entry, number, 2, 20), number);
            assert_eq!(cache.put(entry, 7777, 2, 20), number, "the first stays");
            assert_eq!(entries[0].get(), Some(0), "is used all the time");
            assert!(entries.iter().filter(|entry| entry.value.lock().is_some()).count() <= 10);
        }
        assert_eq!(entries[500].get(), None);
        cache.give_back(0);
        assert!(entries.iter().all(|entry| entry.get().is_none()));
        // Cacheds that are gone are forgotten.
        let kept = Cached::empty();
        for number in 0..100 {
            cache.put(&Cached::empty(), number, 2, 20);
        }
        cache.put(&kept, 5, 2, 20);
        assert_eq!(kept.get(), Some(5));
        assert!(cache.clock.lock().entries.len() <= 10);
    }
}
