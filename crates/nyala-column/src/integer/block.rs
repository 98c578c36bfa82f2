//! Reading an integer block.

use std::ops::Range;

use super::vector::{Encoding, Offsets, Vector};
use crate::directory::{Directory, Kind, VECTOR_VALUES};
use crate::error::Result;
use crate::kernels::window::{min_max_narrow, min_max_windows, sum_narrow, sum_windows};
use crate::level::Level;
use crate::narrow::{Narrow, with_narrow};

/// A parsed integer block: borrowed bytes, nothing decoded yet.
///
/// Rows are counted from 0 in the block. Reading a range beyond the block, or falling bounds, is a caller's bug
/// and panics; bytes that contradict themselves are [`CorruptBlock`](crate::CorruptBlock).
#[derive(Debug, Clone, Copy)]
pub struct IntegerBlock<'a> {
    pub(super) directory: Directory<'a>,
    pub(super) level: Level,
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
        out.reserve(self.check_rows(&rows));
        self.for_each_vector(rows, |piece| {
            if let Some((first, step)) = piece.line(self.level)? {
                out.extend((0..piece.len() as i64).map(|row| first.wrapping_add(step.wrapping_mul(row))));
                return Ok(());
            }
            let min = piece.min;
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                out.extend(offsets.iter().map(|offset| min.wrapping_add_unsigned(offset.widen())));
            });
            Ok(())
        })
    }

    /// The value of one row.
    pub fn value_at(&self, row: u32) -> Result<i64> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        let vector = self.directory.vector_of(row);
        let row = (row - self.directory.rows(vector).start) as usize;
        let offset = self.vector(vector)?.get(self.level, row)?;
        Ok(self.directory.min(vector).wrapping_add_unsigned(offset))
    }

    /// Exact sum of `rows`.
    pub fn sum(&self, rows: Range<u32>) -> Result<i128> {
        self.check_rows(&rows);
        let mut sum = 0;
        self.for_each_vector(rows, |piece| {
            if piece.is_whole() {
                sum += self.directory.sum(piece.vector);
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum += i128::from(piece.min) * offsets.len() as i128 + sum_narrow(self.level, offsets) as i128;
            });
            Ok(())
        })?;
        Ok(sum)
    }

    /// Smallest and largest value of `rows`; nothing of no rows.
    pub fn min_max(&self, rows: Range<u32>) -> Result<Option<(i64, i64)>> {
        if self.check_rows(&rows) == 0 {
            return Ok(None);
        }
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        self.for_each_vector(rows, |piece| {
            if piece.is_whole() {
                (min, max) = (min.min(piece.min), max.max(self.directory.max(piece.vector)));
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let (least, most) = min_max_narrow(self.level, piece.decode(self.level, &mut offsets)?);
                min = min.min(piece.min.wrapping_add_unsigned(least.widen()));
                max = max.max(piece.min.wrapping_add_unsigned(most.widen()));
            });
            Ok(())
        })?;
        Ok(Some((min, max)))
    }

    /// Adds the sum of rows `bounds[i]..bounds[i + 1]` to `out[i]`.
    pub fn sum_windows(&self, bounds: &[u32], out: &mut [i128]) -> Result<()> {
        self.for_each_vector_of_windows(bounds, out, |piece, windows, out| {
            if let [out] = out
                && piece.is_whole()
            {
                *out += self.directory.sum(piece.vector);
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                sum_windows(self.level, offsets, piece.block_rows(), windows, piece.min, out);
            });
            Ok(())
        })
    }

    /// Widens `out[i]` (start with `(i64::MAX, i64::MIN)`) by rows `bounds[i]..bounds[i + 1]`.
    pub fn min_max_windows(&self, bounds: &[u32], out: &mut [(i64, i64)]) -> Result<()> {
        self.for_each_vector_of_windows(bounds, out, |piece, windows, out| {
            if let [(min, max)] = out
                && piece.is_whole()
            {
                (*min, *max) = ((*min).min(piece.min), (*max).max(self.directory.max(piece.vector)));
                return Ok(());
            }
            with_narrow!(piece.range, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = piece.decode(self.level, &mut offsets)?;
                min_max_windows(self.level, offsets, piece.block_rows(), windows, piece.min, out);
            });
            Ok(())
        })
    }

    pub(super) fn vector(&self, vector: u32) -> Result<Vector<'a>> {
        let rows = self.directory.rows(vector);
        Vector::parse(self.directory.tag(vector), rows.len(), self.directory.payload(vector))
    }

    /// Panics on rows outside the block; answers their number.
    pub(super) fn check_rows(&self, rows: &Range<u32>) -> usize {
        assert!(rows.start <= rows.end && rows.end <= self.len(), "rows {rows:?} of {}", self.len());
        rows.len()
    }

    /// Calls `visit` for each vector that holds some of `rows`.
    pub(super) fn for_each_vector(
        &self,
        rows: Range<u32>,
        mut visit: impl FnMut(Piece<'a>) -> Result<()>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut vector = self.directory.vector_of(rows.start);
        let mut start = rows.start;
        while start < rows.end {
            let piece = self.piece(vector, start..rows.end);
            start = piece.all_rows.end;
            vector += 1;
            visit(piece)?;
        }
        Ok(())
    }

    pub(super) fn piece(&self, vector: u32, rows: Range<u32>) -> Piece<'a> {
        let directory = self.directory;
        let all_rows = directory.rows(vector);
        Piece {
            vector,
            rows: (rows.start.max(all_rows.start) - all_rows.start) as usize
                ..(rows.end.min(all_rows.end) - all_rows.start) as usize,
            all_rows,
            min: directory.min(vector),
            range: directory.range(vector),
            tag: directory.tag(vector),
            payload: directory.payload(vector),
        }
    }

    /// Calls `visit` for each vector with the windows that touch it, and their results.
    fn for_each_vector_of_windows<R>(
        &self,
        bounds: &[u32],
        out: &mut [R],
        mut visit: impl FnMut(Piece<'a>, &[u32], &mut [R]) -> Result<()>,
    ) -> Result<()> {
        assert!(out.len() + 1 == bounds.len() || bounds.is_empty() && out.is_empty(), "a result per window");
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return Ok(()) };
        assert!(bounds.is_sorted(), "bounds must not fall");
        self.check_rows(&(*first..*last));
        let mut window = 0;
        self.for_each_vector(*first..*last, |piece| {
            let rows = piece.block_rows();
            while bounds[window + 1] <= rows.start {
                window += 1;
            }
            let mut end = window + 1;
            while bounds[end] < rows.end {
                end += 1;
            }
            visit(piece, &bounds[window..=end], &mut out[window..end])
        })
    }
}

