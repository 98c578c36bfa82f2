//! The deleted ranges of a series, out of those of its table: each series looks only at those that can hide rows of it.

use crate::rows::deleted_series::DeletedSeries;
use crate::rows::series_lookup::{SeriesLookup, SeriesMembers};
use crate::rows::tombstone::{DeletedRange, Tombstone};
use nyala_core::SeriesId;
use std::sync::Arc;

pub(crate) struct SeriesTombstones {
    /// By sequence.
    all: Vec<Arc<Tombstone>>,
    /// The places of those of all series.
    of_every: Vec<u32>,
    /// Finds the others, by their places in `of_some`.
    lookup: SeriesLookup,
    of_some: Vec<u32>,
    /// The series at hand, and its tombstones, by sequence.
    selected: Option<u32>,
    of_selected: Vec<Arc<Tombstone>>,
    /// Whether these are those of all series.
    is_plain: bool,
}

impl SeriesTombstones {
    pub(crate) fn new(all: Vec<Arc<Tombstone>>) -> Self {
        let (mut of_every, mut of_some, mut sets) = (Vec::new(), Vec::new(), Vec::new());
        for (place, tombstone) in (0..).zip(&all) {
            let set = match &tombstone.range {
                DeletedRange::Series { series: DeletedSeries::All, .. } | DeletedRange::Times(_) => {
                    of_every.push(place);
                    continue;
                }
                DeletedRange::Series { series: DeletedSeries::Some(set), .. } => {
                    SeriesMembers::Some(set.clone())
                }
                DeletedRange::SeriesKeys(keys) => SeriesMembers::Between(keys.start.0, keys.end.0),
                // It has no rows of a series.
                DeletedRange::Keys(_) => continue,
            };
            of_some.push(place);
            sets.push(set);
        }
        let of_selected = of_every.iter().map(|place| all[*place as usize].clone()).collect();
        let lookup = SeriesLookup::new(sets);
        Self { all, of_every, lookup, of_some, selected: None, of_selected, is_plain: true }
    }

    /// Those that can hide rows of a series, by sequence.
    pub(crate) fn of(&mut self, series: SeriesId) -> &[Arc<Tombstone>] {
        if self.selected.replace(series.0) != Some(series.0) {
            let sets = self.lookup.sets_of(series.0);
            if !sets.is_empty() || !self.is_plain {
                self.is_plain = sets.is_empty();
                let own = sets.iter().map(|(_, set)| self.of_some[*set as usize]);
                let mut places: Vec<u32> = self.of_every.iter().copied().chain(own).collect();
                places.sort_unstable();
                self.of_selected.clear();
                self.of_selected.extend(places.iter().map(|place| self.all[*place as usize].clone()));
            }
        }
        &self.of_selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::key::SeriesKeys;
    use nyala_core::TimeRange;
    use nyala_core::store::SeriesSet;

    #[test]
    fn a_series_gets_those_that_name_it_and_those_of_all() {
        let ids =
            |ids: &[u32]| DeletedSeries::of(&SeriesSet::Ids(ids.iter().copied().map(SeriesId).collect()));
        let time = TimeRange::new(0, 10);
        let ranges = [
            DeletedRange::Series { series: ids(&[1, 5]), time },
            DeletedRange::Series { series: DeletedSeries::All, time },
            DeletedRange::SeriesKeys(SeriesKeys { start: (4, 3), end: (6, 3) }),
            DeletedRange::Series { series: ids(&[5]), time },
            DeletedRange::Times(time),
        ];
        let all = (1..).zip(ranges).map(|(sequence, range)| Arc::new(Tombstone::new(sequence, range)));
        let mut tombstones = SeriesTombstones::new(all.collect());
        let mut of = |series| -> Vec<u64> {
            tombstones.of(SeriesId(series)).iter().map(|tombstone| tombstone.sequence).collect()
        };
        // In any order, and again.
        for _ in 0..2 {
            for (series, expected) in [
                (5, &[1, 2, 3, 4, 5][..]),
                (0, &[2, 5][..]),
                (1, &[1, 2, 5][..]),
                (1, &[1, 2, 5][..]),
                (4, &[2, 3, 5][..]),
                (7, &[2, 5][..]),
                (8, &[2, 5][..]),
            ] {
                assert_eq!(of(series), expected, "{series}");
            }
        }
        assert!(SeriesTombstones::new(Vec::new()).of(SeriesId(1)).is_empty());
    }
}
