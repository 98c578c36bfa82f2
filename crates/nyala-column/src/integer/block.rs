//! Reading an integer block.

use std::ops::Range;

use super::encoding::Encoding;
use super::vector::{Form, Vector};
use crate::block::{BlockLayout, Number, NumberBlock, ROWS_ONE_BY_ONE};
use crate::directory::{Kind, VECTOR_VALUES};
use crate::error::Result;
use crate::kernels::line::append_values;
use crate::kernels::window::{min_max_windows, sum_narrow, sum_windows};
use crate::level::Level;
use crate::narrow::{Narrow, Offsets, Unit, narrowed, with_narrow};
use crate::part::Part;

/// A block of integers.
pub type IntegerBlock<'a> = NumberBlock<'a, i64>;
/// The layout of a block of integers.
pub type IntegerLayout = BlockLayout<i64>;

/// What the directory says of one vector.
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
            let piece = self.piece(part)?;
            with_narrow!(piece.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum += piece.unit.sum(offsets.len(), sum_narrow(self.level, offsets));
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
            let piece = self.piece(part)?;
            if piece.sum_windows(self.level, windows, out)? {
                return Ok(());
            }
            with_narrow!(piece.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum_windows(self.level, offsets, piece.part.block_rows(), windows, piece.unit, out);
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
            let piece = self.piece(part)?;
            with_narrow!(piece.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                min_max_windows(self.level, offsets, piece.part.block_rows(), windows, piece.unit, out);
            });
            Ok(())
        })
    }

    pub(crate) fn piece(&self, part: Part) -> Result<Piece<'a>> {
        let directory = &self.directory;
        let (tag, payload) = (directory.tag(part.vector), directory.payload(part.vector));
        let vector = Vector::parse(tag, part.all_rows.len(), payload)?;
        let unit = Unit { min: directory.min(part.vector), divisor: vector.divisor };
        Ok(Piece { largest: directory.range(part.vector) / vector.divisor, part, vector, unit })
    }
}

impl Number for i64 {
    const KIND: Kind = Kind::Integer;

    fn check_tag(tag: u8) -> Result<()> {
        Encoding::of(tag).map(drop)
    }

    fn append(block: &IntegerBlock<'_>, part: Part, out: &mut Vec<i64>) -> Result<()> {
        let piece = block.piece(part)?;
        if let Some((first, step)) = piece.line(block.level)? {
            let rows = 0..piece.part.len() as i64;
            out.extend(rows.map(|row| first.wrapping_add(step.wrapping_mul(row))));
            return Ok(());
        }
        with_narrow!(piece.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            let offsets = piece.decode(block.level, &mut offsets)?;
            append_values(block.level, offsets, piece.unit, out);
        });
        Ok(())
    }

    fn append_rows(block: &IntegerBlock<'_>, part: Part, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        let piece = block.piece(part)?;
        let start = piece.part.all_rows.start;
        if rows.len() <= ROWS_ONE_BY_ONE {
            for row in rows {
                out.push(piece.get(block.level, (row - start) as usize)?);
            }
            return Ok(());
        }
        if let Some((first, step)) = piece.line(block.level)? {
            let start = piece.part.block_rows().start;
            out.extend(rows.iter().map(|row| first.wrapping_add(step.wrapping_mul((row - start).into()))));
            return Ok(());
        }
        with_narrow!(piece.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            piece.decode(block.level, &mut offsets)?;
            let value = |row: &u32| piece.unit.value(offsets[(row - start) as usize].widen());
            out.extend(rows.iter().map(value));
        });
        Ok(())
    }

    fn value(block: &IntegerBlock<'_>, part: Part) -> Result<i64> {
        let piece = block.piece(part)?;
        piece.get(block.level, piece.part.rows.start)
    }
}

/// The part of a vector that a call touches, and what decoding it takes.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) part: Part,
    pub(super) vector: Vector<'a>,
    pub(crate) unit: Unit,
    /// No true offset is larger.
    pub(crate) largest: u64,
}

impl Piece<'_> {
    /// Decodes the wanted rows.
    #[inline]
    pub(crate) fn decode<'b, T: Narrow>(&self, level: Level, out: &'b mut Offsets<T>) -> Result<&'b [T]> {
        self.vector.decode(level, self.part.rows.clone(), out)?;
        Ok(&out[self.part.rows.clone()])
    }

    /// Adds the sums of windows where that takes no decoding; false where it does.
    fn sum_windows(&self, level: Level, bounds: &[u32], out: &mut [i128]) -> Result<bool> {
        let Form::Delta(delta) = &self.vector.form else { return Ok(false) };
        let rows = (self.part.all_rows.start, self.part.rows.clone());
        delta.sum_windows(level, rows, bounds, (self.largest, self.unit), out)
    }

    /// The value of one of the vector's rows.
    pub(super) fn get(&self, level: Level, row: usize) -> Result<i64> {
        Ok(self.unit.value(narrowed(self.largest, self.vector.get(level, row)?)))
    }

    /// `(first value, step)` where the wanted rows lie on a line.
    pub(super) fn line(&self, level: Level) -> Result<Option<(i64, i64)>> {
        let (start, end) = (self.part.rows.start as u64, self.part.rows.end as u64);
        if self.part.len() == 1 {
            return Ok(Some((self.get(level, self.part.rows.start)?, 0)));
        }
        let Some((anchor, step)) = self.vector.line(self.part.rows.clone()) else { return Ok(None) };
        let offset = |row: u64| anchor.wrapping_add(step.wrapping_mul(row));
        // Always so in a valid vector; a line that leaves the range wraps when decoded, and is none.
        let inside = offset(start) <= self.largest && offset(end - 1) <= self.largest;
        let climb = u128::from(step.min(step.wrapping_neg())) * u128::from(end - 1 - start);
        let line = (self.unit.value(offset(start)), self.unit.divisor.wrapping_mul(step) as i64);
        Ok((inside && climb <= u128::from(self.largest)).then_some(line))
    }
}
