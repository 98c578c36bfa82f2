//! Simple8b: words of 64 bits. The highest four select how many numbers of how many bits are in the others.

/// Numbers in a word, and the bits of each. The first two stand for ones that take no bits.
const SELECTORS: [(usize, u32); 16] = [
    (240, 0),
    (120, 0),
    (60, 1),
    (30, 2),
    (20, 3),
    (15, 4),
    (12, 5),
    (10, 6),
    (8, 7),
    (7, 8),
    (6, 10),
    (5, 12),
    (4, 15),
    (3, 20),
    (2, 30),
    (1, 60),
];

/// How many numbers words have. `None` if the bytes are no words.
pub(super) fn count(words: &[u8]) -> Option<usize> {
    let (words, rest) = words.as_chunks::<8>();
    rest.is_empty().then(|| words.iter().map(|word| SELECTORS[usize::from(word[0] >> 4)].0).sum())
}

/// Calls `take` with each number. Bytes after the last word are ignored.
#[inline(always)]
pub(super) fn decode(words: &[u8], mut take: impl FnMut(u64)) {
    for word in words.as_chunks::<8>().0 {
        let mut word = u64::from_be_bytes(*word);
        let (count, bits) = SELECTORS[(word >> 60) as usize];
        if bits == 0 {
            (0..count).for_each(|_| take(1));
            continue;
        }
        let mask = (1 << bits) - 1;
        for _ in 0..count {
            take(word & mask);
            word >>= bits;
        }
    }
}
