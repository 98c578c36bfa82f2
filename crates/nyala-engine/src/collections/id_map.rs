//! A map from ids, as one sorted vector: most tables have one partition and few rowsets, for which a tree would take far
//! more memory.

/// Values by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdMap<V> {
    entries: Vec<(u64, V)>,
}

impl<V> Default for IdMap<V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<V> IdMap<V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&V> {
        self.place(id).ok().map(|place| &self.entries[place].1)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.place(id).is_ok()
    }

    /// Inserts or replaces a value. Cheap for the highest id; new ids are the highest.
    pub(crate) fn insert(&mut self, id: u64, value: V) {
        match self.place(id) {
            Ok(place) => self.entries[place].1 = value,
            Err(place) => {
                if self.entries.is_empty() {
                    self.entries.reserve_exact(1);
                }
                self.entries.insert(place, (id, value));
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u64) {
        if let Ok(place) = self.place(id) {
            self.entries.remove(place);
        }
    }

    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&V) -> bool) {
        self.entries.retain(|(_, value)| keeps(value));
    }

    /// In order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.entries.iter().map(|(id, value)| (*id, value))
    }

    /// In order of their numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    fn place(&self, id: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        let (mut ids, mut map) = (IdMap::default(), BTreeMap::new());
        for step in 0_u64..2_000 {
            let id = step.wrapping_mul(step) / 7 % 41;
            let is_new = step % 5 < 3;
            if is_new {
                ids.insert(id, step);
                map.insert(id, step);
            } else {
                ids.remove(id);
                map.remove(&id);
            }
            assert_eq!((ids.get(id), ids.contains(id), ids.len()), (map.get(&id), is_new, map.len()));
            assert!(ids.iter().eq(map.iter().map(|(id, value)| (*id, value))));
        }
        ids.retain(|value| value % 3 == 0);
        map.retain(|_, value| *value % 3 == 0);
        assert!(!map.is_empty() && ids.values().eq(map.values()));
    }
}
