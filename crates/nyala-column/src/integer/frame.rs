//! Frame: `offset(i) = anchor + slope · i + packed(i) + patch(i)`.
//!
//! One encoding for what are often three: frame of reference (slope 0), linear (width 0, no residual at all)
//! with exceptions (patches), and a regular clock with jitter (slope and narrow residuals). Anchor and slope are
//! relative to the vector's minimum and wrap, so a falling line or an outlier below the frame needs no special case.
//!
//! Bytes: `width`, `slope bytes | anchor bytes << 4`, `patch count`, slope, anchor, packed residuals, patches.

use std::ops::Range;

use super::patches::Patches;
use super::plan::PatchedResiduals;
use crate::cpu::CpuFeatures;
use crate::error::{Result, ensure};
use crate::kernels::line::add_line;
use crate::kernels::pack::{get, is_storable, packed_bytes, unpack};
use crate::little_endian::{Reader, push, signed_width};
use crate::narrow::{Narrow, Offsets};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    width: u32,
    slope: u64,
    anchor: u64,
    packed: &'a [u8],
    patches: Patches<'a>,
}

impl<'a> Frame<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let width = u32::from(reader.u8()?);
        ensure(is_storable(width), "frame width not in use")?;
        let widths = reader.u8()?;
        let patch_count = reader.u8()? as usize;
        let slope = reader.signed((widths & 0xf) as usize)? as u64;
        let anchor = reader.signed((widths >> 4) as usize)? as u64;
        let packed = reader.take(packed_bytes(rows, width))?;
        let patches = Patches::parse(&mut reader, patch_count, rows)?;
        ensure(reader.rest().is_empty(), "bytes after the frame")?;
        Ok(Self { width, slope, anchor, packed, patches })
    }

    pub(super) fn decode<T: Narrow>(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        let start = rows.start & !63;
        let slice = &mut out[start..rows.end];
        unpack(cpu, self.packed, self.width, start, slice);
        if self.slope != 0 || self.anchor != 0 {
            let first = self.anchor.wrapping_add(self.slope.wrapping_mul(start as u64));
            add_line(cpu, slice, T::truncate(first), T::truncate(self.slope));
        }
        if self.patches.is_empty() {
            return Ok(());
        }
        self.patches.add_to(cpu, rows, 0, out)
    }

    pub(super) fn get(&self, row: usize) -> Result<u64> {
        let line = self.anchor.wrapping_add(self.slope.wrapping_mul(row as u64));
        let mut offset = line.wrapping_add(get(self.packed, self.width, row));
        self.patches.for_each(row..row + 1, |_, amount| offset = offset.wrapping_add(amount))?;
        Ok(offset)
    }

    pub(super) fn line(&self, rows: Range<usize>) -> Option<(u64, u64)> {
        if self.width != 0 {
            return None;
        }
        let mut patched = false;
        self.patches.for_each(rows, |_, _| patched = true).ok()?;
        (!patched).then_some((self.anchor, self.slope))
    }
}

/// Appends a frame.
pub(super) fn push_frame((slope, anchor): (i64, i64), patched: &PatchedResiduals<'_>, out: &mut Vec<u8>) {
    let (slope_width, anchor_width) = (signed_width(slope), signed_width(anchor));
    let widths = (slope_width | anchor_width << 4) as u8;
    out.extend_from_slice(&[patched.width as u8, widths, patched.patch_count() as u8]);
    push(out, slope as u64, slope_width);
    push(out, anchor as u64, anchor_width);
    patched.push(out);
}
