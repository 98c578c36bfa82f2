//! One float vector: parses its encoded bytes, and decodes them to exactly the floats that were encoded.

use std::ops::Range;

use super::decimal::Decimal;
use super::split::Split;
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::error::{CorruptBlock, Result, ensure};
use crate::integer::NestedVector;
use crate::kernels::float::from_ordered;

/// How a float vector is encoded. The numbers are the tags on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FloatEncoding {
    /// Eight bytes per float.
    Raw = 0,
    /// The bit patterns, mapped to integers in the order of the floats: for constants, runs, few distinct values.
    Ordered = 1,
    /// Integers and a power of ten.
    Decimal = 2,
    /// The upper bits in a dictionary, the lower bits packed.
    Split = 3,
}

impl FloatEncoding {
    /// Its name, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            FloatEncoding::Raw => "raw",
            FloatEncoding::Ordered => "ordered",
            FloatEncoding::Decimal => "decimal",
            FloatEncoding::Split => "split",
        }
    }

    pub(super) fn of(tag: u8) -> Result<Self> {
        Ok(match tag {
            0 => FloatEncoding::Raw,
            1 => FloatEncoding::Ordered,
            2 => FloatEncoding::Decimal,
            3 => FloatEncoding::Split,
            _ => return Err(CorruptBlock::new("unknown float encoding")),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FloatVector<'a> {
    Raw(&'a [u8]),
    Ordered(NestedVector<'a>),
    Decimal(Decimal<'a>),
    Split(Split<'a>),
}

/// Decoded floats by row. Only the requested rows are meaningful.
pub(super) type Floats = [f64; VECTOR_VALUES];

impl<'a> FloatVector<'a> {
    pub(super) fn parse(encoding: FloatEncoding, rows: usize, payload: &'a [u8]) -> Result<Self> {
        Ok(match encoding {
            FloatEncoding::Raw => {
                ensure(payload.len() == rows * 8, "raw floats of another length")?;
                FloatVector::Raw(payload)
            }
            FloatEncoding::Ordered => FloatVector::Ordered(NestedVector::parse(rows, payload)?),
            FloatEncoding::Decimal => FloatVector::Decimal(Decimal::parse(rows, payload)?),
            FloatEncoding::Split => FloatVector::Split(Split::parse(rows, payload)?),
        })
    }

    /// Decodes `rows` to the same rows of `out`; other rows may be overwritten too.
    pub(super) fn decode(&self, cpu: CpuFeatures, rows: Range<usize>, out: &mut Floats) -> Result<()> {
        match self {
            FloatVector::Raw(bytes) => {
                let (floats, _) = bytes[rows.start * 8..rows.end * 8].as_chunks::<8>();
                for (out, bytes) in out[rows].iter_mut().zip(floats) {
                    *out = f64::from_le_bytes(*bytes);
                }
                Ok(())
            }
            FloatVector::Ordered(inner) => {
                let mut ordered = [0; VECTOR_VALUES];
                inner.decode(cpu, rows.clone(), &mut ordered)?;
                for (out, ordered) in out[rows.clone()].iter_mut().zip(&ordered[rows]) {
                    *out = from_ordered(*ordered);
                }
                Ok(())
            }
            FloatVector::Decimal(decimal) => decimal.decode(cpu, rows, out),
            FloatVector::Split(split) => split.decode(cpu, rows, out),
        }
    }

    pub(super) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<f64> {
        match self {
            FloatVector::Raw(bytes) => {
                Ok(f64::from_le_bytes(bytes[row * 8..row * 8 + 8].try_into().expect("eight bytes")))
            }
            FloatVector::Ordered(inner) => Ok(from_ordered(inner.get(cpu, row)?)),
            FloatVector::Decimal(decimal) => decimal.get(cpu, row),
            FloatVector::Split(split) => split.get(row),
        }
    }
}
