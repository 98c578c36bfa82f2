//! Series without recent points. They are evicted from memory, but stay in the database.
//!
//! Series that become idle together form an *idle set*. Its series are on disk; the range of times of their points is
//! in memory. A query reloads the sets of its time range and pins them until it ends. Writing to a series reactivates
//! it. So each series of an idle set is
//!
//! - *evicted*: not in memory,
//! - *resident*: in memory for a query, or until it is evicted,
//! - *reactivated*: it was written again. Of its points, the set only covers the earlier ones,
//! - or removed.
//!
//! Nothing here does input or output: that is in `catalog/idle_series.rs`.

use nyala_core::TimeRange;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// Series that became idle together.
#[derive(Debug)]
pub(crate) struct IdleSet {
    /// Its number among the sets of the measurement, never used again.
    pub(crate) number: u64,
    /// The range of times of the points that its series had when it was made.
    pub(crate) time: TimeRange,
    /// The tag keys of its series, sorted.
    keys: Mutex<Arc<[String]>>,
}

impl IdleSet {
    /// The tag keys of its series, sorted.
    pub(crate) fn keys(&self) -> Arc<[String]> {
        self.keys.lock().clone()
    }
}

/// A pin on the idle sets that a query needs, and on all series that become idle after it was taken. They stay in memory
/// while it exists.
#[derive(Debug, Clone, Default)]
pub struct SeriesPin {
    _sets: Vec<Arc<IdleSet>>,
    _era: Arc<()>,
}

/// The idle series of a measurement.
#[derive(Default)]
pub(crate) struct IdleSeries {
    /// By the end of their times, then by number. So a query of recent times looks only at the last ones.
    sets: BTreeMap<(i64, u64), SetEntry>,
    /// The lists of tag keys, with the number of sets that have each.
    key_lists: HashMap<Arc<[String]>, usize>,
    evicted: RoaringBitmap,
    resident: RoaringBitmap,
    reactivated: RoaringBitmap,
    /// The number of sets of each series that is in several.
    repeated: HashMap<u32, u32>,
    /// The number of the next set.
    next_number: u64,
    /// The number of rounds of maintenance so far.
    round: u64,
    /// Held by every pin taken since the last set was made.
    era: Arc<()>,
    /// By set number: alive as long as there are pins that were taken between the set before and this one.
    past_eras: BTreeMap<u64, Weak<()>>,
}

/// A set, and what happened to it.
struct SetEntry {
    set: Arc<IdleSet>,
    /// Its series, while none of them may be evicted.
    held: Option<RoaringBitmap>,
    /// Whether all of them are in memory.
    is_loaded: bool,
    /// Whether its record is known to be on disk.
    is_saved: bool,
    /// The last round in which it was needed.
    used_in: u64,
}

impl IdleSeries {
    /// Whether there are any sets.
    pub(crate) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The series that are not in memory.
    pub(crate) fn evicted(&self) -> &RoaringBitmap {
        &self.evicted
    }

    /// Whether a series is evicted.
    pub(crate) fn is_evicted(&self, id: u32) -> bool {
        self.evicted.contains(id)
    }

    /// Whether a series is in memory but idle. A writer has to reactivate it first.
    pub(crate) fn is_resident(&self, id: u32) -> bool {
        self.resident.contains(id)
    }

    /// Whether a series is in more than one set.
    pub(crate) fn is_in_several(&self, id: u32) -> bool {
        self.repeated.contains_key(&id)
    }

    /// The idle series in memory.
    pub(crate) fn resident(&self) -> &RoaringBitmap {
        &self.resident
    }

    /// The idle series that were written again.
    pub(crate) fn reactivated(&self) -> &RoaringBitmap {
        &self.reactivated
    }

