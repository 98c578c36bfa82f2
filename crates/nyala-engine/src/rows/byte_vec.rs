//! Byte strings in one piece of memory.

use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use nyala_core::{Error, Result};
use std::ops::Range;

/// Byte strings one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByteVec {
    /// `ends[i]` is where string `i` ends.
    pub(crate) ends: Vec<u32>,
    pub(crate) data: Vec<u8>,
}

impl ByteVec {
    pub(crate) fn new() -> Self {
        Self { ends: Vec::new(), data: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.data[start as usize..self.ends[index] as usize]
    }

    /// How many of the strings, which are sorted, are less than another.
    pub(crate) fn lower_bound(&self, bytes: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < bytes {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes of some of the strings.
    pub(crate) fn bytes_of(&self, rows: Range<usize>) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let start = if rows.start == 0 { 0 } else { self.ends[rows.start - 1] };
        (self.ends[rows.end - 1] - start) as usize
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len() as u32);
    }

    pub(crate) fn extend(&mut self, other: &Self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let start = if rows.start == 0 { 0 } else { other.ends[rows.start - 1] };
        let end = other.ends[rows.end - 1];
        let base = (self.data.len() as u32).wrapping_sub(start);
        self.data.extend_from_slice(&other.data[start as usize..end as usize]);
        self.ends.extend(other.ends[rows].iter().map(|old| old.wrapping_add(base)));
    }

    /// The strings as the buffers of an array.
    pub(crate) fn into_offsets(self) -> Result<(OffsetBuffer<i32>, Buffer)> {
        if i32::try_from(self.data.len()).is_err() {
            return Err(Error::limit(format!("strings of {} bytes in one array", self.data.len())));
        }
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.extend(self.ends.iter().map(|end| *end as i32));
        Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(self.data)))
    }
}
