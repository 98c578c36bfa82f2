//! A growing list that is never moved: what a window holds may be most of a query's memory.

/// Values of a full piece. Up to here a list grows as vectors do, by moving to twice the room.
const PIECE_LENGTH: usize = 1 << 16;

/// A list in pieces.
pub struct Pieces<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { full: Vec::new(), last: Vec::new() }
    }
}

impl<T> Pieces<T> {
    /// Adds a value.
    pub fn push(&mut self, value: T) {
        if self.last.len() == PIECE_LENGTH {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(PIECE_LENGTH)));
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

    /// All values in the order they were added. Each piece is freed once it is copied, so that the values are in
    /// memory about once at any time.
    pub fn into_vec(self) -> Vec<T> {
        if self.full.is_empty() {
            return self.last;
        }
        let mut all = Vec::with_capacity(self.full.len() * PIECE_LENGTH + self.last.len());
        for mut piece in self.full {
            all.append(&mut piece);
        }
        all.extend(self.last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_list() {
        for length in [0, 1, PIECE_LENGTH - 1, PIECE_LENGTH, PIECE_LENGTH + 1, 3 * PIECE_LENGTH + 7] {
            let mut pieces = Pieces::default();
            (0..length).for_each(|value| pieces.push(value));
            assert_eq!(pieces.is_empty(), length == 0);
            assert!(pieces.into_vec().into_iter().eq(0..length));
        }
    }
}
