//! Split: full-precision floats whose upper bits repeat (ALP-RD's idea).
//!
//! Sign, exponent and leading digits of neighbouring measurements take few values: a dictionary of up to 8 codes
//! them, the lower bits are packed as they are.
//!
//! Bytes: `lower bits` (48..=57), entry count − 1, entries (u16 each), exceptions (count u16, packed positions,
//! u16 each: upper parts not in the dictionary), packed codes, packed lower parts.

use std::ops::Range;

use super::decimal::{Exceptions, exceptions_bytes, push_exceptions};
use crate::cpu::{CpuFeatures, dispatched};
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
use crate::kernels::pack::{get, pack, packed_bytes, unpack};
use crate::little_endian::{Reader, bit_width};

const ENTRY_LIMIT: usize = 8;
const LOWER_BITS: std::ops::RangeInclusive<u32> = 48..=57;
const UPPER_BYTES: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Split<'a> {
    lower_bits: u32,
    entries: [u64; ENTRY_LIMIT],
    code_bits: u32,
    exceptions: Exceptions<'a>,
    codes: &'a [u8],
    lowers: &'a [u8],
}

impl<'a> Split<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let lower_bits = u32::from(reader.u8()?);
        let count = reader.u8()? as usize + 1;
        ensure(LOWER_BITS.contains(&lower_bits) && count <= ENTRY_LIMIT, "split header out of range")?;
        // In a corrupt vector a code may be beyond the count. It then finds zero, which is wrong but harmless.
        let mut entries = [0; ENTRY_LIMIT];
        for entry in &mut entries[..count] {
            *entry = u64::from(reader.u16()?) << lower_bits;
        }
        let code_bits = bit_width(count as u64 - 1);
        let exceptions = Exceptions::parse(&mut reader, rows, UPPER_BYTES)?;
        let codes = reader.take(packed_bytes(rows, code_bits))?;
        let lowers = reader.take(packed_bytes(rows, lower_bits))?;
        ensure(reader.rest().is_empty(), "bytes after the split floats")?;
        Ok(Self { lower_bits, entries, code_bits, exceptions, codes, lowers })
    }

    pub(super) fn decode(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut [f64; VECTOR_VALUES],
    ) -> Result<()> {
        let start = rows.start & !63;
        let mut codes = [0_u8; VECTOR_VALUES];
        let mut lowers = [0_u64; VECTOR_VALUES];
        let (codes, lowers) = (&mut codes[start..rows.end], &mut lowers[start..rows.end]);
        unpack(cpu, self.codes, self.code_bits, start, codes);
        unpack(cpu, self.lowers, self.lower_bits, start, lowers);
        join(cpu, &self.entries, codes, lowers, &mut out[start..rows.end]);
        let mask = u64::MAX >> (64 - self.lower_bits);
        self.exceptions.for_each(rows, |row, upper| {
            out[row] = f64::from_bits(upper << self.lower_bits | out[row].to_bits() & mask);
        })
    }

    pub(super) fn get(&self, row: usize) -> Result<f64> {
        let mut upper = self.entries[get(self.codes, self.code_bits, row) as usize % ENTRY_LIMIT];
        self.exceptions.for_each(row..row + 1, |_, exception| upper = exception << self.lower_bits)?;
        Ok(f64::from_bits(upper | get(self.lowers, self.lower_bits, row)))
    }
}

dispatched! {
    fn join(entries: &[u64; ENTRY_LIMIT], codes: &[u8], lowers: &[u64], out: &mut [f64]) = join_body;
}

#[inline(always)]
fn join_body(entries: &[u64; ENTRY_LIMIT], codes: &[u8], lowers: &[u64], out: &mut [f64]) {
    for ((out, code), lower) in out.iter_mut().zip(codes).zip(lowers) {
        *out = f64::from_bits(entries[*code as usize % ENTRY_LIMIT] | lower);
    }
}

/// Where to split, and the dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitPlan {
    lower_bits: u32,
    entries: [u64; ENTRY_LIMIT],
    count: usize,
    pub(super) bytes: usize,
}

/// The cheapest split by a sorted sample of bit patterns; nothing if raw is not beaten.
pub(super) fn plan_split(sample: &[u64], rows: usize) -> Option<SplitPlan> {
    let mut best: Option<SplitPlan> = None;
    for lower_bits in LOWER_BITS {
        // Equal upper parts are neighbours in the sorted sample.
        let mut groups: Vec<(usize, u64)> = sample
            .chunk_by(|left, right| left >> lower_bits == right >> lower_bits)
            .map(|group| (group.len(), group[0] >> lower_bits))
            .collect();
        groups.sort_unstable_by_key(|(count, upper)| (std::cmp::Reverse(*count), *upper));
        groups.truncate(ENTRY_LIMIT);
        let covered: usize = groups.iter().map(|(count, _)| count).sum();
        let exceptions = (sample.len() - covered) * rows / sample.len();
        let mut entries = [0; ENTRY_LIMIT];
        entries.iter_mut().zip(&groups).for_each(|(entry, (_, upper))| *entry = *upper);
        let bytes = 2
            + UPPER_BYTES * groups.len()
            + exceptions_bytes(exceptions, rows, UPPER_BYTES)
            + packed_bytes(rows, bit_width(groups.len() as u64 - 1))
            + packed_bytes(rows, lower_bits);
        if bytes < best.map_or(rows * 8, |best| best.bytes) {
            best = Some(SplitPlan { lower_bits, entries, count: groups.len(), bytes });
        }
    }
    best
}

/// Appends split floats.
pub(super) fn push_split(values: &[f64], plan: SplitPlan, out: &mut Vec<u8>) {
    let entries = &plan.entries[..plan.count];
    let (mut positions, mut uppers) = (Vec::new(), Vec::new());
    let (mut codes, mut lowers) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    let mask = u64::MAX >> (64 - plan.lower_bits);
    for (row, value) in values.iter().enumerate() {
        let upper = value.to_bits() >> plan.lower_bits;
        let code = entries.iter().position(|entry| *entry == upper);
        if code.is_none() {
            positions.push(row as u16);
            uppers.push(upper);
        }
        codes.push(code.unwrap_or(0) as u8);
        lowers.push(value.to_bits() & mask);
    }
    out.extend_from_slice(&[plan.lower_bits as u8, (plan.count - 1) as u8]);
    entries.iter().for_each(|entry| out.extend_from_slice(&(*entry as u16).to_le_bytes()));
    push_exceptions(&positions, &uppers, values.len(), UPPER_BYTES, out);
    pack(&codes, bit_width(plan.count as u64 - 1), out);
    pack(&lowers, plan.lower_bits, out);
}
