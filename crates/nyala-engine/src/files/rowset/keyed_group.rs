//! One group of a rowset of a table with any other key. Where its rows need not be merged with others, only the columns that
//! are wanted are decoded, and of them only the rows that conditions leave.

use super::block::{BlockError, ColumnBlock, ValuesBlock};
use super::format::BlockRef;
use super::group_blocks::{GroupBlocks, Reason};
use super::keyed_page::KeyedPage;
use super::reader::Rowset;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, Column};
use crate::rows::key;
use crate::rows::merge::DELETED;
use nyala_core::{ColumnType, Error, Result};
use std::ops::Range;

/// The columns of a group, by their places in the projection.
pub(crate) struct KeyedGroup<'a> {
    rowset: &'a Rowset,
    blocks: GroupBlocks<'a>,
    directory: BlockRef,
    /// Where the columns are; the markers come last.
    places: Vec<(BlockRef, ColumnType)>,
    key_types: &'a [ColumnType],
    rows: u32,
}

impl<'a> KeyedGroup<'a> {
    /// A group of a page, with the places of the columns that are wanted, and at the end of the markers.
    pub(super) fn new(
        rowset: &'a Rowset,
        (page, group): (&KeyedPage<'_>, usize),
        places: Vec<(BlockRef, ColumnType)>,
        key_types: &'a [ColumnType],
        reason: Reason,
    ) -> Result<Self> {
        let entry = page.entry(group);
        let (directory, rows) = (entry.directory, entry.rows);
        let wanted = places.iter().map(|(place, _)| *place);
        let blocks = GroupBlocks::new(rowset, entry, page.blocks(group), wanted, reason)?;
        Ok(Self { rowset, blocks, directory, places, key_types, rows })
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Appends all keys, encoded.
    pub(crate) fn keys(&self, keys: &mut ByteVec) -> Result<()> {
        keys.ends.reserve(self.rows as usize);
        self.each_key(0..self.rows, |key| keys.push(key))
    }

    /// Shows the keys of some rows, encoded.
    pub(crate) fn each_key(&self, rows: impl Iterator<Item = u32>, mut see: impl FnMut(&[u8])) -> Result<()> {
        let mut is_sound = true;
        self.blocks.keys().each(rows, |key| match is_sound && key::is_whole(key, self.key_types) {
            true => see(key),
            false => is_sound = false,
        });
        match is_sound {
            true => Ok(()),
            false => Err(self.rowset.corrupt(self.directory, &Error::invalid("a key of other columns"))),
        }
    }

    /// Appends the markers of all rows.
    pub(crate) fn markers(&self, markers: &mut Column) -> Result<()> {
        self.decode(self.places.len() - 1, 0..self.rows, markers)
    }

    /// Whether some of its rows say that a row is deleted.
    pub(crate) fn has_deletes(&self) -> Result<bool> {
        let (place, column_type) = self.places[self.places.len() - 1];
        if place.length == 0 {
            return Ok(false);
        }
        self.blocks.read(place, column_type, |block| match &block.values {
            ValuesBlock::Integers(markers) => {
                Ok(markers.vectors().any(|vector| vector.max >= i64::from(DELETED)))
            }
            _ => Err(BlockError("markers that are no integers")),
        })
    }

    /// Appends rows of a column.
    pub(crate) fn decode(&self, column: usize, rows: Range<u32>, values: &mut Column) -> Result<()> {
        self.read(column, rows.len(), values, |block, values| block.decode(rows, values))
    }

    /// Appends some rising rows of a column.
    pub(crate) fn gather(&self, column: usize, rows: &[u32], values: &mut Column) -> Result<()> {
        self.read(column, rows.len(), values, |block, values| block.gather(rows, values))
    }

    fn read(
        &self,
        column: usize,
        rows: usize,
        values: &mut Column,
        read: impl FnOnce(ColumnBlock<'_>, &mut Column) -> std::result::Result<(), BlockError>,
    ) -> Result<()> {
        let (place, column_type) = self.places[column];
        if place.length == 0 {
            values.push_state(ABSENT, rows);
            return Ok(());
        }
        self.blocks.read(place, column_type, |block| read(block, values))
    }
}
