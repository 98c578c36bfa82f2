//! A block as the cache keeps it: verified bytes, and what parsing them found out.
//!
//! Checksum and structure are checked once, when a block is read from its file. What that finds out is kept
//! beside the bytes, so that the block of a cache hit is at hand without parsing.

use super::block::{BlockError, ColumnBlock, Layout, ValuesBlock};
use super::format::GroupRuns;
use nyala_column::{FloatLayout, IntegerBlock, IntegerLayout};
use nyala_core::ColumnType;

type Result<T> = std::result::Result<T, BlockError>;

/// Verified bytes.
pub(crate) struct VerifiedBlock {
    bytes: Vec<u8>,
    found: Found,
}

enum Found {
    /// An index page; or a column's block that is parsed at each use, because cells are missing or because
    /// its values are of another kind.
    Nothing,
    Integers(IntegerLayout),
    Unsigned(IntegerLayout),
    Floats(FloatLayout),
    Runs(GroupRuns),
}

/// Where the values of a block without cell states begin.
const VALUES_AT: usize = 4;

impl VerifiedBlock {
    /// Bytes that their user looks into.
    pub(crate) fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, found: Found::Nothing }
    }

    /// The block of a column.
    pub(crate) fn column(bytes: Vec<u8>, column_type: ColumnType, rows: u32) -> Result<Self> {
        let found = match ColumnBlock::parse(&bytes, column_type, rows)? {
            ColumnBlock { states: Some(_), .. } => Found::Nothing,
            ColumnBlock { values: ValuesBlock::Integers(block), .. } => Found::Integers(block.layout()),
            ColumnBlock { values: ValuesBlock::Unsigned(block), .. } => Found::Unsigned(block.layout()),
            ColumnBlock { values: ValuesBlock::Floats(block), .. } => Found::Floats(block.layout()),
            _ => Found::Nothing,
        };
        Ok(Self { bytes, found })
    }

    /// The block that says which rows of a group belong to which series.
    pub(crate) fn runs(bytes: Vec<u8>) -> Result<Self> {
        let short = || BlockError("a directory is too short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (series, ends) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let integers = |bytes| -> Result<Vec<u32>> {
            let block = IntegerBlock::parse(bytes)?;
            let mut values = Vec::new();
            block.decode_range(0..block.len(), &mut values)?;
            Ok(values.into_iter().map(|value| value as u32).collect())
        };
        let runs = GroupRuns { series: integers(series)?, ends: integers(ends)? };
        Ok(Self { bytes: Vec::new(), found: Found::Runs(runs) })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes held, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let runs = match &self.found {
            Found::Runs(runs) => (runs.series.len() + runs.ends.len()) * size_of::<u32>(),
            _ => 0,
        };
        (self.bytes.len() + runs) as u64
    }

    /// Which rows belong to which series; `None` of bytes that were read as another kind of block.
    pub(crate) fn group_runs(&self) -> Option<&GroupRuns> {
        match &self.found {
            Found::Runs(runs) => Some(runs),
            _ => None,
        }
    }

    /// The column of a block made by [`VerifiedBlock::column`].
    pub(crate) fn parse(&self, column_type: ColumnType, rows: u32) -> Result<ColumnBlock<'_>> {
        let values = match (&self.found, Layout::of(column_type)) {
            (Found::Integers(layout), Layout::Integers) => {
                ValuesBlock::Integers(layout.attach(self.values()))
            }
            (Found::Unsigned(layout), Layout::Unsigned) => {
                ValuesBlock::Unsigned(layout.attach(self.values()))
            }
            (Found::Floats(layout), Layout::Floats) => ValuesBlock::Floats(layout.attach(self.values())),
            _ => return ColumnBlock::parse(&self.bytes, column_type, rows),
        };
        // Index entries that contradict each other could name one block for groups of different rows.
        if values.has_rows(rows) {
            Ok(ColumnBlock { states: None, values })
        } else {
            Err(BlockError("a block has other rows"))
        }
    }

    fn values(&self) -> &[u8] {
        &self.bytes[VALUES_AT..]
    }
}
