//! Reading an integer block.

use std::ops::Range;

use super::encoding::Encoding;
use super::vector::{Form, Vector};
use crate::block::{BlockLayout, Number, NumberBlock, ROWS_ONE_BY_ONE};
use crate::cpu::CpuFeatures;
use crate::directory::{Kind, VECTOR_VALUES};
use crate::error::Result;
use crate::kernels::line::append_values;
use crate::kernels::window::{min_max_windows, sum_narrow, sum_windows};
use crate::narrow::{FrameOfReference, Narrow, Offsets, narrowed, with_narrow};
use crate::part::Part;

/// A block of integers.
pub type IntegerBlock<'a> = NumberBlock<'a, i64>;
/// The layout of a block of integers.
pub type IntegerLayout = BlockLayout<i64>;

/// What the directory says about one vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSummary {
    /// Rows of the block that it holds.
    pub rows: Range<u32>,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// Exact sum.
    pub sum: i128,
    /// How it is encoded.
    pub encoding: Encoding,
}

impl<'a> NumberBlock<'a, i64> {
    /// The directory, vector by vector.
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = VectorSummary> + 'a {
        let directory = self.directory;
        (0..directory.vector_count()).map(move |vector| VectorSummary {
            rows: directory.rows(vector),
            min: directory.min(vector),
            max: directory.max(vector),
            sum: directory.sum(vector),
            encoding: Encoding::of(directory.tag(vector)).expect("tags were checked when parsed"),
        })
    }

    /// Exact sum of `rows`.
    pub fn sum(&self, rows: Range<u32>) -> Result<i128> {
        let mut sum = 0;
        for part in self.directory.parts(rows) {
            if part.is_whole() {
                sum += self.directory.sum(part.vector);
                continue;
            }
            let parsed = self.parse_part(part)?;
            with_narrow!(parsed.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = parsed.decode(self.cpu, &mut offsets)?;
                sum += parsed.reference.sum(offsets.len(), sum_narrow(self.cpu, offsets));
            });
        }
        Ok(sum)
    }

    /// Adds the sum of rows `bounds[i]..bounds[i + 1]` to `out[i]`.
    pub fn sum_windows(&self, bounds: &[u32], out: &mut [i128]) -> Result<()> {
        self.directory.for_each_part_of_windows(bounds, out, |part, windows, out| {
            if let [out] = out
                && part.is_whole()
            {
                *out += self.directory.sum(part.vector);
                return Ok(());
            }
            let parsed = self.parse_part(part)?;
            if parsed.sum_windows(self.cpu, windows, out)? {
                return Ok(());
            }
            with_narrow!(parsed.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = parsed.decode(self.cpu, &mut offsets)?;
                sum_windows(self.cpu, offsets, parsed.part.block_rows(), windows, parsed.reference, out);
            });
            Ok(())
        })
    }

    /// Widens `out[i]` (start with `(i64::MAX, i64::MIN)`) by rows `bounds[i]..bounds[i + 1]`. Vectors that the directory
    /// says cannot widen anything are not read.
    pub fn min_max_windows(&self, bounds: &[u32], out: &mut [(i64, i64)]) -> Result<()> {
        self.directory.for_each_part_of_windows(bounds, out, |part, windows, out| {
            let (least, most) = (self.directory.min(part.vector), self.directory.max(part.vector));
            if out.iter().all(|(min, max)| *min <= least && most <= *max) {
                return Ok(());
            }
            if let [(min, max)] = out
                && part.is_whole()
            {
                (*min, *max) = ((*min).min(least), (*max).max(most));
                return Ok(());
            }
            let parsed = self.parse_part(part)?;
            with_narrow!(parsed.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = parsed.decode(self.cpu, &mut offsets)?;
                min_max_windows(self.cpu, offsets, parsed.part.block_rows(), windows, parsed.reference, out);
            });
            Ok(())
        })
    }

    pub(crate) fn parse_part(&self, part: Part) -> Result<ParsedPart<'a>> {
        let directory = &self.directory;
        let (tag, payload) = (directory.tag(part.vector), directory.payload(part.vector));
        let vector = Vector::parse(tag, part.all_rows.len(), payload)?;
        let reference = FrameOfReference { min: directory.min(part.vector), divisor: vector.divisor };
        Ok(ParsedPart { largest: directory.range(part.vector) / vector.divisor, part, vector, reference })
    }
}