    /// Whether a set has series with a tag key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys().any(|own| own == key)
    }

    /// The tag keys of the sets. A key may occur several times.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.key_lists.keys().flat_map(|keys| keys.iter().map(String::as_str))
    }

    /// The numbers of the sets that have series with a tag key.
    pub(crate) fn numbers_with_key(&self, key: &str) -> Vec<u64> {
        let has_key = |entry: &&SetEntry| entry.set.keys().iter().any(|own| own == key);
        self.sets.values().filter(has_key).map(|entry| entry.set.number).collect()
    }

    /// Gives a tag key another name.
    pub(crate) fn rename_key(&mut self, from: &str, to: &str) {
        self.key_lists.clear();
        for SetEntry { set, .. } in self.sets.values() {
            let mut keys = set.keys.lock();
            let name = |key: &String| if key == from { to } else { key }.to_owned();
            let mut renamed: Vec<String> = keys.iter().map(name).collect();
            renamed.sort_unstable();
            let renamed: Arc<[String]> = renamed.into();
            *keys = self.key_lists.get_key_value(&renamed).map_or(renamed, |(shared, _)| shared.clone());
            *self.key_lists.entry(keys.clone()).or_default() += 1;
        }
    }

    /// Pins the sets of a time range if all their series are in memory.
    pub(crate) fn pin_if_resident(&mut self, time: TimeRange) -> Option<SeriesPin> {
        if self.sets.is_empty() {
            return Some(SeriesPin { _sets: Vec::new(), _era: self.era.clone() });
        }
        let (pin, not_loaded) = self.pin(time, |_| true);
        not_loaded.is_empty().then_some(pin)
    }

    /// Pins the sets of a time range that are wanted. Returns the pin, and the sets whose series are not all in memory.
    pub(crate) fn pin(
        &mut self,
        time: TimeRange,
        is_wanted: impl Fn(TimeRange) -> bool,
    ) -> (SeriesPin, Vec<Arc<IdleSet>>) {
        let (mut sets, mut not_loaded) = (Vec::new(), Vec::new());
        let not_before = (Bound::Excluded((time.start_ns, u64::MAX)), Bound::Unbounded);
        for entry in self.sets.range_mut(not_before).map(|(_, entry)| entry) {
            if !entry.set.time.overlaps(time) || !is_wanted(entry.set.time) {
                continue;
            }
            entry.used_in = self.round;
            sets.push(entry.set.clone());
            if !entry.is_loaded {
                not_loaded.push(entry.set.clone());
            }
        }
        (SeriesPin { _sets: sets, _era: self.era.clone() }, not_loaded)
    }

    /// Makes series that are all in memory idle. The new set is not saved yet.
    pub(crate) fn make_idle(
        &mut self,
        time: TimeRange,
        keys: &[&str],
        series: &RoaringBitmap,
    ) -> Arc<IdleSet> {
        let set = self.add(self.next_number, time, keys, series);
        self.reactivated -= series;
        self.resident |= series;
        self.past_eras.insert(set.number, Arc::downgrade(&std::mem::take(&mut self.era)));
        let entry = self.sets.get_mut(&set_key(&set)).expect("it was just added");
        (entry.held, entry.is_loaded) = (Some(series.clone()), true);
        set
    }

    /// Adds a set that was read from disk. Its series are evicted, unless they turn out to be reactivated.
    pub(crate) fn restore(&mut self, number: u64, time: TimeRange, keys: &[&str], series: &RoaringBitmap) {
        let set = self.add(number, time, keys, series);
        self.evicted |= series;
        self.saved(&set);
    }

    fn add(&mut self, number: u64, time: TimeRange, keys: &[&str], series: &RoaringBitmap) -> Arc<IdleSet> {
        self.next_number = self.next_number.max(number.saturating_add(1));
        let listed = (series & &self.evicted) | (series & &self.resident) | (series & &self.reactivated);
        for id in listed {
            *self.repeated.entry(id).or_insert(1) += 1;
        }
        let keys: Arc<[String]> = keys.iter().map(|key| (*key).to_owned()).collect();
        let keys = self.key_lists.get_key_value(&keys).map_or(keys, |(shared, _)| shared.clone());
        *self.key_lists.entry(keys.clone()).or_default() += 1;
        let set = Arc::new(IdleSet { number, time, keys: Mutex::new(keys) });
        let entry =
            SetEntry { set: set.clone(), held: None, is_loaded: false, is_saved: false, used_in: self.round };
        self.sets.insert(set_key(&set), entry);
        set
    }

    /// All sets were read. The series in `not_idle` are reactivated if they are `in_memory`, otherwise removed.
    pub(crate) fn finish_restore(&mut self, not_idle: &RoaringBitmap, in_memory: &RoaringBitmap) {
        self.reactivated = &self.evicted & not_idle & in_memory;
        self.evicted -= not_idle;
        self.evicted.optimize();
    }

    /// The record of a set is on disk.
    pub(crate) fn saved(&mut self, set: &IdleSet) {
        if let Some(entry) = self.sets.get_mut(&set_key(set)) {
            entry.is_saved = true;
        }
    }

    /// A set that may not have been saved, with its series.
    pub(crate) fn unsaved(&self) -> Option<(Arc<IdleSet>, RoaringBitmap)> {
        let entry = self.sets.values().find(|entry| !entry.is_saved)?;
        Some((entry.set.clone(), entry.held.clone().unwrap_or_default()))
    }

    /// Keeps the series of a set from being evicted. Returns those that are evicted.
    pub(crate) fn hold(&mut self, set: &IdleSet, series: RoaringBitmap) -> RoaringBitmap {
        let evicted = &series & &self.evicted;
        if let Some(entry) = self.sets.get_mut(&set_key(set)) {
            entry.held = Some(series);
        }
        evicted
    }

    /// Frees memory that maintenance left unused.
    pub(crate) fn end_round(&mut self) {
        self.evicted.optimize();
        self.repeated.shrink_to_fit();
    }

    /// All series of a set are in memory or reactivated.
    pub(crate) fn loaded(&mut self, set: &IdleSet) {
        if let Some(entry) = self.sets.get_mut(&set_key(set)).filter(|entry| entry.held.is_some()) {
            entry.is_loaded = true;
        }
    }

    /// An evicted series is in memory now.
    pub(crate) fn mark_resident(&mut self, id: u32) {
        self.evicted.remove(id);
        self.resident.insert(id);
    }

    /// Makes an idle series active, because it is written; the caller has it in memory. Returns false if it was not idle.
    pub(crate) fn reactivate(&mut self, id: u32) -> bool {
        let was_idle = self.resident.remove(id) | self.evicted.remove(id);
        if was_idle {
            self.reactivated.insert(id);
        }
        was_idle
    }

    /// Forgets series that were removed.
    pub(crate) fn forget(&mut self, gone: &RoaringBitmap) {
        self.resident -= gone;
        self.reactivated -= gone;
        self.evicted -= gone;
    }

    /// Begins a round of maintenance. What nobody needs until the next round may be evicted.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Evicts at most `most` idle series that nobody needs now or needed lately. Returns them.
    pub(crate) fn evict(&mut self, most: usize) -> RoaringBitmap {
        if self.resident.is_empty() {
            return RoaringBitmap::new();
        }
        self.past_eras.retain(|_, era| era.strong_count() > 0);
        // Pins of past eras also pin every set that was made later.
        let first_pinned = self.past_eras.keys().next().copied().unwrap_or(u64::MAX);
        let mut to_evict = self.resident.clone();
        for entry in self.sets.values_mut() {
            let Some(held) = &entry.held else { continue };
            let is_needed = !entry.is_saved
                || entry.used_in + 1 >= self.round
                || Arc::strong_count(&entry.set) > 1
                || entry.set.number >= first_pinned;
            if is_needed {
                to_evict -= held;
            } else {
                (entry.held, entry.is_loaded) = (None, false);
            }
        }
        let to_evict: RoaringBitmap = to_evict.iter().take(most).collect();
        self.resident -= &to_evict;
        self.evicted |= &to_evict;
        to_evict
    }

    /// The saved sets that have no points left, given the ranges of time that still have points.
    pub(crate) fn expired(&self, ranges_left: &[TimeRange]) -> Vec<Arc<IdleSet>> {
        let is_expired = |entry: &&SetEntry| {
            entry.is_saved && !ranges_left.iter().any(|range| range.overlaps(entry.set.time))
        };
        self.sets.values().filter(is_expired).map(|entry| entry.set.clone()).collect()
    }

    /// The saved sets whose points lie wholly within a time range.
    pub(crate) fn within(&self, time: TimeRange) -> Vec<Arc<IdleSet>> {
        let is_within = |entry: &&SetEntry| entry.is_saved && time.covers(entry.set.time);
        self.sets.values().filter(is_within).map(|entry| entry.set.clone()).collect()
    }

    /// Those of a set's series that are in no other set.
    pub(crate) fn only_in(&self, series: &RoaringBitmap) -> RoaringBitmap {
        series.iter().filter(|id| !self.repeated.contains_key(id)).collect()
    }

    /// Removes a set.
    pub(crate) fn remove_set(&mut self, set: &IdleSet, series: &RoaringBitmap) {
        if self.sets.remove(&set_key(set)).is_none() {
            return;
        }
        let keys = set.keys();
        if let Some(count) = self.key_lists.get_mut(&keys) {
            *count -= 1;
            if *count == 0 {
                self.key_lists.remove(&keys);
            }
        }
        for id in series {
            if let Some(count) = self.repeated.get_mut(&id) {
                *count -= 1;
                if *count == 1 {
                    self.repeated.remove(&id);
                }
            }
        }
    }

    /// The approximate memory, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_set =
            |entry: &SetEntry| SET_BYTES + entry.held.as_ref().map_or(0, RoaringBitmap::serialized_size);
        let keys = self.keys().map(|key| key.len() + size_of::<String>());
        let series = [&self.evicted, &self.resident, &self.reactivated];
        self.sets.values().map(of_set).sum::<usize>()
            + keys.sum::<usize>()
            + series.iter().map(|ids| ids.serialized_size()).sum::<usize>()
            + self.repeated.capacity() * size_of::<(u32, u32)>()
    }
}

fn set_key(set: &IdleSet) -> (i64, u64) {
    (set.time.end_ns, set.number)
}

/// The memory of a set without its series: its descriptor, and its entry among the sets.
const SET_BYTES: usize = size_of::<IdleSet>() + size_of::<SetEntry>() + 48;
