//! Header and per-vector directory, shared by integer and float blocks.
//!
//! The directory says for each vector how it is encoded, where its bytes end, how many rows it has, its minimum,
//! its range and (integers) its exact sum. So a reader touches only the vectors that it needs, and a question about a
//! whole vector is answered from here. Columns are stored apart, each in the bytes that its largest entry needs.
//! Layout to the byte: `docs/format/column.md`.
//!
//! Invariant after [`Directory::parse`]: every offset is inside the block, row ends rise to the count, and
//! minimum + range fits an `i64`. What the vectors' own bytes say is checked when they are read.

use std::ops::Range;

use crate::error::{CorruptBlock, Result, ensure};
use crate::little_endian::{self, Reader, load};

/// Version that this build writes; every version ever written stays readable.
pub(crate) const VERSION: u8 = 1;
/// Values of a whole vector.
pub const VECTOR_VALUES: usize = 1024;
/// Values of a block at most.
pub const BLOCK_VALUES: usize = 8192;

/// Sum offsets are at most 1024 × (2⁶⁴ − 1): ten bytes.
const SUM_BYTES: usize = 10;
const SHAPE_IRREGULAR: u8 = 1;

/// The kind of values that a block holds (the second byte of every block).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Signed 64-bit integers and everything mapped to them.
    Integer = 1,
    /// 64-bit floats.
    Float = 2,
    /// Booleans.
    Boolean = 3,
    /// Strings and binary.
    Bytes = 4,
    /// Validity: whether each row has a value, NULL or nothing.
    States = 5,
}

impl Kind {
    /// The kind that a block's first bytes declare.
    pub(crate) fn of(block: &[u8]) -> Result<Kind> {
        match block {
            [VERSION, 1, ..] => Ok(Kind::Integer),
            [VERSION, 2, ..] => Ok(Kind::Float),
            [VERSION, 3, ..] => Ok(Kind::Boolean),
            [VERSION, 4, ..] => Ok(Kind::Bytes),
            [VERSION, 5, ..] => Ok(Kind::States),
            [VERSION, _, ..] => Err(CorruptBlock::new("unknown block kind")),
            _ => Err(CorruptBlock::new("unknown block version")),
        }
    }
}

/// Reads version, kind and value count; every block starts with these four bytes.
pub(crate) fn parse_start<'a>(block: &'a [u8], kind: Kind) -> Result<(u32, Reader<'a>)> {
    ensure(Kind::of(block)? == kind, "block is of another kind")?;
    let mut reader = Reader::new(block);
    reader.take(2)?;
    let count = u32::from(reader.u16()?);
    ensure(count as usize <= BLOCK_VALUES, "more values than a block may hold")?;
    Ok((count, reader))
}

/// Writes version, kind and value count.
pub(crate) fn push_start(out: &mut Vec<u8>, kind: Kind, count: usize) {
    assert!(count <= BLOCK_VALUES, "a block holds at most {BLOCK_VALUES} values, not {count}");
    out.extend_from_slice(&[VERSION, kind as u8]);
    little_endian::push(out, count as u64, 2);
}

/// The rows of each vector. A vector starts at every break, and every 1024 values after one.
pub(crate) fn vector_ranges<'a>(count: usize, breaks: &'a [u32]) -> impl Iterator<Item = Range<usize>> + 'a {
    assert!(breaks.is_sorted_by(|left, right| left < right), "breaks must rise");
    assert!(breaks.iter().all(|position| *position > 0 && (*position as usize) < count), "breaks lie inside");
    let mut breaks = breaks.iter().map(|position| *position as usize).chain([count]);
    let mut next_break = breaks.next().unwrap_or(count);
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == count {
            return None;
        }
        let end = next_break.min(start + VECTOR_VALUES);
        if end == next_break {
            next_break = breaks.next().unwrap_or(count);
        }
        let piece = start..end;
        start = end;
        Some(piece)
    })
}

