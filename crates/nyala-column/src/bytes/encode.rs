//! Choosing how to store a block of strings.

use std::collections::HashMap;
use std::sync::Arc;

use super::block::BytesBlock;
use super::heap::{HeapForm, is_plausible};
use super::history::{Compressors, StringHistory};
use super::symbols::{TrainedSymbols, push_symbols};
use super::values::ByteValues;
use super::{BLOCK_BYTES, BOUND_BYTES, DICTIONARY};
use crate::directory::{Kind, VECTOR_VALUES, push_start};
use crate::integer::IntegerEncoder;
use crate::little_endian::{bit_width, push};
use crate::preference::Preference;

/// Heaps shorter than this are stored raw: a table or a frame would cost more than it saves.
const TINY_BYTES: usize = 256;
/// In shorter heaps a symbol table, which has 1 to 2 KiB, costs more than it saves.
const SYMBOLS_BYTES_MIN: usize = 4 << 10;
/// Bytes of strings that are compressed to estimate general compression.
const SAMPLE_BYTES: usize = 32 << 10;

/// Encodes blocks of strings, and keeps its buffers from one to the next.
pub(crate) struct BytesEncoder<'a> {
    pub(crate) preference: Preference,
    pub(crate) integers: &'a mut IntegerEncoder,
    pub(crate) history: &'a mut StringHistory,
    pub(crate) compressors: &'a mut Compressors,
}

