//! The heap of a block: its strings one after another, raw, coded with a symbol table, or compressed per vector.
//!
//! Lengths are an integer block of their own. Sums in its directory say where a string begins, without reading the
//! lengths before it.

use std::cell::RefCell;
use std::ops::Range;
use zstd::bulk::Decompressor;

use super::BLOCK_BYTES;
use super::symbols::SymbolTable;
use super::values::ByteValues;
use crate::error::{CorruptBlock, Result, ensure};
use crate::integer::IntegerBlock;
use crate::little_endian::{Reader, load};

/// Output that a compressed chunk may claim: a constant, and so much per byte of input. The encoder keeps to it,
/// which lets the reader refuse a small chunk that asks for much memory.
const INFLATION_CONSTANT: u64 = 4096;
const INFLATION_FACTOR: u64 = 512;

/// Whether a chunk may claim `raw` bytes.
pub(super) fn is_plausible(raw: u64, compressed: usize) -> bool {
    raw <= INFLATION_CONSTANT + INFLATION_FACTOR * compressed as u64
}

#[derive(Debug, Clone)]
pub(super) struct Heap<'a> {
    lengths: IntegerBlock<'a>,
    storage: Storage<'a>,
}

#[derive(Debug, Clone)]
enum Storage<'a> {
    Raw(&'a [u8]),
    Symbols { table: Box<SymbolTable>, coded_lengths: IntegerBlock<'a>, coded: &'a [u8] },
    Compressed { chunk_ends: &'a [u8], chunks: &'a [u8] },
}

/// How a heap is stored; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum HeapForm {
    Raw = 0,
    Symbols = 2,
    Compressed = 3,
}

/// Reads a u32 length and that many bytes as an integer block of `count` non-negative values.
pub(super) fn nested_integers<'a>(reader: &mut Reader<'a>, count: u32) -> Result<IntegerBlock<'a>> {
    let length = reader.unsigned(4)? as usize;
    let block = IntegerBlock::parse(reader.take(length)?)?;
    ensure(block.len() == count, "nested block of another length")?;
    ensure(block.vectors().all(|vector| vector.min >= 0), "negative number in a nested block")?;
    Ok(block)
}

/// Sum of lengths as a number of bytes.
fn total(lengths: &IntegerBlock<'_>, rows: Range<u32>) -> Result<usize> {
    let sum = lengths.sum(rows)?;
    ensure((0..=BLOCK_BYTES as i128).contains(&sum), "strings longer than a block may be")?;
    Ok(sum as usize)
}

fn string_at(heap: &[u8], start: usize, length: i64) -> Result<&[u8]> {
    let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
    end.and_then(|end| heap.get(start..end)).ok_or(CorruptBlock::new("string beyond the heap"))
}