/// The directory's entry for one vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tag: u8,
    pub(crate) row_end: u32,
    pub(crate) payload_end: usize,
    pub(crate) min: i64,
    /// Maximum minus minimum.
    pub(crate) range: u64,
    /// Sum minus rows × minimum.
    pub(crate) sum_offset: u128,
}

/// A block being assembled.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockScratch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) payload: Vec<u8>,
}

/// Appends a whole block: start, directory, payload.
pub(crate) fn push_block(out: &mut Vec<u8>, kind: Kind, count: usize, entries: &[Entry], payload: &[u8]) {
    push_start(out, kind, count);
    little_endian::push(out, entries.len() as u64, 2);
    let regular = entries
        .iter()
        .enumerate()
        .all(|(index, entry)| entry.row_end as usize == ((index + 1) * VECTOR_VALUES).min(count));
    let base = entries.iter().map(|entry| entry.min).min().unwrap_or(0);
    let offset = |entry: &Entry| entry.min.wrapping_sub(base) as u64;
    let width = |value: u64| little_endian::unsigned_width(value);
    let end_width = width(payload.len() as u64).max(1);
    let min_width = entries.iter().map(|entry| width(offset(entry))).max().unwrap_or(0);
    let range_width = entries.iter().map(|entry| width(entry.range)).max().unwrap_or(0);
    let widest_sum = entries.iter().map(|entry| entry.sum_offset).max().unwrap_or(0);
    let sum_width = (128 - widest_sum.leading_zeros() as usize).div_ceil(8);
    debug_assert!(sum_width <= SUM_BYTES && end_width <= 4);
    let base_width = little_endian::signed_width(base);
    out.push(if regular { 0 } else { SHAPE_IRREGULAR } | ((end_width - 1) as u8) << 1);
    out.push(min_width as u8 | (range_width as u8) << 4);
    out.push(sum_width as u8 | (base_width as u8) << 4);
    little_endian::push(out, base as u64, base_width);
    out.extend(entries.iter().map(|entry| entry.tag));
    if !regular {
        entries.iter().for_each(|entry| little_endian::push(out, u64::from(entry.row_end), 2));
    }
    entries.iter().for_each(|entry| little_endian::push(out, entry.payload_end as u64, end_width));
    entries.iter().for_each(|entry| little_endian::push(out, offset(entry), min_width));
    entries.iter().for_each(|entry| little_endian::push(out, entry.range, range_width));
    entries.iter().for_each(|entry| out.extend_from_slice(&entry.sum_offset.to_le_bytes()[..sum_width]));
    out.extend_from_slice(payload);
}

/// The result of parsing a directory, without the block's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    count: u32,
    vector_count: u32,
    base: i64,
    end_width: u8,
    min_width: u8,
    range_width: u8,
    sum_width: u8,
    /// All vectors but the last are whole; otherwise row ends are stored.
    regular: bool,
    /// Where the columns of the directory begin in the block.
    tags: u32,
    row_ends: u32,
    payload_ends: u32,
    mins: u32,
    ranges: u32,
    sums: u32,
    payload: u32,
    /// Bytes of the block.
    length: u32,
}

/// The parsed directory: still the block's bytes, looked up by arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory<'a> {
    pub(crate) layout: Layout,
    block: &'a [u8],
}

