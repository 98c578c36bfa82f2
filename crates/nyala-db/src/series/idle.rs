//! Series without recent points: they leave memory, not the database.
//!
//! Those that became idle together form an *idle set*: its series, which are on disk, and the times that their points
//! lie in, which are here. A query reads the sets of its time back and holds them until it ends; whoever writes to a
//! series wakes it. So of the series of an idle set each is
//!
//! - *away*: not in memory,
//! - *visiting*: in memory for a query, or until it leaves,
//! - *awake*: it got points again. Its earlier points are what the set has of it,
//! - or gone.
//!
//! Nothing here reads or writes: that is `catalog/idle.rs`.

use nyala_core::TimeRange;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// Series that became idle together.
#[derive(Debug)]
pub(crate) struct IdleSet {
    /// Its number among those of the measurement, never used again.
    pub(crate) number: u64,
    /// Where the points lie that its series had until then.
    pub(crate) time: TimeRange,
    /// The tag keys that its series have, sorted.
    pub(crate) keys: Arc<[String]>,
}

/// The idle sets that somebody needs, and series that became idle since: they stay in memory as long as this lives.
#[derive(Debug, Clone, Default)]
pub struct Stay {
    _sets: Vec<Arc<IdleSet>>,
    _era: Arc<()>,
}

/// The idle series of a measurement.
#[derive(Default)]
pub(crate) struct IdleSeries {
    /// By the end of their times, then by number: a query of recent times looks at the last ones only.
    sets: BTreeMap<(i64, u64), Known>,
    /// The lists of tag keys, and how many sets have them.
    key_lists: HashMap<Arc<[String]>, usize>,
    away: RoaringBitmap,
    visiting: RoaringBitmap,
    awake: RoaringBitmap,
    /// In how many sets a series is, where it is in several.
    repeated: HashMap<u32, u32>,
    /// The number of the next set.
    next: u64,
    /// Rounds of upkeep until now.
    round: u64,
    /// Whoever came since the last set was made holds it.
    era: Arc<()>,
    /// Held by those who came before the sets of these numbers were made, as long as there are any.
    past_eras: BTreeMap<u64, Weak<()>>,
}

/// What is known of a set.
struct Known {
    set: Arc<IdleSet>,
    /// Its series, as long as those of them that are not awake stay in memory.
    held: Option<RoaringBitmap>,
    /// Whether they all are in memory.
    is_loaded: bool,
    /// Whether its record is known to be on disk.
    is_saved: bool,
    /// The round in which it was needed last.
    used_in: u64,
}

impl IdleSeries {
    /// Whether there is a set.
    pub(crate) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The series that are not in memory.
    pub(crate) fn away(&self) -> &RoaringBitmap {
        &self.away
    }

    /// Whether a series is away.
    pub(crate) fn is_away(&self, id: u32) -> bool {
        self.away.contains(id)
    }

    /// Whether a series is in memory though it is idle: whoever writes to it wakes it first.
    pub(crate) fn is_visiting(&self, id: u32) -> bool {
        self.visiting.contains(id)
    }

    /// Whether a series is in more than one set.
    pub(crate) fn is_in_several(&self, id: u32) -> bool {
        self.repeated.contains_key(&id)
    }

    /// The series in memory that are idle.
    pub(crate) fn visiting(&self) -> &RoaringBitmap {
        &self.visiting
    }

    /// The idle series that got points again.
    pub(crate) fn awake(&self) -> &RoaringBitmap {
        &self.awake
    }

