//! Runs: distinct neighbouring values and the row at which each run ends.
//!
//! Ends rather than lengths, so that a row's run is found by bisection.
//!
//! Bytes: run count − 1 (u16), value width, packed values, packed `end − 1` (as wide as the last row's number).

use std::ops::Range;

use crate::error::{CorruptBlock, Result, ensure};
use crate::kernels::pack::{get, is_storable, pack, packed_bytes, storable_width};
use crate::little_endian::{Reader, bit_width, push};
use crate::narrow::{Narrow, Offsets};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'a> {
    count: usize,
    value_width: u32,
    end_width: u32,
    values: &'a [u8],
    ends: &'a [u8],
}

impl<'a> Runs<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let count = reader.u16()? as usize + 1;
        let value_width = u32::from(reader.u8()?);
        ensure(count <= rows && is_storable(value_width), "run header out of range")?;
        let end_width = end_width(rows);
        let values = reader.take(packed_bytes(count, value_width))?;
        let ends = reader.take(packed_bytes(count, end_width))?;
        ensure(reader.rest().is_empty(), "bytes after the runs")?;
        let runs = Self { count, value_width, end_width, values, ends };
        ensure(runs.end(count - 1) == rows, "runs do not reach the last row")?;
        Ok(runs)
    }

    fn end(&self, run: usize) -> usize {
        get(self.ends, self.end_width, run) as usize + 1
    }

    fn value(&self, run: usize) -> u64 {
        get(self.values, self.value_width, run)
    }

    /// The run that holds `row`.
    fn run_of(&self, row: usize) -> usize {
        let (mut low, mut high) = (0, self.count - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.end(middle) <= row { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Calls `run(rows, offset)` for the runs that cover `rows`, clipped to it.
    pub(super) fn for_each(&self, rows: Range<usize>, mut run: impl FnMut(Range<usize>, u64)) -> Result<()> {
        let mut start = rows.start;
        let mut index = self.run_of(start);
        while start < rows.end {
            if index == self.count {
                return Err(CorruptBlock::new("run ends do not rise"));
            }
            let end = self.end(index).min(rows.end);
            if end <= start {
                return Err(CorruptBlock::new("run ends do not rise"));
            }
            run(start..end, self.value(index));
            (start, index) = (end, index + 1);
        }
        // The last run ends with the last row (checked when parsed); runs beyond it would mislead bisection.
        let is_last = start == self.end(self.count - 1);
        ensure(!is_last || index == self.count, "runs beyond the last row")
    }

    pub(super) fn decode<T: Narrow>(&self, rows: Range<usize>, out: &mut Offsets<T>) -> Result<()> {
        self.for_each(rows, |rows, offset| out[rows].fill(T::truncate(offset)))
    }

    pub(super) fn get(&self, row: usize) -> Result<u64> {
        Ok(self.value(self.run_of(row)))
    }
}

fn end_width(rows: usize) -> u32 {
    bit_width(rows.saturating_sub(1) as u64)
}

/// Bytes that `count` runs cost.
pub(super) fn runs_bytes(count: usize, rows: usize, range: u64) -> usize {
    3 + packed_bytes(count, storable_width(bit_width(range))) + packed_bytes(count, end_width(rows))
}

/// Appends runs of `offsets`.
pub(super) fn push_runs(offsets: &[u64], range: u64, out: &mut Vec<u8>) {
    let mut values = Vec::new();
    let mut ends = Vec::new();
    for (index, offset) in offsets.iter().enumerate() {
        if values.last() != Some(offset) {
            values.push(*offset);
            ends.push(0);
        }
        // The end minus one is the last row seen.
        *ends.last_mut().expect("a run was begun") = index as u16;
    }
    let value_width = storable_width(bit_width(range));
    push(out, values.len() as u64 - 1, 2);
    out.push(value_width as u8);
    pack(&values, value_width, out);
    pack(&ends, end_width(offsets.len()), out);
}