impl<'a> Directory<'a> {
    pub(crate) fn parse(block: &'a [u8], kind: Kind) -> Result<Self> {
        let (count, mut reader) = parse_start(block, kind)?;
        let vector_count = u32::from(reader.u16()?);
        let (shape, widths, more_widths) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let irregular = shape & SHAPE_IRREGULAR != 0;
        ensure(shape >> 3 == 0, "unknown directory shape")?;
        let end_width = (shape >> 1) + 1;
        let (min_width, range_width) = (widths & 0xf, widths >> 4);
        let (sum_width, base_width) = (more_widths & 0xf, more_widths >> 4);
        ensure(min_width <= 8 && range_width <= 8, "directory field too wide")?;
        ensure(sum_width as usize <= SUM_BYTES, "directory sum too wide")?;
        let base = reader.signed(base_width as usize)?;
        let vectors = vector_count as usize;
        if !irregular {
            ensure(vectors == (count as usize).div_ceil(VECTOR_VALUES), "vector count does not fit")?;
        }
        ensure(block.len() <= u32::MAX as usize, "block of more than 4 GiB")?;
        let mut column = |bytes_each: usize| -> Result<u32> {
            let at = block.len() - reader.clone().rest().len();
            reader.take(vectors * bytes_each)?;
            Ok(at as u32)
        };
        let layout = Layout {
            count,
            vector_count,
            base,
            end_width,
            min_width,
            range_width,
            sum_width,
            regular: !irregular,
            tags: column(1)?,
            row_ends: column(if irregular { 2 } else { 0 })?,
            payload_ends: column(end_width as usize)?,
            mins: column(min_width as usize)?,
            ranges: column(range_width as usize)?,
            sums: column(sum_width as usize)?,
            payload: column(0)?,
            length: block.len() as u32,
        };
        let directory = Directory { layout, block };
        directory.validate(irregular)?;
        Ok(directory)
    }

    /// The directory of the bytes that `layout` came from.
    ///
    /// With other bytes of the same length it panics or reads nonsense, within their bounds.
    #[inline]
    pub(crate) fn attach(layout: Layout, block: &'a [u8]) -> Self {
        assert_eq!(layout.length as usize, block.len(), "the layout is of another block");
        Directory { layout, block }
    }

    fn validate(&self, irregular: bool) -> Result<()> {
        let (mut last_row, mut last_byte) = (0, 0);
        for vector in 0..self.layout.vector_count {
            if irregular {
                let row = self.row_end(vector);
                ensure(row > last_row && row - last_row <= VECTOR_VALUES as u32, "row ends do not rise")?;
                last_row = row;
            }
            let byte = self.payload_end(vector);
            ensure(byte >= last_byte, "payload ends do not rise")?;
            last_byte = byte;
            let offset = self.field(self.layout.mins, self.layout.min_width, vector);
            let min = self.layout.base.checked_add_unsigned(offset);
            let max = min.and_then(|min| min.checked_add_unsigned(self.range(vector)));
            ensure(max.is_some(), "minimum or maximum beyond the integers")?;
        }
        ensure(!irregular || last_row == self.layout.count, "row ends do not reach the count")?;
        let payload_bytes = self.block.len() - self.layout.payload as usize;
        ensure(last_byte == payload_bytes, "payload is not as long as the directory says")
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.layout.count
    }

    #[inline]
    pub(crate) fn vector_count(&self) -> u32 {
        self.layout.vector_count
    }

    /// The vector that holds `row`.
    #[inline]
    pub(crate) fn vector_of(&self, row: u32) -> u32 {
        if self.layout.regular {
            return row / VECTOR_VALUES as u32;
        }
        let (mut low, mut high) = (0, self.layout.vector_count);
        while low < high {
            let middle = (low + high) / 2;
            if self.row_end(middle) <= row { low = middle + 1 } else { high = middle }
        }
        low
    }

    #[inline]
    pub(crate) fn row_end(&self, vector: u32) -> u32 {
        if self.layout.regular {
            return ((vector + 1) * VECTOR_VALUES as u32).min(self.layout.count);
        }
        self.field(self.layout.row_ends, 2, vector) as u32
    }

    #[inline]
    pub(crate) fn rows(&self, vector: u32) -> Range<u32> {
        let start = if vector == 0 { 0 } else { self.row_end(vector - 1) };
        start..self.row_end(vector)
    }

    #[inline]
    fn payload_end(&self, vector: u32) -> usize {
        self.field(self.layout.payload_ends, self.layout.end_width, vector) as usize
    }

