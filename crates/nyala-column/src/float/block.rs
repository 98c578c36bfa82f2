//! Reading a float block.

use std::ops::Range;

use super::vector::{FloatEncoding, FloatVector, Floats};
use super::{TAG_ALL_NAN, TAG_SOME_NAN};
use crate::directory::{Directory, Kind, Layout, VECTOR_VALUES};
use crate::error::{Result, ensure};
use crate::kernels::float::from_ordered;
use crate::level::Level;
use crate::part::Part;
use crate::words::append_as;

/// A parsed float block: borrowed bytes, nothing decoded yet.
///
/// Rows are counted from 0 in the block. Reading a range beyond the block, or falling bounds, is a caller's bug
/// and panics; bytes that contradict themselves are [`CorruptBlock`](crate::CorruptBlock).
#[derive(Debug, Clone, Copy)]
pub struct FloatBlock<'a> {
    pub(crate) directory: Directory<'a>,
    pub(crate) level: Level,
}

/// What [`FloatBlock::parse`] found out, without the bytes: kept beside them, it spares parsing them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatLayout(Layout);

impl FloatLayout {
    /// The block of the bytes that the layout came from. With other bytes reading panics or gives nonsense.
    ///
    /// # Panics
    /// If the bytes are not as many.
    #[inline]
    pub fn attach(self, block: &[u8]) -> FloatBlock<'_> {
        FloatBlock { directory: Directory::attach(self.0, block), level: Level::best() }
    }
}

/// What the directory says of one vector.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatVectorSummary {
    /// Rows of the block that it holds.
    pub rows: Range<u32>,
    /// Smallest and largest value that is not NaN.
    pub min_max: Option<(f64, f64)>,
    /// Whether some value is NaN.
    pub has_nan: bool,
    /// How it is encoded.
    pub encoding: FloatEncoding,
}

impl<'a> FloatBlock<'a> {
    /// Checks header and directory; each vector's own bytes are checked when they are read.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        let directory = Directory::parse(block, Kind::Float)?;
        for vector in 0..directory.vector_count() {
            let tag = directory.tag(vector);
            FloatEncoding::of(tag & !(TAG_SOME_NAN | TAG_ALL_NAN))?;
            ensure(tag & TAG_ALL_NAN == 0 || tag & TAG_SOME_NAN != 0, "all NaN but not some")?;
        }
        Ok(Self { directory, level: Level::best() })
    }

    /// What parsing found out, to be kept beside the bytes.
    pub fn layout(&self) -> FloatLayout {
        FloatLayout(self.directory.layout())
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
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = FloatVectorSummary> + 'a {
        let block = *self;
        (0..block.directory.vector_count()).map(move |vector| FloatVectorSummary {
            rows: block.directory.rows(vector),
            min_max: block.extremes(vector),
            has_nan: block.directory.tag(vector) & TAG_SOME_NAN != 0,
            encoding: block.encoding(vector),
        })
    }

    fn encoding(&self, vector: u32) -> FloatEncoding {
        let tag = self.directory.tag(vector) & !(TAG_SOME_NAN | TAG_ALL_NAN);
        FloatEncoding::of(tag).expect("tags were checked when parsed")
    }

    pub(crate) fn has_nan(&self, vector: u32) -> bool {
        self.directory.tag(vector) & TAG_SOME_NAN != 0
    }

    pub(crate) fn extremes(&self, vector: u32) -> Option<(f64, f64)> {
        let is_number = self.directory.tag(vector) & TAG_ALL_NAN == 0;
        is_number
            .then(|| (from_ordered(self.directory.min(vector)), from_ordered(self.directory.max(vector))))
    }

    /// Appends the values of `rows`.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut Vec<f64>) -> Result<()> {
        self.directory.check_rows(&rows);
        out.reserve(rows.len());
        for part in self.directory.parts(rows) {
            let mut floats = [0.0; VECTOR_VALUES];
            out.extend_from_slice(self.decode(&part, &mut floats)?);
        }
        Ok(())
    }

    /// Appends the values of `rows` by their bits.
    pub fn decode_words(&self, rows: Range<u32>, out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.decode_range(rows, out))
    }

    /// The value of one row.
    pub fn value_at(&self, row: u32) -> Result<f64> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        let vector = self.directory.vector_of(row);
        let row = (row - self.directory.rows(vector).start) as usize;
        self.vector(vector)?.get(self.level, row)
    }

    /// Appends the values of the rising `rows`: what first and last of windows are.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<f64>) -> Result<()> {
        debug_assert!(rows.is_sorted(), "rows must not fall");
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let mut rows = rows;
        out.reserve(rows.len());
        for part in self.directory.parts(*first..*last + 1) {
            let start = part.all_rows.start;
            let here;
            (here, rows) = rows.split_at(rows.partition_point(|row| *row < part.all_rows.end));
            // A row alone costs up to a group of 128: from a few rows on, decoding all between is cheaper.
            if here.len() <= 4 {
                let vector = self.vector(part.vector)?;
                for row in here {
                    out.push(vector.get(self.level, (row - start) as usize)?);
                }
                continue;
            }
            let mut floats = [0.0; VECTOR_VALUES];
            self.decode(&part, &mut floats)?;
            out.extend(here.iter().map(|row| floats[(row - start) as usize]));
        }
        Ok(())
    }

    /// The same by their bits.
    pub fn gather_words(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.gather(rows, out))
    }

    fn vector(&self, vector: u32) -> Result<FloatVector<'a>> {
        let rows = self.directory.rows(vector).len();
        FloatVector::parse(self.encoding(vector), rows, self.directory.payload(vector))
    }

    pub(crate) fn decode<'b>(&self, part: &Part, out: &'b mut Floats) -> Result<&'b [f64]> {
        self.vector(part.vector)?.decode(self.level, part.rows.clone(), out)?;
        Ok(&out[part.rows.clone()])
    }
}