impl Number for i64 {
    const KIND: Kind = Kind::Integer;

    fn check_tag(tag: u8) -> Result<()> {
        Encoding::of(tag).map(drop)
    }

    fn append(block: &IntegerBlock<'_>, part: Part, out: &mut Vec<i64>) -> Result<()> {
        let parsed = block.parse_part(part)?;
        if let Some((first, step)) = parsed.line(block.cpu)? {
            let rows = 0..parsed.part.len() as i64;
            out.extend(rows.map(|row| first.wrapping_add(step.wrapping_mul(row))));
            return Ok(());
        }
        with_narrow!(parsed.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            let offsets = parsed.decode(block.cpu, &mut offsets)?;
            append_values(block.cpu, offsets, parsed.reference, out);
        });
        Ok(())
    }

    fn append_rows(block: &IntegerBlock<'_>, part: Part, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        let parsed = block.parse_part(part)?;
        let start = parsed.part.all_rows.start;
        if rows.len() <= ROWS_ONE_BY_ONE {
            for row in rows {
                out.push(parsed.get(block.cpu, (row - start) as usize)?);
            }
            return Ok(());
        }
        if let Some((first, step)) = parsed.line(block.cpu)? {
            let start = parsed.part.block_rows().start;
            out.extend(rows.iter().map(|row| first.wrapping_add(step.wrapping_mul((row - start).into()))));
            return Ok(());
        }
        with_narrow!(parsed.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            parsed.decode(block.cpu, &mut offsets)?;
            let value = |row: &u32| parsed.reference.value(offsets[(row - start) as usize].widen());
            out.extend(rows.iter().map(value));
        });
        Ok(())
    }

    fn value(block: &IntegerBlock<'_>, part: Part) -> Result<i64> {
        let parsed = block.parse_part(part)?;
        parsed.get(block.cpu, parsed.part.rows.start)
    }
}

/// The part of a vector that a call touches, with the vector parsed.
#[derive(Debug)]
pub(crate) struct ParsedPart<'a> {
    pub(crate) part: Part,
    pub(super) vector: Vector<'a>,
    pub(crate) reference: FrameOfReference,
    /// No true offset is larger.
    pub(crate) largest: u64,
}

impl ParsedPart<'_> {
    /// Decodes the wanted rows.
    #[inline]
    pub(crate) fn decode<'b, T: Narrow>(&self, cpu: CpuFeatures, out: &'b mut Offsets<T>) -> Result<&'b [T]> {
        self.vector.decode(cpu, self.part.rows.clone(), out)?;
        Ok(&out[self.part.rows.clone()])
    }

    /// Adds the sums of windows if that is possible without decoding; returns whether it was.
    fn sum_windows(&self, cpu: CpuFeatures, bounds: &[u32], out: &mut [i128]) -> Result<bool> {
        let Form::Delta(delta) = &self.vector.form else { return Ok(false) };
        let rows = (self.part.all_rows.start, self.part.rows.clone());
        delta.sum_windows(cpu, rows, bounds, (self.largest, self.reference), out)
    }

    /// The value of one of the vector's rows.
    pub(super) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<i64> {
        Ok(self.reference.value(narrowed(self.largest, self.vector.get(cpu, row)?)))
    }

    /// `(first value, step)` where the wanted rows lie on a line.
    pub(super) fn line(&self, cpu: CpuFeatures) -> Result<Option<(i64, i64)>> {
        let (start, end) = (self.part.rows.start as u64, self.part.rows.end as u64);
        if self.part.len() == 1 {
            return Ok(Some((self.get(cpu, self.part.rows.start)?, 0)));
        }
        let Some((anchor, step)) = self.vector.line(self.part.rows.clone()) else { return Ok(None) };
        let offset = |row: u64| anchor.wrapping_add(step.wrapping_mul(row));
        // A valid vector never leaves its range. In a corrupt one the line wraps when decoded, so it is not a line.
        let inside = offset(start) <= self.largest && offset(end - 1) <= self.largest;
        let rise = u128::from(step.min(step.wrapping_neg())) * u128::from(end - 1 - start);
        let line = (self.reference.value(offset(start)), self.reference.divisor.wrapping_mul(step) as i64);
        Ok((inside && rise <= u128::from(self.largest)).then_some(line))
    }
}