    #[inline]
    pub(crate) fn payload(&self, vector: u32) -> &'a [u8] {
        let start = if vector == 0 { 0 } else { self.payload_end(vector - 1) };
        let payload = self.layout.payload as usize;
        &self.block[payload + start..payload + self.payload_end(vector)]
    }

    #[inline]
    pub(crate) fn tag(&self, vector: u32) -> u8 {
        self.block[self.layout.tags as usize + vector as usize]
    }

    #[inline]
    pub(crate) fn min(&self, vector: u32) -> i64 {
        self.layout.base.wrapping_add_unsigned(self.field(self.layout.mins, self.layout.min_width, vector))
    }

    #[inline]
    pub(crate) fn range(&self, vector: u32) -> u64 {
        self.field(self.layout.ranges, self.layout.range_width, vector)
    }

    #[inline]
    pub(crate) fn max(&self, vector: u32) -> i64 {
        self.min(vector).wrapping_add_unsigned(self.range(vector))
    }

    #[inline]
    pub(crate) fn sum(&self, vector: u32) -> i128 {
        let width = self.layout.sum_width as usize;
        let bytes = &self.block[self.layout.sums as usize + vector as usize * width..][..width];
        let (low, high) = bytes.split_at(width.min(8));
        let offset = u128::from(load(low)) | u128::from(load(high)) << 64;
        let rows = self.rows(vector);
        i128::from(self.min(vector)) * i128::from(rows.end - rows.start) + offset as i128
    }

    /// Entry `vector` of the column at `start`, whose entries have `width` bytes.
    #[inline]
    fn field(&self, start: u32, width: u8, vector: u32) -> u64 {
        let at = start as usize + vector as usize * width as usize;
        // Mostly eight bytes can be read. Then one load and a mask are faster than a loop over the field.
        match self.block.get(at..at + 8) {
            Some(word) if width > 0 => {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                word & (u64::MAX >> (64 - 8 * u32::from(width)))
            }
            _ => load(&self.block[at..at + width as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        vec![
            Entry {
                tag: 1,
                row_end: 1024,
                payload_end: 3,
                min: i64::MIN,
                range: u64::MAX,
                sum_offset: 1 << 73,
            },
            Entry { tag: 2, row_end: 2000, payload_end: 3, min: 5, range: 0, sum_offset: 0 },
            Entry { tag: 3, row_end: 2001, payload_end: 7, min: -5, range: 300, sum_offset: 300 },
        ]
    }

    #[test]
    fn entries_read_back() {
        let mut block = Vec::new();
        push_block(&mut block, Kind::Integer, 2001, &entries(), &[9; 7]);
        let directory = Directory::parse(&block, Kind::Integer).unwrap();
        assert_eq!(directory.count(), 2001);
        let mut start = 0;
        for (index, entry) in (0..).zip(entries()) {
            assert_eq!(directory.tag(index), entry.tag);
            assert_eq!(directory.rows(index), start..entry.row_end);
            assert_eq!(directory.min(index), entry.min);
            assert_eq!(directory.range(index), entry.range);
            let rows = i128::from(entry.row_end - start);
            assert_eq!(directory.sum(index), rows * i128::from(entry.min) + entry.sum_offset as i128);
            for row in start..entry.row_end {
                assert_eq!(directory.vector_of(row), index);
            }
            start = entry.row_end;
        }
        assert_eq!(directory.payload(1), []);
        assert_eq!(directory.payload(2), [9; 4]);
    }

    #[test]
    fn every_truncation_is_refused() {
        let mut block = Vec::new();
        push_block(&mut block, Kind::Integer, 2001, &entries(), &[9; 7]);
        for length in 0..block.len() {
            assert!(Directory::parse(&block[..length], Kind::Integer).is_err(), "{length}");
        }
        assert!(Directory::parse(&block, Kind::Float).is_err());
    }

    #[test]
    fn vectors_respect_breaks() {
        let cut = |count, breaks: &[u32]| vector_ranges(count, breaks).collect::<Vec<_>>();
        assert_eq!(cut(0, &[]), []);
        assert_eq!(cut(1025, &[]), [0..1024, 1024..1025]);
        assert_eq!(cut(2000, &[10, 1034, 1500]), [0..10, 10..1034, 1034..1500, 1500..2000]);
        assert_eq!(cut(2000, &[10]), [0..10, 10..1034, 1034..2000]);
    }
}