/// The part of a vector that a call touches.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) vector: u32,
    /// Rows of the vector wanted.
    pub(super) rows: Range<usize>,
    /// Rows of the block that the vector holds.
    pub(super) all_rows: Range<u32>,
    pub(super) min: i64,
    pub(super) range: u64,
    tag: u8,
    payload: &'a [u8],
}

impl<'a> Piece<'a> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.len() == self.all_rows.len()
    }

    /// Rows of the block wanted.
    pub(super) fn block_rows(&self) -> Range<u32> {
        self.all_rows.start + self.rows.start as u32..self.all_rows.start + self.rows.end as u32
    }

    pub(super) fn vector(&self) -> Result<Vector<'a>> {
        Vector::parse(self.tag, self.all_rows.len(), self.payload)
    }

    /// Decodes the wanted rows.
    #[inline]
    pub(super) fn decode<'b, T: Narrow>(&self, level: Level, out: &'b mut Offsets<T>) -> Result<&'b [T]> {
        self.vector()?.decode(level, self.rows.clone(), out)?;
        Ok(&out[self.rows.clone()])
    }

    /// `(first value, step)` where the wanted rows lie on a line.
    pub(super) fn line(&self, level: Level) -> Result<Option<(i64, i64)>> {
        let vector = self.vector()?;
        if self.len() == 1 {
            return Ok(Some((self.min.wrapping_add_unsigned(vector.get(level, self.rows.start)?), 0)));
        }
        let Some((anchor, step)) = vector.line(self.rows.clone()) else { return Ok(None) };
        let first = anchor.wrapping_add(step.wrapping_mul(self.rows.start as u64));
        Ok(Some((self.min.wrapping_add_unsigned(first), step as i64)))
    }
}
