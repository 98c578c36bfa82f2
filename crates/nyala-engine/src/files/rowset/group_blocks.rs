//! The blocks of a group of a table that is not keyed by series. They lie one behind the other and are short, so a group is
//! mostly read, verified and cached as a whole; single blocks are read where few columns of long rows are wanted.

use super::KEYED_COLUMN_BYTES;
use super::block::ColumnBlock;
use super::format::{BlockRef, GroupEntry};
use super::keys::KeyBlock;
use super::reader::{Rowset, Use};
use super::verified::VerifiedBlock;
use nyala_core::{ColumnType, Error, Result};
use std::sync::Arc;

/// Longer groups are not read as a whole, unless they have many columns: their rows are long.
const WHOLE_BYTES_MAX: u64 = 96 << 10;
/// A scan that wants a smaller part of a group's bytes reads only the blocks that it wants.
const WANTED_PART: u64 = 3;

/// Why a group is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// One row is wanted, and others of the group may be later.
    Lookup,
    /// One row is wanted, which is kept by itself: the group is not needed for longer.
    Row,
    /// All rows are wanted.
    Scan,
    /// All rows are wanted for the last time.
    Rewrite,
}

/// The blocks of a group.
pub(crate) struct GroupBlocks<'a> {
    rowset: &'a Rowset,
    entry: GroupEntry,
    source: Source,
}

enum Source {
    /// The keys and all that lies behind them.
    Whole(Arc<VerifiedBlock>),
    /// The keys; the others are read one by one.
    Keys(Arc<VerifiedBlock>),
}

impl<'a> GroupBlocks<'a> {
    /// The blocks of a group: `all` but the keys, of which some are `wanted`.
    pub(crate) fn new(
        rowset: &'a Rowset,
        entry: GroupEntry,
        all: impl Iterator<Item = BlockRef> + Clone,
        wanted: impl Iterator<Item = BlockRef>,
        reason: Reason,
    ) -> Result<Self> {
        let source = match whole_place(rowset, &entry, all.clone()) {
            None => None,
            Some(place) => match (find_whole(rowset, place, reason), reason) {
                (Some(block), _) => Some(block),
                (None, Reason::Scan) if !is_worth(place, wanted) => None,
                (None, _) => read_whole(rowset, &entry, place, all, reason)?,
            },
        };
        let source = match source {
            Some(block) => Source::Whole(block),
            None => Source::Keys(rowset.keys(&entry, Use::Again)?),
        };
        let blocks = Self { rowset, entry, source };
        // Index entries that contradict each other could name one place for two things.
        match blocks.block().as_keys(entry.rows) {
            Some(_) => Ok(blocks),
            None => Err(rowset.corrupt(entry.directory, &Error::invalid("a block of keys that is none"))),
        }
    }

    fn block(&self) -> &VerifiedBlock {
        match &self.source {
            Source::Whole(block) | Source::Keys(block) => block,
        }
    }

    /// The keys.
    pub(crate) fn keys(&self) -> KeyBlock<'_> {
        self.block().as_keys(self.entry.rows).expect("was checked")
    }

    /// Reads from the block of a column.
    pub(crate) fn read<T>(
        &self,
        place: BlockRef,
        column_type: ColumnType,
        read: impl FnOnce(ColumnBlock<'_>) -> std::result::Result<T, super::block::BlockError>,
    ) -> Result<T> {
        let rows = self.entry.rows;
        let outcome = match &self.source {
            Source::Whole(whole) => {
                let bytes = part(whole.bytes(), self.entry.directory, place);
                let bytes = bytes.ok_or_else(|| outside(self.rowset, place))?;
                ColumnBlock::parse(bytes, column_type, rows).and_then(read)
            }
            Source::Keys(_) => {
                let block = self.rowset.column_block(place, column_type, rows, Use::Again)?;
                block.parse(column_type, rows).and_then(read)
            }
        };
        outcome.map_err(|error| self.rowset.corrupt_block(place, error))
    }
}

fn outside(rowset: &Rowset, place: BlockRef) -> Error {
    rowset.corrupt(place, &Error::invalid("a block outside of its group"))
}

/// The bytes of a block in those of its group, which begin with the keys.
fn part(group: &[u8], keys: BlockRef, place: BlockRef) -> Option<&[u8]> {
    let start = usize::try_from(place.offset.checked_sub(keys.offset)?).ok()?;
    group.get(start..start.checked_add(place.length as usize)?)
}

/// Where a group is as a whole, in a form that no block has; nothing if it should not be read like that.
fn whole_place(rowset: &Rowset, entry: &GroupEntry, all: impl Iterator<Item = BlockRef>) -> Option<BlockRef> {
    let keys = entry.directory;
    let (mut end, mut columns) = (keys.end()?, 0);
    for place in all.filter(|place| place.length > 0) {
        columns += 1;
        if place.offset < keys.offset {
            return None;
        }
        end = end.max(place.end()?);
    }
    let length = end - keys.offset;
    // No other block begins there: the block of keys has more bytes.
    let place = BlockRef { offset: keys.offset + 1, length: length as u32, crc: 0 };
    let most = WHOLE_BYTES_MAX.max(columns * KEYED_COLUMN_BYTES as u64);
    (length <= most && end <= rowset.meta.length_bytes).then_some(place)
}

/// A group as a whole, if the cache has it.
fn find_whole(rowset: &Rowset, place: BlockRef, reason: Reason) -> Option<Arc<VerifiedBlock>> {
    match reason {
        Reason::Row => rowset.peek_cached(place),
        _ => rowset.find_cached(place),
    }
}

/// Whether so much of a group is wanted that it should be read as a whole.
fn is_worth(whole: BlockRef, wanted: impl Iterator<Item = BlockRef>) -> bool {
    wanted.map(|place| u64::from(place.length)).sum::<u64>() * WANTED_PART >= u64::from(whole.length)
}

/// Reads a group and verifies each of its blocks. Nothing if one of them is damaged: then the others are still read.
fn read_whole(
    rowset: &Rowset,
    entry: &GroupEntry,
    place: BlockRef,
    all: impl Iterator<Item = BlockRef>,
    reason: Reason,
) -> Result<Option<Arc<VerifiedBlock>>> {
    let keys = entry.directory;
    let bytes = rowset.read_bytes(keys.offset, place.length as usize)?;
    let is_sound =
        |block: BlockRef| part(&bytes, keys, block).is_some_and(|found| crc32fast::hash(found) == block.crc);
    if !all.filter(|block| block.length > 0).chain([keys]).all(is_sound) {
        return Ok(None);
    }
    let block = VerifiedBlock::group(bytes, keys.length as usize, entry.rows);
    let block = block.map_err(|error| rowset.corrupt_block(keys, error))?;
    let use_of = match reason {
        Reason::Row | Reason::Rewrite => Use::Once,
        Reason::Lookup | Reason::Scan => Use::Again,
    };
    Ok(Some(rowset.keep(place, use_of, block)))
}
