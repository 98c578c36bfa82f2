//! Reading a float block.

use std::ops::Range;

use super::vector::{FloatEncoding, FloatVector, Floats};
use super::{TAG_ALL_NAN, TAG_SOME_NAN};
use crate::block::{BlockLayout, Number, NumberBlock, ROWS_ONE_BY_ONE};
use crate::directory::{Kind, VECTOR_VALUES};
use crate::error::{Result, ensure};
use crate::kernels::float::from_ordered;
use crate::part::Part;

/// A block of floats.
pub type FloatBlock<'a> = NumberBlock<'a, f64>;
/// The layout of a block of floats.
pub type FloatLayout = BlockLayout<f64>;

/// What the directory says about one vector.
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

impl<'a> NumberBlock<'a, f64> {
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

    fn vector(&self, vector: u32) -> Result<FloatVector<'a>> {
        let rows = self.directory.rows(vector).len();
        FloatVector::parse(self.encoding(vector), rows, self.directory.payload(vector))
    }

    pub(crate) fn decode<'b>(&self, part: &Part, out: &'b mut Floats) -> Result<&'b [f64]> {
        self.vector(part.vector)?.decode(self.cpu, part.rows.clone(), out)?;
        Ok(&out[part.rows.clone()])
    }
}

impl Number for f64 {
    const KIND: Kind = Kind::Float;

    fn check_tag(tag: u8) -> Result<()> {
        FloatEncoding::of(tag & !(TAG_SOME_NAN | TAG_ALL_NAN))?;
        ensure(tag & TAG_ALL_NAN == 0 || tag & TAG_SOME_NAN != 0, "all NaN but not some")
    }

    fn append(block: &FloatBlock<'_>, part: Part, out: &mut Vec<f64>) -> Result<()> {
        let mut floats = [0.0; VECTOR_VALUES];
        out.extend_from_slice(block.decode(&part, &mut floats)?);
        Ok(())
    }

    fn append_rows(block: &FloatBlock<'_>, part: Part, rows: &[u32], out: &mut Vec<f64>) -> Result<()> {
        let start = part.all_rows.start;
        if rows.len() <= ROWS_ONE_BY_ONE {
            let vector = block.vector(part.vector)?;
            for row in rows {
                out.push(vector.get(block.cpu, (row - start) as usize)?);
            }
            return Ok(());
        }
        let mut floats = [0.0; VECTOR_VALUES];
        block.decode(&part, &mut floats)?;
        out.extend(rows.iter().map(|row| floats[(row - start) as usize]));
        Ok(())
    }

    fn value(block: &FloatBlock<'_>, part: Part) -> Result<f64> {
        block.vector(part.vector)?.get(block.cpu, part.rows.start)
    }
}