impl<'a> Heap<'a> {
    pub(super) fn form_name(&self) -> &'static str {
        match self.storage {
            Storage::Raw(_) => "raw",
            Storage::Symbols { .. } => "symbols",
            Storage::Compressed { .. } => "compressed",
        }
    }

    pub(super) fn parse(reader: &mut Reader<'a>, form: HeapForm, count: u32) -> Result<Self> {
        let lengths = nested_integers(reader, count)?;
        let bytes = total(&lengths, 0..count)?;
        let storage = match form {
            HeapForm::Raw => {
                let heap = reader.clone().rest();
                ensure(heap.len() == bytes, "heap of another length")?;
                Storage::Raw(heap)
            }
            HeapForm::Symbols => {
                let coded_lengths = nested_integers(reader, count)?;
                let table = Box::new(SymbolTable::parse(reader)?);
                let coded = reader.clone().rest();
                ensure(coded.len() == total(&coded_lengths, 0..count)?, "heap of another length")?;
                Storage::Symbols { table, coded_lengths, coded }
            }
            HeapForm::Compressed => {
                let chunk_ends = reader.take(4 * lengths.vectors().len())?;
                let chunks = reader.clone().rest();
                Storage::Compressed { chunk_ends, chunks }
            }
        };
        Ok(Self { lengths, storage })
    }

    /// Appends the strings of `rows`.
    pub(super) fn decode(&self, rows: Range<u32>, out: &mut ByteValues) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut lengths = Vec::new();
        self.lengths.decode_range(rows.clone(), &mut lengths)?;
        match &self.storage {
            Storage::Raw(heap) => {
                let start = total(&self.lengths, 0..rows.start)?;
                append_strings(heap.get(start..).unwrap_or_default(), &lengths, out)
            }
            Storage::Symbols { table, coded_lengths, coded } => {
                let mut start = total(coded_lengths, 0..rows.start)?;
                let mut coded_sizes = Vec::new();
                coded_lengths.decode_range(rows, &mut coded_sizes)?;
                for (length, coded_size) in lengths.iter().zip(coded_sizes) {
                    let string = string_at(coded, start, coded_size)?;
                    let before = out.data_len();
                    table.decode(string, out.data_mut())?;
                    ensure((out.data_len() - before) as i64 == *length, "string of another length")?;
                    out.end_value();
                    start += string.len();
                }
                Ok(())
            }
            Storage::Compressed { .. } => self.decode_compressed(rows, &lengths, out),
        }
    }

    /// Appends the string of one row.
    pub(super) fn append_row(&self, row: u32, out: &mut Vec<u8>) -> Result<()> {
        let length = total(&self.lengths, row..row + 1)?;
        match &self.storage {
            Storage::Raw(heap) => {
                let start = total(&self.lengths, 0..row)?;
                out.extend_from_slice(string_at(heap, start, length as i64)?);
            }
            Storage::Symbols { table, coded_lengths, coded } => {
                let start = total(coded_lengths, 0..row)?;
                let coded_size = total(coded_lengths, row..row + 1)?;
                let before = out.len();
                table.decode(string_at(coded, start, coded_size as i64)?, out)?;
                ensure(out.len() - before == length, "string of another length")?;
            }
            Storage::Compressed { .. } => {
                let vectors = self.lengths.vectors().enumerate();
                let found =
                    vectors.map(|(index, vector)| (index, vector.rows)).find(|(_, rows)| rows.contains(&row));
                let (index, rows) = found.ok_or(CorruptBlock::new("a row in no vector"))?;
                let chunk = self.inflate(index, rows.clone())?;
                let start = total(&self.lengths, rows.start..row)?;
                out.extend_from_slice(string_at(&chunk, start, length as i64)?);
            }
        }
        Ok(())
    }

    fn decode_compressed(&self, rows: Range<u32>, lengths: &[i64], out: &mut ByteValues) -> Result<()> {
        let mut lengths = lengths;
        for (index, vector) in self.lengths.vectors().enumerate() {
            let wanted = rows.start.max(vector.rows.start)..rows.end.min(vector.rows.end);
            if wanted.is_empty() {
                continue;
            }
            let chunk = self.inflate(index, vector.rows.clone())?;
            let before = total(&self.lengths, vector.rows.start..wanted.start)?;
            let here;
            (here, lengths) = lengths.split_at(wanted.len());
            append_strings(chunk.get(before..).unwrap_or_default(), here, out)?;
        }
        Ok(())
    }

    fn inflate(&self, index: usize, rows: Range<u32>) -> Result<Vec<u8>> {
        let Storage::Compressed { chunk_ends, chunks } = self.storage else {
            unreachable!("only compressed")
        };
        let end = |index: usize| load(&chunk_ends[4 * index..4 * index + 4]) as usize;
        let start = if index == 0 { 0 } else { end(index - 1) };
        let chunk = chunks.get(start..end(index)).ok_or(CorruptBlock::new("chunk beyond the heap"))?;
        let bytes = total(&self.lengths, rows)?;
        ensure(is_plausible(bytes as u64, chunk.len()), "chunk claims more than it can hold")?;
        let raw = decompress(chunk, bytes)
            .map_err(|_| CorruptBlock::new("compressed strings do not decompress"))?;
        ensure(raw.len() == bytes, "compressed strings of another length")?;
        Ok(raw)
    }
}

thread_local! {
    /// Making one costs more than most chunks: it has 100 KB, which are cleared.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress(chunk: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress(chunk, bytes_max)
    })
}

/// Appends strings that lie one after another from the start of `heap`.
fn append_strings(heap: &[u8], lengths: &[i64], out: &mut ByteValues) -> Result<()> {
    let before = out.data_len();
    let mut end = 0_usize;
    out.reserve_values(lengths.len());
    for length in lengths {
        end += string_at(heap, end, *length)?.len();
        out.end_value_at(before + end);
    }
    out.data_mut().extend_from_slice(&heap[..end]);
    Ok(())
}
