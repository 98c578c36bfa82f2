//! Finding blocks near their neighbours, and fetching those that are likely to be read next towards the processor:
//! reading many series in order would otherwise wait for memory at every block.

use super::format::BlockRef;
use super::reader::Use;
use super::series::{Part, RowsetCursor};
use super::verified::VerifiedBlock;
use nyala_column::kernels::{prefetch, prefetch_at};
use nyala_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// Bytes at a block's start that say where the rest is.
const DIRECTORY_BYTES: usize = 128;

/// Blocks that a cursor expects to read.
pub(super) struct Ahead {
    /// How many groups are from one read to the next.
    stride: usize,
    /// The page and the group they are of.
    place: (usize, usize),
    /// By source.
    blocks: Vec<Option<Arc<VerifiedBlock>>>,
}

impl Ahead {
    pub(super) fn new(sources: usize) -> Self {
        Self { stride: 1, place: (0, 0), blocks: vec![None; sources] }
    }

    /// Notes that a cursor goes from group to group.
    pub(super) fn go(&mut self, from: Option<(usize, usize)>, to: (usize, usize)) {
        if let Some((page, group)) = from
            && page == to.0
            && group < to.1
        {
            self.stride = to.1 - group;
        }
        if self.place != to {
            self.blocks.fill(None);
        }
    }

    /// The block of a source of a group, if it was fetched.
    pub(super) fn take(&mut self, place: (usize, usize), source: usize) -> Option<Arc<VerifiedBlock>> {
        if self.place == place { self.blocks[source].take() } else { None }
    }
}

impl RowsetCursor {
    /// Says that many series are going to be read in order, all in the same columns.
    pub(crate) fn read_ahead(&mut self) {
        self.ahead = Some(Ahead::new(self.sources.len()));
    }

    /// Begins to fetch the block of a wanted column of the group that is likely the next, if it is in the cache:
    /// of its rows those that are read of a part's group now.
    pub(crate) fn fetch_ahead(&mut self, part: &Part, column: usize, rows: Range<u32>, group_rows: u32) {
        let source = column + 1;
        let (Some(ahead), Some(page)) = (&mut self.ahead, &self.page) else { return };
        let Some(entries) = page.column(part.page, source) else { return };
        let next = part.group + ahead.stride;
        if let Some(after) = entries.address(next + ahead.stride) {
            prefetch_at(after);
        }
        let Some(block) = entries.find(next) else { return };
        let bytes = block.bytes();
        let at = |row: u32| (bytes.len() as u64 * u64::from(row) / u64::from(group_rows)) as usize;
        prefetch(&bytes[..bytes.len().min(DIRECTORY_BYTES)]);
        prefetch(&bytes[at(rows.start.min(group_rows))..at(rows.end.min(group_rows))]);
        if ahead.place != (part.page, next) {
            ahead.place = (part.page, next);
            ahead.blocks.fill(None);
        }
        ahead.blocks[source] = Some(block);
    }

    /// A block through the index page of its column, which is at hand and knows those that were read before.
    pub(super) fn known_block(
        &mut self,
        part: &Part,
        source: usize,
        place: BlockRef,
        rows: u32,
    ) -> Result<Arc<VerifiedBlock>> {
        let fetched = self.ahead.as_mut().and_then(|ahead| ahead.take((part.page, part.group), source));
        let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
        if let Some(block) = fetched.or_else(|| page.and_then(|page| page.find(part.group))) {
            self.near_hits += 1;
            return Ok(block);
        }
        let block = self.rowset.column_block(place, self.sources[source].column_type, rows, self.use_of)?;
        if let Some(page) = page.filter(|_| self.use_of == Use::Again) {
            page.remember(part.group, &block);
        }
        Ok(block)
    }
}

impl Drop for RowsetCursor {
    fn drop(&mut self) {
        self.rowset.add_near_hits(self.near_hits);
    }
}
