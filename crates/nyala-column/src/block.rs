//! The common part of integer blocks and float blocks: a directory of vectors, and walks over the vectors that some
//! rows touch. [`Number`] says how one vector is read.

use std::marker::PhantomData;
use std::ops::Range;

use crate::casts::{Word, append_as};
use crate::cpu::CpuFeatures;
use crate::directory::{Directory, Kind, Layout};
use crate::error::Result;
use crate::part::Part;

/// A parsed block of numbers: borrowed bytes, nothing decoded yet.
///
/// Rows are counted from 0 in the block. Reading a range beyond the block, or falling bounds, is a caller's bug
/// and panics; bytes that contradict themselves are [`CorruptBlock`](crate::CorruptBlock).
#[derive(Debug, Clone, Copy)]
pub struct NumberBlock<'a, T> {
    pub(crate) directory: Directory<'a>,
    pub(crate) cpu: CpuFeatures,
    numbers: PhantomData<T>,
}

/// The result of parsing a block, without its bytes. A caller that keeps it beside the bytes need not parse them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLayout<T>(Layout, PhantomData<T>);

/// A type of numbers that blocks hold in vectors.
pub trait Number: Word {
    /// The kind of its blocks.
    const KIND: Kind;

    /// Fails if no encoding has this tag.
    fn check_tag(tag: u8) -> Result<()>;

    /// Appends the values of a part of a vector.
    fn append(block: &NumberBlock<'_, Self>, part: Part, out: &mut Vec<Self>) -> Result<()>;

    /// Appends the values of some rows of the block. They rise, and all of them are in the part.
    fn append_rows(
        block: &NumberBlock<'_, Self>,
        part: Part,
        rows: &[u32],
        out: &mut Vec<Self>,
    ) -> Result<()>;

    /// The value of a part that is one row.
    fn value(block: &NumberBlock<'_, Self>, part: Part) -> Result<Self>;
}

/// Up to this many rows of a vector are read one by one. A row alone costs up to a group of 128: for more rows it is
/// cheaper to decode all between them.
pub(crate) const ROWS_ONE_BY_ONE: usize = 4;

impl<T> BlockLayout<T> {
    /// The block of the bytes that the layout came from. With other bytes reading panics or gives nonsense.
    ///
    /// # Panics
    /// If the bytes are not as many.
    #[inline]
    pub fn attach(self, block: &[u8]) -> NumberBlock<'_, T> {
        let directory = Directory::attach(self.0, block);
        NumberBlock { directory, cpu: CpuFeatures::best(), numbers: PhantomData }
    }
}

impl<'a, T: Number> NumberBlock<'a, T> {
    /// Checks header and directory; each vector's own bytes are checked when they are read.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        let directory = Directory::parse(block, T::KIND)?;
        for vector in 0..directory.vector_count() {
            T::check_tag(directory.tag(vector))?;
        }
        Ok(Self { directory, cpu: CpuFeatures::best(), numbers: PhantomData })
    }

    /// The result of parsing, to be kept beside the bytes.
    pub fn layout(&self) -> BlockLayout<T> {
        BlockLayout(self.directory.layout, PhantomData)
    }

    /// Reads with the instructions of `cpu`.
    pub fn with_cpu_features(self, cpu: CpuFeatures) -> Self {
        Self { cpu, ..self }
    }

    /// Values in the block.
    pub fn len(&self) -> u32 {
        self.directory.count()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the values of `rows`.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut Vec<T>) -> Result<()> {
        self.directory.check_rows(&rows);
        out.reserve(rows.len());
        for part in self.directory.parts(rows) {
            T::append(self, part, out)?;
        }
        Ok(())
    }

    /// Appends the values of `rows` by their bits.
    pub fn decode_words(&self, rows: Range<u32>, out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.decode_range(rows, out))
    }

    /// The value of one row.
    pub fn value_at(&self, row: u32) -> Result<T> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        T::value(self, self.directory.part(self.directory.vector_of(row), &(row..row + 1)))
    }

    /// Appends the values of the rising `rows`: for example the first or the last of each window.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<T>) -> Result<()> {
        debug_assert!(rows.is_sorted(), "rows must not fall");
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let mut rows = rows;
        out.reserve(rows.len());
        for part in self.directory.parts(*first..*last + 1) {
            let here;
            (here, rows) = rows.split_at(rows.partition_point(|row| *row < part.all_rows.end));
            T::append_rows(self, part, here, out)?;
        }
        Ok(())
    }

    /// The same by their bits.
    pub fn gather_words(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<()> {
        append_as(out, |out| self.gather(rows, out))
    }
}
