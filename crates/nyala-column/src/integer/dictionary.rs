//! Dictionary: up to 256 distinct values, sorted, and packed codes.
//!
//! Bytes: entry count − 1, entry width, packed entries, packed codes (as wide as the last entry's number).

use std::ops::Range;

use crate::cpu::CpuFeatures;
use crate::error::{CorruptBlock, Result, ensure};
use crate::kernels::lookup::look_up;
use crate::kernels::pack::{get, is_storable, pack, packed_bytes, storable_width, unpack};
use crate::little_endian::{Reader, bit_width};
use crate::narrow::{Narrow, Offsets};

/// Entries at most: codes are bytes.
pub(super) const ENTRY_LIMIT: usize = 256;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Dictionary<'a> {
    count: usize,
    entry_width: u32,
    code_width: u32,
    entries: &'a [u8],
    codes: &'a [u8],
}

impl<'a> Dictionary<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let count = reader.u8()? as usize + 1;
        let entry_width = u32::from(reader.u8()?);
        ensure(is_storable(entry_width), "dictionary width not in use")?;
        let entries = reader.take(packed_bytes(count, entry_width))?;
        let code_width = code_width(count);
        let codes = reader.take(packed_bytes(rows, code_width))?;
        ensure(reader.rest().is_empty(), "bytes after the dictionary")?;
        Ok(Self { count, entry_width, code_width, entries, codes })
    }

    pub(super) fn decode<T: Narrow>(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        let mut entries = [T::default(); ENTRY_LIMIT];
        unpack(cpu, self.entries, self.entry_width, 0, &mut entries[..self.count]);
        let start = rows.start & !63;
        let mut codes = [0_u8; crate::directory::VECTOR_VALUES];
        let codes = &mut codes[start..rows.end];
        unpack(cpu, self.codes, self.code_width, start, codes);
        // Rows before the range may hold anything but are looked up as well: any byte has an entry.
        let highest = look_up(cpu, &entries, codes, &mut out[start..rows.end]);
        ensure((highest as usize) < self.count, "code beyond the dictionary")
    }

    pub(super) fn get(&self, row: usize) -> Result<u64> {
        let code = get(self.codes, self.code_width, row) as usize;
        if code >= self.count {
            return Err(CorruptBlock::new("code beyond the dictionary"));
        }
        Ok(get(self.entries, self.entry_width, code))
    }
}

fn code_width(count: usize) -> u32 {
    bit_width(count as u64 - 1)
}

/// Bytes that a dictionary of `count` costs.
pub(super) fn dictionary_bytes(count: usize, rows: usize, range: u64) -> usize {
    2 + packed_bytes(count, storable_width(bit_width(range))) + packed_bytes(rows, code_width(count))
}

/// Appends the sorted `entries` and the codes of `offsets`, all of which are entries.
pub(super) fn push_dictionary(entries: &[u64], offsets: &[u64], range: u64, out: &mut Vec<u8>) {
    assert!((1..=ENTRY_LIMIT).contains(&entries.len()));
    let entry_width = storable_width(bit_width(range));
    out.extend_from_slice(&[(entries.len() - 1) as u8, entry_width as u8]);
    pack(entries, entry_width, out);
    let code = |offset: &u64| entries.binary_search(offset).expect("every value is an entry") as u8;
    let codes: Vec<u8> = offsets.iter().map(code).collect();
    pack(&codes, code_width(entries.len()), out);
}
