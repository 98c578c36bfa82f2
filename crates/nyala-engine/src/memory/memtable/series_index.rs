//! Finds the rows of each series: an entry of one word per series, sixteen series to a cache line.
//!
//! Most memtables see series next to each other, so entries lie in blocks found by number, and batches that name
//! series in order find each block beside the one before. A series that has few rows costs its word and its rows.

use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Series of a block: their words fill a cache line.
pub(super) const BLOCK_SERIES: u32 = 16;
/// Blocks after the one used last in which a series is looked for before they are asked for by number: what is late
/// or missing makes batches jump a little.
const NEAR_BLOCKS: usize = 3;

/// A word of the caller per series; 0 until it sets another.
#[derive(Default)]
pub(super) struct SeriesIndex {
    numbers: Vec<u32>,
    blocks: Vec<[u32; BLOCK_SERIES as usize]>,
    by_number: HashTable<u32>,
    last: usize,
}

fn hash(number: u32) -> u64 {
    foldhash::fast::FixedState::default().hash_one(number)
}

impl SeriesIndex {
    /// The word of a series; 0 if it was never asked for to be set.
    pub(super) fn get(&self, series: u32) -> u32 {
        let number = series / BLOCK_SERIES;
        let found = self.by_number.find(hash(number), |index| self.numbers[*index as usize] == number);
        found.map_or(0, |index| self.blocks[*index as usize][(series % BLOCK_SERIES) as usize])
    }

    /// The word of a series, to be set.
    #[inline]
    pub(super) fn get_mut(&mut self, series: u32) -> &mut u32 {
        let number = series / BLOCK_SERIES;
        let near = self.numbers[self.last.min(self.numbers.len())..].iter().take(NEAR_BLOCKS);
        let index = match near.into_iter().position(|other| *other == number) {
            Some(offset) => self.last + offset,
            None => self.find_or_add(number),
        };
        self.last = index;
        &mut self.blocks[index][(series % BLOCK_SERIES) as usize]
    }

    /// The word of a series if it is near the one that was asked for last; else 0.
    #[inline]
    pub(super) fn near(&self, series: u32) -> u32 {
        let number = series / BLOCK_SERIES;
        let near = self.numbers[self.last.min(self.numbers.len())..].iter().take(NEAR_BLOCKS);
        let found = near.into_iter().position(|other| *other == number);
        found.map_or(0, |offset| self.blocks[self.last + offset][(series % BLOCK_SERIES) as usize])
    }

    fn find_or_add(&mut self, number: u32) -> usize {
        let Self { numbers, blocks, by_number, .. } = self;
        let entry = by_number.entry(
            hash(number),
            |index| numbers[*index as usize] == number,
            |index| hash(numbers[*index as usize]),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get() as usize,
            hashbrown::hash_table::Entry::Vacant(entry) => {
                entry.insert(numbers.len() as u32);
                if blocks.is_empty() {
                    blocks.reserve_exact(1);
                }
                numbers.push(number);
                blocks.push([0; BLOCK_SERIES as usize]);
                numbers.len() - 1
            }
        }
    }

    /// First series and index of each block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        self.numbers.iter().enumerate().map(|(index, number)| (number * BLOCK_SERIES, index as u32))
    }

    /// The words of a block.
    pub(super) fn block(&self, index: u32) -> &[u32; BLOCK_SERIES as usize] {
        &self.blocks[index as usize]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * 4
            + self.blocks.capacity() * size_of::<[u32; BLOCK_SERIES as usize]>()
            + self.by_number.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_again_in_any_order() {
        let mut entries = SeriesIndex::default();
        let series: Vec<u32> = (0..400).chain([u32::MAX, 70_000, 3]).chain((1000..1200).rev()).collect();
        for (position, series) in series.iter().enumerate() {
            *entries.get_mut(*series) = position as u32 + 1;
        }
        for (position, series) in series.iter().enumerate().filter(|(_, series)| **series != 3) {
            assert_eq!(entries.get(*series), position as u32 + 1);
        }
        assert_eq!((entries.get(3), entries.get(500), entries.get(u32::MAX - 1)), (403, 0, 0));
        let known = entries.blocks().flat_map(|(_, index)| *entries.block(index)).filter(|word| *word != 0);
        assert_eq!(known.count(), series.len() - 1);
    }
}
