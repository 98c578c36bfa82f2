//! The encoded keys of a group, in a form that is searched as it is stored.
//!
//! ```text
//! length of the common prefix (32 bits) | width of an end in bytes (8 bits: 0, 2 or 4) | prefix | ends | suffixes
//! ```
//! Keys of a group are neighbours, so most of their bytes are the common prefix. With a width of 0 all suffixes have the
//! same length; otherwise an end per key says where its suffix ends. A look-up compares suffixes; nothing is decoded.

use super::block::BlockError;
use crate::rows::byte_vec::ByteVec;
use std::ops::Range;

const HEADER_BYTES: usize = 5;

/// Appends the block of some keys in ascending order, at least one.
pub(crate) fn encode(keys: &ByteVec, out: &mut Vec<u8>) {
    let (first, last) = (keys.get(0), keys.get(keys.len() - 1));
    let prefix = first.iter().zip(last).take_while(|(left, right)| left == right).count();
    let suffix = |row: usize| &keys.get(row)[prefix..];
    let is_even = (1..keys.len()).all(|row| suffix(row).len() == suffix(0).len());
    let suffix_bytes = keys.data.len() - prefix * keys.len();
    let width = match (is_even, u16::try_from(suffix_bytes)) {
        (true, _) => 0,
        (false, Ok(_)) => 2,
        (false, Err(_)) => 4,
    };
    out.extend_from_slice(&(prefix as u32).to_le_bytes());
    out.push(width);
    out.extend_from_slice(&first[..prefix]);
    let mut end = 0_u32;
    for row in (0..keys.len()).filter(|_| width > 0) {
        end += suffix(row).len() as u32;
        out.extend_from_slice(&end.to_le_bytes()[..width as usize]);
    }
    (0..keys.len()).for_each(|row| out.extend_from_slice(suffix(row)));
}

/// Where the parts of a block are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeysLayout {
    rows: usize,
    prefix: Range<usize>,
    /// Bytes of an end; 0: there are none.
    width: usize,
    /// Where the suffixes begin; the ends lie before them.
    suffixes: usize,
    /// The length of a suffix, if there are no ends.
    suffix_bytes: usize,
}

impl KeysLayout {
    /// Checks a block of so many keys.
    pub(crate) fn parse(bytes: &[u8], rows: usize) -> Result<Self, BlockError> {
        let short = || BlockError("a block of keys is too short");
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
        let prefix_bytes = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let width = usize::from(header[4]);
        if ![0, 2, 4].contains(&width) || rows == 0 {
            return Err(BlockError("a block of keys of no known form"));
        }
        let ends_bytes = rows.checked_mul(width).ok_or_else(short)?;
        let rest = rest.get(prefix_bytes..).ok_or_else(short)?;
        let suffixes_bytes = rest.len().checked_sub(ends_bytes).ok_or_else(short)?;
        let prefix = HEADER_BYTES..HEADER_BYTES + prefix_bytes;
        let suffixes = prefix.end + ends_bytes;
        let layout = Self { rows, prefix, width, suffixes, suffix_bytes: suffixes_bytes / rows };
        let keys = layout.attach(bytes);
        let fits = match width {
            0 => layout.suffix_bytes * rows == suffixes_bytes,
            _ => {
                (1..rows).all(|row| keys.end(row - 1) <= keys.end(row))
                    && keys.end(rows - 1) == suffixes_bytes
            }
        };
        if fits { Ok(layout) } else { Err(BlockError("a block of keys contradicts itself")) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The keys in the bytes that were checked.
    pub(crate) fn attach<'a>(&'a self, bytes: &'a [u8]) -> KeyBlock<'a> {
        KeyBlock { layout: self, bytes }
    }
}

/// The keys of a group.
#[derive(Clone, Copy)]
pub(crate) struct KeyBlock<'a> {
    layout: &'a KeysLayout,
    bytes: &'a [u8],
}

impl KeyBlock<'_> {
    fn end(&self, row: usize) -> usize {
        let at = self.layout.prefix.end + row * self.layout.width;
        match self.layout.width {
            0 => (row + 1) * self.layout.suffix_bytes,
            2 => u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]).into(),
            _ => u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes")) as usize,
        }
    }

    fn prefix(&self) -> &[u8] {
        &self.bytes[self.layout.prefix.clone()]
    }

    fn suffix(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.end(row - 1) };
        &self.bytes[self.layout.suffixes + start..self.layout.suffixes + self.end(row)]
    }

    /// How many keys are less than a key, of any length.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if key < prefix { 0 } else { self.layout.rows };
        };
        let (mut low, mut high) = (0, self.layout.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.suffix(middle) < suffix {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The row of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let row = self.lower_bound(key);
        let is_it = row < self.layout.rows && key.strip_prefix(self.prefix()) == Some(self.suffix(row));
        is_it.then_some(row)
    }

    /// Shows the keys of some rows, one after the other.
    pub(crate) fn each(&self, rows: impl Iterator<Item = u32>, mut see: impl FnMut(&[u8])) {
        let prefix = self.prefix();
        let mut key = prefix.to_vec();
        for row in rows {
            key.truncate(prefix.len());
            key.extend_from_slice(self.suffix(row as usize));
            see(&key);
        }
    }

    /// Appends the keys of some rows.
    pub(crate) fn decode(&self, rows: Range<u32>, out: &mut ByteVec) {
        out.ends.reserve(rows.len());
        self.each(rows, |key| out.push(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(keys: &ByteVec) -> (Vec<u8>, KeysLayout) {
        let mut bytes = Vec::new();
        encode(keys, &mut bytes);
        let layout = KeysLayout::parse(&bytes, keys.len()).expect("parses");
        (bytes, layout)
    }

    proptest! {
        #[test]
        fn keys_are_found_and_read_back(
            keys in prop::collection::btree_set(prop::collection::vec(97_u8..101, 1..9), 1..200),
            others in prop::collection::vec(prop::collection::vec(96_u8..103, 0..10), 0..50),
        ) {
            let sorted: Vec<&Vec<u8>> = keys.iter().collect();
            let mut all = ByteVec::new();
            sorted.iter().for_each(|key| all.push(key));
            let (bytes, layout) = block(&all);
            let found = layout.attach(&bytes);
            let mut decoded = ByteVec::new();
            found.decode(0..sorted.len() as u32, &mut decoded);
            prop_assert_eq!(&decoded, &all);
            for key in others.iter().chain(&keys) {
                prop_assert_eq!(found.lower_bound(key), sorted.partition_point(|other| *other < key));
                prop_assert_eq!(found.find(key), sorted.binary_search(&key).ok());
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80), rows in 0_usize..20) {
            if let Ok(layout) = KeysLayout::parse(&bytes, rows) {
                let mut decoded = ByteVec::new();
                layout.attach(&bytes).decode(0..rows as u32, &mut decoded);
                prop_assert_eq!(decoded.len(), rows);
            }
        }
    }

    #[test]
    fn neighbours_of_one_length_cost_what_differs() {
        let mut keys = ByteVec::new();
        (0..200_u64).for_each(|key| keys.push(&(7 << 40 | key).to_be_bytes()));
        assert_eq!(block(&keys).0.len(), HEADER_BYTES + 7 + 200);
    }
}
