//! The rowsets of a partition of a table with any key, in layers: those of a layer have no keys in common, and lie one behind
//! the other. Of rowsets that have keys in common, the newer one is in the higher layer.
//!
//! A partition has a few layers, one for each flush or merge that is not merged with the others, however many rowsets it
//! has. So a key is looked for in one rowset of each layer, and a scan has one source for each.

use crate::files::rowset::Rowset;
use crate::rows::key::KeyRange;
use nyala_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// Layers, from oldest to newest.
pub(crate) struct KeyLayers {
    layers: Vec<KeyLayer>,
}

/// Rowsets in the order of their keys.
#[derive(Default)]
pub(crate) struct KeyLayer {
    rowsets: Vec<Arc<Rowset>>,
}

impl KeyLayers {
    /// The layers of rowsets that go from oldest to newest.
    pub(crate) fn of(rowsets: &[Arc<Rowset>]) -> Result<Self> {
        let mut layers: Vec<KeyLayer> = Vec::new();
        for rowset in rowsets {
            rowset.key_bounds()?;
            let below = layers.iter().rposition(|layer| layer.has_keys_of(rowset));
            let number = below.map_or(0, |below| below + 1);
            if number == layers.len() {
                layers.push(KeyLayer::default());
            }
            layers[number].insert(rowset.clone());
        }
        Ok(Self { layers })
    }

    /// The layers, from oldest to newest.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &KeyLayer> {
        self.layers.iter()
    }

    /// A layer by its number.
    pub(crate) fn layer(&self, number: usize) -> &KeyLayer {
        &self.layers[number]
    }

    /// The rowsets that may have a key, from newest to oldest.
    pub(crate) fn around<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Rowset>> {
        self.layers.iter().rev().filter_map(move |layer| layer.around(key))
    }
}

impl KeyLayer {
    /// A rowset by its place.
    pub(crate) fn rowset(&self, place: usize) -> &Arc<Rowset> {
        &self.rowsets[place]
    }

    /// The rowset that may have a key.
    fn around(&self, key: &[u8]) -> Option<&Arc<Rowset>> {
        let rowset = self.rowsets.get(self.first_to(key))?;
        (first_key(rowset) <= key).then_some(rowset)
    }

    /// Those that may have keys from a first to a last one.
    pub(crate) fn between(&self, first: &[u8], last: &[u8]) -> &[Arc<Rowset>] {
        let behind = &self.rowsets[self.first_to(first)..];
        &behind[..behind.partition_point(|rowset| first_key(rowset) <= last)]
    }

    /// The places of those that may have keys of a range.
    pub(crate) fn places_in(&self, range: &KeyRange) -> Range<usize> {
        let start = self.first_to(&range.start);
        let end = match &range.end {
            None => self.rowsets.len(),
            Some(end) => self.rowsets.partition_point(|rowset| first_key(rowset) < end.as_slice()),
        };
        start..end.max(start)
    }

    /// The place of the first rowset that does not end before a key.
    fn first_to(&self, key: &[u8]) -> usize {
        self.rowsets.partition_point(|rowset| last_key(rowset) < key)
    }

    fn has_keys_of(&self, other: &Rowset) -> bool {
        self.rowsets
            .get(self.first_to(first_key(other)))
            .is_some_and(|next| first_key(next) <= last_key(other))
    }

    fn insert(&mut self, rowset: Arc<Rowset>) {
        self.rowsets.insert(self.first_to(first_key(&rowset)), rowset);
    }
}

fn bounds(rowset: &Rowset) -> &(Vec<u8>, Vec<u8>) {
    rowset.key_bounds().expect("they were asked for when the rowset came into its layer")
}

fn first_key(rowset: &Rowset) -> &[u8] {
    &bounds(rowset).0
}

fn last_key(rowset: &Rowset) -> &[u8] {
    &bounds(rowset).1
}
