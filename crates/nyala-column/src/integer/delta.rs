//! Delta: packed differences, with the value itself stored every 128 rows.
//!
//! `offset(128·g) = anchor + slope · g + packed base(g)`, and within a group each value is its predecessor plus
//! `step` plus a packed difference (plus a patch). The bases make any range cost at most the groups it touches,
//! and being stored around a line of their own they stay narrow for counters too.
//!
//! Bytes: `width`, `step bytes | slope bytes << 4`, `anchor bytes`, `base width`, `patch count`, step, slope, anchor,
//! packed bases, packed differences (those of the groups' first rows are 0), patches.

use std::ops::Range;

use super::patches::Patches;
use super::plan::PatchedResiduals;
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
pub(super) use crate::kernels::delta_sum::GROUP_ROWS;
use crate::kernels::delta_sum::{DeltaGroups, WIDTH_MAX, is_faster, sum_deltas};
use crate::kernels::pack::{get, is_storable, pack, packed_bytes, unpack};
use crate::kernels::prefix::running_sum;
use crate::little_endian::{Reader, push, signed_width};
use crate::narrow::{FrameOfReference, Narrow, Offsets};

/// Sums of a vector's offsets that are not above 32 bits have fewer bits than this.
const SUM_BITS: u32 = 42;
/// Windows of fewer rows are summed from decoded values, because the work per group would outweigh the gain.
const LONG_ROWS: usize = 96;

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
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        let first_group = rows.start / GROUP_ROWS;
        let start = first_group * GROUP_ROWS;
        let slice = &mut out[start..rows.end];
        unpack(cpu, self.packed, self.width, start, slice);
        if !self.patches.is_empty() {
            self.patches.add_to(cpu, start..rows.end, start, slice)?;
        }
        for (group, values) in (first_group..).zip(slice.chunks_mut(GROUP_ROWS)) {
            running_sum(cpu, values, T::truncate(self.base(group)), T::truncate(self.step));
        }
        Ok(())
    }

    /// Adds the rows to each window's sum without decoding them; returns false if that is not possible.
    /// The vector begins with the block's row `first`, windows are clipped to its `rows`, and `largest` is its largest
    /// offset.
    pub(super) fn sum_windows(
        &self,
        cpu: CpuFeatures,
        (first, rows): (u32, Range<usize>),
        bounds: &[u32],
        (largest, reference): (u64, FrameOfReference),
        out: &mut [i128],
    ) -> Result<bool> {
        if !is_faster(cpu) {
            return Ok(false);
        }
        let windows = out.len();
        let groups = self.rows.div_ceil(GROUP_ROWS);
        let long = rows.len() >= windows * LONG_ROWS;
        if self.width > WIDTH_MAX || self.base_width > 8 || largest > u32::MAX.into() || !long {
            return Ok(false);
        }
        let mut bounds_inside = [0; VECTOR_VALUES / LONG_ROWS + 1];
        let bounds_inside = &mut bounds_inside[..windows + 1];
        for (inside, bound) in bounds_inside.iter_mut().zip(bounds) {
            *inside = bound.saturating_sub(first).clamp(rows.start as u32, rows.end as u32);
        }
        let (mut bases, mut narrow) = ([0; VECTOR_VALUES / GROUP_ROWS], [0_u8; VECTOR_VALUES / GROUP_ROWS]);
        unpack(cpu, self.bases, self.base_width, 0, &mut narrow[..groups]);
        let mut line = self.anchor;
        for (base, packed) in bases[..groups].iter_mut().zip(narrow) {
            *base = line.wrapping_add(packed.into());
            line = line.wrapping_add(self.slope);
        }
        let mut sums = [0; VECTOR_VALUES / LONG_ROWS];
        let sums = &mut sums[..windows];
        let deltas =
            DeltaGroups { packed: self.packed, width: self.width, bases: &bases[..groups], step: self.step };
        sum_deltas(cpu, deltas, bounds_inside, sums);
        for ((sum, pair), out) in sums.iter_mut().zip(bounds_inside.windows(2)).zip(out) {
            let window = pair[0] as usize..pair[1] as usize;
            if !self.patches.is_empty() {
                *sum = sum.wrapping_add(self.sum_patches(window.clone())?);
            }
            *out += reference.sum(window.len(), u128::from(*sum & ((1 << SUM_BITS) - 1)));
        }
        Ok(true)
    }

    /// The sum that patches add to rows: a patch counts for its row and for those after it in its group.
    fn sum_patches(&self, rows: Range<usize>) -> Result<u64> {
        let mut sum = 0_u64;
        self.patches.for_each(rows.start / GROUP_ROWS * GROUP_ROWS..rows.end, |row, amount| {
            if row.is_multiple_of(GROUP_ROWS) {
                return;
            }
            let end = rows.end.min(row.next_multiple_of(GROUP_ROWS));
            let count = end.saturating_sub(row.max(rows.start)) as u64;
            sum = sum.wrapping_add(amount.wrapping_mul(count));
        })?;
        Ok(sum)
    }

    /// The sum of the packed differences of `count` rows from `start` on, which begins a group, but for the
    /// first: a group's first row is its base, its difference and patch count for nothing.
    fn sum_differences<T: Narrow>(&self, cpu: CpuFeatures, start: usize, count: usize) -> u64 {
        let mut differences = [T::default(); GROUP_ROWS];
        let differences = &mut differences[..count];
        unpack(cpu, self.packed, self.width, start, differences);
        differences[1..].iter().fold(0, |sum: u64, difference| sum.wrapping_add(difference.widen()))
    }

    pub(super) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<u64> {
        debug_assert!(row < self.rows);
        let group = row / GROUP_ROWS;
        let start = group * GROUP_ROWS;
        let count = row + 1 - start;
        let rise = match self.width {
            0 => 0,
            1..=8 => self.sum_differences::<u8>(cpu, start, count),
            9..=16 => self.sum_differences::<u16>(cpu, start, count),
            _ => self.sum_differences::<u64>(cpu, start, count),
        };
        let line = self.base(group).wrapping_add(self.step.wrapping_mul((row - start) as u64));
        let mut offset = line.wrapping_add(rise);
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

/// Appends deltas; `patched` holds the differences from `step`. `bases` fit the line's width.
pub(super) fn push_delta(
    step: i64,
    line: BaseLine,
    bases: &[u64],
    patched: &PatchedResiduals<'_>,
    out: &mut Vec<u8>,
) {
    let (step_width, slope_width) = (signed_width(step), signed_width(line.slope));
    let anchor_width = signed_width(line.anchor);
    out.extend_from_slice(&[
        patched.width as u8,
        (step_width | slope_width << 4) as u8,
        anchor_width as u8,
        line.width as u8,
        patched.patch_count() as u8,
    ]);
    push(out, step as u64, step_width);
    push(out, line.slope as u64, slope_width);
    push(out, line.anchor as u64, anchor_width);
    pack(bases, line.width, out);
    patched.push(out);
}
