//! A bit per row: filter results, truth values, validity.
//!
//! Bit `i` is bit `i % 64` of word `i / 64`, which in little-endian bytes is Arrow's layout. Bits past the length
//! are zero, so that counts and comparisons can work on whole words.

/// A growable list of bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// No bits.
    pub fn new() -> Self {
        Self::default()
    }

    /// `len` bits, all `value`.
    pub fn filled(len: usize, value: bool) -> Self {
        let mut bitmap = Self::new();
        bitmap.extend_filled(len, value);
        bitmap
    }

    /// Bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all bits, keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    /// The words; bits past the length are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bits as little-endian bytes, `ceil(len / 8)` of them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8));
        bytes
    }

    /// Bit `index`.
    #[inline]
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] >> (index % 64) & 1 != 0
    }

    /// Appends one bit.
    #[inline]
    pub fn push(&mut self, value: bool) {
        self.extend_word(u64::from(value), 1);
    }

    /// Appends the low `count` (at most 64) bits of `word`.
    #[inline]
    pub fn extend_word(&mut self, word: u64, count: usize) {
        if count == 0 {
            return;
        }
        debug_assert!(count <= 64);
        let word = word & (u64::MAX >> (64 - count));
        let filled = self.len % 64;
        if filled == 0 {
            self.words.push(word);
        } else {
            *self.words.last_mut().expect("a word is begun") |= word << filled;
            if filled + count > 64 {
                self.words.push(word >> (64 - filled));
            }
        }
        self.len += count;
    }

    /// Appends `count` bits, all `value`.
    pub fn extend_filled(&mut self, mut count: usize, value: bool) {
        let word = if value { u64::MAX } else { 0 };
        while count > 0 {
            let part = count.min(64);
            self.extend_word(word, part);
            count -= part;
        }
    }

    /// Bits that are set.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Keeps the bits that are also set in `other`, which is as long.
    pub fn and(&mut self, other: &Bitmap) {
        assert_eq!(self.len, other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// The set bits, rising.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

impl FromIterator<bool> for Bitmap {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut bitmap = Self::new();
        bits.into_iter().for_each(|bit| bitmap.push(bit));
        bitmap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_behave_like_a_list_of_booleans() {
        let list: Vec<bool> = (0..300).map(|index| index % 3 == 0 || index % 7 == 2).collect();
        let bitmap: Bitmap = list.iter().copied().collect();
        assert_eq!(bitmap.len(), 300);
        assert!(list.iter().enumerate().all(|(index, bit)| bitmap.get(index) == *bit));
        let ones: Vec<usize> = (0..300).filter(|index| list[*index]).collect();
        assert_eq!(bitmap.ones().collect::<Vec<_>>(), ones);
        assert_eq!(bitmap.count_ones(), ones.len());
    }

    #[test]
    fn words_append_at_any_offset() {
        for offset in 0..70 {
            let mut bitmap = Bitmap::filled(offset, true);
            bitmap.extend_word(0b1011, 3);
            bitmap.extend_word(u64::MAX, 64);
            bitmap.extend_filled(5, false);
            assert_eq!(bitmap.len(), offset + 72);
            assert_eq!(bitmap.count_ones(), offset + 66);
            assert!(bitmap.get(offset) && bitmap.get(offset + 1) && !bitmap.get(offset + 2));
        }
    }
}
