//! Finds which of many sets have a series, without asking each set for each series.
//!
//! Series are mostly asked for in ascending order. So with one of them those behind it are looked up, too: more each time, as long as
//! what is found has a bound. What is kept does not grow with the sets.

use roaring::RoaringBitmap;
use std::sync::Arc;

/// So many series are looked up at once at most.
const WIDTH_MAX: u32 = 4096;
/// What is found at once, about, in sets that have many of the series.
const FOUND_MAX: usize = 4096;

/// A set of series.
pub(crate) enum SeriesMembers {
    Some(Arc<RoaringBitmap>),
    /// From one to another.
    Between(u32, u32),
}

pub(crate) struct SeriesLookup {
    sets: Vec<SeriesMembers>,
    /// The first and the last of the series that were looked up.
    known: Option<(u32, u32)>,
    /// Each of them that is in a set, with the number of the set, ascending.
    found: Vec<(u32, u32)>,
    width: u32,
}

impl SeriesMembers {
    fn contains(&self, series: u32) -> bool {
        match self {
            Self::Some(set) => set.contains(series),
            Self::Between(first, last) => (*first..=*last).contains(&series),
        }
    }

    /// Its first series that is not below another one.
    pub(crate) fn first_from(&self, least: u32) -> Option<u32> {
        match self {
            Self::Some(set) => set.range(least..).next(),
            Self::Between(first, last) => Some(least.max(*first)).filter(|series| series <= last),
        }
    }

    /// Adds its series from one to another.
    fn add_between(&self, (first, last): (u32, u32), number: u32, found: &mut Vec<(u32, u32)>) {
        match self {
            _ if first == last => found.extend(self.contains(first).then_some((first, number))),
            Self::Some(set) => found.extend(set.range(first..=last).map(|series| (series, number))),
            Self::Between(least, most) => {
                found.extend((first.max(*least)..=last.min(*most)).map(|series| (series, number)));
            }
        }
    }
}

impl SeriesLookup {
    pub(crate) fn new(sets: Vec<SeriesMembers>) -> Self {
        Self { sets, known: None, found: Vec::new(), width: 1 }
    }

    /// The sets that have a series, as pairs of it and their numbers, ascending.
    pub(crate) fn sets_of(&mut self, series: u32) -> &[(u32, u32)] {
        if !self.knows(series) {
            self.look_up(series);
        }
        let first = self.found.partition_point(|(other, _)| *other < series);
        let end = self.found.partition_point(|(other, _)| *other <= series);
        &self.found[first..end]
    }

    /// The first series of a set that is not below another one.
    pub(crate) fn first_from(&mut self, least: u32) -> Option<u32> {
        let mut from = least;
        if let (true, Some((_, last))) = (self.knows(least), self.known) {
            let place = self.found.partition_point(|(series, _)| *series < least);
            if let Some((series, _)) = self.found.get(place) {
                return Some(*series);
            }
            from = last.checked_add(1)?;
        }
        let next = self.sets.iter().filter_map(|set| set.first_from(from)).min()?;
        self.look_up(next);
        Some(next)
    }

    fn knows(&self, series: u32) -> bool {
        self.known.is_some_and(|(first, last)| (first..=last).contains(&series))
    }

    fn look_up(&mut self, series: u32) {
        self.width = match self.known {
            Some((_, last)) if last < series => (2 * self.width).min(WIDTH_MAX),
            _ => 1,
        };
        loop {
            let range = (series, series.saturating_add(self.width - 1));
            self.found.clear();
            for (number, set) in (0..).zip(&self.sets) {
                set.add_between(range, number, &mut self.found);
                if self.width > 1 && self.found.len() > FOUND_MAX {
                    break;
                }
            }
            if self.width == 1 || self.found.len() <= FOUND_MAX {
                self.known = Some(range);
                self.found.sort_unstable();
                return;
            }
            self.width /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_kept_has_a_bound_and_most_series_are_found_together() {
        let all = || SeriesMembers::Some(Arc::new((0..100_000).collect()));
        let mut lookup = SeriesLookup::new((0..100).map(|_| all()).collect());
        let mut look_ups = 0;
        for series in 0..100_000 {
            look_ups += usize::from(!lookup.knows(series));
            assert_eq!(lookup.sets_of(series).len(), 100);
            assert!(lookup.found.len() <= FOUND_MAX);
        }
        assert!(look_ups < 100_000 / 16, "{look_ups}");
        let few = (0..1000).map(|set| SeriesMembers::Between(100 * set, 100 * set));
        let mut lookup = SeriesLookup::new(few.collect());
        let look_ups = (0..100_000).filter(|series| {
            let is_new = !lookup.knows(*series);
            assert_eq!(lookup.sets_of(*series).len(), usize::from(series % 100 == 0));
            is_new
        });
        assert!(look_ups.count() < 50);
    }

    proptest! {
        #[test]
        fn it_finds_what_asking_each_set_finds(
            sets in prop::collection::vec(prop::collection::btree_set(0_u32..60, 0..40), 0..6),
            between in prop::collection::vec((0_u32..60, 0_u32..60), 0..3),
            asked in prop::collection::vec((0_u32..64, any::<bool>()), 1..60),
        ) {
            let last = u32::MAX - 70;
            // At the upper end, too.
            for offset in [0, last] {
                let some = sets.iter().map(|set| {
                    SeriesMembers::Some(Arc::new(set.iter().map(|series| series + offset).collect()))
                });
                let between = between.iter().map(|(first, last)| {
                    SeriesMembers::Between(first + offset, last + offset)
                });
                let sets: Vec<SeriesMembers> = some.chain(between).collect();
                let has = |series: u32, set: u32| sets[set as usize].contains(series);
                let expected: Vec<Vec<u32>> = (0..70)
                    .map(|series| (0..sets.len() as u32).filter(|set| has(series + offset, *set)).collect())
                    .collect();
                let mut lookup = SeriesLookup::new(sets);
                for (series, finds_next) in &asked {
                    if *finds_next {
                        let next = (*series..70).find(|next| !expected[*next as usize].is_empty());
                        let next = next.map(|next| next + offset);
                        prop_assert_eq!(lookup.first_from(series + offset), next);
                    } else {
                        let found: Vec<u32> =
                            lookup.sets_of(series + offset).iter().map(|(_, set)| *set).collect();
                        prop_assert_eq!(&found, &expected[*series as usize]);
                    }
                }
            }
        }
    }
}
