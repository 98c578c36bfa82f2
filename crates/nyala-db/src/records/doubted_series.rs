//! Series of which somebody looks whether they have points, and the entries of the log that doubted them.
//!
//! An entry may name any number of ids in a few bytes. So sets of ids are kept, never one id after the other.

use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// Series that were doubted and neither shown nor hidden since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DoubtedSeries {
    all: RoaringBitmap,
    /// Each of them once, by the number of the first entry that doubted it, ...
    by_first: BTreeMap<i64, RoaringBitmap>,
    /// ... and once by that of the last.
    by_last: BTreeMap<i64, RoaringBitmap>,
}

impl DoubtedSeries {
    /// Notes that an entry doubts series. Numbers of entries grow.
    pub(crate) fn note(&mut self, ids: &RoaringBitmap, number: i64) {
        let added = ids - &self.all;
        if !added.is_empty() {
            *self.by_first.entry(number).or_default() |= &added;
        }
        take_away(&mut self.by_last, ids);
        if !ids.is_empty() {
            *self.by_last.entry(number).or_default() |= ids;
        }
        self.all |= added;
    }

    /// Notes that series were shown or hidden.
    pub(crate) fn remove(&mut self, ids: &RoaringBitmap) {
        if self.all.is_disjoint(ids) {
            return;
        }
        self.all -= ids;
        take_away(&mut self.by_first, ids);
        take_away(&mut self.by_last, ids);
    }

    /// Forgets those that no entry has doubted after this one.
    pub(crate) fn forget_until(&mut self, number: i64) {
        let old = union(self.by_last.range(..=number));
        self.remove(&old);
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.all.contains(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those that were doubted first by this entry or one before it.
    pub(crate) fn since(&self, number: i64) -> RoaringBitmap {
        union(self.by_first.range(..=number))
    }
}

fn take_away(sets: &mut BTreeMap<i64, RoaringBitmap>, ids: &RoaringBitmap) {
    sets.retain(|_, own| {
        *own -= ids;
        !own.is_empty()
    });
}

fn union<'a>(sets: impl Iterator<Item = (&'a i64, &'a RoaringBitmap)>) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    for (_, own) in sets {
        all |= own;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_begin_with_their_first_entry_and_are_forgotten_after_their_last() {
        let set = |ids: &[u32]| RoaringBitmap::from_iter(ids);
        let mut doubted = DoubtedSeries::default();
        doubted.note(&set(&[1, 2]), 10);
        doubted.note(&set(&[2, 3]), 20);
        assert_eq!(
            (doubted.since(9), doubted.since(10), doubted.since(20)),
            (set(&[]), set(&[1, 2]), set(&[1, 2, 3]))
        );
        // The second is doubted by a later entry, too, and since its first one.
        doubted.forget_until(10);
        assert_eq!((doubted.since(10), doubted.contains(1)), (set(&[2]), false));
        // What was shown and is doubted anew is so since then.
        doubted.remove(&set(&[2]));
        doubted.note(&set(&[2]), 30);
        assert_eq!((doubted.since(29), doubted.since(30)), (set(&[3]), set(&[2, 3])));
        doubted.forget_until(30);
        assert_eq!(doubted, DoubtedSeries::default());
    }

    #[test]
    fn an_entry_about_all_ids_is_noted_as_one_set() {
        let mut doubted = DoubtedSeries::default();
        for number in 1..100 {
            doubted.note(&RoaringBitmap::full(), number);
        }
        assert!(doubted.contains(u32::MAX) && doubted.since(1).is_full());
        doubted.remove(&RoaringBitmap::full());
        assert!(doubted.is_empty());
    }
}
