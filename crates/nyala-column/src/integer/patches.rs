//! Exceptions of a packed vector: the few values too wide for the common bit width.
//!
//! A patch is added to what was packed, wrapping, so it commutes with everything done to packed values (base,
//! slope, running sums). Positions rise.

use std::ops::Range;

use crate::cpu::CpuFeatures;
use crate::error::{Result, ensure};
use crate::kernels::pack::{get, is_storable, pack, packed_bytes, storable_width, unpack};
use crate::little_endian::{Reader, bit_width, unfold_sign};
use crate::narrow::Narrow;

/// The count is one byte in the headers.
pub(super) const PATCH_LIMIT: usize = 255;
/// From this number on, patches are unpacked at once.
const BULK: usize = 12;

#[derive(Debug, Clone, Copy)]
pub(super) struct Patches<'a> {
    rows: usize,
    count: usize,
    position_bits: u32,
    value_bits: u32,
    positions: &'a [u8],
    values: &'a [u8],
}

impl<'a> Patches<'a> {
    /// Reads `count` patches of a vector of `rows`.
    pub(super) fn parse(reader: &mut Reader<'a>, count: usize, rows: usize) -> Result<Self> {
        let position_bits = position_bits(rows);
        if count == 0 {
            return Ok(Self { rows, count, position_bits, value_bits: 0, positions: &[], values: &[] });
        }
        let value_bits = u32::from(reader.u8()?);
        ensure(is_storable(value_bits), "patch width not in use")?;
        let positions = reader.take(packed_bytes(count, position_bits))?;
        let values = reader.take(packed_bytes(count, value_bits))?;
        Ok(Self { rows, count, position_bits, value_bits, positions, values })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn position(&self, index: usize) -> usize {
        get(self.positions, self.position_bits, index) as usize
    }

    /// Calls `patch(row, amount)` for each patch in `rows`.
    #[inline]
    pub(super) fn for_each(&self, rows: Range<usize>, mut patch: impl FnMut(usize, u64)) -> Result<()> {
        let first = self.first_from(rows.start);
        let mut next = rows.start;
        for index in first..self.count {
            let position = self.position(index);
            ensure((next..self.rows).contains(&position), "patch positions do not rise to the last row")?;
            if position >= rows.end {
                break;
            }
            next = position + 1;
            patch(position, unfold_sign(get(self.values, self.value_bits, index)));
        }
        Ok(())
    }

    /// Adds each patch in `rows` to its row of `out`, whose first is row `start` (not after `rows`).
    pub(super) fn add_to<T: Narrow>(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let add = |row: usize, amount| out[row - start] = out[row - start].wrapping_add(T::truncate(amount));
        if self.count < BULK {
            return self.for_each(rows, add);
        }
        self.for_each_unpacked(cpu, rows, add)
    }

    /// As `for_each`, but unpacks all patches at once, which is cheaper when there are many.
    fn for_each_unpacked(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        mut patch: impl FnMut(usize, u64),
    ) -> Result<()> {
        let mut positions = [0_u16; PATCH_LIMIT];
        let mut values = [0_u64; PATCH_LIMIT];
        let (positions, values) = (&mut positions[..self.count], &mut values[..self.count]);
        unpack(cpu, self.positions, self.position_bits, 0, positions);
        unpack(cpu, self.values, self.value_bits, 0, values);
        let first = positions.partition_point(|position| usize::from(*position) < rows.start);
        let mut next = rows.start;
        for (position, folded) in positions[first..].iter().zip(&values[first..]) {
            let position = usize::from(*position);
            ensure((next..self.rows).contains(&position), "patch positions do not rise to the last row")?;
            if position >= rows.end {
                break;
            }
            next = position + 1;
            patch(position, unfold_sign(*folded));
        }
        Ok(())
    }

    /// Index of the first patch at or after `row`.
    fn first_from(&self, row: usize) -> usize {
        if row == 0 {
            return 0;
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.position(middle) < row { low = middle + 1 } else { high = middle }
        }
        low
    }
}

fn position_bits(rows: usize) -> u32 {
    bit_width(rows.saturating_sub(1) as u64)
}

/// Bytes that `count` patches of at most `widest` (folded) cost.
pub(super) fn patches_bytes(count: usize, rows: usize, widest: u64) -> usize {
    if count == 0 {
        return 0;
    }
    1 + packed_bytes(count, position_bits(rows)) + packed_bytes(count, storable_width(bit_width(widest)))
}

/// Appends patches; `amounts` are folded.
pub(super) fn push_patches(positions: &[u16], amounts: &[u64], rows: usize, out: &mut Vec<u8>) {
    assert!(positions.len() <= PATCH_LIMIT && positions.len() == amounts.len());
    if positions.is_empty() {
        return;
    }
    let widest = amounts.iter().copied().max().unwrap_or(0);
    let value_bits = storable_width(bit_width(widest));
    out.push(value_bits as u8);
    pack(positions, position_bits(rows), out);
    pack(amounts, value_bits, out);
}
