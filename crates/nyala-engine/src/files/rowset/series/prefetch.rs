//! Finding blocks near their neighbours, and fetching those that are likely to be read next towards the processor:
//! reading many series in order would otherwise wait for memory at every block.

use super::{LoadedPage, Part, RowsetCursor, TIME_SOURCE};
use crate::files::rowset::format::{BlockRef, GroupEntry};
use crate::files::rowset::reader::Use;
use crate::files::rowset::verified::VerifiedBlock;
use nyala_column::kernels::{LINE_BYTES, prefetch, prefetch_at};
use nyala_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// Bytes at a block's start that say where the rest is.
const DIRECTORY_BYTES: usize = 128;
/// What an `Arc` keeps before its content.
const COUNTERS_BYTES: usize = 16;

/// Blocks that a cursor expects to read.
pub(in crate::files::rowset) struct Ahead {
    /// How many groups are from one read to the next.
    stride: usize,
    /// The page and the group they are of.
    place: (usize, usize),
    /// By source.
    blocks: Vec<Option<Arc<VerifiedBlock>>>,
}

impl Ahead {
    pub(in crate::files::rowset) fn new(sources: usize) -> Self {
        Self { stride: 1, place: (0, 0), blocks: vec![None; sources] }
    }

    /// Notes that a cursor goes from group to group.
    pub(in crate::files::rowset) fn go(&mut self, from: Option<(usize, usize)>, to: (usize, usize)) {
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
    pub(in crate::files::rowset) fn take(
        &mut self,
        place: (usize, usize),
        source: usize,
    ) -> Option<Arc<VerifiedBlock>> {
        if self.place == place { self.blocks[source].take() } else { None }
    }
}

impl RowsetCursor {
    /// Says that many series are going to be read in order, all in the same columns.
    pub(crate) fn read_ahead(&mut self) {
        self.ahead = Some(Ahead::new(self.sources.len()));
    }

    /// Whether many series are read in order.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.ahead.is_some()
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
        prefetch_rows(block.bytes(), &rows, group_rows);
        if ahead.place != (part.page, next) {
            ahead.place = (part.page, next);
            ahead.blocks.fill(None);
        }
        ahead.blocks[source] = Some(block);
    }

    /// Begins to fetch the blocks of some columns of a part's group, and of its times: a step for all of them before
    /// the next, because each alone would wait for memory at every step.
    pub(crate) fn approach(
        &mut self,
        part: &Part,
        columns: impl Iterator<Item = usize> + Clone,
    ) -> Result<()> {
        let sources = || std::iter::once(TIME_SOURCE).chain(columns.clone().map(|column| column + 1));
        for source in sources() {
            if let Some(page) = self.column_page(part, source)? {
                page.prefetch_entry(part.group);
            }
        }
        for source in sources() {
            let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
            if let Some(block) = page.and_then(|page| page.address(part.group)) {
                prefetch_block(block);
            }
        }
        Ok(())
    }

    /// The same of the bytes of some rows, where they are in the cache, once it is known which.
    pub(crate) fn fetch_columns(
        &mut self,
        part: &Part,
        columns: impl Iterator<Item = usize>,
        rows: Range<u32>,
    ) -> Result<()> {
        let group_rows = self.group_rows(part)?;
        for source in columns.map(|column| column + 1) {
            let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
            if page.is_some_and(|page| page.find(part.group).is_some())
                && let Some(loaded) = self.load(part, source)?
            {
                prefetch_rows(loaded.bytes(), &rows, group_rows);
            }
        }
        Ok(())
    }

    /// The runs of a group through the index page at hand, which has its entry and knows those that were read before.
    pub(in crate::files::rowset) fn known_runs(
        &mut self,
        group: usize,
        entry: &GroupEntry,
    ) -> Result<Option<Arc<VerifiedBlock>>> {
        if entry.directory.length == 0 {
            return Ok(None);
        }
        let page = self.page.as_ref().map(LoadedPage::groups);
        let known = page.and_then(|page| page.find(group)).filter(|runs| runs.group_runs().is_some());
        if known.is_some() {
            self.near_hits += 1;
            return Ok(known);
        }
        let runs = self.rowset.runs(entry, self.use_of)?;
        if let (Some(page), Some(runs), Use::Again) = (page, &runs, self.use_of) {
            page.remember(group, runs);
        }
        Ok(runs)
    }

    /// A block through the index page of its column, which is at hand and knows those that were read before.
    pub(in crate::files::rowset) fn known_block(
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

/// Begins to fetch what a reader of some rows of a block looks at.
fn prefetch_rows(bytes: &[u8], rows: &Range<u32>, group_rows: u32) {
    let at =
        |row: u32| (bytes.len() as u64 * u64::from(row.min(group_rows)) / u64::from(group_rows)) as usize;
    prefetch(&bytes[..bytes.len().min(DIRECTORY_BYTES)]);
    prefetch(&bytes[at(rows.start)..at(rows.end)]);
}

/// Begins to fetch what says where the bytes of a block are, and the counters before it.
fn prefetch_block(block: *const VerifiedBlock) {
    let start = block.cast::<u8>().wrapping_sub(COUNTERS_BYTES);
    for offset in (0..COUNTERS_BYTES + size_of::<VerifiedBlock>()).step_by(LINE_BYTES) {
        prefetch_at(start.wrapping_add(offset));
    }
}

impl Drop for RowsetCursor {
    fn drop(&mut self) {
        self.rowset.add_near_hits(self.near_hits);
    }
}
