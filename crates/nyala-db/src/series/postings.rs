//! Sets of series ids. A million tags with one series each must be cheap, so one id needs no bitmap.

use roaring::RoaringBitmap;

/// The series that carry one tag value.
#[derive(Clone, Default)]
pub(crate) enum Postings {
    #[default]
    Empty,
    One(u32),
    Many(Box<RoaringBitmap>),
}

impl Postings {
    pub(crate) fn insert(&mut self, id: u32) {
        match self {
            Postings::Empty => *self = Postings::One(id),
            Postings::One(old) if *old == id => {}
            Postings::One(old) => *self = Postings::Many(Box::new([*old, id].into_iter().collect())),
            Postings::Many(ids) => drop(ids.insert(id)),
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        match self {
            Postings::One(old) if *old == id => *self = Postings::Empty,
            Postings::Many(ids) => drop(ids.remove(id)),
            Postings::Empty | Postings::One(_) => {}
        }
    }

    pub(crate) fn intersects(&self, ids: &RoaringBitmap) -> bool {
        match self {
            Postings::Empty => false,
            Postings::One(id) => ids.contains(*id),
            Postings::Many(own) => !own.is_disjoint(ids),
        }
    }

    pub(crate) fn add_to(&self, ids: &mut RoaringBitmap) {
        match self {
            Postings::Empty => {}
            Postings::One(id) => drop(ids.insert(*id)),
            Postings::Many(own) => *ids |= &**own,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Postings::Empty | Postings::One(_) => 0,
            Postings::Many(ids) => size_of::<RoaringBitmap>() + ids.serialized_size(),
        }
    }
}
