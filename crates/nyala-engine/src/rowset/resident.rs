//! What is kept of rowsets beside their blocks: open files, bounded by their number, and footers, by their bytes.
//!
//! There may be a rowset for each measurement and shard, so a rowset keeps neither for its life: it has a [`Place`] for
//! each, and the [`Residents`] of a store empty places that were not used for a while. Replacement is a clock, as in the
//! block cache. Who took a value out keeps it: a file is closed, a footer given back, with the last who uses it. A file
//! keeps its name as long as there is its rowset, so it can always be opened again.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Where a rowset finds a value of its own, while it is resident.
pub(crate) struct Place<T> {
    value: Mutex<Option<T>>,
    /// Since the hand passed.
    used: AtomicBool,
}

impl<T: Clone> Place<T> {
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

/// All values of a kind that are resident.
pub(crate) struct Residents<T> {
    clock: Mutex<Clock<T>>,
}

struct Clock<T> {
    /// With the cost of each; of a rowset that is gone until the hand comes by.
    places: Vec<(Weak<Place<T>>, u64)>,
    hand: usize,
    cost: u64,
}

impl<T: Clone> Residents<T> {
    pub(crate) fn new() -> Self {
        Self { clock: Mutex::new(Clock { places: Vec::new(), hand: 0, cost: 0 }) }
    }

    /// Puts a value in its place, after others were emptied until all together cost `most` or less. Returns the value that is
    /// there: another one if somebody was faster.
    pub(crate) fn put(&self, place: &Arc<Place<T>>, value: T, cost: u64, most: u64) -> T {
        // Locks of places are taken below that of the clock, or alone.
        let mut clock = self.clock.lock();
        {
            let mut here = place.value.lock();
            if let Some(value) = &*here {
                return value.clone();
            }
            *here = Some(value.clone());
        }
        let emptied = clock.empty_until(most.saturating_sub(cost));
        clock.places.push((Arc::downgrade(place), cost));
        clock.cost += cost;
        drop(clock);
        // Files are closed without keeping others waiting.
        drop(emptied);
        value
    }

    /// Empties places until all together cost `most` or less.
    pub(crate) fn give_back(&self, most: u64) {
        let emptied = self.clock.lock().empty_until(most);
        drop(emptied);
    }
}

impl<T> Clock<T> {
    fn empty_until(&mut self, most: u64) -> Vec<T> {
        let mut emptied = Vec::new();
        while self.cost > most && !self.places.is_empty() {
            if self.hand >= self.places.len() {
                self.hand = 0;
            }
            let (place, cost) = &self.places[self.hand];
            let place = place.upgrade();
            if place.as_ref().is_some_and(|place| place.used.swap(false, Ordering::Relaxed)) {
                self.hand += 1;
                continue;
            }
            self.cost -= cost;
            self.places.swap_remove(self.hand);
            emptied.extend(place.and_then(|place| place.value.lock().take()));
        }
        emptied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_all_together_are_bounded() {
        let residents = Residents::new();
        let places: Vec<_> = (0..1000).map(|_| Place::empty()).collect();
        for (number, place) in places.iter().enumerate() {
            assert_eq!(residents.put(place, number, 2, 20), number);
            assert_eq!(residents.put(place, 7777, 2, 20), number, "the first stays");
            assert_eq!(places[0].get(), Some(0), "is used all the time");
            assert!(places.iter().filter(|place| place.value.lock().is_some()).count() <= 10);
        }
        assert_eq!(places[500].get(), None);
        residents.give_back(0);
        assert!(places.iter().all(|place| place.get().is_none()));
        // Places that are gone are forgotten.
        let kept = Place::empty();
        for number in 0..100 {
            residents.put(&Place::empty(), number, 2, 20);
        }
        residents.put(&kept, 5, 2, 20);
        assert_eq!(kept.get(), Some(5));
        assert!(residents.clock.lock().places.len() <= 10);
    }
}
