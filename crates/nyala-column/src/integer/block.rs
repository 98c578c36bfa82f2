//! Reading an integer block.

use std::ops::Range;

use super::encoding::Encoding;
use super::vector::{Form, Vector};
use crate::directory::{Directory, Kind, Layout, VECTOR_VALUES};
use crate::error::Result;
use crate::kernels::line::append_values;
use crate::kernels::window::{min_max_windows, sum_narrow, sum_windows};
use crate::level::Level;
use crate::narrow::{Narrow, Offsets, Unit, narrowed, with_narrow};
use crate::part::Part;
use crate::words::append_as;

/// A parsed integer block: borrowed bytes, nothing decoded yet.
///
/// Rows are counted from 0 in the block. Reading a range beyond the block, or falling bounds, is a caller's bug
/// and panics; bytes that contradict themselves are [`CorruptBlock`](crate::CorruptBlock).
#[derive(Debug, Clone, Copy)]
pub struct IntegerBlock<'a> {
    pub(crate) directory: Directory<'a>,
    pub(crate) level: Level,
}

/// What [`IntegerBlock::parse`] found out, without the bytes: kept beside them, it spares parsing them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerLayout(Layout);

impl IntegerLayout {
    /// The block of the bytes that the layout came from. With other bytes reading panics or gives nonsense.
    ///
    /// # Panics
    /// If the bytes are not as many.
    #[inline]
    pub fn attach(self, block: &[u8]) -> IntegerBlock<'_> {
        IntegerBlock { directory: Directory::attach(self.0, block), level: Level::best() }
    }
}

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

impl<'a> IntegerBlock<'a> {
    /// Checks header and directory; each vector's own bytes are checked when they are read.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        let directory = Directory::parse(block, Kind::Integer)?;
        for vector in 0..directory.vector_count() {
            Encoding::of(directory.tag(vector))?;
        }
        Ok(Self { directory, level: Level::best() })
    }

    /// What parsing found out, to be kept beside the bytes.
    pub fn layout(&self) -> IntegerLayout {
        IntegerLayout(self.directory.layout())
    }

    /// Reads with the instructions of `level`.
    pub fn with_level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Values in the block.
    pub fn len(&self) -> u32 {
        self.directory.count()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

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

    /// Appends the values of `rows`.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut Vec<i64>) -> Result<()> {
        self.directory.check_rows(&rows);
        out.reserve(rows.len());
        for part in self.directory.parts(rows) {
            let piece = self.piece(part)?;
            if let Some((first, step)) = piece.line(self.level)? {
                let rows = 0..piece.part.len() as i64;
                out.extend(rows.map(|row| first.wrapping_add(step.wrapping_mul(row))));
                continue;
            }
            with_narrow!(piece.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                append_values(self.level, offsets, piece.unit, out);
            });
        }
        Ok(())
    }

    /// Appends the values of `rows` by their bits.
    pub fn decode_words(&self, rows: Range<u32>, out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.decode_range(rows, out))
    }

    /// The value of one row.
    pub fn value_at(&self, row: u32) -> Result<i64> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        let piece = self.piece(self.directory.part(self.directory.vector_of(row), &(row..row + 1)))?;
        piece.get(self.level, piece.part.rows.start)
    }

    /// Appends the values of the rising `rows`: what first and last of windows are.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        debug_assert!(rows.is_sorted(), "rows must not fall");
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let mut rows = rows;
        out.reserve(rows.len());
        for part in self.directory.parts(*first..*last + 1) {
            let piece = self.piece(part)?;
            let start = piece.part.all_rows.start;
            let here;
            (here, rows) = rows.split_at(rows.partition_point(|row| *row < piece.part.all_rows.end));
            // A row alone costs up to a group of 128: from a few rows on, decoding all between is cheaper.
            if here.len() <= 4 {
                for row in here {
                    out.push(piece.get(self.level, (row - start) as usize)?);
                }
                continue;
            }
            if let Some((first, step)) = piece.line(self.level)? {
                let start = piece.part.block_rows().start;
                out.extend(
                    here.iter().map(|row| first.wrapping_add(step.wrapping_mul((row - start).into()))),
                );
                continue;
            }
            with_narrow!(piece.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                piece.decode(self.level, &mut offsets)?;
                let value = |row: &u32| piece.unit.value(offsets[(row - start) as usize].widen());
                out.extend(here.iter().map(value));
            });
        }
        Ok(())
    }

    /// The same by their bits.
    pub fn gather_words(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.gather(rows, out))
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
