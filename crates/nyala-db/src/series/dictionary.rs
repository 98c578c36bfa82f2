//! Strings ↔ dense numbers, the bytes stored once.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Distinct byte strings, numbered in order of arrival.
#[derive(Default)]
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    /// Where each string ends in `bytes`.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: FixedState,
}

impl Dictionary {
    /// The number of a string, if it is known.
    pub(crate) fn find(&self, string: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(string);
        self.numbers.find(hash, |number| self.get(*number) == string).copied()
    }

    /// The number of a string, new or known.
    pub(crate) fn insert(&mut self, string: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(string);
        let Self { bytes, ends, numbers, hasher } = self;
        if let Some(number) = numbers.find(hash, |number| slice(bytes, ends, *number) == string) {
            return *number;
        }
        let number = ends.len() as u32;
        bytes.extend_from_slice(string);
        ends.push(u32::try_from(bytes.len()).expect("a dictionary holds less than 4 GiB"));
        numbers.insert_unique(hash, number, |number| hasher.hash_one(slice(bytes, ends, *number)));
        number
    }

    /// The string of a number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// How many strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes held in memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.numbers.capacity() * 5
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[u32], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    &bytes[start..ends[number] as usize]
}
