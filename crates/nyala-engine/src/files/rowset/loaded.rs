//! A block that a cursor has found, ready to be parsed.

use super::block::{BlockError, ColumnBlock, ValuesBlock};
use super::format::BlockRef;
use super::verified::VerifiedBlock;
use nyala_column::IntegerBlock;
use nyala_core::ColumnType;
use std::sync::Arc;

/// A column's block of a group.
#[derive(Clone)]
pub(crate) struct LoadedBlock {
    pub(crate) place: BlockRef,
    pub(super) column_type: ColumnType,
    pub(super) rows: u32,
    pub(super) block: Arc<VerifiedBlock>,
}

impl LoadedBlock {
    pub(super) fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    pub(crate) fn parse(&self) -> std::result::Result<ColumnBlock<'_>, BlockError> {
        self.block.parse(self.column_type, self.rows)
    }

    /// Whether two blocks have the same bytes, and so the same values.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.rows, self.column_type) == (other.rows, other.column_type)
            && self.block.bytes() == other.block.bytes()
    }

    /// The block of a column of integers that all have values.
    pub(crate) fn integers(&self) -> std::result::Result<IntegerBlock<'_>, BlockError> {
        match self.parse()? {
            ColumnBlock { validity: None, values: ValuesBlock::Integers(block) } => Ok(block),
            _ => Err(BlockError("a column without gaps has some")),
        }
    }
}
