//! Reading a block of strings.

use std::ops::Range;

use super::heap::{Heap, HeapForm, nested_integers};
use super::values::ByteValues;
use super::{BLOCK_BYTES, BOUND_BYTES, DICTIONARY};
use crate::directory::{Kind, parse_start};
use crate::error::{CorruptBlock, Result, ensure};
use crate::integer::IntegerBlock;
use crate::little_endian::Reader;

/// A parsed block of byte strings: borrowed bytes, nothing decoded yet.
///
/// Rows beyond the block are a caller's bug and panic; bytes that contradict themselves are
/// [`CorruptBlock`].
#[derive(Debug, Clone)]
pub struct BytesBlock<'a> {
    count: u32,
    bounds: BytesBounds<'a>,
    form: Form<'a>,
}

#[derive(Debug, Clone)]
enum Form<'a> {
    Heap(Heap<'a>),
    Dictionary { codes: IntegerBlock<'a>, entries: Box<BytesBlock<'a>> },
}

/// The smallest and the largest string of a block, cut to 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesBounds<'a> {
    /// No value is below it: the smallest value, or its first 32 bytes.
    pub low: &'a [u8],
    /// The largest value, or its first 32 bytes.
    pub high: &'a [u8],
    /// Whether `high` was cut: values may go beyond it by beginning with it.
    pub high_is_prefix: bool,
}

impl<'a> BytesBlock<'a> {
    /// Checks headers and lengths; strings are checked when they are read.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        Self::parse_nested(block, true)
    }

    fn parse_nested(block: &'a [u8], dictionary_allowed: bool) -> Result<Self> {
        let (count, mut reader) = parse_start(block, Kind::Bytes)?;
        let form = reader.u8()?;
        let bounds = parse_bounds(&mut reader)?;
        let form = match form {
            0 => Form::Heap(Heap::parse(&mut reader, HeapForm::Raw, count)?),
            2 => Form::Heap(Heap::parse(&mut reader, HeapForm::Symbols, count)?),
            3 => Form::Heap(Heap::parse(&mut reader, HeapForm::Compressed, count)?),
            DICTIONARY if dictionary_allowed => {
                let codes = nested_integers(&mut reader, count)?;
                let entries = Box::new(Self::parse_nested(reader.rest(), false)?);
                let highest = codes.vectors().map(|vector| vector.max).max().unwrap_or(-1);
                ensure(highest < i64::from(entries.count), "code beyond the dictionary")?;
                Form::Dictionary { codes, entries }
            }
            _ => return Err(CorruptBlock::new("unknown form of strings")),
        };
        Ok(Self { count, bounds, form })
    }

    /// Values in the block.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The name of its form, as reports show it.
    pub fn form_name(&self) -> &'static str {
        match &self.form {
            Form::Heap(heap) => heap.form_name(),
            Form::Dictionary { .. } => "dictionary",
        }
    }

    /// Bounds of the values; `None` if there are no values.
    pub fn bounds(&self) -> Option<BytesBounds<'a>> {
        (self.count > 0).then_some(self.bounds)
    }

    /// Appends the values of `rows`; on an error `out` is as before.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut ByteValues) -> Result<()> {
        assert!(rows.start <= rows.end && rows.end <= self.count, "rows {rows:?} of {}", self.count);
        let before = out.len();
        let result = self.decode(rows, out);
        if result.is_err() {
            out.truncate(before);
        }
        result
    }

    /// Appends the value of one row to some bytes; on an error they may have more bytes.
    pub fn append_row(&self, row: u32, out: &mut Vec<u8>) -> Result<()> {
        assert!(row < self.count, "row {row} of {}", self.count);
        match &self.form {
            Form::Heap(heap) => heap.append_row(row, out),
            Form::Dictionary { codes, entries } => {
                let code = codes.sum(row..row + 1)?;
                ensure((0..i128::from(entries.count)).contains(&code), "code beyond the dictionary")?;
                entries.append_row(code as u32, out)
            }
        }
    }

    fn decode(&self, rows: Range<u32>, out: &mut ByteValues) -> Result<()> {
        let (codes, entries) = match &self.form {
            Form::Heap(heap) => return heap.decode(rows, out),
            Form::Dictionary { codes, entries } => (codes, entries),
        };
        let mut row_codes = Vec::new();
        codes.decode_range(rows, &mut row_codes)?;
        let (Some(low), Some(high)) = (row_codes.iter().min(), row_codes.iter().max()) else { return Ok(()) };
        ensure(*low >= 0 && *high < i64::from(entries.count), "code beyond the dictionary")?;
        let low = *low as u32;
        let mut strings = ByteValues::new();
        entries.decode(low..*high as u32 + 1, &mut strings)?;
        let limit = out.data_len() + BLOCK_BYTES;
        for code in row_codes {
            push_within(limit, strings.get(code as usize - low as usize), out)?;
        }
        Ok(())
    }
}

/// Appends a string if all are no longer than a limit then. A buffer cannot hold much more than a block does.
fn push_within(limit: usize, string: &[u8], out: &mut ByteValues) -> Result<()> {
    ensure(out.data_len() + string.len() <= limit, "strings longer than a block may be")?;
    out.push(string);
    Ok(())
}

fn parse_bounds<'a>(reader: &mut Reader<'a>) -> Result<BytesBounds<'a>> {
    let low_length = reader.u8()? as usize;
    ensure(low_length <= BOUND_BYTES, "bound too long")?;
    let low = reader.take(low_length)?;
    let high_length = reader.u8()?;
    let (high_length, high_is_prefix) = ((high_length & 0x7f) as usize, high_length & 0x80 != 0);
    ensure(high_length <= BOUND_BYTES, "bound too long")?;
    Ok(BytesBounds { low, high: reader.take(high_length)?, high_is_prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of a dictionary with a string of 1 GiB would pass what a buffer can hold, before all of them were counted.
    #[test]
    fn strings_beyond_the_limit_are_refused_before_they_are_appended() {
        let mut out = ByteValues::new();
        assert!(push_within(4, b"abcd", &mut out).is_ok() && push_within(4, b"", &mut out).is_ok());
        assert!(push_within(4, b"e", &mut out).is_err());
        assert_eq!((out.len(), out.data_len()), (2, 4));
    }
}
