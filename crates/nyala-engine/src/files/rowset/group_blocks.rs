//! The blocks of a group of a table that is not keyed by series. They lie one behind the other, so those that are wanted
//! are read at once.

use super::format::{BlockRef, GroupEntry};
use super::reader::{Rowset, Use};
use super::verified::VerifiedBlock;
use nyala_core::{ColumnType, Error, Result};
use std::sync::Arc;

/// Bytes may be read that are not wanted: so many for each one that is.
const UNWANTED_FACTOR: u64 = 2;
/// Blocks that lie further apart are read one by one: groups of long rows.
const SPAN_BYTES_MAX: u64 = 1 << 20;

/// The keys of a group, and where its other blocks come from.
pub(crate) struct GroupBlocks<'a> {
    rowset: &'a Rowset,
    rows: u32,
    use_of: Use,
    keys: Arc<VerifiedBlock>,
    /// Bytes of the file from an offset on, not verified.
    read: Option<(u64, Vec<u8>)>,
}

impl<'a> GroupBlocks<'a> {
    /// The blocks of a group of which these are wanted besides the keys.
    pub(crate) fn new(
        rowset: &'a Rowset,
        entry: &GroupEntry,
        wanted: impl Iterator<Item = BlockRef> + Clone,
        use_of: Use,
    ) -> Result<Self> {
        let (place, rows) = (entry.directory, entry.rows);
        let cached = if use_of == Use::Again { rowset.find_cached(place) } else { None };
        let (keys, read) = match cached {
            Some(keys) => (keys, None),
            None => {
                let read = match span(rowset, place, wanted) {
                    Some(length) => Some((place.offset, rowset.read_bytes(place.offset, length)?)),
                    None => None,
                };
                let bytes = block_bytes(rowset, read.as_ref(), place)?;
                let keys = VerifiedBlock::keys(bytes, rows);
                (rowset.keep(place, use_of, keys.map_err(|error| rowset.corrupt_block(place, error))?), read)
            }
        };
        // Index entries that contradict each other could name one place for two things.
        if keys.as_keys(rows).is_none() {
            return Err(rowset.corrupt(place, &Error::invalid("a block of keys that is none")));
        }
        Ok(Self { rowset, rows, use_of, keys, read })
    }

    /// The keys: [`VerifiedBlock::as_keys`] gives them.
    pub(crate) fn keys(&self) -> &VerifiedBlock {
        &self.keys
    }

    /// The block of a column.
    pub(crate) fn column(&self, place: BlockRef, column_type: ColumnType) -> Result<Arc<VerifiedBlock>> {
        if self.read.is_none() {
            return self.rowset.column_block(place, column_type, self.rows, self.use_of);
        }
        let bytes = block_bytes(self.rowset, self.read.as_ref(), place)?;
        let block = VerifiedBlock::column(bytes, column_type, self.rows);
        let block = block.map_err(|error| self.rowset.corrupt_block(place, error))?;
        Ok(self.rowset.keep(place, self.use_of, block))
    }
}

/// How many bytes to read from the keys on, if all wanted blocks should be read at once.
fn span(rowset: &Rowset, keys: BlockRef, wanted: impl Iterator<Item = BlockRef> + Clone) -> Option<usize> {
    let wanted = wanted.filter(|place| place.length > 0);
    let bytes = wanted.clone().map(|place| u64::from(place.length)).sum::<u64>() + u64::from(keys.length);
    let end = wanted.clone().filter_map(|place| place.end()).max()?;
    let span = end.checked_sub(keys.offset)?;
    let is_near =
        span <= (bytes * (1 + UNWANTED_FACTOR)).min(SPAN_BYTES_MAX) && end <= rowset.meta.length_bytes;
    (is_near && wanted.clone().all(|place| place.offset >= keys.offset)).then_some(span as usize)
}

/// The verified bytes of a block, which may have been read.
fn block_bytes(rowset: &Rowset, read: Option<&(u64, Vec<u8>)>, place: BlockRef) -> Result<Vec<u8>> {
    let inside = read.and_then(|(offset, bytes)| {
        let start = usize::try_from(place.offset.checked_sub(*offset)?).ok()?;
        bytes.get(start..start.checked_add(place.length as usize)?)
    });
    match inside {
        Some(bytes) if crc32fast::hash(bytes) == place.crc => Ok(bytes.to_vec()),
        // If its checksum is wrong, reading it alone says so.
        _ => rowset.read(place),
    }
}
