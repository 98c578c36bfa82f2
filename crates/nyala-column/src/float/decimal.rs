//! Decimal: floats that were written with few digits, stored as integers and a power of ten (ALP's idea).
//!
//! `value = integer × 10^factor × 10^−exponent` where that is bit-exact, else `integer ÷ 10^exponent`, which is
//! correctly rounded and so exact for every decimal of up to 15 digits but slower to read. A value that does not come
//! back exactly (more digits, NaN, −0.0) is an exception, stored whole.
//!
//! Bytes: `exponent`, `factor` (255: divide), exception count (u16), packed positions, exceptions (8 bytes
//! each), then the integers as a nested vector (`integer/nested.rs`).

use std::ops::Range;

use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
use crate::integer::NestedVector;
use crate::kernels::float::{Scale, scale_up};
use crate::kernels::pack::{get, pack, packed_bytes};
use crate::little_endian::{Reader, bit_width, load, push};
use crate::narrow::{FrameOfReference, Offsets, with_narrow};

const DIVIDE: u8 = 255;
/// Powers of ten up to here are exact as floats.
pub(super) const EXPONENT_LIMIT: u8 = 22;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
const INVERSE_POWERS: [f64; 23] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15,
    1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22,
];

/// Which power of ten, and how it is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalPowers {
    pub(super) exponent: u8,
    /// Nothing: divide.
    pub(super) factor: Option<u8>,
}

impl DecimalPowers {
    pub(super) fn scale(self) -> Scale {
        match self.factor {
            Some(factor) => Scale::Multiply {
                factor: POWERS[factor as usize],
                fraction: INVERSE_POWERS[self.exponent as usize],
            },
            None => Scale::Divide { divisor: POWERS[self.exponent as usize] },
        }
    }

    /// The two factors that lead from a float to its integer.
    pub(super) fn powers(self) -> (f64, f64) {
        (POWERS[self.exponent as usize], INVERSE_POWERS[self.factor.unwrap_or(0) as usize])
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal<'a> {
    scale: Scale,
    exceptions: Exceptions<'a>,
    integers: NestedVector<'a>,
}

impl<'a> Decimal<'a> {
    pub(super) fn parse(rows: usize, payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let (exponent, factor) = (reader.u8()?, reader.u8()?);
        ensure(exponent <= EXPONENT_LIMIT && (factor <= exponent || factor == DIVIDE), "decimal power")?;
        let decimals = DecimalPowers { exponent, factor: (factor != DIVIDE).then_some(factor) };
        let exceptions = Exceptions::parse(&mut reader, rows, 8)?;
        let integers = NestedVector::parse(rows, reader.rest())?;
        Ok(Self { scale: decimals.scale(), exceptions, integers })
    }

    pub(super) fn decode(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut [f64; VECTOR_VALUES],
    ) -> Result<()> {
        with_narrow!(self.integers.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            self.integers.vector.decode(cpu, rows.clone(), &mut offsets)?;
            scale_up(cpu, &offsets[rows.clone()], self.integers.reference, self.scale, &mut out[rows.clone()]);
        });
        self.exceptions.for_each(rows, |row, bits| out[row] = f64::from_bits(bits))
    }

    pub(super) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<f64> {
        let mut value = [0.0];
        let reference = FrameOfReference { min: self.integers.get(cpu, row)?, divisor: 1 };
        scale_up(cpu, &[0_u64], reference, self.scale, &mut value);
        self.exceptions.for_each(row..row + 1, |_, bits| value[0] = f64::from_bits(bits))?;
        Ok(value[0])
    }
}

/// Appends what precedes the integers.
pub(super) fn push_decimal_start(
    decimals: DecimalPowers,
    positions: &[u16],
    exceptions: &[u64],
    rows: usize,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&[decimals.exponent, decimals.factor.unwrap_or(DIVIDE)]);
    push_exceptions(positions, exceptions, rows, 8, out);
}

/// Values that the encoding cannot represent, stored whole beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exceptions<'a> {
    rows: usize,
    count: usize,
    position_bits: u32,
    positions: &'a [u8],
    value_bytes: usize,
    values: &'a [u8],
}

impl<'a> Exceptions<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>, rows: usize, value_bytes: usize) -> Result<Self> {
        let count = reader.u16()? as usize;
        ensure(count <= rows, "more exceptions than rows")?;
        let position_bits = bit_width(rows.saturating_sub(1) as u64);
        let positions = reader.take(packed_bytes(count, position_bits))?;
        let values = reader.take(count * value_bytes)?;
        Ok(Self { rows, count, position_bits, positions, value_bytes, values })
    }

    fn position(&self, index: usize) -> usize {
        get(self.positions, self.position_bits, index) as usize
    }

    /// Calls `exception(row, value)` for those in `rows`.
    pub(super) fn for_each(&self, rows: Range<usize>, mut exception: impl FnMut(usize, u64)) -> Result<()> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.position(middle) < rows.start { low = middle + 1 } else { high = middle }
        }
        let mut next = rows.start;
        for index in low..self.count {
            let position = self.position(index);
            ensure((next..self.rows).contains(&position), "exception positions do not rise to the last row")?;
            if position >= rows.end {
                break;
            }
            next = position + 1;
            exception(position, load(&self.values[index * self.value_bytes..][..self.value_bytes]));
        }
        Ok(())
    }
}

/// Bytes that `count` exceptions cost.
pub(super) fn exceptions_bytes(count: usize, rows: usize, value_bytes: usize) -> usize {
    2 + packed_bytes(count, bit_width(rows.saturating_sub(1) as u64)) + count * value_bytes
}

/// Appends exceptions.
pub(super) fn push_exceptions(
    positions: &[u16],
    values: &[u64],
    rows: usize,
    value_bytes: usize,
    out: &mut Vec<u8>,
) {
    push(out, positions.len() as u64, 2);
    pack(positions, bit_width(rows.saturating_sub(1) as u64), out);
    values.iter().for_each(|value| push(out, *value, value_bytes));
}
