//! Delta: packed differences, with the value itself stored every 128 rows.
//!
//! `offset(128·g) = anchor + slope · g + packed base(g)`, and within a group each value is its predecessor plus
//! `step` plus a packed difference (plus a patch). The bases make any range cost at most the groups it touches,
//! and being stored around a line of their own they stay narrow for counters too.
//!
//! Bytes: `width`, `step bytes | slope bytes << 4`, `anchor bytes`, `base width`, `patch count`, step, slope, anchor,
//! packed bases, packed differences (those of the groups' first rows are 0), patches.

use std::ops::Range;

use super::patches::{Patches, push_patches};
use super::vector::Offsets;
use crate::error::{Result, ensure};
use crate::kernels::pack::{get, is_storable, pack, packed_bytes, unpack};
use crate::kernels::prefix::running_sum;
use crate::level::Level;
use crate::narrow::Narrow;
use crate::wire::{Reader, push, signed_width};

/// Rows from one stored base to the next.
pub(super) const GROUP_ROWS: usize = 128;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delta<'a> {
    rows: usize,
    width: u32,
    step: u64,
    slope: u64,
    anchor: u64,
    base_width: u32,
    bases: &'a [u8],
    packed: &'a [u8],
    patches: Patches<'a>,
}

impl<'a> Delta<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let width = u32::from(reader.u8()?);
        let widths = reader.u8()?;
        let anchor_width = reader.u8()? as usize;
        let base_width = u32::from(reader.u8()?);
        ensure(is_storable(width) && is_storable(base_width), "delta width not in use")?;
        let patch_count = reader.u8()? as usize;
        let step = reader.signed((widths & 0xf) as usize)? as u64;
        let slope = reader.signed((widths >> 4) as usize)? as u64;
        let anchor = reader.signed(anchor_width)? as u64;
        let bases = reader.take(packed_bytes(rows.div_ceil(GROUP_ROWS), base_width))?;
        let packed = reader.take(packed_bytes(rows, width))?;
        let patches = Patches::parse(&mut reader, patch_count, rows)?;
        ensure(reader.rest().is_empty(), "bytes after the deltas")?;
        Ok(Self { rows, width, step, slope, anchor, base_width, bases, packed, patches })
    }

    fn base(&self, group: usize) -> u64 {
        let line = self.anchor.wrapping_add(self.slope.wrapping_mul(group as u64));
        line.wrapping_add(get(self.bases, self.base_width, group))
    }

    pub(super) fn decode<T: Narrow>(
        &self,
        level: Level,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        let first_group = rows.start / GROUP_ROWS;
        let start = first_group * GROUP_ROWS;
        let piece = &mut out[start..rows.end];
        unpack(level, self.packed, self.width, start, piece);
        if !self.patches.is_empty() {
            self.patches.add_to(level, start..rows.end, start, piece)?;
        }
        for (group, values) in (first_group..).zip(piece.chunks_mut(GROUP_ROWS)) {
            running_sum(level, values, T::truncate(self.base(group)), T::truncate(self.step));
        }
        Ok(())
    }

    /// The sum of the packed differences of `count` rows from `start` on, which begins a group, but for the
    /// first: a group's first row is its base, its difference and patch count for nothing.
    fn climb<T: Narrow>(&self, level: Level, start: usize, count: usize) -> u64 {
        let mut differences = [T::default(); GROUP_ROWS];
        let differences = &mut differences[..count];
        unpack(level, self.packed, self.width, start, differences);
        differences[1..].iter().fold(0, |sum: u64, difference| sum.wrapping_add(difference.widen()))
    }

    pub(super) fn get(&self, level: Level, row: usize) -> Result<u64> {
        debug_assert!(row < self.rows);
        let group = row / GROUP_ROWS;
        let start = group * GROUP_ROWS;
        let count = row + 1 - start;
        let climbed = match self.width {
            0 => 0,
            1..=8 => self.climb::<u8>(level, start, count),
            9..=16 => self.climb::<u16>(level, start, count),
            _ => self.climb::<u64>(level, start, count),
        };
        let line = self.base(group).wrapping_add(self.step.wrapping_mul((row - start) as u64));
        let mut offset = line.wrapping_add(climbed);
        self.patches.for_each(start + 1..row + 1, |_, amount| offset = offset.wrapping_add(amount))?;
        Ok(offset)
    }
}

/// The bases' own line: `(slope, anchor, width)`, chosen by the encoder.
#[derive(Debug, Clone, Copy)]
pub(super) struct BaseLine {
    pub(super) slope: i64,
    pub(super) anchor: i64,
    pub(super) width: u32,
}

/// Bytes in front of the packed differences.
pub(super) fn header_bytes(step: i64, line: BaseLine, groups: usize) -> usize {
    let numbers = signed_width(step) + signed_width(line.slope) + signed_width(line.anchor);
    5 + numbers + packed_bytes(groups, line.width)
}

/// Appends deltas. `bases` and `packed` fit their widths; `amounts` are folded.
pub(super) fn push_delta<T: Narrow>(
    (width, step): (u32, i64),
    line: BaseLine,
    bases: &[u64],
    packed: &[T],
    (positions, amounts): (&[u16], &[u64]),
    out: &mut Vec<u8>,
) {
    let (step_width, slope_width) = (signed_width(step), signed_width(line.slope));
    let anchor_width = signed_width(line.anchor);
    out.extend_from_slice(&[
        width as u8,
        (step_width | slope_width << 4) as u8,
        anchor_width as u8,
        line.width as u8,
        positions.len() as u8,
    ]);
    push(out, step as u64, step_width);
    push(out, line.slope as u64, slope_width);
    push(out, line.anchor as u64, anchor_width);
    pack(bases, line.width, out);
    pack(packed, width, out);
    push_patches(positions, amounts, packed.len(), out);
}