    /// Whether a set has series with a tag key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys().any(|own| own == key)
    }

    /// The tag keys of the sets; one may come several times.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.key_lists.keys().flat_map(|keys| keys.iter().map(String::as_str))
    }

    /// What of the sets of a range of times has to be in memory, if it is.
    pub(crate) fn stay_if_here(&mut self, time: TimeRange) -> Option<Stay> {
        if self.sets.is_empty() {
            return Some(Stay { _sets: Vec::new(), _era: self.era.clone() });
        }
        let (stay, lacking) = self.stay(time, |_| true);
        lacking.is_empty().then_some(stay)
    }

    /// What of the sets of a range of times, as far as they are wanted, has to be in memory; and of these, those that are
    /// not.
    pub(crate) fn stay(
        &mut self,
        time: TimeRange,
        is_wanted: impl Fn(TimeRange) -> bool,
    ) -> (Stay, Vec<Arc<IdleSet>>) {
        let (mut sets, mut lacking) = (Vec::new(), Vec::new());
        let not_before = (Bound::Excluded((time.start_ns, u64::MAX)), Bound::Unbounded);
        for known in self.sets.range_mut(not_before).map(|(_, known)| known) {
            if !known.set.time.overlaps(time) || !is_wanted(known.set.time) {
                continue;
            }
            known.used_in = self.round;
            sets.push(known.set.clone());
            if !known.is_loaded {
                lacking.push(known.set.clone());
            }
        }
        (Stay { _sets: sets, _era: self.era.clone() }, lacking)
    }

    /// Series become idle; all of them are in memory. The set is not saved yet.
    pub(crate) fn rest(&mut self, time: TimeRange, keys: &[&str], series: &RoaringBitmap) -> Arc<IdleSet> {
        let set = self.add(self.next, time, keys, series);
        self.awake -= series;
        self.visiting |= series;
        self.past_eras.insert(set.number, Arc::downgrade(&std::mem::take(&mut self.era)));
        let known = self.sets.get_mut(&place(&set)).expect("it was just added");
        (known.held, known.is_loaded) = (Some(series.clone()), true);
        set
    }

    /// A set was read from disk; its series are away unless they turn out to be awake.
    pub(crate) fn restore(&mut self, number: u64, time: TimeRange, keys: &[&str], series: &RoaringBitmap) {
        let set = self.add(number, time, keys, series);
        self.away |= series;
        self.saved(&set);
    }

    fn add(&mut self, number: u64, time: TimeRange, keys: &[&str], series: &RoaringBitmap) -> Arc<IdleSet> {
        self.next = self.next.max(number.saturating_add(1));
        let listed = (series & &self.away) | (series & &self.visiting) | (series & &self.awake);
        for id in listed {
            *self.repeated.entry(id).or_insert(1) += 1;
        }
        let keys: Arc<[String]> = keys.iter().map(|key| (*key).to_owned()).collect();
        let keys = self.key_lists.get_key_value(&keys).map_or(keys, |(known, _)| known.clone());
        *self.key_lists.entry(keys.clone()).or_default() += 1;
        let set = Arc::new(IdleSet { number, time, keys });
        let known =
            Known { set: set.clone(), held: None, is_loaded: false, is_saved: false, used_in: self.round };
        self.sets.insert(place(&set), known);
        set
    }

    /// All sets were read. `not_idle`: series of theirs that are awake, if they are `here`, or gone.
    pub(crate) fn restored(&mut self, not_idle: &RoaringBitmap, here: &RoaringBitmap) {
        self.awake = &self.away & not_idle & here;
        self.away -= not_idle;
        self.away.optimize();
    }

    /// The record of a set is on disk.
    pub(crate) fn saved(&mut self, set: &IdleSet) {
        if let Some(known) = self.sets.get_mut(&place(set)) {
            known.is_saved = true;
        }
    }

    /// A set of which it is not known whether it was saved, with its series.
    pub(crate) fn unsaved(&self) -> Option<(Arc<IdleSet>, RoaringBitmap)> {
        let known = self.sets.values().find(|known| !known.is_saved)?;
        Some((known.set.clone(), known.held.clone().unwrap_or_default()))
    }

    /// The series of a set must not leave from now on. Returns those that are away.
    pub(crate) fn hold(&mut self, set: &IdleSet, series: RoaringBitmap) -> RoaringBitmap {
        let away = &series & &self.away;
        if let Some(known) = self.sets.get_mut(&place(set)) {
            known.held = Some(series);
        }
        away
    }

    /// Gives back what keeping the sets up has taken too much.
    pub(crate) fn end_round(&mut self) {
        self.away.optimize();
        self.repeated.shrink_to_fit();
    }

    /// All series of a set are in memory, or awake.
    pub(crate) fn loaded(&mut self, set: &IdleSet) {
        if let Some(known) = self.sets.get_mut(&place(set)).filter(|known| known.held.is_some()) {
            known.is_loaded = true;
        }
    }

    /// A series that was away is in memory.
    pub(crate) fn come(&mut self, id: u32) {
        self.away.remove(id);
        self.visiting.insert(id);
    }

    /// An idle series gets points; `false`: it was not idle. One that was away is in memory now.
    pub(crate) fn wake(&mut self, id: u32) -> bool {
        let was_idle = self.visiting.remove(id) | self.away.remove(id);
        if was_idle {
            self.awake.insert(id);
        }
        was_idle
    }

    /// Series are no more, or found not to be any more.
    pub(crate) fn forget(&mut self, gone: &RoaringBitmap) {
        self.visiting -= gone;
        self.awake -= gone;
        self.away -= gone;
    }

    /// Another round of upkeep begins: what nobody needs from here to the next may leave.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Some series that leave memory now, `most` of them: idle ones that nobody needs, nor did lately.
    pub(crate) fn leave(&mut self, most: usize) -> RoaringBitmap {
        if self.visiting.is_empty() {
            return RoaringBitmap::new();
        }
        self.past_eras.retain(|_, era| era.strong_count() > 0);
        let first_watched = self.past_eras.keys().next().copied().unwrap_or(u64::MAX);
        let mut leaving = self.visiting.clone();
        for known in self.sets.values_mut() {
            let Some(held) = &known.held else { continue };
            let is_needed = !known.is_saved
                || known.used_in + 1 >= self.round
                || Arc::strong_count(&known.set) > 1
                || known.set.number >= first_watched;
            if is_needed {
                leaving -= held;
            } else {
                (known.held, known.is_loaded) = (None, false);
            }
        }
        let leaving: RoaringBitmap = leaving.iter().take(most).collect();
        self.visiting -= &leaving;
        self.away |= &leaving;
        leaving
    }

    /// The saved sets of which no point is left, given the ranges of time that still have points.
    pub(crate) fn expired(&self, left: &[TimeRange]) -> Vec<Arc<IdleSet>> {
        let is_expired =
            |known: &&Known| known.is_saved && !left.iter().any(|range| range.overlaps(known.set.time));
        self.sets.values().filter(is_expired).map(|known| known.set.clone()).collect()
    }

    /// The saved sets of which all points lie within a range of times.
    pub(crate) fn within(&self, time: TimeRange) -> Vec<Arc<IdleSet>> {
        let is_within = |known: &&Known| known.is_saved && time.covers(known.set.time);
        self.sets.values().filter(is_within).map(|known| known.set.clone()).collect()
    }

    /// Those of a set's series that are in no other.
    pub(crate) fn only_in(&self, series: &RoaringBitmap) -> RoaringBitmap {
        series.iter().filter(|id| !self.repeated.contains_key(id)).collect()
    }

    /// A set is no more.
    pub(crate) fn remove_set(&mut self, set: &IdleSet, series: &RoaringBitmap) {
        if self.sets.remove(&place(set)).is_none() {
            return;
        }
        if let Some(count) = self.key_lists.get_mut(&set.keys) {
            *count -= 1;
            if *count == 0 {
                self.key_lists.remove(&set.keys);
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

    /// Bytes held in memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_set =
            |known: &Known| SET_BYTES + known.held.as_ref().map_or(0, RoaringBitmap::serialized_size);
        let keys = self.keys().map(|key| key.len() + size_of::<String>());
        let series = [&self.away, &self.visiting, &self.awake];
        self.sets.values().map(of_set).sum::<usize>()
            + keys.sum::<usize>()
            + series.iter().map(|ids| ids.serialized_size()).sum::<usize>()
            + self.repeated.capacity() * size_of::<(u32, u32)>()
    }
}

fn place(set: &IdleSet) -> (i64, u64) {
    (set.time.end_ns, set.number)
}

/// What a set takes in memory without its series: its descriptor, and its place among the sets.
const SET_BYTES: usize = size_of::<IdleSet>() + size_of::<Known>() + 48;
