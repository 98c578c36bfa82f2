//! Tables by id, in chunks that copies of a map share.
//!
//! Every change of any table makes another version of all of them. A copy costs a pointer per chunk, and a change
//! copies the chunk it is in: with 50 000 tables some 200 pointers, and as many again. Ids are given in order, so
//! chunks are full unless tables were dropped.

use nyala_core::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ids of a chunk.
const CHUNK_IDS: u32 = 256;

type Chunk<T> = BTreeMap<TableId, Arc<T>>;

/// Something per table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableMap<T> {
    chunks: BTreeMap<u32, Arc<Chunk<T>>>,
}

impl<T> Clone for TableMap<T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone() }
    }
}

impl<T> Default for TableMap<T> {
    fn default() -> Self {
        Self { chunks: BTreeMap::new() }
    }
}

impl<T> TableMap<T> {
    pub(crate) fn get(&self, id: &TableId) -> Option<&Arc<T>> {
        self.chunks.get(&(id.0 / CHUNK_IDS))?.get(id)
    }

    /// The value of a table, to be changed: a copy of its own if others share it.
    pub(crate) fn get_mut(&mut self, id: &TableId) -> Option<&mut T>
    where
        T: Clone,
    {
        Arc::make_mut(self.chunks.get_mut(&(id.0 / CHUNK_IDS))?).get_mut(id).map(Arc::make_mut)
    }

    pub(crate) fn insert(&mut self, id: TableId, value: Arc<T>) {
        Arc::make_mut(self.chunks.entry(id.0 / CHUNK_IDS).or_default()).insert(id, value);
    }

    pub(crate) fn remove(&mut self, id: &TableId) -> Option<Arc<T>> {
        self.get(id)?;
        let number = id.0 / CHUNK_IDS;
        let chunk = Arc::make_mut(self.chunks.get_mut(&number)?);
        let removed = chunk.remove(id);
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
        removed
    }

    /// In order of ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TableId, &Arc<T>)> {
        self.chunks.values().flat_map(|chunk| chunk.iter())
    }

    /// In order of ids.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.len()).sum()
    }

    /// How many chunks two maps do not share.
    #[cfg(test)]
    pub(crate) fn chunks_apart(&self, other: &Self) -> usize {
        let is_shared = |number: &u32, chunk: &Arc<Chunk<T>>| {
            other.chunks.get(number).is_some_and(|other| Arc::ptr_eq(chunk, other))
        };
        self.chunks.iter().filter(|(number, chunk)| !is_shared(number, chunk)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_copy_shares_all_chunks_but_those_of_the_changes() {
        let mut map = TableMap::default();
        (0..10_000).for_each(|id| map.insert(TableId(id), Arc::new(id)));
        let mut copy = map.clone();
        assert_eq!(copy.chunks_apart(&map), 0);
        copy.insert(TableId(10_000), Arc::new(0));
        *copy.get_mut(&TableId(17)).expect("is there") += 1;
        assert_eq!(copy.remove(&TableId(18)).as_deref(), Some(&18));
        assert_eq!(copy.remove(&TableId(77_777)), None);
        assert_eq!(copy.chunks_apart(&map), 2);
        assert_eq!((copy.len(), map.len()), (10_000, 10_000));
        assert_eq!(
            (copy.get(&TableId(17)).map(|v| **v), map.get(&TableId(17)).map(|v| **v)),
            (Some(18), Some(17))
        );
        let ids: Vec<u32> = copy.iter().map(|(id, _)| id.0).collect();
        assert!(ids.is_sorted());
        (0..=10_000).for_each(|id| drop(copy.remove(&TableId(id))));
        assert_eq!(copy, TableMap::default());
    }
}
