//! Gives strings numbers, and finds either by the other. The bytes of a string are stored once.

use super::runs::Runs;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Distinct byte strings, numbered in order of insertion, each with an item.
#[derive(Default)]
pub(crate) struct Dictionary<T = ()> {
    texts: Runs<u8, T>,
    numbers: HashTable<u32>,
    hasher: FixedState,
}

impl<T: Default> Dictionary<T> {
    /// The number of a string, if it is known.
    pub(crate) fn find(&self, string: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(string);
        self.numbers.find(hash, |number| self.get(*number) == string).copied()
    }

    /// The number of a string, which is inserted if it is new.
    pub(crate) fn insert(&mut self, string: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(string);
        let Self { texts, numbers, hasher } = self;
        if let Some(number) = numbers.find(hash, |number| text(texts, *number) == string) {
            return *number;
        }
        let number = texts.next;
        texts.insert(number, string, T::default());
        numbers.insert_unique(hash, number, |number| hasher.hash_one(text(texts, *number)));
        number
    }

    /// The string of a number; empty if there is none.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        text(&self.texts, number)
    }

    /// The item of a number.
    pub(crate) fn item(&self, number: u32) -> Option<&T> {
        self.texts.item(number)
    }

    /// The item of a number.
    pub(crate) fn item_mut(&mut self, number: u32) -> Option<&mut T> {
        self.texts.item_mut(number)
    }

    /// All numbers, strings and items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], &T)> {
        self.texts.iter()
    }

    /// Removes strings, given by their numbers in ascending order. The numbers are not used again.
    pub(crate) fn remove_all(&mut self, numbers: &[u32]) {
        for number in numbers {
            let hash = self.hasher.hash_one(text(&self.texts, *number));
            if let Ok(found) = self.numbers.find_entry(hash, |other| other == number) {
                found.remove();
            }
        }
        self.texts.remove_all(numbers.iter().copied());
        let Self { texts, numbers, hasher } = self;
        shrink(numbers, |number| hasher.hash_one(text(texts, *number)));
    }

    /// One more than the largest number that was ever given out.
    pub(crate) fn end(&self) -> usize {
        self.texts.next as usize
    }

    /// The approximate memory without what items hold elsewhere, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes() + self.numbers.allocation_size()
    }
}

/// Shrinks a table of numbers if much of it is unused. Shrinking moves the table, so it is as rare as growing.
pub(super) fn shrink(numbers: &mut HashTable<u32>, hash: impl Fn(&u32) -> u64) {
    if numbers.capacity() > 64 && numbers.len() < numbers.capacity() / 3 {
        numbers.shrink_to(numbers.len() + numbers.len() / 4, hash);
    }
}

fn text<T>(texts: &Runs<u8, T>, number: u32) -> &[u8] {
    texts.get(number).unwrap_or_default()
}
