//! Reading an integer block.

use std::ops::Range;

use super::vector::{Encoding, Offsets, Vector};
use crate::directory::{Directory, Kind, VECTOR_VALUES};
use crate::error::Result;
use crate::kernels::line::append_values;
use crate::kernels::window::{min_max_narrow, min_max_windows, sum_narrow, sum_windows};
use crate::level::Level;
use crate::narrow::{Narrow, narrowed, with_narrow};
use crate::part::Part;

/// A parsed integer block: borrowed bytes, nothing decoded yet.
///
/// Rows are counted from 0 in the block. Reading a range beyond the block, or falling bounds, is a caller's bug
/// and panics; bytes that contradict themselves are [`CorruptBlock`](crate::CorruptBlock).
#[derive(Debug, Clone, Copy)]
pub struct IntegerBlock<'a> {
    pub(crate) directory: Directory<'a>,
    pub(crate) level: Level,
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
        for piece in self.pieces(rows) {
            if let Some((first, step)) = piece.line(self.level)? {
                let rows = 0..piece.part.len() as i64;
                out.extend(rows.map(|row| first.wrapping_add(step.wrapping_mul(row))));
                continue;
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                append_values(self.level, offsets, piece.min, out);
            });
        }
        Ok(())
    }

    /// The value of one row.
    pub fn value_at(&self, row: u32) -> Result<i64> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        let vector = self.directory.vector_of(row);
        let row = (row - self.directory.rows(vector).start) as usize;
        let offset = narrowed(self.directory.range(vector), self.vector(vector)?.get(self.level, row)?);
        Ok(self.directory.min(vector).wrapping_add_unsigned(offset))
    }

    /// Appends the values of the rising `rows`: what first and last of windows are.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        debug_assert!(rows.is_sorted(), "rows must not fall");
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let mut rows = rows;
        out.reserve(rows.len());
        for piece in self.pieces(*first..*last + 1) {
            let start = piece.part.all_rows.start;
            let here;
            (here, rows) = rows.split_at(rows.partition_point(|row| *row < piece.part.all_rows.end));
            // A row alone costs up to a group of 128: from a few rows on, decoding all between is cheaper.
            if here.len() <= 4 {
                let vector = piece.vector()?;
                for row in here {
                    let offset = narrowed(piece.range, vector.get(self.level, (row - start) as usize)?);
                    out.push(piece.min.wrapping_add_unsigned(offset));
                }
                continue;
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                piece.decode(self.level, &mut offsets)?;
                let value = |row: &u32| piece.min.wrapping_add_unsigned(offsets[(row - start) as usize].widen());
                out.extend(here.iter().map(value));
            });
        }
        Ok(())
    }

    /// Exact sum of `rows`.
    pub fn sum(&self, rows: Range<u32>) -> Result<i128> {
        let mut sum = 0;
        for piece in self.pieces(rows) {
            if piece.part.is_whole() {
                sum += self.directory.sum(piece.part.vector);
                continue;
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum += i128::from(piece.min) * offsets.len() as i128 + sum_narrow(self.level, offsets) as i128;
            });
        }
        Ok(sum)
    }

    /// Smallest and largest value of `rows`; nothing of no rows.
    pub fn min_max(&self, rows: Range<u32>) -> Result<Option<(i64, i64)>> {
        if rows.is_empty() {
            self.directory.check_rows(&rows);
            return Ok(None);
        }
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for piece in self.pieces(rows) {
            if piece.part.is_whole() {
                (min, max) = (min.min(piece.min), max.max(self.directory.max(piece.part.vector)));
                continue;
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let (least, most) = min_max_narrow(self.level, piece.decode(self.level, &mut offsets)?);
                min = min.min(piece.min.wrapping_add_unsigned(least.widen()));
                max = max.max(piece.min.wrapping_add_unsigned(most.widen()));
            });
        }
        Ok(Some((min, max)))
    }

    /// Adds the sum of rows `bounds[i]..bounds[i + 1]` to `out[i]`.
    pub fn sum_windows(&self, bounds: &[u32], out: &mut [i128]) -> Result<()> {
        self.directory.for_each_part_of_windows(bounds, out, |part, windows, out| {
            let piece = self.piece(part);
            if let [out] = out
                && piece.part.is_whole()
            {
                *out += self.directory.sum(piece.part.vector);
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum_windows(self.level, offsets, piece.part.block_rows(), windows, piece.min, out);
            });
            Ok(())
        })
    }

    /// Widens `out[i]` (start with `(i64::MAX, i64::MIN)`) by rows `bounds[i]..bounds[i + 1]`.
    pub fn min_max_windows(&self, bounds: &[u32], out: &mut [(i64, i64)]) -> Result<()> {
        self.directory.for_each_part_of_windows(bounds, out, |part, windows, out| {
            let piece = self.piece(part);
            if let [(min, max)] = out
                && piece.part.is_whole()
            {
                (*min, *max) = ((*min).min(piece.min), (*max).max(self.directory.max(piece.part.vector)));
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                min_max_windows(self.level, offsets, piece.part.block_rows(), windows, piece.min, out);
            });
            Ok(())
        })
    }

    fn vector(&self, vector: u32) -> Result<Vector<'a>> {
        let rows = self.directory.rows(vector);
        Vector::parse(self.directory.tag(vector), rows.len(), self.directory.payload(vector))
    }

    /// The vectors that `rows` touch, in order.
    pub(crate) fn pieces(&self, rows: Range<u32>) -> impl Iterator<Item = Piece<'a>> + use<'a> {
        let block = *self;
        self.directory.parts(rows).map(move |part| block.piece(part))
    }

    pub(super) fn piece(&self, part: Part) -> Piece<'a> {
        let directory = self.directory;
        Piece {
            min: directory.min(part.vector),
            range: directory.range(part.vector),
            tag: directory.tag(part.vector),
            payload: directory.payload(part.vector),
            part,
        }
    }
}

/// The part of a vector that a call touches, and what decoding it takes.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) part: Part,
    pub(crate) min: i64,
    pub(crate) range: u64,
    tag: u8,
    payload: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(super) fn vector(&self) -> Result<Vector<'a>> {
        Vector::parse(self.tag, self.part.all_rows.len(), self.payload)
    }

    /// Decodes the wanted rows.
    #[inline]
    pub(crate) fn decode<'b, T: Narrow>(&self, level: Level, out: &'b mut Offsets<T>) -> Result<&'b [T]> {
        self.vector()?.decode(level, self.part.rows.clone(), out)?;
        Ok(&out[self.part.rows.clone()])
    }

    /// `(first value, step)` where the wanted rows lie on a line.
    pub(super) fn line(&self, level: Level) -> Result<Option<(i64, i64)>> {
        let vector = self.vector()?;
        let (start, end) = (self.part.rows.start as u64, self.part.rows.end as u64);
        if self.part.len() == 1 {
            let offset = narrowed(self.range, vector.get(level, self.part.rows.start)?);
            return Ok(Some((self.min.wrapping_add_unsigned(offset), 0)));
        }
        let Some((anchor, step)) = vector.line(self.part.rows.clone()) else { return Ok(None) };
        let offset = |row: u64| anchor.wrapping_add(step.wrapping_mul(row));
        // Always so in a valid vector; a line that leaves the range wraps when decoded, and is none.
        let inside = offset(start) <= self.range && offset(end - 1) <= self.range;
        let climbs =
            u128::from(step.min(step.wrapping_neg())) * u128::from(end - 1 - start) <= u128::from(self.range);
        let first = self.min.wrapping_add_unsigned(offset(start));
        Ok((inside && climbs).then_some((first, step as i64)))
    }
}
