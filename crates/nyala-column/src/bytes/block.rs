//! Reading a block of strings.

use std::ops::Range;

use super::heap::{Heap, HeapForm, nested_integers};
use super::values::ByteValues;
use super::{BLOCK_BYTES, BOUND_BYTES, DICTIONARY};
use crate::bitmap::Bitmap;
use crate::directory::{Kind, parse_start};
use crate::error::{CorruptBlock, Result, ensure};
use crate::integer::IntegerBlock;
use crate::kernels::CompareOp;
use crate::wire::Reader;

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

/// Between which strings a block's values lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesBounds<'a> {
    /// No value is below it: the smallest value, or its first 32 bytes.
    pub low: &'a [u8],
    /// The largest value, or its first 32 bytes.
    pub high: &'a [u8],
    /// Whether `high` was cut: values may go beyond it by beginning with it.
    pub high_is_prefix: bool,
}

impl BytesBounds<'_> {
    /// Whether no value can be below `value`.
    pub fn all_at_least(&self, value: &[u8]) -> bool {
        self.low >= value
    }

    /// Whether no value can be above `value`.
    pub fn all_at_most(&self, value: &[u8]) -> bool {
        if self.high_is_prefix {
            self.high < value && !value.starts_with(self.high)
        } else {
            self.high <= value
        }
    }
}

/// A dictionary block taken apart: each row's code, and the sorted distinct strings the codes number.
#[derive(Debug, Clone)]
pub struct BytesDictionary<'b, 'a> {
    /// Codes by row.
    pub codes: IntegerBlock<'a>,
    /// Strings by code, rising.
    pub entries: &'b BytesBlock<'a>,
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

    /// Between which strings the values lie; nothing of no values.
    pub fn bounds(&self) -> Option<BytesBounds<'a>> {
        (self.count > 0).then_some(self.bounds)
    }

    /// The block as codes and distinct strings, if it is stored so: for grouping and comparing by code.
    pub fn as_dictionary(&self) -> Option<BytesDictionary<'_, 'a>> {
        match &self.form {
            Form::Dictionary { codes, entries } => Some(BytesDictionary { codes: *codes, entries }),
            Form::Heap(_) => None,
        }
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
            out.push(strings.get(code as usize - low as usize));
            ensure(out.data_len() <= limit, "strings longer than a block may be")?;
        }
        Ok(())
    }

    /// Appends the bytes of one value.
    pub fn value_at(&self, row: u32, out: &mut Vec<u8>) -> Result<()> {
        let mut values = ByteValues::new();
        self.decode_range(row..row + 1, &mut values)?;
        out.extend_from_slice(values.get(0));
        Ok(())
    }

    /// Appends a bit per row of `rows`: whether its value satisfies the comparison, bytewise.
    pub fn compare(&self, rows: Range<u32>, op: CompareOp, constant: &[u8], out: &mut Bitmap) -> Result<()> {
        assert!(rows.start <= rows.end && rows.end <= self.count, "rows {rows:?} of {}", self.count);
        if let Some(answer) = self.decide(op, constant) {
            out.extend_filled(rows.len(), answer);
            return Ok(());
        }
        if let Form::Dictionary { codes, entries } = &self.form {
            return compare_codes(codes, entries, rows, op, constant, out);
        }
        let mut values = ByteValues::new();
        self.decode(rows, &mut values)?;
        values.iter().for_each(|value| out.push(holds(op, value, constant)));
        Ok(())
    }

    /// The answer for all values, where the bounds know it.
    fn decide(&self, op: CompareOp, constant: &[u8]) -> Option<bool> {
        let bounds = self.bounds()?;
        // Bounds say "at least" and "at most"; only a strict one decides an operator that excludes equality.
        let above = bounds.low > constant;
        let below = bounds.all_at_most(constant) && (bounds.high_is_prefix || bounds.high < constant);
        match op {
            CompareOp::Equal if above || below => Some(false),
            CompareOp::NotEqual if above || below => Some(true),
            CompareOp::Less | CompareOp::LessOrEqual if above => Some(false),
            CompareOp::Less | CompareOp::LessOrEqual if below => Some(true),
            CompareOp::Greater | CompareOp::GreaterOrEqual if above => Some(true),
            CompareOp::Greater | CompareOp::GreaterOrEqual if below => Some(false),
            _ => None,
        }
    }
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

fn holds(op: CompareOp, value: &[u8], constant: &[u8]) -> bool {
    match op {
        CompareOp::Equal => value == constant,
        CompareOp::NotEqual => value != constant,
        CompareOp::Less => value < constant,
        CompareOp::LessOrEqual => value <= constant,
        CompareOp::Greater => value > constant,
        CompareOp::GreaterOrEqual => value >= constant,
    }
}

/// Entries rise, so a comparison of strings is one of codes.
fn compare_codes(
    codes: &IntegerBlock<'_>,
    entries: &BytesBlock<'_>,
    rows: Range<u32>,
    op: CompareOp,
    constant: &[u8],
    out: &mut Bitmap,
) -> Result<()> {
    let mut strings = ByteValues::new();
    entries.decode(0..entries.count, &mut strings)?;
    let (mut low, mut high) = (0, strings.len());
    while low < high {
        let middle = (low + high) / 2;
        if strings.get(middle) < constant { low = middle + 1 } else { high = middle }
    }
    let found = low < strings.len() && strings.get(low) == constant;
    let code = low as i64;
    // Codes below `code` are below the constant; `code` itself is equal or above.
    match op {
        CompareOp::Equal | CompareOp::NotEqual if !found => {
            out.extend_filled(rows.len(), op == CompareOp::NotEqual);
            Ok(())
        }
        CompareOp::LessOrEqual if !found => codes.compare(rows, CompareOp::Less, code, out),
        CompareOp::Greater if !found => codes.compare(rows, CompareOp::GreaterOrEqual, code, out),
        _ => codes.compare(rows, op, code, out),
    }
}
