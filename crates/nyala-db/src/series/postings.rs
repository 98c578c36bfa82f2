//! The series ids of a tag value. A million tags with one series each must be cheap, so a single id needs no bitmap.

use roaring::RoaringBitmap;

/// The series that have one tag value.
#[derive(Clone, Default)]
pub(crate) enum Postings {
    #[default]
    Empty,
    One(u32),
    Many(Box<RoaringBitmap>),
}

impl Postings {
    /// Adds a series. Returns how many bitmaps, and how many series in bitmaps, were added. A single series is in no bitmap.
    pub(crate) fn insert(&mut self, id: u32) -> (usize, usize) {
        match self {
            Postings::Empty => *self = Postings::One(id),
            Postings::One(old) if *old == id => {}
            Postings::One(old) => {
                *self = Postings::Many(Box::new([*old, id].into_iter().collect()));
                return (1, 2);
            }
            Postings::Many(ids) => return (0, usize::from(ids.insert(id))),
        }
        (0, 0)
    }

    /// Removes a series. Returns how many bitmaps, and how many series in bitmaps, were removed. `Many` never becomes `One`
    /// again.
    pub(crate) fn remove(&mut self, id: u32) -> (usize, usize) {
        match self {
            Postings::One(old) if *old == id => *self = Postings::Empty,
            Postings::Many(ids) => {
                let gone = usize::from(ids.remove(id));
                if !ids.is_empty() {
                    return (0, gone);
                }
                *self = Postings::Empty;
                return (1, gone);
            }
            Postings::Empty | Postings::One(_) => {}
        }
        (0, 0)
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

    pub(crate) fn len(&self) -> usize {
        match self {
            Postings::Empty => 0,
            Postings::One(_) => 1,
            Postings::Many(own) => own.len() as usize,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Postings::Empty)
    }
}
