//! A nested vector: integers inside another vector, such as the integers of decimal floats.
//!
//! Bytes: encoding tag, `minimum bytes | range bytes << 4`, minimum, range, then the vector to the end.

use std::ops::Range;

use super::encode::encode_vector;
use super::scratch::IntegerScratch;
use super::vector::Vector;
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
use crate::kernels::line::write_values;
use crate::little_endian::{Reader, push, signed_width, unsigned_width};
use crate::narrow::{FrameOfReference, Offsets, narrowed, with_narrow};
use crate::preference::Preference;

/// A parsed nested vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NestedVector<'a> {
    pub(crate) reference: FrameOfReference,
    /// No true offset is larger.
    pub(crate) largest: u64,
    pub(crate) vector: Vector<'a>,
}

impl<'a> NestedVector<'a> {
    pub(crate) fn parse(rows: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (tag, widths) = (reader.u8()?, reader.u8()?);
        let min = reader.signed((widths & 0xf) as usize)?;
        let range = reader.unsigned((widths >> 4) as usize)?;
        ensure(min.checked_add_unsigned(range).is_some(), "nested maximum beyond the integers")?;
        let vector = Vector::parse(tag, rows, reader.rest())?;
        let reference = FrameOfReference { min, divisor: vector.divisor };
        Ok(Self { reference, largest: range / vector.divisor, vector })
    }

    /// Decodes `rows` to the same rows of `out`.
    pub(crate) fn decode(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut [i64; VECTOR_VALUES],
    ) -> Result<()> {
        with_narrow!(self.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            self.vector.decode(cpu, rows.clone(), &mut offsets)?;
            write_values(cpu, &offsets[rows.clone()], self.reference, &mut out[rows]);
        });
        Ok(())
    }

    pub(crate) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<i64> {
        Ok(self.reference.value(narrowed(self.largest, self.vector.get(cpu, row)?)))
    }
}

/// Appends `values` (1..=1024) as a nested vector.
pub(crate) fn push_nested_vector(
    cpu: CpuFeatures,
    values: &[i64],
    preference: Preference,
    scratch: &mut IntegerScratch,
    out: &mut Vec<u8>,
) {
    let mut payload = std::mem::take(&mut scratch.inner);
    payload.clear();
    let encoded = encode_vector(cpu, values, preference, scratch, &mut payload);
    let (min, range) = (encoded.profile.min, encoded.profile.range());
    let (min_width, range_width) = (signed_width(min), unsigned_width(range));
    out.extend_from_slice(&[encoded.tag, (min_width | range_width << 4) as u8]);
    push(out, min as u64, min_width);
    push(out, range, range_width);
    out.extend_from_slice(&payload);
    scratch.inner = payload;
}
