//! Arenas: growing stores of words with 32-bit addresses, and of bytes with 38-bit addresses.
//!
//! Space is given out in order and only freed all at once. Chunks are fixed in size, except that the
//! first grows from little by doubling (most memtables are small) and that an item larger than a chunk
//! gets its own.

use nyala_column::kernels::prefetch_at;
use std::ops::Range;

/// Words that the processor fetches at once.
const LINE_WORDS: usize = 8;
/// Words in a chunk.
const CHUNK_WORDS: usize = 8192;
const CHUNK_WORDS_LOG: u32 = CHUNK_WORDS.trailing_zeros();
/// Bytes in a chunk.
const CHUNK_BYTES: usize = 65536;
const CHUNK_BYTES_LOG: u32 = CHUNK_BYTES.trailing_zeros();
/// Bits of the length of an item: what is longer is refused before it is written. The others are its address, enough
/// for 256 GiB.
const LENGTH_BITS: u32 = 26;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// Words.
#[derive(Default)]
pub(crate) struct WordArena {
    chunks: Vec<Vec<u64>>,
    pub(crate) memory_bytes: usize,
}

impl WordArena {
    /// Zeroed words; their address stays good for the life of the arena.
    pub(crate) fn allocate(&mut self, count: usize) -> u32 {
        let fits = self.chunks.last().is_some_and(|chunk| chunk.len() + count <= CHUNK_WORDS);
        if !fits {
            self.chunks.push(Vec::new());
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let start = chunk.len();
        let before = chunk.capacity();
        if before < start + count {
            let wanted = if index > 0 { CHUNK_WORDS } else { (before * 2).clamp(16, CHUNK_WORDS) };
            chunk.reserve_exact(wanted.max(start + count) - start);
            self.memory_bytes += (chunk.capacity() - before) * 8;
        }
        chunk.resize(start + count, 0);
        u32::try_from(index << CHUNK_WORDS_LOG | start).expect("full memtables are frozen long before")
    }

    /// No address given out next is past this, unless its item is larger than a chunk.
    pub(crate) fn end_after_next_chunk(&self) -> u64 {
        (self.chunks.len() as u64 + 1) << CHUNK_WORDS_LOG
    }

    pub(crate) fn get(&self, address: u32, count: usize) -> &[u64] {
        let start = address as usize & (CHUNK_WORDS - 1);
        &self.chunks[(address >> CHUNK_WORDS_LOG) as usize][start..start + count]
    }

    pub(crate) fn get_mut(&mut self, address: u32, count: usize) -> &mut [u64] {
        let start = address as usize & (CHUNK_WORDS - 1);
        &mut self.chunks[(address >> CHUNK_WORDS_LOG) as usize][start..start + count]
    }

    /// Prefetches words that are about to be written.
    #[inline]
    pub(crate) fn fetch(&self, address: u32, words: Range<usize>) {
        let words = &self.get(address, words.end)[words];
        words.chunks(LINE_WORDS).for_each(|line| prefetch_at(line.as_ptr()));
        // They may begin in the middle of a line.
        words.last().into_iter().for_each(|last| prefetch_at(last));
    }
}

/// Bytes.
#[derive(Default)]
pub(crate) struct ByteArena {
    chunks: Vec<Vec<u8>>,
    pub(crate) memory_bytes: usize,
    /// The length of the longest item.
    pub(crate) longest: usize,
}

impl ByteArena {
    /// Keeps bytes; the word finds them again.
    pub(crate) fn insert(&mut self, bytes: &[u8]) -> u64 {
        if bytes.is_empty() {
            return 0;
        }
        let fits = self.chunks.last().is_some_and(|chunk| chunk.len() + bytes.len() <= CHUNK_BYTES);
        if !fits {
            self.chunks.push(Vec::new());
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let start = chunk.len();
        let before = chunk.capacity();
        if before < start + bytes.len() {
            let wanted = if index > 0 { CHUNK_BYTES } else { (before * 2).clamp(256, CHUNK_BYTES) };
            chunk.reserve_exact(wanted.max(start + bytes.len()) - start);
            self.memory_bytes += chunk.capacity() - before;
        }
        chunk.extend_from_slice(bytes);
        self.longest = self.longest.max(bytes.len());
        let address = (index << CHUNK_BYTES_LOG | start) as u64;
        let fits = bytes.len() as u64 <= LENGTH_MASK && address >> (u64::BITS - LENGTH_BITS) == 0;
        assert!(fits, "items are short, and full memtables are frozen long before");
        address << LENGTH_BITS | bytes.len() as u64
    }

    /// How long the item at a place is.
    pub(crate) fn length(place: u64) -> usize {
        (place & LENGTH_MASK) as usize
    }

    pub(crate) fn get(&self, place: u64) -> &[u8] {
        let length = Self::length(place);
        if length == 0 {
            return &[];
        }
        let address = (place >> LENGTH_BITS) as usize;
        let start = address & (CHUNK_BYTES - 1);
        &self.chunks[address >> CHUNK_BYTES_LOG][start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_again() {
        let mut words = WordArena::default();
        let mut bytes = ByteArena::default();
        let sizes = [1, 63, 5000, 4000, 20_000, 2, 8192, 1];
        let places: Vec<_> = sizes
            .iter()
            .map(|size| {
                let address = words.allocate(*size);
                words.get_mut(address, *size).fill(*size as u64);
                (address, bytes.insert(&vec![*size as u8; *size * 10]))
            })
            .collect();
        for (size, (address, place)) in sizes.iter().zip(places) {
            assert!(words.get(address, *size).iter().all(|word| *word == *size as u64));
            assert_eq!(bytes.get(place), vec![*size as u8; *size * 10]);
        }
        assert!(words.memory_bytes >= 8 * sizes.iter().sum::<usize>());
    }
}
