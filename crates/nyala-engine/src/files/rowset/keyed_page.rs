//! The index page of some groups of a table that is not keyed by series: whether a key can be here, in which group, and
//! where its blocks are. A look-up needs no other page.
//!
//! ```text
//! an entry per group | block references: per group one for each column of the footer | where the first key of each group
//! ends (32 bits) | first keys | Bloom filter of all keys
//! ```
//! Before version 4 there are no references and no filter.

use super::bloom;
use super::format::{BlockRef, GroupEntry, check_group_page};
use crate::rows::wire::u32_at;
use nyala_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a page is made of.
#[derive(Debug, Default)]
pub(crate) struct KeyedPageContents<'a> {
    pub(crate) groups: &'a [GroupEntry],
    /// Of the first group, then of the second one, and so on.
    pub(crate) blocks: &'a [BlockRef],
    pub(crate) first_keys: &'a [Vec<u8>],
    pub(crate) filter: &'a [u8],
}

impl KeyedPageContents<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.groups.iter().for_each(|group| group.put(&mut bytes));
        self.blocks.iter().for_each(|block| block.put(&mut bytes));
        let mut end = 0;
        for key in self.first_keys {
            end += key.len() as u32;
            bytes.extend_from_slice(&end.to_le_bytes());
        }
        self.first_keys.iter().for_each(|key| bytes.extend_from_slice(key));
        bytes.extend_from_slice(self.filter);
        bytes
    }
}

/// Where the parts of a page are.
#[derive(Debug)]
pub(crate) struct KeyedPageLayout {
    groups: usize,
    /// References of each group.
    columns: usize,
    ends: usize,
    first_keys: usize,
    filter: usize,
    /// The group that was read last for one row of it.
    last_asked: AtomicUsize,
}

impl KeyedPageLayout {
    /// Checks a page of so many groups with `columns` references each, in a file of a version.
    pub(crate) fn parse(bytes: &[u8], groups: usize, columns: usize, version: u32) -> Result<Self> {
        check_group_page(bytes, groups)?;
        let short = || Error::invalid("an index page is too short");
        let columns = if version < 4 { 0 } else { columns };
        let ends = groups * (GroupEntry::BYTES + columns * BlockRef::BYTES);
        let first_keys = ends + groups * 4;
        let ends_of_keys = bytes.get(ends..first_keys).ok_or_else(short)?.as_chunks::<4>().0;
        let last = ends_of_keys.last().map_or(0, |end| u32::from_le_bytes(*end) as usize);
        let filter = first_keys + last;
        if !ends_of_keys.is_sorted_by_key(|end| u32::from_le_bytes(*end)) {
            return Err(Error::invalid("the first keys of an index page contradict each other"));
        }
        let filter_bytes = bytes.get(filter..).ok_or_else(short)?;
        if version < 4 && !filter_bytes.is_empty() {
            return Err(Error::invalid("bytes after an index page"));
        }
        bloom::check(filter_bytes)?;
        let last_asked = AtomicUsize::new(usize::MAX);
        Ok(Self { groups, columns, ends, first_keys, filter, last_asked })
    }

    /// The page in the bytes that were checked.
    pub(crate) fn attach<'a>(&'a self, bytes: &'a [u8]) -> KeyedPage<'a> {
        KeyedPage { layout: self, bytes }
    }
}

/// A page.
#[derive(Clone, Copy)]
pub(crate) struct KeyedPage<'a> {
    layout: &'a KeyedPageLayout,
    bytes: &'a [u8],
}

impl<'a> KeyedPage<'a> {
    pub(crate) fn groups(&self) -> usize {
        self.layout.groups
    }

    pub(crate) fn entry(&self, group: usize) -> GroupEntry {
        GroupEntry::at(self.bytes, group)
    }

    /// The block of a column of a group, by its position in the footer. Since version 4.
    pub(crate) fn block(&self, group: usize, column: usize) -> BlockRef {
        let index = group * self.layout.columns + column;
        BlockRef::at(&self.bytes[self.layout.groups * GroupEntry::BYTES + index * BlockRef::BYTES..])
    }

    /// The blocks of all columns of a group. Since version 4.
    pub(crate) fn blocks(&self, group: usize) -> impl Iterator<Item = BlockRef> + Clone + use<'a> {
        let page = *self;
        (0..page.layout.columns).map(move |column| page.block(group, column))
    }

    /// Notes that a group is read for one row of it; returns whether it was the last one that was.
    pub(super) fn note_asked(&self, group: usize) -> bool {
        self.layout.last_asked.swap(group, Ordering::Relaxed) == group
    }

    pub(crate) fn first_key(&self, group: usize) -> &'a [u8] {
        let end = |group: usize| u32_at(self.bytes, self.layout.ends + group * 4) as usize;
        let start = if group == 0 { 0 } else { end(group - 1) };
        &self.bytes[self.layout.first_keys + start..self.layout.first_keys + end(group)]
    }

    /// The last group whose first key satisfies a condition that holds for keys up to some key.
    pub(crate) fn last_group(&self, holds: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, self.groups());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.first_key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// Whether a key with this hash may be in the page.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        bloom::may_contain(&self.bytes[self.layout.filter..], hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_back() {
        let group = |rows| GroupEntry { rows, ..GroupEntry::default() };
        let blocks: Vec<BlockRef> = (0..6).map(|offset| BlockRef { offset, length: 1, crc: 2 }).collect();
        let first_keys = [b"".to_vec(), b"b".to_vec(), b"cc".to_vec()];
        let filter = bloom::build(&[bloom::hash(b"bb")]);
        let contents = KeyedPageContents {
            groups: &[group(5), group(6), group(7)],
            blocks: &blocks,
            first_keys: &first_keys,
            filter: &filter,
        };
        let bytes = contents.encode();
        let layout = KeyedPageLayout::parse(&bytes, 3, 2, 4).expect("parses");
        let page = layout.attach(&bytes);
        assert_eq!((page.entry(2).rows, page.block(1, 1).offset, page.block(2, 0).offset), (7, 3, 4));
        assert_eq!([0, 1, 2].map(|group| page.first_key(group)), [&b""[..], b"b", b"cc"]);
        assert_eq!(page.last_group(|first| first <= &b"bz"[..]), Some(1));
        assert!(page.may_contain(bloom::hash(b"bb")));
        assert!((0..bytes.len()).all(|length| {
            let cut = KeyedPageLayout::parse(&bytes[..length], 3, 2, 4);
            cut.is_err() || length == bytes.len() - filter.len()
        }));
    }
}