impl BytesEncoder<'_> {
    /// Appends a block of `values`; see [`encode_bytes`](crate::encode_bytes).
    pub(crate) fn encode(&mut self, values: &[&[u8]], out: &mut Vec<u8>) {
        let total: usize = values.iter().map(|value| value.len()).sum();
        assert!(total <= BLOCK_BYTES, "a block holds at most {BLOCK_BYTES} bytes of strings, not {total}");
        let start = out.len();
        let form = self.push_block(values, total, out);
        // A block that a library compressed is read back. If a string is lost, the block is written uncompressed.
        let is_by_library = matches!(form, HeapForm::Symbols | HeapForm::Compressed);
        debug_assert!(is_by_library || reads_back(values, &out[start..]), "an encoding lost strings");
        if is_by_library && !reads_back(values, &out[start..]) {
            debug_assert!(false, "an encoding lost strings");
            out.truncate(start);
            self.push_heap_start(values, out);
            values.iter().for_each(|value| out.extend_from_slice(value));
        }
    }

    fn push_block(&mut self, values: &[&[u8]], total: usize, out: &mut Vec<u8>) -> HeapForm {
        let is_tried = self.history.dictionary.is_due(self.preference);
        let found = if is_tried { distinct(values) } else { None };
        self.history.dictionary.note(found.is_some());
        let Some((entries, codes)) = found else { return self.push_heap_block(values, total, out) };
        push_start(out, Kind::Bytes, values.len());
        out.push(DICTIONARY);
        push_bounds(values, out);
        self.push_nested(&codes, out);
        let total = entries.iter().map(|entry| entry.len()).sum();
        self.push_heap_block(&entries, total, out)
    }

    /// Appends integers as a block with its length in front.
    fn push_nested(&mut self, values: &[i64], out: &mut Vec<u8>) {
        let start = out.len();
        push(out, 0, 4);
        self.integers.encode(values, &[], self.preference, out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends a whole block without a dictionary; returns in which form.
    fn push_heap_block(&mut self, values: &[&[u8]], total: usize, out: &mut Vec<u8>) -> HeapForm {
        let form_at = self.push_heap_start(values, out);
        let is_tried = total >= TINY_BYTES && self.history.compression.is_due(self.preference);
        let form = if is_tried { self.push_smaller(values, total, out) } else { None };
        if total >= TINY_BYTES {
            self.history.compression.note(form.is_some());
        }
        match form {
            Some(form) => out[form_at] = form as u8,
            None => {
                out.reserve(total);
                values.iter().for_each(|value| out.extend_from_slice(value));
            }
        }
        form.unwrap_or(HeapForm::Raw)
    }

    /// Appends the strings compressed, if that is worth it; returns in which form.
    fn push_smaller(&mut self, values: &[&[u8]], total: usize, out: &mut Vec<u8>) -> Option<HeapForm> {
        let compressors = &mut *self.compressors;
        let compressed = match self.preference {
            Preference::Speed => None,
            // A compressed chunk is unpacked whole for any of its strings: it must save a lot.
            Preference::Balanced => Compressed::new(compressors, values, total, 1, total * 6 / 10),
            Preference::Size => Compressed::new(compressors, values, total, 9, total),
        };
        // Symbols hardly ever compress to a quarter and take long to train: what is compressed so strongly stays.
        let is_strong = compressed.as_ref().is_some_and(|each| each.bytes < total * 6 / 40);
        let by_symbols = (total >= SYMBOLS_BYTES_MIN
            && !(is_strong && self.preference == Preference::Balanced))
            .then(|| Coded::new(values, total, &mut self.history.symbols));
        let symbols_bytes = by_symbols.as_ref().map_or(total, Coded::bytes).min(total);
        let worth = match self.preference {
            Preference::Balanced => symbols_bytes * 6 / 10,
            Preference::Speed | Preference::Size => symbols_bytes,
        };
        if let Some(compressed) = compressed.filter(|each| each.bytes < worth) {
            compressed.push_to(out);
            return Some(HeapForm::Compressed);
        }
        let worth = match self.preference {
            Preference::Speed => total * 7 / 10,
            Preference::Balanced => total * 9 / 10,
            Preference::Size => total,
        };
        let by_symbols = by_symbols.filter(|_| symbols_bytes < worth)?;
        self.push_nested(&by_symbols.lengths(), out);
        push_symbols(&by_symbols.symbols.compressor, out);
        out.extend_from_slice(&by_symbols.coded);
        Some(HeapForm::Symbols)
    }

    /// Appends what precedes the strings of a raw heap; returns where the form is written.
    fn push_heap_start(&mut self, values: &[&[u8]], out: &mut Vec<u8>) -> usize {
        push_start(out, Kind::Bytes, values.len());
        let form_at = out.len();
        out.push(HeapForm::Raw as u8);
        push_bounds(values, out);
        let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
        self.push_nested(&lengths, out);
        form_at
    }
}

fn reads_back(values: &[&[u8]], block: &[u8]) -> bool {
    let mut decoded = ByteValues::new();
    let read = BytesBlock::parse(block).and_then(|block| block.decode_range(0..block.len(), &mut decoded));
    read.is_ok() && decoded.iter().eq(values.iter().copied())
}

/// The sorted distinct strings and each row's code, if a dictionary is smaller than strings one by one.
fn distinct<'a>(values: &[&'a [u8]]) -> Option<(Vec<&'a [u8]>, Vec<i64>)> {
    let hasher = foldhash::fast::RandomState::default();
    let mut numbers: HashMap<&[u8], u32, _> =
        HashMap::with_capacity_and_hasher(values.len().min(1000), hasher);
    let mut entries = Vec::new();
    let mut rows = Vec::with_capacity(values.len());
    let (mut bytes, mut distinct_bytes) = (0, 0);
    for (row, value) in values.iter().enumerate() {
        let number = *numbers.entry(value).or_insert_with(|| {
            entries.push(*value);
            distinct_bytes += value.len() + 1;
            entries.len() as u32 - 1
        });
        bytes += value.len() + 1;
        rows.push(number);
        // Mostly distinct strings at the start: the rest is unlikely to repeat them.
        if row == 1000 && entries.len() > 800 {
            return None;
        }
    }
    let code_bytes = values.len() * bit_width(entries.len().saturating_sub(1) as u64) as usize / 8;
    if values.is_empty() || distinct_bytes + code_bytes + 32 >= bytes {
        return None;
    }
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    order.sort_unstable_by_key(|number| entries[*number as usize]);
    let mut codes = vec![0; entries.len()];
    order.iter().zip(0..).for_each(|(number, code)| codes[*number as usize] = code);
    let sorted = order.iter().map(|number| entries[*number as usize]).collect();
    Some((sorted, rows.iter().map(|number| codes[*number as usize]).collect()))
}

