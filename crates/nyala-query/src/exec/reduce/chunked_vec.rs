//! A growing list in chunks that are not moved: a window may hold most of a query's memory.

/// Values of a full chunk. Up to this length a list grows as vectors do, by moving to twice the capacity.
const CHUNK_LENGTH: usize = 1 << 16;

/// A list in chunks.
pub struct ChunkedVec<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self { full: Vec::new(), last: Vec::new() }
    }
}

impl<T> ChunkedVec<T> {
    /// Adds a value.
    pub fn push(&mut self, value: T) {
        if self.last.len() == CHUNK_LENGTH {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK_LENGTH)));
        }
        self.last.push(value);
    }

    /// All values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.full.iter_mut().flatten().chain(&mut self.last)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// All values in the order they were added. Each chunk is freed once it is copied, so that the values are in memory only
    /// about once.
    pub fn into_vec(self) -> Vec<T> {
        if self.full.is_empty() {
            return self.last;
        }
        let mut all = Vec::with_capacity(self.full.len() * CHUNK_LENGTH + self.last.len());
        for mut chunk in self.full {
            all.append(&mut chunk);
        }
        all.extend(self.last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_one_list() {
        for length in [0, 1, CHUNK_LENGTH - 1, CHUNK_LENGTH, CHUNK_LENGTH + 1, 3 * CHUNK_LENGTH + 7] {
            let mut list = ChunkedVec::default();
            (0..length).for_each(|value| list.push(value));
            assert_eq!(list.is_empty(), length == 0);
            assert!(list.into_vec().into_iter().eq(0..length));
        }
    }
}