fn push_bounds(values: &[&[u8]], out: &mut Vec<u8>) {
    let low = values.iter().min().copied().unwrap_or_default();
    let high = values.iter().max().copied().unwrap_or_default();
    let low = &low[..low.len().min(BOUND_BYTES)];
    out.push(low.len() as u8);
    out.extend_from_slice(low);
    let cut = &high[..high.len().min(BOUND_BYTES)];
    out.push(cut.len() as u8 | if cut.len() < high.len() { 0x80 } else { 0 });
    out.extend_from_slice(cut);
}

/// A known table is used until it compresses worse than at its training by more than this part: a sixteenth. Training
/// takes ten times as long as coding.
const DRIFT: usize = 16;

/// Strings coded with a symbol table.
struct Coded {
    symbols: Arc<TrainedSymbols>,
    coded: Vec<u8>,
    ends: Vec<u64>,
}

impl Coded {
    /// Codes with the known table if it still compresses well, else with a new one.
    fn new(values: &[&[u8]], total: usize, known: &mut Option<Arc<TrainedSymbols>>) -> Self {
        if let Some(symbols) = known {
            let coded = Self::by(symbols.clone(), values);
            if coded.bytes() * 256 / total <= symbols.bytes + symbols.bytes / DRIFT {
                return coded;
            }
        }
        let compressor = fsst::Compressor::train(&values.to_vec());
        let coded = Self::by(Arc::new(TrainedSymbols { compressor, bytes: 0 }), values);
        let bytes = coded.bytes() * 256 / total;
        let Self { symbols, coded, ends } = coded;
        let compressor = Arc::into_inner(symbols).expect("nobody else has it").compressor;
        let symbols = Arc::new(TrainedSymbols { compressor, bytes });
        *known = Some(symbols.clone());
        Self { symbols, coded, ends }
    }

    fn by(symbols: Arc<TrainedSymbols>, values: &[&[u8]]) -> Self {
        let (mut coded, mut ends) = (Vec::new(), Vec::new());
        let compressor = &symbols.compressor;
        compressor
            .compress_bulk_into::<{ fsst::Compressor::DEFAULT_BULK_LANES }>(values, &mut coded, &mut ends);
        Self { symbols, coded, ends }
    }

    fn lengths(&self) -> Vec<i64> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| (end - start) as i64).collect()
    }

    /// Estimate: codes, table, and a byte per length.
    fn bytes(&self) -> usize {
        let table: usize =
            self.symbols.compressor.symbol_lengths().iter().map(|length| 1 + *length as usize).sum();
        self.coded.len() + table + self.ends.len()
    }
}

/// Strings compressed vector by vector.
struct Compressed {
    chunks: Vec<Vec<u8>>,
    /// Of the chunks and of what says where each ends.
    bytes: usize,
}

impl Compressed {
    /// Compresses strings, if that takes fewer than `worth` bytes.
    fn new(
        compressors: &mut Compressors,
        values: &[&[u8]],
        total: usize,
        level: i32,
        worth: usize,
    ) -> Option<Self> {
        let compressor = compressors.get(level)?;
        if total > 2 * SAMPLE_BYTES {
            let sample = concatenate(values.iter().copied(), SAMPLE_BYTES);
            let compressed = compressor.compress(&sample).ok()?;
            // Some slack, because the whole may compress better than its beginning.
            if compressed.len() * 9 / 10 * total > worth * sample.len() {
                return None;
            }
        }
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for strings in values.chunks(VECTOR_VALUES) {
            let raw = concatenate(strings.iter().copied(), usize::MAX);
            let chunk = compressor.compress(&raw).ok()?;
            bytes += chunk.len() + 4;
            if bytes >= worth || !is_plausible(raw.len() as u64, chunk.len()) {
                return None;
            }
            chunks.push(chunk);
        }
        Some(Self { chunks, bytes })
    }

    fn push_to(&self, out: &mut Vec<u8>) {
        let mut end = 0;
        for chunk in &self.chunks {
            end += chunk.len();
            push(out, end as u64, 4);
        }
        self.chunks.iter().for_each(|chunk| out.extend_from_slice(chunk));
    }
}

fn concatenate<'a>(values: impl Iterator<Item = &'a [u8]>, enough: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for value in values {
        all.extend_from_slice(value);
        if all.len() >= enough {
            break;
        }
    }
    all
}
